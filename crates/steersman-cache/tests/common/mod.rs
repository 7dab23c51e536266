//! Helpers of the informer tests: a server whose connections can fail, a scripted watch, and a
//! handler that records events.
//!
//! They need paused time: `start_paused = true` at the tests.

#![allow(dead_code, reason = "not every test binary uses all of it")]

pub(crate) mod script;

use std::collections::BTreeMap;
use std::future::ready;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use steersman_cache::{
    Cached, Event, EventHandler, HandlerHandle, Informer, InformerOptions, Object, SharedInformerFactory, StorageMode,
    StorageOptions, handler,
};
use steersman_client::{Api, Client, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use steersman_testing::eventually_within;
pub(crate) use steersman_testing::{Embedded, Fault, FaultyNetwork, Log};

/// Longer than any wait of a test: paused time stands still while a task can run.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

/// Options with this storage mode.
pub(crate) fn stored<K>(mode: StorageMode) -> StorageOptions<K> {
    StorageOptions { mode, ..StorageOptions::default() }
}

pub(crate) fn client(server: &Embedded) -> Client {
    server.client()
}

/// A network that fails on command, and a client through it.
pub(crate) fn faulty_network(server: &Embedded) -> (FaultyNetwork, Client) {
    let network = FaultyNetwork::new(server);
    let client = network.client();
    (network, client)
}

/// A factory and its client.
pub(crate) fn factory(server: &Embedded) -> (SharedInformerFactory, Client) {
    let client = client(server);
    (SharedInformerFactory::new(client.clone()), client)
}

/// An informer of all ConfigMaps that has synced, its factory, and a client.
pub(crate) async fn maps_informer(server: &Embedded) -> (Informer<ConfigMap>, SharedInformerFactory, Client) {
    let (factory, client) = factory(server);
    let informer = factory.informer::<ConfigMap>(InformerOptions::all()).unwrap();
    factory.start().unwrap();
    factory.wait_for_cache_sync(LONG).await.unwrap();
    (informer, factory, client)
}

pub(crate) fn map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("value".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

/// Writes the ConfigMaps of one namespace.
pub(crate) struct Maps(pub(crate) Api<ConfigMap>);

impl Maps {
    pub(crate) fn new(client: &Client) -> Self {
        Self::of(client, "default")
    }

    pub(crate) fn of(client: &Client, namespace: &str) -> Self {
        Self(client.namespaced(namespace))
    }

    /// Creates a ConfigMap. Returns its version.
    pub(crate) async fn create(&self, name: &str, value: &str) -> String {
        version(&self.0.create(&PostParams::default(), &map(name, value)).await.unwrap())
    }

    /// Changes the value of a ConfigMap. Returns its version.
    pub(crate) async fn set(&self, name: &str, value: &str) -> String {
        self.patch(name, serde_json::json!({"data": {"value": value}})).await
    }

    pub(crate) async fn label(&self, name: &str, value: Option<&str>) -> String {
        self.patch(name, serde_json::json!({"metadata": {"labels": {"app": value}}})).await
    }

    pub(crate) async fn patch(&self, name: &str, patch: serde_json::Value) -> String {
        version(&self.0.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap())
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.0.delete(name, &DeleteParams::default()).await.unwrap();
    }
}

pub(crate) async fn create_namespace(client: &Client, name: &str) {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    client.cluster::<Namespace>().create(&PostParams::default(), &namespace).await.unwrap();
}

pub(crate) fn version(map: &ConfigMap) -> String {
    map.metadata.resource_version.clone().unwrap()
}

pub(crate) fn value(object: &Cached<ConfigMap>) -> String {
    object.get().unwrap().data.as_ref().and_then(|data| data.get("value")).cloned().unwrap_or_default()
}

/// The names of objects, sorted.
pub(crate) fn names<'a, K: 'a>(objects: impl IntoIterator<Item = &'a Cached<K>>) -> Vec<String> {
    let mut names: Vec<_> = objects.into_iter().map(|object| object.meta().name().to_owned()).collect();
    names.sort();
    names
}

/// Waits until a condition holds. Independent of the machine's speed: paused time advances only
/// when no task can run.
pub(crate) async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    eventually_within(Duration::from_secs(1_000), what, || ready(is_true())).await;
}

/// Waits for another thread while paused time stands still: it would advance faster than that
/// thread runs.
pub(crate) async fn until_in_real_time(what: &str, is_true: impl Fn() -> bool) {
    let started = std::time::Instant::now();
    while !is_true() {
        assert!(started.elapsed() < Duration::from_secs(60), "this did not happen within a minute: {what}");
        tokio::task::yield_now().await;
    }
}

/// Lets every task run that does not wait for time.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// An event as text: `add a`, `add a initial`, `update a`, `again a`, `delete a`, `delete a
/// unknown`.
pub(crate) fn describe<K>(event: &Event<K>) -> String {
    let name = event.object().meta().name();
    match event {
        Event::Add { initial, .. } => format!("add {name}{}", if *initial { " initial" } else { "" }),
        Event::Update { old, new } if old.is_same_state(new) => format!("again {name}"),
        Event::Update { .. } => format!("update {name}"),
        Event::Delete { final_state_unknown, .. } => {
            format!("delete {name}{}", if *final_state_unknown { " unknown" } else { "" })
        }
    }
}

/// A handler that records events as text.
pub(crate) fn recording<K: 'static>(log: &Log<String>) -> impl EventHandler<K> + use<K> {
    let log = log.clone();
    handler(move |event: &Event<K>| log.push(describe(event)))
}

/// Adds a handler that records events as text.
pub(crate) fn listen<K: Object>(informer: &Informer<K>) -> (Log<String>, HandlerHandle) {
    let log = Log::new();
    let handle = informer.add_event_handler(recording(&log)).unwrap();
    (log, handle)
}
