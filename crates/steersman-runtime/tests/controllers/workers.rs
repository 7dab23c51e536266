//! How many keys are reconciled at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Action, Context, ObjectKey, kind, reconcile_fn};
use tokio::time::sleep;

use crate::support::*;

/// Which worker has which key, and the last version that each has seen.
#[derive(Default)]
struct Desk {
    active: HashMap<ObjectKey, usize>,
    most: usize,
    twice: bool,
    seen: HashMap<ObjectKey, String>,
}

impl Desk {
    fn begin(&mut self, key: &ObjectKey) {
        let at_it = self.active.entry(key.clone()).or_default();
        *at_it += 1;
        self.twice |= *at_it > 1;
        self.most = self.most.max(self.active.values().sum());
    }

    fn end(&mut self, key: ObjectKey, seen: String) {
        *self.active.get_mut(&key).unwrap() -= 1;
        self.seen.insert(key, seen);
    }
}

fn value(map: &ConfigMap) -> String {
    map.data.as_ref().unwrap()["value"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_key_is_never_reconciled_twice_at_a_time_and_no_change_is_lost() {
    let (manager, client) = manager();
    let desk = Arc::<Mutex<Desk>>::default();
    let shared = Arc::clone(&desk);
    let reconciler = reconcile_fn(move |ctx: Context<ConfigMap>, key: ObjectKey| {
        let desk = Arc::clone(&shared);
        async move {
            let seen = value(&*ctx.object(&key).await?.unwrap().get()?);
            desk.lock().unwrap().begin(&key);
            sleep(Duration::from_millis(70)).await;
            desk.lock().unwrap().end(key, seen);
            Ok(Action::done())
        }
    });
    let controller =
        manager.controller(kind::<ConfigMap>().namespace("default")).max_concurrent(4).complete(reconciler).unwrap();
    let running = run(&manager).await;
    let maps = Maps::new(&client);
    let names: Vec<_> = (0..8).map(|number| format!("map-{number}")).collect();
    for name in &names {
        maps.create(name).await;
    }
    // Fewer than there are workers: if the same key was handed out twice, a worker would be free to
    // take it.
    for round in 2..=20 {
        for name in &names[..2] {
            maps.set(name, &round.to_string()).await;
        }
        sleep(Duration::from_millis(30)).await;
    }
    settle().await;
    {
        let desk = desk.lock().unwrap();
        assert!(!desk.twice, "two workers had the same key");
        assert_eq!(desk.most, 4, "no more than were asked for, and no fewer");
        assert_eq!(desk.seen.len(), 8);
        assert!(
            names[..2].iter().all(|name| desk.seen[&key(name)] == "20"),
            "the last state was seen: {:?}",
            desk.seen
        );
    }
    let reconciles = controller.metrics().reconciles_total;
    assert!(reconciles < 6 + 2 * 20, "many changes, one reconcile: {reconciles}");
    running.stop().await.unwrap();
}

/// As above, with workers that run at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_workers_never_have_the_same_key_and_lose_no_change() {
    let (manager, client) = manager();
    let desk = Arc::<Mutex<Desk>>::default();
    let shared = Arc::clone(&desk);
    let reconciler = reconcile_fn(move |ctx: Context<ConfigMap>, key: ObjectKey| {
        let desk = Arc::clone(&shared);
        async move {
            let seen = value(&*ctx.object(&key).await?.unwrap().get()?);
            desk.lock().unwrap().begin(&key);
            // Lets others run in between.
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            desk.lock().unwrap().end(key, seen);
            Ok(Action::done())
        }
    });
    manager.controller(kind::<ConfigMap>().namespace("default")).max_concurrent(8).complete(reconciler).unwrap();
    let running = run(&manager).await;
    let maps = Maps::new(&client);
    let names: Vec<_> = (0..4).map(|number| format!("map-{number}")).collect();
    for name in &names {
        maps.create(name).await;
    }
    let writers: Vec<_> = names
        .iter()
        .map(|name| {
            let (maps, name) = (maps.clone(), name.clone());
            tokio::spawn(async move {
                for round in 2..=100 {
                    maps.set(&name, &round.to_string()).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let last = || {
        let seen = desk.lock().unwrap().seen.clone();
        seen.len() == 4 && seen.values().all(|value| value == "100")
    };
    eventually("the last state of each was seen", last).await;
    running.stop().await.unwrap();
    let desk = desk.lock().unwrap();
    assert!(!desk.twice, "two workers had the same key");
    assert!(desk.most > 1, "they did work at the same time");
}

#[tokio::test(start_paused = true)]
async fn one_key_at_a_time_by_default() {
    let (manager, client) = manager();
    for name in ["a", "b", "c"] {
        Maps::new(&client).create(name).await;
    }
    let reconciler = reconcile_fn(|_: Context<ConfigMap>, _| async {
        sleep(Duration::from_secs(10)).await;
        Ok(Action::done())
    });
    let controller = manager.controller(kind::<ConfigMap>().namespace("default")).complete(reconciler).unwrap();
    let running = run(&manager).await;
    settle().await;
    let metrics = controller.metrics();
    assert_eq!((metrics.active, metrics.queued, metrics.reconciles_total), (1, 2, 0));
    sleep(Duration::from_secs(100)).await;
    let metrics = controller.metrics();
    assert_eq!((metrics.active, metrics.queued, metrics.reconciles_total, metrics.errors_total), (0, 0, 3, 0));
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_key_can_be_enqueued_by_a_call() {
    let (manager, _) = manager();
    let log = Log::new();
    let controller = manager.controller(kind::<ConfigMap>()).complete(crate::noting(&log)).unwrap();
    let running = run(&manager).await;
    settle().await;
    log.take();
    controller.enqueue(key("gone"));
    settle().await;
    assert_eq!(log.take(), ["gone"]);
    running.stop().await.unwrap();
}
