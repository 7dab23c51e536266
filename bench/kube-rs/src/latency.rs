//! The job `latency`: from the start of a write to the start of the reconcile that sees it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{Action, Config as ControllerConfig};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, Config};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::contestant::{self, Ask, Outcome, Stopwatch};

const NAMESPACE: &str = "default";
const NAME: &str = "steersman-bench-latency";
/// Lets the server become idle between two writes.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a write may stay unseen before the job fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// A reconcile that saw a write, and when it started.
type SeenWrite = (u64, Instant);

/// The next write waits until a reconcile has seen the previous one, so none is merged into
/// another.
pub async fn run(ask: &Ask) -> Result<()> {
    let kubeconfig = Kubeconfig::read_from(ask.kubeconfig()?)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let (saw, mut sightings) = unbounded_channel();
    let controller = tokio::spawn(control(client.clone(), saw));

    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    // Left by an interrupted run.
    let _ = maps.delete(NAME, &DeleteParams::default()).await;
    let mut object = ConfigMap::default();
    object.metadata.name = Some(NAME.to_owned());
    let mut object = maps.create(&PostParams::default(), &object).await.context("creating the ConfigMap")?;
    // Write 0 only shows that the controller watches.
    let mut latencies = Vec::new();
    let mut stopwatch = Stopwatch::start();
    for write in 0..=ask.size {
        contestant::pause(PAUSE).await?;
        let started = Instant::now();
        object.data = Some([("write".to_owned(), write.to_string())].into());
        object = maps.replace(NAME, &PostParams::default(), &object).await.context("writing the ConfigMap")?;
        let seen = tokio::time::timeout(PATIENCE, sighting_of(write, &mut sightings))
            .await
            .with_context(|| format!("no reconcile saw write {write} within {PATIENCE:?}"))??;
        if write == 0 {
            stopwatch = Stopwatch::start();
        } else {
            latencies.push(seen.duration_since(started));
        }
    }
    let cost = stopwatch.cost();
    controller.abort();
    let _ = maps.delete(NAME, &DeleteParams::default()).await;

    Outcome { count: latencies.len() as u64, cost, memory: None, figures: contestant::latencies(latencies)? }.report();
    Ok(())
}

async fn sighting_of(write: u64, sightings: &mut UnboundedReceiver<SeenWrite>) -> Result<Instant> {
    loop {
        let (seen, at) = sightings.recv().await.context("the controller ended")?;
        if seen == write {
            return Ok(at);
        }
    }
}

async fn control(client: Client, saw: UnboundedSender<SeenWrite>) {
    let maps: Api<ConfigMap> = Api::all(client);
    Controller::new(maps, watcher::Config::default())
        .with_config(ControllerConfig::default().concurrency(1))
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(5)), Arc::new(saw))
        .for_each(|_| async {})
        .await;
}

async fn reconcile(object: Arc<ConfigMap>, saw: Arc<UnboundedSender<SeenWrite>>) -> Result<Action, std::io::Error> {
    let at = Instant::now();
    if object.metadata.name.as_deref() == Some(NAME)
        && let Some(write) = object.data.as_ref().and_then(|data| data.get("write")?.parse().ok())
    {
        // The receiver is dropped once the job is done.
        let _ = saw.send((write, at));
    }
    Ok(Action::await_change())
}
