//! The jobs `cache-…`: a reflector of Pods.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};

use crate::contestant::{
    Ask, CHILD_LISTS, Cost, Lookups, Outcome, PODS_PER_OWNER, Stopwatch, owner_uid, reads, start_events,
};
use crate::replay_client;

/// How long freed memory may take to return to the system.
const SETTLE: Duration = Duration::from_secs(1);

type Events = BoxStream<'static, Result<Event<Pod>, watcher::Error>>;

/// A reflector with kube-rs's default options.
fn reflect(ask: &Ask) -> Result<(Store<Pod>, Events)> {
    let (store, writer) = reflector::store();
    let pods: Api<Pod> = Api::all(replay_client(ask)?);
    Ok((store, watcher(pods, watcher::Config::default()).default_backoff().reflect(writer).boxed()))
}

/// Reads until the store is full. Returns the number of Pods that the stream delivered until then.
async fn fill(events: &mut Events) -> Result<u64> {
    let mut handed_out = 0;
    loop {
        match events.try_next().await?.context("the stream of events ended")? {
            Event::InitApply(_) => handed_out += 1,
            Event::InitDone => return Ok(handed_out),
            _ => {}
        }
    }
}

/// Fills a store; the consumer of the stream receives every Pod.
pub async fn sync(ask: &Ask) -> Result<()> {
    let stopwatch = Stopwatch::start();
    let (store, mut events) = reflect(ask)?;
    let count = fill(&mut events).await?;
    let cost = stopwatch.cost();
    ensure!(store.len() as u64 == count, "the store holds {} Pods, the stream handed out {count}", store.len());
    report(count, cost, Vec::new()).await;
    Ok(())
}

/// Fills a store, then counts the events that the consumer of the stream sees.
pub async fn watch(ask: &Ask) -> Result<()> {
    let (_store, mut events) = reflect(ask)?;
    fill(&mut events).await?;
    let stopwatch = Stopwatch::start();
    // The watch itself starts when the stream is next read.
    start_events(ask.url()?)?;
    let mut count = 0;
    while count < ask.events {
        if let Event::Apply(_) = events.try_next().await?.context("the stream of events ended")? {
            count += 1;
        }
    }
    let cost = stopwatch.cost();
    report(count, cost, vec![("events_per_s", count as f64 / cost.wall.as_secs_f64())]).await;
    Ok(())
}

/// Fills a store and follows the events in a task, which counts them.
async fn follow(ask: &Ask) -> Result<(Store<Pod>, Arc<AtomicU64>)> {
    let (store, mut events) = reflect(ask)?;
    fill(&mut events).await?;
    let updates = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&updates);
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if let Ok(Event::Apply(_)) = event {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    Ok((store, updates))
}

fn has_node(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).is_some_and(|node| !node.is_empty())
}

fn is_owned_by(pod: &Pod, owner: &str) -> bool {
    pod.owner_references().iter().any(|reference| reference.uid == owner)
}

/// Lists every Pod and reads a field of each, once.
pub async fn read_all(ask: &Ask) -> Result<()> {
    let (store, _) = follow(ask).await?;
    let stopwatch = Stopwatch::start();
    let count = store.state().iter().filter(|pod| has_node(pod)).count() as u64;
    reads(count, stopwatch.cost()).report();
    Ok(())
}

/// Lists the Pods of one owner repeatedly, which scans every Pod, and reads a field of each.
pub async fn read_children(ask: &Ask) -> Result<()> {
    let (store, _) = follow(ask).await?;
    let owner = owner_uid(ask.size / PODS_PER_OWNER / 2);
    let mut count = 0;
    let stopwatch = Stopwatch::start();
    for _ in 0..CHILD_LISTS {
        count += store.state_filter(|pod| is_owned_by(pod, &owner)).iter().filter(|pod| has_node(pod)).count() as u64;
    }
    reads(count, stopwatch.cost()).report();
    Ok(())
}

/// Lists the Pods of one owner after the other, which scans every Pod, while the replay changes
/// Pods.
pub async fn index(ask: &Ask) -> Result<()> {
    let (store, updates) = follow(ask).await?;
    start_events(ask.url()?)?;
    let ask = ask.clone();
    let outcome = tokio::task::spawn_blocking(move || {
        let mut lookups = Lookups::start(&ask);
        while let Some(owner) = lookups.next_owner() {
            let found = store.state_filter(|pod| is_owned_by(pod, owner));
            let hits = found.iter().filter(|pod| pod.metadata.name.is_some()).count();
            lookups.found(hits as u64);
        }
        lookups.outcome(updates.load(Ordering::Relaxed))
    });
    outcome.await??.report();
    Ok(())
}

async fn report(count: u64, cost: Cost, figures: Vec<(&'static str, f64)>) {
    tokio::time::sleep(SETTLE).await;
    Outcome { count, cost, memory: None, figures }.report();
}
