//! The job `latency`: from the start of a write to the start of the reconcile that sees it, on a
//! real server. `latency.go` and kube-rs's `latency.rs` do the same.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::{Client, DeleteParams, PostParams, config_from_flags};
use steersman_runtime::{Action, Context, Manager, ObjectKey, ReconcileError, Reconciler, kind};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::contestant::{Ask, Outcome, Stopwatch, latencies, pause};
use crate::reconcile::Running;

const NAMESPACE: &str = "default";
const NAME: &str = "steersman-bench-latency";
/// Lets the server become idle between two writes.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a write may stay unseen before the job fails.
const PATIENCE: Duration = Duration::from_secs(10);

/// A reconcile that saw a write, and when it started.
type SeenWrite = (u64, Instant);

struct Watcher(UnboundedSender<SeenWrite>);

impl Reconciler<ConfigMap> for Watcher {
    type Error = ReconcileError;

    async fn reconcile(&self, ctx: &Context<ConfigMap>, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let at = Instant::now();
        if key.name() != NAME {
            return Ok(Action::done());
        }
        let Some(object) = ctx.object(key).await? else { return Ok(Action::done()) };
        if let Some(write) = object.get()?.data.as_ref().and_then(|data| data.get("write")?.parse().ok()) {
            // The receiver is dropped once the job is done.
            let _ = self.0.send((write, at));
        }
        Ok(Action::done())
    }
}

/// The next write waits until a reconcile has seen the previous one, so none is merged into
/// another.
pub async fn run(ask: &Ask) -> Result<Outcome> {
    let config = config_from_flags(None, Some(ask.kubeconfig()?)).await?;
    let client = Client::builder(config).build()?;
    let (saw, mut sightings) = unbounded_channel();
    let manager = Manager::new(client.clone());
    manager.controller(kind::<ConfigMap>()).complete(Watcher(saw))?;
    let mut running = Running::start(&manager);

    let maps = client.namespaced::<ConfigMap>(NAMESPACE);
    // Left by an interrupted run.
    let _ = maps.delete(NAME, &DeleteParams::default()).await;
    let mut object = ConfigMap::default();
    object.metadata.name = Some(NAME.to_owned());
    let mut object = maps.create(&PostParams::default(), &object).await.context("creating the ConfigMap")?;
    // Write 0 only shows that the controller watches.
    let mut took = Vec::new();
    let mut stopwatch = Stopwatch::start();
    for write in 0..=ask.size {
        pause(PAUSE).await?;
        let started = Instant::now();
        object.data = Some([("write".to_owned(), write.to_string())].into());
        object = maps.update(NAME, &PostParams::default(), &object).await.context("writing the ConfigMap")?;
        let seen = tokio::time::timeout(PATIENCE, running.until(sighting_of(write, &mut sightings)))
            .await
            .with_context(|| format!("no reconcile saw write {write} within {PATIENCE:?}"))???;
        if write == 0 {
            stopwatch = Stopwatch::start();
        } else {
            took.push(seen.duration_since(started));
        }
    }
    let cost = stopwatch.cost();
    let _ = maps.delete(NAME, &DeleteParams::default()).await;
    Ok(Outcome { count: took.len() as u64, cost, memory: None, figures: latencies(took)? })
}

async fn sighting_of(write: u64, sightings: &mut UnboundedReceiver<SeenWrite>) -> Result<Instant> {
    loop {
        let (seen, at) = sightings.recv().await.context("the controller ended")?;
        if seen == write {
            return Ok(at);
        }
    }
}
