//! The common parts of the tests of the cached client: a running manager, and a network to the
//! embedded server on which watches are late.
//!
//! All of it uses paused time: the tests have `start_paused = true`.

#![allow(dead_code, reason = "not every test binary uses all of it")]

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, json};
use steersman_client::{Client, ObjectMeta, PostParams};
use steersman_runtime::{Cached, CachedClient, Error, ListQuery, Manager, ObjectKey, OperationResult, ReconcileError};
use steersman_testing::{Embedded, FaultyNetwork};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

#[allow(unused_imports, reason = "not every test binary uses all of it")]
pub(crate) use steersman_testing::eventually;

/// A manager that runs until this is dropped.
pub(crate) struct Running(JoinHandle<Result<(), Error>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts a manager, and waits until its caches have synced.
pub(crate) async fn start(manager: &Manager) -> Running {
    let (ready, is_ready) = oneshot::channel();
    let part = |_| async move {
        let _ = ready.send(());
        Ok::<_, ReconcileError>(())
    };
    manager.add("the test", part).unwrap();
    let started = manager.clone();
    let running = tokio::spawn(async move { started.start(std::future::pending()).await });
    is_ready.await.expect("the caches are filled");
    Running(running)
}

/// A client of a running manager, on a network to an embedded server.
pub(crate) struct World {
    pub(crate) network: FaultyNetwork,
    pub(crate) client: CachedClient,
    /// Another client.
    pub(crate) other: Client,
    pub(crate) manager: Manager,
    _server: Embedded,
    _running: Running,
}

impl World {
    /// With these declarations, and the default settings.
    pub(crate) async fn new<T>(declare: impl FnOnce(&Manager) -> T) -> Self {
        Self::with(Some(Duration::from_secs(10)), declare).await
    }

    /// With another limit for reads.
    pub(crate) async fn with<T>(limit: Option<Duration>, declare: impl FnOnce(&Manager) -> T) -> Self {
        let server = Embedded::empty();
        let other = server.client();
        for name in ["a", "b"] {
            let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
            let namespace = Namespace { metadata, ..Namespace::default() };
            other.cluster::<Namespace>().create(&PostParams::default(), &namespace).await.unwrap();
        }
        let network = FaultyNetwork::new(&server);
        let manager = Manager::builder(network.client()).read_your_writes(limit).build();
        declare(&manager);
        let running = start(&manager).await;
        network.take_requests();
        Self { network, client: manager.client().clone(), other, manager, _server: server, _running: running }
    }

    /// The requests since the last call, without reads.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.network.take_requests().into_iter().filter(|request| !request.starts_with("GET ")).collect()
    }
}

pub(crate) fn key(text: &str) -> ObjectKey {
    text.parse().unwrap()
}

pub(crate) fn meta(key: &str) -> ObjectMeta {
    let key: ObjectKey = key.parse().unwrap();
    ObjectMeta {
        namespace: key.namespace().map(ToOwned::to_owned),
        name: Some(key.name().to_owned()),
        ..ObjectMeta::default()
    }
}

pub(crate) fn labelled(key: &str, label: &str) -> ConfigMap {
    let mut map = map(key, "");
    let (name, value) = label.split_once('=').unwrap();
    map.metadata.labels = Some([(name.to_owned(), value.to_owned())].into());
    map
}

pub(crate) fn map(key: &str, value: &str) -> ConfigMap {
    let data = Some([("value".to_owned(), value.to_owned())].into());
    ConfigMap { metadata: meta(key), data, ..ConfigMap::default() }
}

pub(crate) fn set_value(value: &str) -> Value {
    json!({"data": {"value": value}})
}

pub(crate) fn value(object: &Cached<ConfigMap>) -> String {
    object.get().unwrap().data.as_ref().and_then(|data| data.get("value")).cloned().unwrap_or_default()
}

/// The names of objects, in order.
pub(crate) fn names<'a, K: 'a>(objects: impl IntoIterator<Item = &'a Cached<K>>) -> Vec<String> {
    let mut names: Vec<_> = objects.into_iter().map(|object| object.meta().name().to_owned()).collect();
    names.sort();
    names
}

/// Lets all tasks run until they wait, and late watches arrive.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// Reads a ConfigMap from the cache all the time, without waiting for writes.
pub(crate) fn looks_for_any(client: &CachedClient) -> (watch::Receiver<bool>, impl Drop + use<>) {
    let (seen, was_seen) = watch::channel(false);
    let maps = client.stale_ok().objects::<ConfigMap>();
    let task = tokio::spawn(async move {
        while maps.list(&ListQuery::all()).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        seen.send_replace(true);
        Ok(())
    });
    (was_seen, Running(task))
}

/// A Deployment with only its required fields.
pub(crate) fn deployment(namespaced: &str) -> Deployment {
    let (namespace, name) = namespaced.split_once('/').unwrap();
    let deployment = json!({"metadata": {"namespace": namespace, "name": name}, "spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    serde_json::from_value(deployment).unwrap()
}

/// Writes the defaults of the server in another form, or leaves them out.
pub(crate) fn say_otherwise(deployment: &mut Deployment) {
    let spec = deployment.spec.as_mut().unwrap();
    spec.paused = Some(false);
    spec.min_ready_seconds = Some(0);
    let pod = spec.template.spec.as_mut().unwrap();
    pod.host_network = Some(false);
    pod.node_name = Some(String::new());
    pod.tolerations = Some(Vec::new());
    let container = &mut pod.containers[0];
    let quantities = [("cpu", "1000m"), ("memory", "1024Mi")];
    let limits = quantities.map(|(name, quantity)| (name.to_owned(), Quantity(quantity.to_owned())));
    container.resources.get_or_insert_default().limits = Some(limits.into());
    container.resources.get_or_insert_default().claims = Some(Vec::new());
    container.stdin = Some(false);
}

/// A second call with an equivalent object writes nothing.
pub(crate) async fn is_written_once_in_whatever_form(client: &CachedClient, namespaced: &str) {
    let (created, result) = client.create_or_update(deployment(namespaced), say_otherwise).await.unwrap();
    assert_eq!(result, OperationResult::Created);
    let limits = created.spec.unwrap().template.spec.unwrap().containers[0].resources.clone().unwrap().limits.unwrap();
    assert_eq!((limits["cpu"].0.as_str(), limits["memory"].0.as_str()), ("1", "1Gi"), "the server has its own way");
    let (_, result) = client.create_or_update(deployment(namespaced), say_otherwise).await.unwrap();
    assert_eq!(result, OperationResult::Unchanged);
    let (_, result) = client.create_or_patch(deployment(namespaced), say_otherwise).await.unwrap();
    assert_eq!(result, OperationResult::Unchanged);
    let pause = |deployment: &mut Deployment| deployment.spec.as_mut().unwrap().paused = Some(true);
    let (paused, result) = client.create_or_patch(deployment(namespaced), pause).await.unwrap();
    assert_eq!((paused.spec.unwrap().paused, result), (Some(true), OperationResult::Updated));
    let (resumed, result) = client.create_or_patch(deployment(namespaced), say_otherwise).await.unwrap();
    assert_eq!((resumed.spec.unwrap().paused, result), (None, OperationResult::Updated));
}
