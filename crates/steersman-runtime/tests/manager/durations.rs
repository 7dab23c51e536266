//! The longest and the shortest durations that can be set.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Action, Context, ListQuery, Manager, ObjectKey, ReconcileError, kind, reconcile_fn};
use steersman_testing::Embedded;

use crate::support::*;

/// A manager with all durations set to `time`, and a controller whose reconciles log that they ran
/// and are requeued after `time`.
fn with_times(time: Duration) -> (Manager, Log<String>) {
    let (server, log) = (Embedded::empty(), Log::new());
    let manager = Manager::builder(client(&server))
        .grace_period(time)
        .cache_sync_timeout(time.max(Duration::from_secs(10)))
        .read_your_writes(Some(time))
        .build();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<ConfigMap>, key: ObjectKey| {
        let notes = notes.clone();
        async move {
            notes.note(key.name().to_owned());
            // Once at once, and then no more: a delay of zero would repeat without end.
            Ok::<_, ReconcileError>(if notes.len() < 3 { Action::requeue_after(time) } else { Action::done() })
        }
    });
    let controller = manager.controller(kind::<ConfigMap>().resync(time)).reconcile_timeout(time);
    controller.complete(reconciler).unwrap();
    (manager, log)
}

#[tokio::test(start_paused = true)]
async fn the_longest_times_are_no_reason_to_panic() {
    for time in [Duration::MAX, Duration::MAX / 2, Duration::from_secs(u64::from(u32::MAX))] {
        let (manager, log) = with_times(time);
        let running = run(&manager).await;
        manager.client().create(&map("a", "1")).await.unwrap();
        assert_eq!(manager.client().objects::<ConfigMap>().list(&ListQuery::all()).await.unwrap().len(), 1, "{time:?}");
        eventually("it is reconciled", || log.len() == 1).await;
        tokio::time::sleep(LONG).await;
        assert_eq!(log.len(), 1, "{time:?}");
        running.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_shortest_times_are_no_reason_to_panic() {
    let (manager, log) = with_times(Duration::ZERO);
    let running = run(&manager).await;
    manager.client().create(&map("a", "1")).await.unwrap();
    eventually("it is reconciled", || !log.is_empty()).await;
    let read = manager.client().objects::<ConfigMap>().list(&ListQuery::all()).await;
    assert!(read.is_ok_and(|maps| maps.len() == 1), "it has been seen, so there is nothing to wait for");
    running.stop().await.unwrap();
    let late = Manager::builder(client(&Embedded::empty())).cache_sync_timeout(Duration::ZERO).build();
    late.declare(kind::<ConfigMap>()).unwrap();
    let error = late.start(std::future::pending()).await.unwrap_err().to_string();
    assert!(error.contains("/api/v1/configmaps"), "{error}");
}
