//! Changes of owned objects reach their owners.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Secret};
use steersman_client::{Api, ApiResource, Client, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use steersman_runtime::owner::{set_controller_reference, set_owner_reference};
use steersman_runtime::{
    Action, Context, Kind, Manager, Object, ObjectKey, dynamic, dynamic_metadata, kind, metadata, reconcile_fn,
};
use steersman_testing::Embedded;

use crate::noting;
use crate::support::*;
use crate::support::{Fault, faulty_network};

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
    create_secret(&client, "ownerless", &[]).await;
    settle().await;
    assert_eq!(log.take(), [""; 0], "it has no owner");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_owner_is_reconciled_with_every_owner() {
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
    secrets(&client).update("s", &PostParams::default(), &secret).await.unwrap();
    settle().await;
    assert_eq!(sorted(log.take()), ["a", "b"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_reconciled_for_an_owned_object_that_was_deleted_unseen() {
    let server = Embedded::empty();
    let client = client(&server);
    let owner = Maps::new(&client).create("a").await;
    create_secret(&client, "s", &[&owner]).await;
    let (network, through) = faulty_network(&server);
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
    assert_eq!(log.take(), [""; 0], "no controller was running");
    network.mend();
    eventually("the owner hears of it", || log.all().contains(&"a".to_owned())).await;
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_owners_are_reconciled() {
    let (manager, client) = manager();
    let owner = client.cluster::<Namespace>().get("default").await.unwrap();
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<Namespace>, key: ObjectKey| {
        notes.note(key.as_str());
        async { Ok(Action::done()) }
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

/// A Secret that a Node controls. Nodes are cluster-scoped.
async fn create_secret_of_node(client: &Client) {
    let node: Node = serde_json::from_value(serde_json::json!({"metadata": {"name": "n"}})).unwrap();
    let node = client.cluster::<Node>().create(&PostParams::default(), &node).await.unwrap();
    let mut secret = Secret { metadata: named("s"), ..Secret::default() };
    set_controller_reference(&node, &mut secret).unwrap();
    secrets(client).create(&PostParams::default(), &secret).await.unwrap();
}

/// The keys that a controller of dynamic Nodes gets for a Secret that a Node owns.
async fn keys_of_nodes<K: Object>(manager: &Manager, client: &Client, nodes: Kind<K>) -> Vec<String> {
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<K>, key: ObjectKey| {
        notes.note(key.as_str());
        async { Ok(Action::done()) }
    });
    manager.controller(nodes).owns(kind::<Secret>()).complete(reconciler).unwrap();
    let running = run(manager).await;
    settle().await;
    create_secret_of_node(client).await;
    settle().await;
    running.stop().await.unwrap();
    let mut keys = sorted(log.take());
    keys.dedup();
    keys
}

#[tokio::test(start_paused = true)]
async fn the_scope_of_a_dynamic_owner_comes_from_discovery() {
    let nodes = ApiResource::erase::<Node>(&());
    let (first, client) = manager();
    assert_eq!(keys_of_nodes(&first, &client, dynamic(&nodes)).await, ["n"]);
    let (second, client) = manager();
    assert_eq!(keys_of_nodes(&second, &client, dynamic_metadata(&nodes)).await, ["n"]);
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_owner_in_a_namespace_is_reconciled() {
    let (manager, client) = manager();
    let owner = Maps::new(&client).create("a").await;
    let log = Log::new();
    let notes = log.clone();
    let reconciler = reconcile_fn(move |_: Context<DynamicObject>, key: ObjectKey| {
        notes.note(key.as_str());
        async { Ok(Action::done()) }
    });
    let maps = dynamic(&ApiResource::erase::<ConfigMap>(&()));
    manager.controller(maps.namespace("default")).owns(kind::<Secret>()).complete(reconciler).unwrap();
    let running = run(&manager).await;
    settle().await;
    log.take();
    create_secret(&client, "s", &[&owner]).await;
    settle().await;
    assert_eq!(log.take(), ["default/a"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_discovery_a_dynamic_owner_is_taken_to_be_in_a_namespace_unless_it_is_stated() {
    let nodes = ApiResource::erase::<Node>(&());
    let undiscovered = || {
        let server = Embedded::empty();
        let (network, through) = faulty_network(&server);
        for path in ["/api", "/apis", "/api/v1"] {
            network.fail_path(path, Fault::Status(403));
        }
        (Manager::new(through), network, client(&server), server)
    };
    let (logged, _guard) = traced();
    let (manager, _network, client, _server) = undiscovered();
    let keys = keys_of_nodes(&manager, &client, dynamic(&nodes)).await;
    assert!(keys.contains(&"default/n".to_owned()), "{keys:?}");
    let text = logged.text();
    let warning = text.lines().find(|line| line.contains("WARN") && line.contains("scope"));
    assert!(warning.is_some_and(|line| line.contains("Node") && line.contains("cluster_scoped")), "{text}");
    let (manager, network, client, _server) = undiscovered();
    assert_eq!(keys_of_nodes(&manager, &client, dynamic(&nodes).cluster_scoped()).await, ["n"]);
    assert!(!network.requests().iter().any(|request| request.contains(" /apis ")), "a statement needs no discovery");
}

#[tokio::test(start_paused = true)]
async fn discovery_that_answers_late_is_waited_for() {
    let server = Embedded::empty();
    let (network, through) = faulty_network(&server);
    for path in ["/api", "/apis", "/api/v1"] {
        network.fail_path(path, Fault::Status(503));
    }
    let mended = network.clone();
    tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        mended.mend();
    });
    let nodes = dynamic(&ApiResource::erase::<Node>(&()));
    assert_eq!(keys_of_nodes(&Manager::new(through), &client(&server), nodes).await, ["n"]);
}
