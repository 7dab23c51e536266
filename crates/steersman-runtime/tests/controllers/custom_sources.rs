//! Map functions that wait, and sources that are no caches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_client::{Client, DeleteParams, Patch, PatchParams, PostParams};
use steersman_runtime::predicate::Change;
use steersman_runtime::{Cached, CachedClient, Error, ListQuery, ReconcileError, kind};
use tokio::sync::Semaphore;

use crate::noting;
use crate::support::*;

async fn create_secret(client: &Client, name: &str) {
    let secret = Secret { metadata: named(name), ..Secret::default() };
    client.namespaced("default").create(&PostParams::default(), &secret).await.unwrap();
}

/// Sets the label by which the map functions of these tests find the ConfigMap.
async fn label(client: &Client, name: &str, of: &str) {
    let patch = Patch::Merge(serde_json::json!({"metadata": {"labels": {"of": of}}}));
    client.namespaced::<Secret>("default").patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// A running controller whose map function waits at a gate.
struct Gated {
    client: Client,
    log: Log<String>,
    calls: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
    running: Running,
}

impl Gated {
    /// As many calls as run at a time are under way, and the Secret `s` waits for its own.
    async fn start() -> Self {
        let (manager, client) = manager();
        let (log, calls, gate) = (Log::new(), Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let (counted, closed) = (Arc::clone(&calls), Arc::clone(&gate));
        manager
            .controller(kind::<ConfigMap>())
            .watches_async(kind::<Secret>(), move |_, secret: Cached<Secret>| {
                counted.fetch_add(1, Ordering::Relaxed);
                let gate = Arc::clone(&closed);
                async move {
                    drop(gate.acquire().await);
                    Ok(secret.meta().label("of").map(key))
                }
            })
            .complete(noting(&log))
            .unwrap();
        let running = run(&manager).await;
        for number in 0..16 {
            create_secret(&client, &format!("busy-{number}")).await;
        }
        eventually("all calls are under way", || calls.load(Ordering::Relaxed) == 16).await;
        create_secret(&client, "s").await;
        Self { client, log, calls, gate, running }
    }

    /// Opens the gate. Returns the names that the map function has found, in order.
    async fn open(&self) -> Vec<String> {
        settle().await;
        self.gate.add_permits(1_000);
        settle().await;
        let mut names = self.log.take();
        names.sort();
        names
    }
}

#[tokio::test(start_paused = true)]
async fn an_async_map_function_reads_with_the_client() {
    let (manager, client) = manager();
    let log = Log::new();
    manager
        .controller(kind::<ConfigMap>())
        .watches_async(kind::<Secret>(), |client: CachedClient, secret: Cached<Secret>| async move {
            let query = ListQuery::all().namespace(secret.meta().namespace());
            let maps = client.objects::<ConfigMap>().list(&query).await?;
            Ok(maps.iter().map(Cached::key).collect::<Vec<_>>())
        })
        .complete(noting(&log))
        .unwrap();
    for name in ["a", "b"] {
        Maps::new(&client).create(name).await;
    }
    let running = run(&manager).await;
    settle().await;
    log.take();
    create_secret(&client, "s").await;
    eventually("both ConfigMaps are reconciled", || log.len() == 2).await;
    let mut names = log.take();
    names.sort();
    assert_eq!(names, ["a", "b"]);
    client.namespaced::<Secret>("default").delete("s", &DeleteParams::default()).await.unwrap();
    eventually("a deletion is mapped, too", || log.len() == 2).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_async_map_function_that_fails_is_called_again_and_one_that_panics_is_counted() {
    let (manager, client) = manager();
    let (log, calls) = (Log::new(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&calls);
    let controller = manager
        .controller(kind::<ConfigMap>())
        .watches_async(kind::<Secret>(), move |_, secret: Cached<Secret>| {
            let call = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                match (secret.meta().name(), call) {
                    ("bug", _) => panic!("this is the test"),
                    (_, 0..3) => Err(ReconcileError::message("the inventory is away")),
                    (name, _) => Ok(Some(key(name))),
                }
            }
        })
        .complete(noting(&log))
        .unwrap();
    let running = run(&manager).await;
    create_secret(&client, "s").await;
    eventually("the fourth call succeeds", || log.len() == 1).await;
    assert_eq!((log.take(), calls.load(Ordering::Relaxed)), (vec!["s".to_owned()], 4));
    create_secret(&client, "bug").await;
    eventually("the panic is counted", || controller.metrics().source_panics_total == 1).await;
    create_secret(&client, "next").await;
    eventually("later changes are mapped", || log.len() == 1).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn changes_that_wait_for_an_async_map_function_are_merged_by_object() {
    let gated = Gated::start().await;
    for number in 0..100 {
        label(&gated.client, "s", &format!("map-{number}")).await;
    }
    let newest: Vec<_> = (93..100).map(|number| format!("map-{number}")).collect();
    assert_eq!(gated.open().await, newest, "older states are dropped");
    assert_eq!(gated.calls.load(Ordering::Relaxed), 16 + 8, "the first and the newest states of the object");
    gated.running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_async_map_function_sees_the_states_between_two_calls() {
    let gated = Gated::start().await;
    for of in ["a", "b", "c"] {
        label(&gated.client, "s", of).await;
    }
    assert_eq!(gated.open().await, ["a", "b", "c"]);
    gated.running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_async_map_function_that_fails_holds_up_neither_other_objects_nor_other_states() {
    let (manager, client) = manager();
    let log = Log::new();
    manager
        .controller(kind::<ConfigMap>())
        .watches_async(kind::<Secret>(), move |_, secret: Cached<Secret>| async move {
            match secret.meta().label("of") {
                Some("bad") => Err(ReconcileError::message("the inventory is away")),
                of => Ok(of.map(key)),
            }
        })
        .complete(noting(&log))
        .unwrap();
    let running = run(&manager).await;
    for number in 0..20 {
        create_secret(&client, &format!("s-{number}")).await;
        label(&client, &format!("s-{number}"), "bad").await;
    }
    settle().await;
    create_secret(&client, "s").await;
    label(&client, "s", "good").await;
    eventually("another object is mapped", || log.len() == 1).await;
    label(&client, "s", "bad").await;
    eventually("the old state is mapped", || log.len() == 2).await;
    assert_eq!(log.take(), ["good", "good"]);
    label(&client, "s", "new").await;
    eventually("a change does not wait for the back-off", || log.len() == 1).await;
    assert_eq!(log.take(), ["new"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_custom_source_sends_keys_until_the_controller_stops() {
    let (manager, _) = manager();
    let (log, ends) = (Log::new(), Log::<String>::new());
    let ended = ends.clone();
    manager
        .controller(kind::<ConfigMap>())
        .predicate(|_: &Change<'_>| false)
        .source("ticks", move |keys, stop| async move {
            for number in 0.. {
                tokio::select! {
                    biased;
                    () = stop.stopped() => break,
                    () = tokio::time::sleep(Duration::from_secs(10)) => keys.send(key(&format!("tick-{number}"))),
                }
            }
            ended.note("ended");
            Ok(())
        })
        .complete(noting(&log))
        .unwrap();
    let running = run(&manager).await;
    eventually("two keys came", || log.len() == 2).await;
    assert_eq!(log.take(), ["tick-0", "tick-1"]);
    running.stop().await.unwrap();
    assert_eq!(ends.take(), ["ended"], "it is waited for");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_is_named() {
    let (manager, _) = manager();
    manager
        .controller(kind::<ConfigMap>())
        .source("messages", |_, _| async { Err(ReconcileError::message("the broker is away")) })
        .complete(noting(&Log::new()))
        .unwrap();
    let error = start(&manager).ended().await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Runnable { .. }), "{text}");
    for part in ["controller configmap", "source messages", "the broker is away"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_panics_ends_its_controller() {
    let (manager, _) = manager();
    manager
        .controller(kind::<ConfigMap>())
        .source("messages", |_, _| async { panic!("this is the test") })
        .complete(noting(&Log::new()))
        .unwrap();
    let error = start(&manager).ended().await.unwrap_err().to_string();
    assert!(error.contains("a source panicked: this is the test"), "{error}");
}
