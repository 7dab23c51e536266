//! An operator that has every reason for a rule.

use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;
use steersman::finalizer::{Finalizer, FinalizerState};
use steersman::http::{Listen, Tls};
use steersman::owner::set_controller_reference;
use steersman::runtime::leader_election::{LeaderElection, Timing};
use steersman::runtime::metrics::MetricsServer;
use steersman::runtime::{CacheDefaults, OperationResult, Probes};
use steersman::{
    Action, Client, Context, CustomResource, Error, Manager, ObjectKey, ObjectMeta, Patch, ReconcileError, Reconciler,
    Verb, kind,
};

/// The namespace of the sites.
pub(crate) const SITES: &str = "sites";
/// The name of the operator, its namespace and its Lease.
pub(crate) const NAME: &str = "publisher";
/// What every site needs.
pub(crate) const SETTINGS: &str = "settings";
/// The largest number of replicas of a site.
pub(crate) const REPLICAS_MAX: i32 = 3;

/// A page.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "publisher.example.com", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
#[kube(scale = r#"{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}"#)]
pub(crate) struct SiteSpec {
    /// The text of the page. Without a text there is no page.
    pub(crate) text: Option<String>,
    pub(crate) replicas: i32,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct SiteStatus {
    pub(crate) replicas: i32,
    pub(crate) published: Option<String>,
}

/// Where a manager serves.
pub(crate) struct Ports {
    pub(crate) metrics: Listen,
    pub(crate) probes: Listen,
}

/// The manager of the operator, as its program builds it.
pub(crate) fn manager(client: Client, ports: &Ports) -> Result<Manager, Error> {
    let timing = Timing {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_secs(1),
        ..Timing::default()
    };
    let manager = Manager::builder(client)
        .cache_defaults(CacheDefaults::new().namespace(SITES))
        .leader_election(LeaderElection::new(NAME).timing(timing).step_down())?
        .metrics(MetricsServer::new().listen(ports.metrics).secure(Tls::self_signed(["localhost"])))?
        .probes(Probes::new().listen(ports.probes))?
        .only_declared_writes()
        .build();
    manager
        .controller(kind::<Site>().finalizers().writes_status([Verb::Patch]).writes_subresource("scale", [Verb::Patch]))
        .owns(kind::<ConfigMap>().writes([Verb::Create, Verb::Update, Verb::Delete]))
        .uses(kind::<Secret>().live([Verb::Get]))
        .records_events()
        .complete(SiteReconciler::new()?)?;
    Ok(manager)
}

struct SiteReconciler {
    cleanup: Finalizer<Site>,
}

impl SiteReconciler {
    fn new() -> Result<Self, Error> {
        let remove = |ctx: Context<Site>, site: steersman::Cached<Site>| async move { remove(&ctx, &site.key()).await };
        Ok(Self { cleanup: Finalizer::new("publisher.example.com/page")?.hook("page", remove) })
    }
}

/// Deletes the page of a site.
async fn remove(ctx: &Context<Site>, key: &ObjectKey) -> Result<(), ReconcileError> {
    if ctx.client().objects::<ConfigMap>().get_opt(key).await?.is_none() {
        return Ok(());
    }
    match ctx.client().delete::<ConfigMap>(key).await {
        Err(error) if error.is_not_found() => Ok(()),
        deleted => Ok(deleted?),
    }
}

impl Reconciler<Site> for SiteReconciler {
    type Error = ReconcileError;

    async fn reconcile(&self, ctx: &Context<Site>, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(site) = ctx.object(key).await? else { return Ok(Action::done()) };
        if self.cleanup.ensure(ctx, &site).await? == FinalizerState::Finalized {
            return Ok(Action::done());
        }
        let site = site.get()?;
        ctx.client().live().namespaced::<Secret>(SITES).get(SETTINGS).await.map_err(Error::from)?;
        let sites = ctx.client().objects::<Site>();
        if site.spec.replicas > REPLICAS_MAX {
            let fewer = Patch::Merge(json!({"spec": {"replicas": REPLICAS_MAX}}));
            sites.subresource("scale").patch::<Scale, _>(key, &fewer).await?;
        }
        match &site.spec.text {
            Some(text) => publish(ctx, key, &site, text).await?,
            None => remove(ctx, key).await?,
        }
        if site.status.as_ref().is_none_or(|status| status.published != site.spec.text) {
            let status = json!({"replicas": site.spec.replicas, "published": site.spec.text});
            sites.patch_status(key, &Patch::Merge(json!({"status": status}))).await?;
        }
        Ok(Action::done())
    }
}

async fn publish(ctx: &Context<Site>, key: &ObjectKey, site: &Site, text: &str) -> Result<(), ReconcileError> {
    let metadata = ObjectMeta {
        name: Some(key.name().to_owned()),
        namespace: key.namespace().map(Into::into),
        ..ObjectMeta::default()
    };
    let (_, result) = ctx
        .client()
        .create_or_update(ConfigMap { metadata, ..ConfigMap::default() }, |page| {
            page.data = Some([("text".to_owned(), text.to_owned())].into());
            set_controller_reference(site, page)
        })
        .await?;
    if result != OperationResult::Unchanged {
        ctx.events().normal(site, "Published", "Publish", "the page has the text");
    }
    Ok(())
}
