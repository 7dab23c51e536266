//! The hot paths whose instructions are counted, one case each.
//!
//! `cargo xtask bench --instructions` runs the program `instructions` under callgrind, once for
//! each case. A case prepares its input and then does its work inside [`measured`]; callgrind
//! counts only there. Every case runs on one thread, without sockets, in a seeded [`World`], and
//! the program seeds the hashers of the standard library. So the same program gives the same count:
//! a timing on a shared machine moves by a third, a count does not.

mod controller;
mod server;

use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use steersman_cache::{Cached, Delta, DeltaFifo, Index, Indexer, Storage, StorageOptions, Work};
use steersman_testing::World;
use steersman_wire::{Encoding, Json, Limits, Strip, WatchEvent, protobuf};
use steersman_workqueue::{AddOptions, WorkQueue};
use tokio::runtime::{Builder, Runtime};

use controller::Records;

use crate::contestant::FIRST_VERSION;
use crate::pods::{Pods, Shape};
use crate::wire::{self, Body};

/// A hot path.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name in the table of counts.
    pub name: &'static str,
    /// What one operation is.
    pub unit: &'static str,
    run: fn() -> Result<u64>,
}

/// Every case, in the order of the data: wire, cache, queue, controller, server.
pub const CASES: &[Case] = &[
    Case { name: "list-json", unit: "a Pod split from a list and scanned", run: || list(Encoding::Json) },
    Case { name: "list-protobuf", unit: "a Pod split from a list and scanned", run: || list(Encoding::Protobuf) },
    Case { name: "watch-json", unit: "an event split from a watch and scanned", run: || watch(Encoding::Json) },
    Case { name: "watch-protobuf", unit: "an event split from a watch and scanned", run: || watch(Encoding::Protobuf) },
    Case { name: "protobuf-to-json", unit: "a Pod", run: protobuf_to_json },
    Case { name: "protobuf-from-json", unit: "a Pod", run: protobuf_from_json },
    Case { name: "cache-update", unit: "an update from DeltaFifo to Indexer, with two indexes", run: cache_update },
    Case { name: "queue", unit: "add, get and done of a key", run: queue },
    Case {
        name: "reconcile-empty",
        unit: "a key from enqueue to the end of an empty reconcile",
        run: || controller::empty(Records::All),
    },
    Case {
        name: "reconcile-empty-unrecorded",
        unit: "the same without the flight recorder",
        run: || controller::empty(Records::Metrics),
    },
    Case {
        name: "reconcile-empty-bare",
        unit: "the same without the flight recorder and the metrics of controllers",
        run: || controller::empty(Records::Nothing),
    },
    Case {
        name: "reconcile-events",
        unit: "a key from enqueue to the end of a reconcile that records an Event",
        run: || controller::recorded(0),
    },
    Case {
        name: "reconcile-events-pending",
        unit: "the same while 10,000 occurrences wait for the server",
        run: || controller::recorded(10_000),
    },
    Case { name: "reconcile-cached", unit: "the same with a typed read of the cached object", run: controller::cached },
    Case {
        name: "reconcile-event",
        unit: "a watch event to the end of a reconcile with one typed read",
        run: || controller::event(Records::All),
    },
    Case {
        name: "reconcile-event-unrecorded",
        unit: "the same without the flight recorder",
        run: || controller::event(Records::Metrics),
    },
    Case {
        name: "reconcile-event-bare",
        unit: "the same without the flight recorder and the metrics of controllers",
        run: || controller::event(Records::Nothing),
    },
    Case { name: "server-start", unit: "a start and the end of a server", run: server::start },
    Case { name: "server-get", unit: "a GET of a Pod", run: server::get },
    Case { name: "server-create", unit: "a POST of a ConfigMap", run: || server::create(true) },
    Case { name: "server-create-bare", unit: "the same without managed fields", run: || server::create(false) },
    Case { name: "server-list", unit: "a Pod in a LIST", run: server::list },
    Case { name: "server-watch", unit: "an update of a ConfigMap that one watch reads", run: server::watch },
];

impl Case {
    /// The case of this name.
    pub fn named(name: &str) -> Result<Self> {
        let names = || CASES.iter().map(|case| case.name).collect::<Vec<_>>().join(", ");
        let case = CASES.iter().find(|case| case.name == name);
        case.copied().with_context(|| format!("no case is called {name:?}; the cases are {}", names()))
    }

    /// Does the work once, and returns the number of operations.
    pub fn run(&self) -> Result<u64> {
        (self.run)()
    }
}

/// Does `work` where callgrind counts. The harness finds this function by its name, so it is
/// neither generic nor inlined.
#[inline(never)]
pub fn measured(work: &mut dyn FnMut()) {
    work();
    // Keeps the call above from becoming a jump, which callgrind would not see end.
    black_box(());
}

/// A runtime with timers and without sockets.
fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_time().build()?)
}

/// A world whose random numbers are the same in every run.
fn world() -> World {
    World::seeded(21, "2026-01-31T10:00:00Z".parse().expect("this is a time"))
}

/// How many Pods a case of the wire or the cache has.
const PODS: u64 = 200;

/// Does `work` once unmeasured, so that tables are built and memory is allocated, and once
/// measured.
fn warm_and_measured<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    work()?;
    let mut result = None;
    measured(&mut || result = Some(work()));
    result.context("the work was not done")?
}

fn list(encoding: Encoding) -> Result<u64> {
    let body = Body::new(PODS);
    let body = if encoding == Encoding::Protobuf { body.in_protobuf()? } else { body };
    let count = warm_and_measured(|| wire::scan(&body))?;
    ensure!(count == PODS, "{count} Pods were read instead of {PODS}");
    Ok(count)
}

/// A Pod, as JSON.
fn pod(index: u64, version: u64) -> Vec<u8> {
    let mut pod = Vec::new();
    Pods::new(Shape::Plain).write(index, version, &mut pod);
    pod
}

/// A watch event in JSON: one line.
fn event_line(kind: &str, pod: &[u8]) -> Bytes {
    let mut line = format!(r#"{{"type":"{kind}","object":"#).into_bytes();
    line.extend_from_slice(pod);
    line.extend_from_slice(b"}\n");
    line.into()
}

fn watch(encoding: Encoding) -> Result<u64> {
    let pods = (0..PODS).map(|index| pod(index, FIRST_VERSION + index));
    let events: Vec<Bytes> = match encoding {
        Encoding::Json => pods.map(|pod| event_line("MODIFIED", &pod)).collect(),
        Encoding::Protobuf => pods.map(|pod| wire::protobuf_event(&pod)).collect::<Result<_>>()?,
    };
    let strip = Strip::default();
    let count = warm_and_measured(|| {
        let mut count = 0;
        let mut watch = encoding.split_watch(Limits::default());
        for event in &events {
            watch.push(event.clone());
            while let Some(event) = watch.next_event()? {
                let WatchEvent::Modified(object) = event? else { continue };
                black_box(Json.scan_item(&object, &strip, None)?);
                count += 1;
            }
        }
        watch.finish()?;
        Ok(count)
    })?;
    ensure!(count == PODS, "{count} events were read instead of {PODS}");
    Ok(count)
}

fn protobuf_to_json() -> Result<u64> {
    let pods: Option<Vec<_>> = (0..PODS).map(|index| protobuf::from_json(&pod(index, FIRST_VERSION))).collect();
    let pods = pods.context("a Pod can be written as protobuf")?;
    warm_and_measured(|| {
        for pod in &pods {
            black_box(protobuf::to_json(pod)?);
        }
        Ok(())
    })?;
    Ok(PODS)
}

fn protobuf_from_json() -> Result<u64> {
    let pods: Vec<_> = (0..PODS).map(|index| pod(index, FIRST_VERSION)).collect();
    warm_and_measured(|| {
        for pod in &pods {
            black_box(protobuf::from_json(pod).context("a Pod can be written as protobuf")?);
        }
        Ok(())
    })?;
    Ok(PODS)
}

fn cache_update() -> Result<u64> {
    let storage = Storage::<Pod>::new(StorageOptions::default());
    let store = |version: u64| -> Result<Vec<Cached<Pod>>> {
        (0..PODS).map(|index| Ok(storage.store(&pod(index, version + index), None)?)).collect()
    };
    let mut indexer = Indexer::new();
    indexer.add_index("owner", Index::owner_uid())?;
    indexer.replace(store(FIRST_VERSION)?);
    let (warm, updates) = (store(FIRST_VERSION + PODS)?, store(FIRST_VERSION + 2 * PODS)?);
    let mut fifo = DeltaFifo::new();
    let mut apply = |updates: &[Cached<Pod>]| {
        for update in updates {
            fifo.update(update.clone());
            let Some(batch) = fifo.pop(1) else { continue };
            let Work::Changes(changes) = batch.work else { continue };
            for delta in changes.into_iter().flatten() {
                let (Delta::Added(object) | Delta::Updated(object)) = delta else { continue };
                black_box(indexer.upsert(object));
            }
            if let Some(reached) = batch.reached {
                indexer.set_resource_version(&reached);
            }
        }
    };
    apply(&warm);
    measured(&mut || apply(&updates));
    let newest = indexer.resource_version();
    ensure!(newest == (FIRST_VERSION + 3 * PODS - 1).to_string(), "the cache has reached version {newest}");
    Ok(PODS)
}

fn queue() -> Result<u64> {
    const KEYS: u64 = 1_000;
    let queue = WorkQueue::new();
    let keys: Vec<String> = (0..KEYS).map(|key| format!("team-{}/object-{key:06}", key % 100)).collect();
    let mut round = || {
        for key in &keys {
            queue.add_with(key.clone(), AddOptions::new());
        }
        for _ in &keys {
            if let Some(Some(item)) = queue.get().now_or_never() {
                item.done();
            }
        }
    };
    round();
    measured(&mut round);
    ensure!(queue.is_empty(), "{} keys were left in the queue", queue.len());
    Ok(KEYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_does_its_work() {
        for case in CASES {
            let operations = case.run().unwrap_or_else(|error| panic!("{}: {error:#}", case.name));
            assert!(operations > 0, "{} did nothing", case.name);
        }
    }

    #[test]
    fn an_unknown_case_is_refused_with_the_names_of_all() {
        let error = Case::named("reconcile").expect_err("there is no such case").to_string();
        assert!(error.contains("reconcile-empty") && error.contains("server-get"), "{error}");
    }
}
