//! Each Website gets a ConfigMap of the same name with its text.

use serde_json::json;
use steersman::condition::{new_condition, set_condition};
use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman::owner::set_controller_reference;
use steersman::predicate::GenerationChanged;
use steersman::runtime::Verb;
use steersman::{
    Action, Context, Error, Manager, ObjectKey, Patch, ReconcileError, Reconciler, kind,
};

use crate::api::v1alpha1::website::Website;

/// Adds the controller. It declares each write of the reconciler: the roles in the manifests permit
/// these and no others, and the tests check it.
pub fn add(manager: &Manager) -> Result<(), Error> {
    let primary = kind::<Website>()
        .predicate(GenerationChanged)
        .writes_status([Verb::Patch]);
    let owned = kind::<ConfigMap>().writes([Verb::Create, Verb::Update]);
    manager
        .controller(primary)
        .owns(owned)
        .complete(WebsiteReconciler)?;
    Ok(())
}

struct WebsiteReconciler;

impl Reconciler<Website> for WebsiteReconciler {
    type Error = ReconcileError;

    async fn reconcile(
        &self,
        ctx: &Context<Website>,
        key: &ObjectKey,
    ) -> Result<Action, ReconcileError> {
        // The ConfigMap of a deleted object is deleted by its owner reference.
        let Some(object) = ctx.get(key).await? else {
            return Ok(Action::done());
        };
        let map = ConfigMap {
            metadata: key.to_meta(),
            ..ConfigMap::default()
        };
        ctx.client()
            .create_or_update(map, |map| {
                map.data = Some([("text".to_owned(), object.spec.text.clone())].into());
                set_controller_reference(&*object, map)
            })
            .await?;

        let generation = object.metadata.generation;
        let ready = new_condition(
            "Ready",
            true,
            "Written",
            "the ConfigMap has the text",
            generation,
        );
        let mut status = object.status.clone().unwrap_or_default();
        if set_condition(&mut status.conditions, ready, ctx.now()) {
            let patch = Patch::Merge(json!({"status": status}));
            ctx.client()
                .objects::<Website>()
                .patch_status(key, &patch)
                .await?;
        }
        Ok(Action::done())
    }
}
