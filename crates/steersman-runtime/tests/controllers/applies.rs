//! A controller that applies what it wants, and leaves the rest to others.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use steersman_client::{Api, Patch, PatchParams};
use steersman_runtime::{Action, Context, ObjectKey, kind, reconcile_fn};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_controller_applies_its_own_fields_and_gives_them_up() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    let secrets: Api<Secret> = client.namespaced("default");
    let log = Log::new();
    let reconciler = {
        let log = log.clone();
        reconcile_fn(move |ctx: Context<ConfigMap>, key: ObjectKey| {
            let log = log.clone();
            async move {
                log.note(key.name());
                let Some(map) = ctx.object(&key).await? else { return Ok(Action::done()) };
                let map = map.get()?;
                let labels = map.data.clone().unwrap_or_default();
                let wanted = json!({
                    "apiVersion": "v1", "kind": "Secret",
                    "metadata": {
                        "name": key.name(), "labels": labels,
                        "ownerReferences": [{
                            "apiVersion": "v1", "kind": "ConfigMap", "name": key.name(), "uid": map.metadata.uid,
                            "controller": true,
                        }],
                    },
                });
                ctx.client().field_owner("labeller").objects::<Secret>().apply(&key, false, &wanted).await?;
                Ok(Action::done())
            }
        })
    };
    manager.controller(kind::<ConfigMap>()).owns(kind::<Secret>()).complete(reconciler).unwrap();
    let running = run(&manager).await;
    maps.create("a").await;
    settle().await;
    let secret = secrets.get("a").await.unwrap();
    assert_eq!(json!(secret.metadata.labels), json!({"value": "1"}));
    let entry = &secret.metadata.managed_fields.as_ref().unwrap()[0];
    assert_eq!((entry.manager.as_deref(), entry.operation.as_deref()), (Some("labeller"), Some("Apply")));

    // What another one adds causes a reconcile, which changes nothing.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"other": "yes"}}}));
    let other = PatchParams { field_manager: Some("other".into()), ..PatchParams::default() };
    let theirs = secrets.patch("a", &other, &patch).await.unwrap();
    log.take();
    settle().await;
    assert_eq!(log.take(), ["a"]);
    let secret = secrets.get("a").await.unwrap();
    assert_eq!(secret.metadata.resource_version, theirs.metadata.resource_version);

    // Its own label goes when it is no longer wanted, and the other one stays.
    maps.patch("a", json!({"data": {"value": null, "new": "2"}})).await;
    settle().await;
    let secret = secrets.get("a").await.unwrap();
    assert_eq!(json!(secret.metadata.labels), json!({"new": "2", "other": "yes"}));

    // A label that the other one has taken is a conflict.
    let patch = Patch::Merge(json!({"metadata": {"labels": {"new": "theirs"}}}));
    secrets.patch("a", &other, &patch).await.unwrap();
    let ours = manager.client().field_owner("labeller").objects::<Secret>();
    let wanted = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "labels": {"new": "2"}}});
    let error = ours.apply(&key("a"), false, &wanted).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    ours.apply(&key("a"), true, &wanted).await.unwrap();
    assert_eq!(json!(secrets.get("a").await.unwrap().metadata.labels), json!({"new": "2", "other": "yes"}));
    running.stop().await.unwrap();
}
