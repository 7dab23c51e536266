//! An operator: each Guestbook has a ConfigMap with its title.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::manifests::crd::crd;
use steersman::owner::set_controller_reference;
use steersman::predicate::GenerationChanged;
use steersman::runtime::Verb;
use steersman::{Action, Context, CustomResource, Manager, ObjectKey, ReconcileError, kind, reconcile_fn};
use steersman_program::Program;

/// A guestbook.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Guestbook", namespaced)]
pub(crate) struct GuestbookSpec {
    /// What its first page shows.
    pub(crate) title: String,
}

pub(crate) const SAMPLE: &str = "\
# A guestbook to begin with.
apiVersion: example.com/v1
kind: Guestbook
metadata:
  name: visitors
spec:
  title: Welcome
";

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Flags {
    /// How many Guestbooks to reconcile at the same time
    #[arg(long, default_value_t = 2)]
    pub(crate) workers: usize,
}

async fn reconcile(ctx: Context<Guestbook>, key: ObjectKey) -> Result<Action, ReconcileError> {
    let Some(guestbook) = ctx.get(&key).await? else { return Ok(Action::done()) };
    let map = ConfigMap { metadata: key.to_meta(), ..ConfigMap::default() };
    ctx.client()
        .create_or_update(map, |map| {
            map.data = Some([("title".to_owned(), guestbook.spec.title.clone())].into());
            set_controller_reference(&*guestbook, map)
        })
        .await?;
    Ok(Action::done())
}

pub(crate) fn setup(manager: &Manager, flags: &Flags) -> Result<(), steersman::Error> {
    manager
        .controller(kind::<Guestbook>().predicate(GenerationChanged))
        .owns(kind::<ConfigMap>().writes([Verb::Create, Verb::Update]))
        .max_concurrent(flags.workers)
        .complete(reconcile_fn(reconcile))?;
    Ok(())
}

pub(crate) fn program() -> Program<Flags> {
    Program::with_flags("guestbook", "1.2.3", setup)
        .about("Keeps guestbooks\n\nEach has a ConfigMap.")
        .crd(crd::<Guestbook>)
        .samples(SAMPLE)
}
