//! An operator that uses every right that can be declared.

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use serde_json::{Value, json};
use steersman_client::{ApiResource, DynamicObject, Patch};
use steersman_runtime::finalizer::{Finalizer, FinalizerState};
use steersman_runtime::owner::{controller_reference, set_reference};
use steersman_runtime::{
    Action, Context, Error, EventObject, Manager, ObjectKey, ReconcileError, Reconciler, Verb, dynamic, kind,
};

/// A custom resource with a status.
pub(crate) fn sites() -> ApiResource {
    ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: "Site".to_owned(),
        plural: "sites".to_owned(),
    }
}

pub(crate) fn crds() -> [Value; 1] {
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}, "name": {"type": "string"}}});
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    [json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Site", "plural": "sites", "singular": "site", "listKind": "SiteList"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
            }],
        },
    })]
}

/// Uses every right that an operator can declare.
pub(crate) struct Sites {
    pub(crate) cleanup: Finalizer<DynamicObject>,
}

impl Reconciler<DynamicObject> for Sites {
    type Error = ReconcileError;

    async fn reconcile(&self, ctx: &Context<DynamicObject>, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(site) = ctx.object(key).await? else { return Ok(Action::done()) };
        if self.cleanup.ensure(ctx, &site).await? == FinalizerState::Finalized {
            return Ok(Action::done());
        }
        let site = site.get()?;
        let client = ctx.client();
        let size = site.data["spec"]["size"].to_string();
        let map = ConfigMap { metadata: key.to_meta(), ..ConfigMap::default() };
        let (_, result) = client
            .create_or_update(map, |map| {
                map.data = Some([("size".to_owned(), size.clone())].into());
                let reference = controller_reference(&*site, &sites())?;
                set_reference(&*site, map, reference).map(drop)
            })
            .await?;
        // It is read from the server, and not from a cache.
        client.live().namespaced::<ServiceAccount>("default").get("default").await?;
        let status = Patch::Merge(json!({"status": {"size": size, "result": format!("{result:?}")}}));
        if site.data["status"]["size"] != *size {
            client.dynamic(&sites()).patch_status(key, &status).await?;
            ctx.events().normal(EventObject::dynamic(&site), "Sized", "Size", format!("size {size}"));
        }
        Ok(Action::done())
    }
}

pub(crate) fn setup(manager: &Manager) -> Result<(), Error> {
    let cleanup = Finalizer::of("example.com/cleanup", |client| client.dynamic(&sites()))?;
    manager
        .controller(dynamic(&sites()).namespaced().finalizers().writes_status([Verb::Patch]))
        .owns(kind::<ConfigMap>().writes([Verb::Create, Verb::Update]))
        .uses(kind::<ServiceAccount>().live([Verb::Get]))
        .records_events()
        .complete(Sites { cleanup })?;
    Ok(())
}
