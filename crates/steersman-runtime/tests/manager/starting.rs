//! The order of starting.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_runtime::{Action, Context, Error, Manager, ObjectKey, ReconcileError, kind, reconcile_fn};
use steersman_testing::Embedded;

use crate::support::*;
use crate::support::{Fault, faulty_network};

#[tokio::test(start_paused = true)]
async fn runnables_and_controllers_start_when_the_caches_have_synced() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a").await;
    let (network, client) = faulty_network(&server);
    network.fail("configmaps", Fault::Refused);
    let manager = Manager::new(client);
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |ctx: Context<ConfigMap>, key: ObjectKey| {
        let notes = notes.clone();
        async move {
            notes.note(format!("controller: {}", ctx.object(&key).await?.is_some()));
            Ok(Action::done())
        }
    });
    manager.controller(kind::<ConfigMap>()).complete(reconciler).unwrap();
    let (notes, reads) = (log.clone(), manager.client().clone());
    let runnable = move |_| async move {
        notes.note(format!("runnable: {}", reads.get::<ConfigMap>(&key("a")).await.is_ok()));
        Ok::<_, ReconcileError>(())
    };
    manager.add("runnable", runnable).unwrap();
    let running = start(&manager);
    settle().await;
    assert_eq!((log.len(), manager.is_ready()), (0, false), "nothing runs before the caches have synced");
    network.mend();
    eventually("both have run", || log.len() == 2).await;
    let mut started = log.all();
    started.sort();
    assert_eq!(started, ["controller: true", "runnable: true"]);
    eventually("the manager is ready", || manager.is_ready()).await;
    running.stop().await.unwrap();
    assert!(!manager.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_manager_can_be_started_once() {
    let (manager, _) = manager();
    let running = run(&manager).await;
    let again = manager.start(std::future::ready(())).await.unwrap_err();
    assert!(matches!(again, Error::StartedTwice), "{again}");
    assert!(manager.is_ready(), "the first is not disturbed");
    running.stop().await.unwrap();
    let again = manager.start(std::future::ready(())).await.unwrap_err();
    assert!(matches!(again, Error::StartedTwice), "{again}");
}

#[tokio::test(start_paused = true)]
async fn controllers_and_runnables_are_added_while_it_runs() {
    let (manager, client) = manager();
    let running = run(&manager).await;
    Maps::new(&client).create("a").await;
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |ctx: Context<ConfigMap>, key: ObjectKey| {
        let notes = notes.clone();
        async move {
            notes.note(format!("{key}: {}", ctx.object(&key).await?.is_some()));
            Ok(Action::done())
        }
    });
    manager.controller(kind::<ConfigMap>()).complete(reconciler).unwrap();
    let notes = log.clone();
    let runnable = move |stop: steersman_runtime::StopSignal| async move {
        notes.note("runnable");
        stop.stopped().await;
        notes.note("runnable stopped");
        Ok::<_, ReconcileError>(())
    };
    manager.add("runnable", runnable).unwrap();
    eventually("both have run", || log.all().iter().any(|entry| entry == "default/a: true") && log.len() >= 2).await;
    assert!(log.all().contains(&"runnable".to_owned()));
    running.stop().await.unwrap();
    assert_eq!(log.all().last().unwrap(), "runnable stopped");
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_declared_while_it_runs() {
    let (manager, client) = manager();
    let running = run(&manager).await;
    Maps::new(&client).create("a").await;
    manager.declare(kind::<ConfigMap>()).unwrap();
    let maps = manager.client().objects::<ConfigMap>();
    eventually("its cache is filled", || manager.status().iter().any(|status| status.lists == 1)).await;
    settle().await;
    assert!(maps.get(&key("a")).await.is_ok());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nothing_can_be_added_after_the_end() {
    let (manager, _) = manager();
    run(&manager).await.stop().await.unwrap();
    let added = manager.add("late", |_| async { Ok::<_, ReconcileError>(()) });
    assert!(matches!(added, Err(Error::Stopped)), "{added:?}");
    let reconciler = reconcile_fn(|_: Context<Secret>, _| async { Ok(Action::done()) });
    let added = manager.controller(kind::<Secret>()).complete(reconciler);
    assert!(matches!(added, Err(Error::Stopped)), "{added:?}");
    let declared = manager.declare(kind::<ConfigMap>());
    assert!(matches!(declared, Err(Error::Stopped)), "{declared:?}");
}

#[tokio::test(start_paused = true)]
async fn names_of_controllers_are_unique_in_a_manager_and_not_in_a_process() {
    let (manager, _) = manager();
    let done = || reconcile_fn(|_: Context<ConfigMap>, _| async { Ok(Action::done()) });
    let first = manager.controller(kind::<ConfigMap>()).complete(done()).unwrap();
    assert_eq!(first.name(), "configmap");
    let second = manager.controller(kind::<ConfigMap>().labels("app=web")).complete(done()).unwrap_err();
    assert!(second.to_string().contains("\"configmap\"") && second.to_string().contains("named("), "{second}");
    manager.controller(kind::<ConfigMap>()).named("other").complete(done()).unwrap();
    let (another, _) = crate::support::manager();
    another.controller(kind::<ConfigMap>()).complete(done()).unwrap();
}
