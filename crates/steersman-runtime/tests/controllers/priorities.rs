//! The order of keys by priority.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use steersman_client::PostParams;
use steersman_runtime::owner::controller_reference;
use steersman_runtime::{Action, Context, ObjectKey, Reconciler, kind, reconcile_fn};
use tokio::time::sleep;

use crate::support::*;

/// Logs its keys, and takes a second for each.
fn slow(log: &Log<String>) -> impl Reconciler<ConfigMap> + use<> {
    let log = log.clone();
    reconcile_fn(move |_: Context<ConfigMap>, key: ObjectKey| {
        log.note(key.name());
        async {
            sleep(Duration::from_secs(1)).await;
            Ok(Action::done())
        }
    })
}

#[tokio::test(start_paused = true)]
async fn live_changes_come_before_the_initial_list() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    for number in 0..10 {
        maps.create(&format!("old-{number}")).await;
    }
    let log = Log::new();
    manager.controller(kind::<ConfigMap>().namespace("default")).complete(slow(&log)).unwrap();
    let running = run(&manager).await;
    eventually("it has begun", || log.len() == 1).await;
    maps.create("new").await;
    eventually("two more", || log.len() == 3).await;
    assert_eq!(log.all()[1], "new", "{:?}", log.all());
    // An initial object that changes overtakes the others.
    let waiting = (0..10).map(|number| format!("old-{number}")).rfind(|name| !log.all().contains(name)).unwrap();
    maps.set(&waiting, "2").await;
    eventually("one more", || log.len() == 4).await;
    assert_eq!(log.all()[3], waiting, "{:?}", log.all());
    eventually("all", || log.len() == 11).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn live_changes_come_before_the_initial_list_of_what_is_owned_and_watched() {
    let (manager, client) = manager();
    let secrets = client.namespaced::<Secret>("default");
    let accounts = client.namespaced::<ServiceAccount>("default");
    for number in 0..5 {
        let owner = Maps::new(&client).create(&format!("owner-{number}")).await;
        let mut owned = named(&format!("owned-{number}"));
        owned.owner_references = Some(vec![controller_reference(&owner, &()).unwrap()]);
        let owned = Secret { metadata: owned, ..Secret::default() };
        secrets.create(&PostParams::default(), &owned).await.unwrap();
        let watched = ServiceAccount { metadata: named(&format!("watched-{number}")), ..ServiceAccount::default() };
        accounts.create(&PostParams::default(), &watched).await.unwrap();
    }
    let log = Log::new();
    let maps = kind::<ConfigMap>().namespace("default").filter(|event| event.object().meta().name() == "new");
    let watched = kind::<ServiceAccount>().filter(|event| event.object().meta().name().starts_with("watched-"));
    manager
        .controller(maps)
        .owns(kind::<Secret>())
        .watches(watched, |account| vec![account.key()])
        .complete(slow(&log))
        .unwrap();
    let running = run(&manager).await;
    eventually("it has begun", || log.len() == 1).await;
    Maps::new(&client).create("new").await;
    eventually("two more", || log.len() == 3).await;
    assert_eq!(log.all()[1], "new", "{:?}", log.all());
    eventually("all", || log.len() == 11).await;
    let count = |prefix: &str| log.all().iter().filter(|name| name.starts_with(prefix)).count();
    assert_eq!((count("owner-"), count("watched-")), (5, 5), "{:?}", log.all());
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn resyncs_come_after_live_changes() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    for number in 0..5 {
        maps.create(&format!("old-{number}")).await;
    }
    let log = Log::new();
    let every = Duration::from_secs(60);
    manager.controller(kind::<ConfigMap>().namespace("default").resync(every)).complete(slow(&log)).unwrap();
    let running = run(&manager).await;
    eventually("the first round", || log.len() == 5).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(log.take().len(), 5);
    eventually("the resync has begun", || log.len() == 1).await;
    maps.create("new").await;
    eventually("one more", || log.len() == 2).await;
    assert_eq!(log.all()[1], "new", "{:?}", log.all());
    eventually("all are resynced", || log.len() == 6).await;
    running.stop().await.unwrap();
}
