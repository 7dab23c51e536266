//! The jobs of the cache. `bench/README.md` describes each of them; `cache.go`, `cache_read.go` and
//! kube-rs's `cache.rs` do the same.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use steersman_cache::{
    Cached, EventHandler, Index, Informer, InformerOptions, SharedInformerFactory, StorageMode, StorageOptions,
};
use steersman_client::{Client, config_from_flags};

use crate::contestant::{
    Ask, CHILD_LISTS, Cost, Counter, Lookups, Outcome, PODS_PER_OWNER, Stopwatch, cpu_time, memory, owner_uid, reads,
    start_events, start_events_until,
};

const OWNER_INDEX: &str = "owner";
/// How long the first list may take.
const SYNC_LIMIT: Duration = Duration::from_secs(120);
/// How long freed memory may take to return to the system.
const SETTLE: Duration = Duration::from_secs(1);
/// A contestant that uses less processor time than this while memory settles is idle.
const AT_REST: Duration = Duration::from_millis(20);

/// The storage mode of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// As bytes
    Encoded,
    /// As bytes that were compressed
    Compressed,
    /// As values of their type
    Decoded,
}

impl Form {
    fn mode(self) -> StorageMode {
        match self {
            Self::Encoded => StorageMode::Encoded,
            Self::Compressed => StorageMode::Compressed,
            Self::Decoded => StorageMode::Decoded,
        }
    }
}

/// Runs one of the jobs of the cache. Must be called in a runtime.
pub async fn run(ask: &Ask, form: Form) -> Result<Outcome> {
    if form == Form::Compressed {
        // As a program with compressed caches should; otherwise glibc retains the memory of the
        // training.
        steersman_cache::release_freed_memory();
    }
    match ask.job.as_str() {
        "cache-sync" => sync(ask, form).await,
        "cache-watch" => watch(ask, form).await,
        "cache-handlers" => handlers(ask, form).await,
        "cache-read-all" => read_all(ask, form).await,
        "cache-read-children" => read_children(ask, form).await,
        "cache-index" => index(ask, form).await,
        other => bail!("no job of the cache is called {other:?}"),
    }
}

/// The events of a handler.
#[derive(Debug)]
struct Counted {
    adds: Counter,
    updates: Counter,
}

impl Counted {
    fn new(adds: u64, updates: u64) -> Arc<Self> {
        Arc::new(Self { adds: Counter::new(adds), updates: Counter::new(updates) })
    }
}

/// A handler that counts.
struct Counting(Arc<Counted>);

impl EventHandler<Pod> for Counting {
    fn on_add(&mut self, _: &Cached<Pod>, _: bool) {
        self.0.adds.add();
    }

    fn on_update(&mut self, _: &Cached<Pod>, _: &Cached<Pod>) {
        self.0.updates.add();
    }

    fn on_delete(&mut self, _: &Cached<Pod>, _: bool) {}
}

/// An informer of the replay's Pods that has not been started.
async fn informer(ask: &Ask, form: Form, indexed: bool) -> Result<(SharedInformerFactory, Informer<Pod>)> {
    let config = config_from_flags(Some(ask.url()?), None).await?;
    let factory = SharedInformerFactory::new(Client::builder(config).build()?);
    let storage = StorageOptions { mode: form.mode(), ..StorageOptions::default() };
    let mut options = InformerOptions::<Pod>::all().storage(storage);
    if indexed {
        options = options.index(OWNER_INDEX, Index::owner_uid());
    }
    let pods = factory.informer(options)?;
    Ok((factory, pods))
}

/// An informer that holds every Pod and has delivered them to its handler.
struct Filled {
    /// Keeps the informer running.
    _factory: SharedInformerFactory,
    pods: Informer<Pod>,
    counted: Arc<Counted>,
}

async fn fill(ask: &Ask, form: Form, indexed: bool) -> Result<Filled> {
    let (factory, pods) = informer(ask, form, indexed).await?;
    let counted = Counted::new(ask.size, ask.events);
    pods.add_event_handler(Counting(Arc::clone(&counted)))?;
    factory.start()?;
    factory.wait_for_cache_sync(SYNC_LIMIT).await?;
    counted.adds.reached().await;
    Ok(Filled { _factory: factory, pods, counted })
}

/// Fills a cache; a handler receives every Pod.
async fn sync(ask: &Ask, form: Form) -> Result<Outcome> {
    let stopwatch = Stopwatch::start();
    let synced = fill(ask, form, false).await?;
    let cost = stopwatch.cost();
    let (count, held) = (synced.counted.adds.value(), synced.pods.lister().len() as u64);
    ensure!(held == count, "the cache holds {held} Pods, the handler counted {count}");
    Ok(at_rest(count, cost, Vec::new()).await)
}

/// Fills a cache, then counts the events of its handler.
async fn watch(ask: &Ask, form: Form) -> Result<Outcome> {
    let synced = fill(ask, form, false).await?;
    let stopwatch = Stopwatch::start();
    start_events(ask.url()?)?;
    synced.counted.updates.reached().await;
    let cost = stopwatch.cost();
    let count = synced.counted.updates.value();
    Ok(at_rest(count, cost, vec![("events_per_s", count as f64 / cost.wall.as_secs_f64())]).await)
}

/// The report once the contestant is idle: objects may still be compressed after they have arrived.
pub(crate) async fn at_rest(count: u64, cost: Cost, mut figures: Vec<(&'static str, f64)>) -> Outcome {
    let started = cpu_time();
    let mut before = started;
    loop {
        tokio::time::sleep(SETTLE).await;
        let now = cpu_time();
        if now.saturating_sub(before) < AT_REST {
            break;
        }
        before = now;
    }
    figures.push(("settle_cpu_s", cpu_time().saturating_sub(started).as_secs_f64()));
    Outcome { count, cost, memory: Some(memory()), figures }
}

/// Sends one informer half of the events while it has one handler, and the other half while it has
/// several.
async fn handlers(ask: &Ask, form: Form) -> Result<Outcome> {
    let (factory, pods) = informer(ask, form, false).await?;
    factory.start()?;
    let half = ask.events / 2;
    let (one, calls_of_one) = stretch(ask, &pods, 1, half).await?;
    let (several, calls_of_several) = stretch(ask, &pods, ask.workers, 2 * half).await?;
    ensure!(!one.cpu.is_zero(), "no processor time was measured");
    let figures =
        vec![("one_cpu_s", one.cpu.as_secs_f64()), ("times_of_one", several.cpu.as_secs_f64() / one.cpu.as_secs_f64())];
    Ok(Outcome { count: calls_of_one + calls_of_several, cost: several, memory: Some(memory()), figures })
}

/// The cost of half of the events, up to event `last`, with this number of handlers, and the number
/// of their calls.
async fn stretch(ask: &Ask, pods: &Informer<Pod>, handlers: u64, last: u64) -> Result<(Cost, u64)> {
    let mut handles = Vec::new();
    for _ in 0..handlers {
        let counted = Counted::new(ask.size, ask.events / 2);
        handles.push((pods.add_event_handler(Counting(Arc::clone(&counted)))?, counted));
    }
    for (_, counted) in &handles {
        counted.adds.reached().await;
    }
    let stopwatch = Stopwatch::start();
    start_events_until(ask.url()?, last)?;
    for (_, counted) in &handles {
        counted.updates.reached().await;
    }
    let cost = stopwatch.cost();
    for (handle, _) in &handles {
        handle.remove_and_wait().await.unwrap();
    }
    Ok((cost, handles.iter().map(|(_, counted)| counted.updates.value()).sum()))
}

/// How many of these Pods have a node.
fn with_node<'a>(pods: impl IntoIterator<Item = &'a Cached<Pod>>) -> Result<u64> {
    let mut count = 0;
    for cached in pods {
        count += cached.with(|pod| {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
            u64::from(node.is_some_and(|node| !node.is_empty()))
        })?;
    }
    Ok(count)
}

/// Lists every Pod and reads a field of each, once.
async fn read_all(ask: &Ask, form: Form) -> Result<Outcome> {
    let synced = fill(ask, form, false).await?;
    let lister = synced.pods.lister();
    let stopwatch = Stopwatch::start();
    let count = with_node(lister.list().iter())?;
    Ok(Outcome { memory: Some(memory()), ..reads(count, stopwatch.cost()) })
}

/// Lists the Pods of one owner repeatedly and reads a field of each.
async fn read_children(ask: &Ask, form: Form) -> Result<Outcome> {
    let synced = fill(ask, form, true).await?;
    let lister = synced.pods.lister();
    let owner = owner_uid(ask.size / PODS_PER_OWNER / 2);
    let mut count = 0;
    let stopwatch = Stopwatch::start();
    for _ in 0..CHILD_LISTS {
        count += with_node(&lister.by_index(OWNER_INDEX, &owner)?)?;
    }
    Ok(Outcome { memory: Some(memory()), ..reads(count, stopwatch.cost()) })
}

/// Lists the Pods of one owner after the other while the replay changes Pods.
async fn index(ask: &Ask, form: Form) -> Result<Outcome> {
    let synced = fill(ask, form, true).await?;
    start_events(ask.url()?)?;
    let (ask, lister, counted) = (ask.clone(), synced.pods.lister(), Arc::clone(&synced.counted));
    let lookups = tokio::task::spawn_blocking(move || {
        let mut lookups = Lookups::start(&ask);
        while let Some(owner) = lookups.next_owner() {
            let found = lister.by_index(OWNER_INDEX, owner)?;
            let hits = found.iter().filter(|pod| !pod.meta().name().is_empty()).count();
            lookups.found(hits as u64);
        }
        lookups.outcome(counted.updates.value())
    });
    let outcome = lookups.await.context("looking up")??;
    Ok(Outcome { memory: Some(memory()), ..outcome })
}
