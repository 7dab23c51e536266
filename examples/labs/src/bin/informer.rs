//! An informer: a cache that follows the server, and handlers that receive the changes.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use labs::{Lab, PATIENCE};
use serde_json::json;
use steersman::Patch;
use steersman::cache::{Cached, EventHandler, InformerOptions, SharedInformerFactory};
use steersman::client::{DeleteParams, PatchParams, PostParams};

/// The three callbacks. They are called one after the other and must not block: here they print, in
/// a controller they add keys to a work queue.
struct Print;

impl EventHandler<Pod> for Print {
    fn on_add(&mut self, pod: &Cached<Pod>, initial: bool) {
        println!("add     {}{}", pod.key(), if initial { " (initial)" } else { "" });
    }

    fn on_update(&mut self, old: &Cached<Pod>, new: &Cached<Pod>) {
        let (before, after) = (old.meta().resource_version(), new.meta().resource_version());
        println!("update  {}, from version {before} to version {after}", new.key());
    }

    fn on_delete(&mut self, pod: &Cached<Pod>, _final_state_unknown: bool) {
        println!("delete  {}", pod.key());
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let lab = Lab::connect().await?;
    let factory = SharedInformerFactory::new(lab.client().clone());
    let informer = factory.informer::<Pod>(InformerOptions::all())?;
    let handler = informer.add_event_handler(Print)?;
    factory.start()?;
    factory.wait_for_cache_sync(PATIENCE).await?;
    handler.wait_for_sync(PATIENCE).await?;
    println!("the cache has {} Pods", informer.lister().len());

    lab.play(async {
        let pods = lab.client().namespaced::<Pod>("default");
        let pod = json!({"metadata": {"name": "demo"}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        let label = Patch::Merge(json!({"metadata": {"labels": {"step": "two"}}}));
        let labelled = pods.patch("demo", &PatchParams::default(), &label).await?;
        // Reads come from the cache, which is a moment behind the server.
        let version = labelled.metadata.resource_version.unwrap_or_default();
        informer.lister().wait_for_version(&version, PATIENCE).await?;
        pods.delete("demo", &DeleteParams::default()).await?;
        informer.lister().wait_until(PATIENCE, || informer.lister().get("default", "demo").is_none()).await;
        Ok(())
    })
    .await?;
    factory.shutdown().await?;
    Ok(())
}
