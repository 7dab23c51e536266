//! What a reconciler reads of its own object.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::{Node, Secret};
use serde_json::json;
use steersman_client::{ApiResource, ObjectMeta, Patch, PostParams};
use steersman_runtime::predicate::Change;
use steersman_runtime::{
    Action, Context, Kind, Object, ObjectKey, ReconcileError, dynamic, dynamic_metadata, kind, metadata, reconcile_fn,
};

use crate::with_client::{World, key, meta, settle};

/// The versions of the Node that a reconcile read, and then wrote.
type Versions = Arc<Mutex<Vec<(String, String)>>>;

/// A controller of Nodes that only Secrets trigger. It has read and written the status of a Node
/// once since its watch went silent.
async fn ahead_of_its_watch<K: Object>(nodes: Kind<K>) -> (World, Versions) {
    let versions = Versions::default();
    let (notes, times) = (Arc::clone(&versions), Arc::new(AtomicUsize::new(0)));
    let reconciler = reconcile_fn(move |ctx: Context<K>, key: ObjectKey| {
        let (notes, times) = (Arc::clone(&notes), Arc::clone(&times));
        async move {
            let node = ctx.object(&key).await?.ok_or_else(|| ReconcileError::message("there is no Node"))?;
            let phase = ["Pending", "Running"][times.fetch_add(1, Ordering::Relaxed) % 2];
            let patch = Patch::Merge(json!({"status": {"phase": phase}}));
            let written = ctx.client().objects::<Node>().patch_status(&key, &patch).await?;
            let read = node.meta().resource_version().to_owned();
            notes.lock().unwrap().push((read, written.metadata.resource_version.unwrap()));
            Ok(Action::done())
        }
    });
    let world = World::new(|manager| {
        let silent = nodes.predicate(|_: &Change<'_>| false);
        manager.controller(silent).watches(kind::<Secret>(), |_| vec![key("n")]).complete(reconciler).unwrap();
    })
    .await;
    let node = Node { metadata: ObjectMeta { name: Some("n".to_owned()), ..meta("n") }, ..Node::default() };
    world.other.cluster::<Node>().create(&PostParams::default(), &node).await.unwrap();
    settle().await;
    world.network.hold("/nodes?");
    trigger(&world, "first").await;
    settle().await;
    assert_eq!(versions.lock().unwrap().len(), 1);
    (world, versions)
}

/// Makes the controller reconcile its Node.
async fn trigger(world: &World, name: &str) {
    let secret = Secret { metadata: meta(&format!("a/{name}")), ..Secret::default() };
    world.other.namespaced::<Secret>("a").create(&PostParams::default(), &secret).await.unwrap();
}

async fn sees_its_own_write<K: Object>(nodes: Kind<K>) {
    let (world, versions) = ahead_of_its_watch(nodes).await;
    trigger(&world, "second").await;
    settle().await;
    assert_eq!(versions.lock().unwrap().len(), 1, "it waits for what it wrote");
    world.network.release();
    settle().await;
    let versions = versions.lock().unwrap();
    assert_eq!(versions.len(), 2);
    assert_eq!(versions[1].0, versions[0].1, "it reads what it wrote: {versions:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_comes_before_its_own_write_has_come_back_sees_it() {
    let nodes = ApiResource::erase::<Node>(&());
    sees_its_own_write(kind::<Node>()).await;
    sees_its_own_write(metadata::<Node>()).await;
    sees_its_own_write(dynamic(&nodes).cluster_scoped()).await;
    sees_its_own_write(dynamic_metadata(&nodes).cluster_scoped()).await;
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_whose_own_write_does_not_come_back_fails_and_is_tried_again() {
    let (world, versions) = ahead_of_its_watch(kind::<Node>()).await;
    trigger(&world, "second").await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(versions.lock().unwrap().len(), 1, "each try ends with an error after 10 s");
    world.network.release();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(versions.lock().unwrap().len(), 2);
}
