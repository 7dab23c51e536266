//! Changes of owned objects reach their owners.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use steersman_client::{Api, Client, DeleteParams, Patch, PatchParams, PostParams};
use steersman_runtime::{
    Action, Context, Failure, Manager, ObjectKey, kind, metadata, reconcile_fn, set_controller_reference,
    set_owner_reference,
};
use steersman_testing::Embedded;

use crate::noting;
use crate::support::network::{Fault, Network};
use crate::support::*;

/// Creates a Secret that belongs to these: the first controls it.
async fn create_secret(client: &Client, name: &str, owners: &[&ConfigMap]) {
    let mut secret = Secret { metadata: named(name), ..Secret::default() };
    for (index, owner) in owners.iter().enumerate() {
        if index == 0 {
            set_controller_reference(*owner, &mut secret).unwrap();
        } else {
            set_owner_reference(*owner, &mut secret).unwrap();
        }
    }
    secrets(client).create(&PostParams::default(), &secret).await.unwrap();
}

fn secrets(client: &Client) -> Api<Secret> {
    client.namespaced("default")
}

async fn touch(client: &Client, name: &str) {
    let patch = Patch::Merge(serde_json::json!({"metadata": {"annotations": {"touched": "yes"}}}));
    secrets(client).patch(name, &PatchParams::default(), &patch).await.unwrap();
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn a_change_of_an_owned_object_has_the_owner_that_controls_it_reconciled() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    let (a, b) = (maps.create("a").await, maps.create("b").await);
    let log = Log::new();
    manager.controller(kind::<ConfigMap>()).owns(kind::<Secret>()).complete(noting(&log)).unwrap();
    let running = run(&manager).await;
    settle().await;
    log.take();
    create_secret(&client, "s", &[&a, &b]).await;
    settle().await;
    assert_eq!(log.take(), ["a"], "created");
    touch(&client, "s").await;
    settle().await;
    assert_eq!(log.take(), ["a"], "changed");
    secrets(&client).delete("s", &DeleteParams::default()).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["a"], "deleted");
    create_secret(&client, "nobodys", &[]).await;
    settle().await;
    assert_eq!(log.take(), [""; 0], "it belongs to nobody");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_owner_is_told_where_that_is_asked_for() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    let (a, b) = (maps.create("a").await, maps.create("b").await);
    let log = Log::new();
    manager.controller(kind::<ConfigMap>()).owns(kind::<Secret>().every_owner()).complete(noting(&log)).unwrap();
    let running = run(&manager).await;
    settle().await;
    log.take();
    create_secret(&client, "s", &[&a, &b]).await;
    settle().await;
    assert_eq!(sorted(log.take()), ["a", "b"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_object_that_changes_hands_has_both_owners_reconciled() {
    let (manager, client) = manager();
    let maps = Maps::new(&client);
    let (a, b) = (maps.create("a").await, maps.create("b").await);
    create_secret(&client, "s", &[&a]).await;
    let log = Log::new();
    manager.controller(kind::<ConfigMap>()).owns(metadata::<Secret>()).complete(noting(&log)).unwrap();
    let running = run(&manager).await;
    settle().await;
    log.take();
    let mut secret = secrets(&client).get("s").await.unwrap();
    secret.metadata.owner_references = None;
    set_controller_reference(&b, &mut secret).unwrap();
    secrets(&client).replace("s", &PostParams::default(), &secret).await.unwrap();
    settle().await;
    assert_eq!(sorted(log.take()), ["a", "b"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_told_of_an_owned_object_that_was_deleted_unseen() {
    let server = Embedded::start();
    let client = client(&server);
    let owner = Maps::new(&client).create("a").await;
    create_secret(&client, "s", &[&owner]).await;
    let (network, through) = Network::new(&server);
    let manager = Manager::new(through);
    let log = Log::new();
    manager.controller(kind::<ConfigMap>()).owns(kind::<Secret>()).complete(noting(&log)).unwrap();
    let running = run(&manager).await;
    settle().await;
    log.take();
    network.fail("", Fault::Refused);
    network.cut();
    settle().await;
    secrets(&client).delete("s", &DeleteParams::default()).await.unwrap();
    Maps::new(&client).create("later").await;
    server.compact();
    settle().await;
    assert_eq!(log.take(), [""; 0], "nobody could see it");
    network.mend();
    eventually("the owner hears of it", || log.all().contains(&"a".to_owned())).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn owners_in_no_namespace_are_told() {
    let (manager, client) = manager();
    let owner = client.cluster::<Namespace>().get("default").await.unwrap();
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<Namespace>, key: ObjectKey| {
        notes.note(key.as_str());
        async { Ok::<_, Failure>(Action::done()) }
    });
    manager.controller(kind::<Namespace>()).owns(kind::<Secret>()).complete(reconciler).unwrap();
    let running = run(&manager).await;
    settle().await;
    log.take();
    let mut secret = Secret { metadata: named("s"), ..Secret::default() };
    set_controller_reference(&owner, &mut secret).unwrap();
    secrets(&client).create(&PostParams::default(), &secret).await.unwrap();
    settle().await;
    assert_eq!(log.take(), ["default"], "the key has no namespace");
    running.stop().await.unwrap();
}
