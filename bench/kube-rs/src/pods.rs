//! The jobs `sync` and `watch`: a reflector of Pods.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event, watcher};

use crate::contestant::{Ask, Cost, Outcome, Stopwatch, start_events};
use crate::replay_client;

/// What freed memory is given to go back to the system.
const SETTLE: Duration = Duration::from_secs(1);

type Events = BoxStream<'static, Result<Event<Pod>, watcher::Error>>;

/// A reflector as kube-rs sets it up unless told otherwise.
fn reflect(ask: &Ask) -> Result<(Store<Pod>, Events)> {
    let (store, writer) = reflector::store();
    let pods: Api<Pod> = Api::all(replay_client(ask)?);
    Ok((store, watcher(pods, watcher::Config::default()).default_backoff().reflect(writer).boxed()))
}

/// Reads until the store is full. Gives how many Pods the stream handed out meanwhile.
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

/// Fills a store; every Pod is handed to the consumer of the stream.
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

async fn report(count: u64, cost: Cost, figures: Vec<(&'static str, f64)>) {
    tokio::time::sleep(SETTLE).await;
    Outcome { count, cost, memory: None, figures }.report();
}
