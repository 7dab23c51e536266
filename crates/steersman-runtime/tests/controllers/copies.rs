//! A controller that creates one object for another.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_client::{ObjectMeta, PostParams};
use steersman_runtime::owner::set_controller_reference;
use steersman_runtime::{Action, Context, Manager, ObjectKey, ReconcileError, kind, reconcile_fn};
use steersman_testing::{Embedded, eventually};

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { namespace: Some("default".into()), name: Some(name.into()), ..ObjectMeta::default() }
}

/// Copies a ConfigMap into a Secret that it owns.
async fn copy(ctx: Context<ConfigMap>, key: ObjectKey) -> Result<Action, ReconcileError> {
    let Some(map) = ctx.object(&key).await? else { return Ok(Action::done()) };
    if map.meta().label("copy") != Some("yes") {
        return Ok(Action::done());
    }
    let map = map.get()?;
    let secret = Secret { metadata: named(key.name()), ..Secret::default() };
    let data = map.data.clone().unwrap_or_default();
    ctx.client()
        .create_or_update(secret, |secret| {
            let data: BTreeMap<_, _> =
                data.into_iter().map(|(key, text)| (key, k8s_openapi::ByteString(text.into_bytes()))).collect();
            secret.data = (!data.is_empty()).then_some(data);
            set_controller_reference(&*map, secret)?;
            Ok(())
        })
        .await?;
    Ok(Action::done())
}

#[tokio::test(start_paused = true)]
async fn a_controller_makes_what_its_objects_want_and_repairs_it() {
    let embedded = Embedded::empty();
    let client = embedded.client();
    let manager = Manager::new(client.clone());
    let controller = manager
        .controller(kind::<ConfigMap>())
        .owns(kind::<Secret>())
        .max_concurrent(2)
        .complete(reconcile_fn(copy))
        .unwrap();
    let running = manager.clone();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let run = tokio::spawn(async move { running.start(async { drop(stopped.await) }).await });

    let maps = client.namespaced::<ConfigMap>("default");
    let secrets = client.namespaced::<Secret>("default");
    let mut map = ConfigMap { metadata: named("web"), ..ConfigMap::default() };
    map.metadata.labels = Some([("copy".to_owned(), "yes".to_owned())].into());
    map.data = Some([("a".to_owned(), "1".to_owned())].into());
    maps.create(&PostParams::default(), &map).await.unwrap();
    let copied = |what| eventually(what, || async { secrets.get_opt("web").await.unwrap() });
    let secret = copied("the Secret is made").await;
    assert_eq!(secret.data.unwrap()["a"].0, b"1");
    secrets.delete("web", &Default::default()).await.unwrap();
    copied("the Secret is made again").await;
    stop.send(()).unwrap();
    run.await.unwrap().unwrap();
    println!("{controller:?}");
}
