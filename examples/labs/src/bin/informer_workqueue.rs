//! An informer with a work queue: handlers add keys, workers take them and read the objects from
//! the cache.
//!
//! The queue decouples the two: a slow worker delays no event, a key that changes often is
//! processed once, and a key that fails is retried later.

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Pod;
use labs::{Lab, PATIENCE, idle};
use serde_json::json;
use steersman::cache::{Event, InformerOptions, Lister, ObjectKey, SharedInformerFactory, handler};
use steersman::client::{DeleteParams, PostParams};
use steersman::workqueue::WorkQueue;
use tokio::task::JoinSet;

const WORKERS: usize = 2;

#[tokio::main]
async fn main() -> Result<()> {
    let lab = Lab::connect().await?;
    let factory = SharedInformerFactory::new(lab.client().clone());
    let informer = factory.informer::<Pod>(InformerOptions::all().namespace("default"))?;
    let queue = WorkQueue::new();
    let keys = queue.clone();
    // Only the key: the object may have changed again when a worker gets to it.
    informer.add_event_handler(handler(move |event: &Event<Pod>| keys.add(event.object().key())))?;
    factory.start()?;
    factory.wait_for_cache_sync(PATIENCE).await?;

    let mut workers = JoinSet::new();
    for number in 1..=WORKERS {
        workers.spawn(work(number, queue.clone(), informer.lister()));
    }

    lab.play(async {
        idle(&informer, &queue).await;
        let pods = lab.client().namespaced::<Pod>("default");
        let pod = json!({"metadata": {"name": "demo"}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
        let created = pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        let version = created.metadata.resource_version.unwrap_or_default();
        informer.lister().wait_for_version(&version, PATIENCE).await?;
        idle(&informer, &queue).await;
        pods.delete("demo", &DeleteParams::default()).await?;
        informer.lister().wait_until(PATIENCE, || informer.lister().get("default", "demo").is_none()).await;
        idle(&informer, &queue).await;
        Ok(())
    })
    .await?;
    queue.shut_down();
    workers.join_all().await;
    factory.shutdown().await?;
    Ok(())
}

/// Takes keys until the queue is shut down.
async fn work(number: usize, queue: WorkQueue<ObjectKey>, pods: Lister<Pod>) {
    while let Some(item) = queue.get().await {
        match sync(&item, &pods, queue.retries(&item)) {
            Ok(done) => {
                println!("worker {number}: {done}");
                item.done();
            }
            Err(error) => {
                println!("worker {number}: {error}; it will be retried");
                item.retry();
            }
        }
    }
}

/// Compares the desired state with the actual one, independent of what has changed. Here it only
/// prints the object.
fn sync(key: &ObjectKey, pods: &Lister<Pod>, failures: u32) -> Result<String> {
    let Some(pod) = pods.get_by_key(key) else { return Ok(format!("{key} is deleted")) };
    let pod = pod.get()?;
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    if key.name() == "web-1" && failures == 0 {
        bail!("{key} fails as planned");
    }
    Ok(format!("{key} is {phase}"))
}
