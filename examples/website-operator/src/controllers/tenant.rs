//! Each Tenant gets a Namespace of the same name, with a security standard for its Pods.

use serde_json::json;
use steersman::condition::{new_condition, set_condition};
use steersman::k8s_openapi::api::core::v1::Namespace;
use steersman::owner::set_controller_reference;
use steersman::predicate::GenerationChanged;
use steersman::runtime::Verb;
use steersman::{
    Action, Context, Error, Manager, ObjectKey, Patch, ReconcileError, Reconciler, kind,
};

use crate::api::v1alpha1::tenant::Tenant;

/// The label of a Namespace with the security standard that its Pods have to fulfil.
pub const STANDARD: &str = "pod-security.kubernetes.io/enforce";

/// Adds the controller. It declares each write of the reconciler: the roles in the manifests permit
/// these and no others, and the tests check it.
pub fn add(manager: &Manager) -> Result<(), Error> {
    let primary = kind::<Tenant>()
        .predicate(GenerationChanged)
        .writes_status([Verb::Patch]);
    let owned = kind::<Namespace>().writes([Verb::Create, Verb::Update]);
    manager
        .controller(primary)
        .owns(owned)
        .complete(TenantReconciler)?;
    Ok(())
}

struct TenantReconciler;

impl Reconciler<Tenant> for TenantReconciler {
    type Error = ReconcileError;

    async fn reconcile(
        &self,
        ctx: &Context<Tenant>,
        key: &ObjectKey,
    ) -> Result<Action, ReconcileError> {
        // The Namespace of a deleted object is deleted by its owner reference.
        let Some(object) = ctx.get(key).await? else {
            return Ok(Action::done());
        };
        let standard = if object.spec.restricted {
            "restricted"
        } else {
            "baseline"
        };
        let namespace = Namespace {
            metadata: key.to_meta(),
            ..Namespace::default()
        };
        ctx.client()
            .create_or_update(namespace, |namespace| {
                let labels = namespace.metadata.labels.get_or_insert_default();
                labels.insert(STANDARD.to_owned(), standard.to_owned());
                set_controller_reference(&*object, namespace)
            })
            .await?;

        let generation = object.metadata.generation;
        let ready = new_condition(
            "Ready",
            true,
            "Written",
            "the Namespace has its standard",
            generation,
        );
        let mut status = object.status.clone().unwrap_or_default();
        if set_condition(&mut status.conditions, ready, ctx.now()) {
            let patch = Patch::Merge(json!({"status": status}));
            ctx.client()
                .objects::<Tenant>()
                .patch_status(key, &patch)
                .await?;
        }
        Ok(Action::done())
    }
}
