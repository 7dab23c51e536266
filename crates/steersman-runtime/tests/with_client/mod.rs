//! The common parts of the tests of the cached client: a running manager, and a network to the
//! embedded server on which watches are late.
//!
//! All of it uses paused time: the tests have `start_paused = true`.

#![allow(dead_code, reason = "not every test binary uses all of it")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube_client::client::Body;
use serde_json::{Value, json};
use steersman_client::{Client, Config, ObjectMeta, PostParams};
use steersman_runtime::{Cached, CachedClient, Error, ListQuery, Manager, ObjectKey, OperationResult, ReconcileError};
use steersman_testing::Embedded;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tower::{BoxError, ServiceExt};

#[allow(unused_imports, reason = "not every test binary uses all of it")]
pub(crate) use steersman_testing::eventually;

type ServerBody = UnsyncBoxBody<Bytes, Infallible>;
type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// The network to a server. Requests are described as
/// `GET /api/v1/pods?watch=true… application/json`, with their `Accept` header.
#[derive(Clone)]
pub(crate) struct Network(Arc<Inner>);

struct Inner {
    /// Watches with one of these texts in their description deliver nothing.
    held: watch::Sender<Vec<String>>,
    /// The delay of every frame of a watch.
    delay: Mutex<Duration>,
    requests: Mutex<Vec<String>>,
    /// Requests with the first text in their description get the second as the response.
    answers: Mutex<Vec<(String, Value)>>,
}

impl Network {
    /// A client of the server through this network.
    pub(crate) fn new(server: &Embedded) -> (Self, Client) {
        let (held, delay) = (watch::Sender::new(Vec::new()), Mutex::default());
        let inner = Inner { held, delay, requests: Mutex::default(), answers: Mutex::default() };
        let network = Self(Arc::new(inner));
        let (server, way) = (server.server().clone(), network.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, way) = (server.clone(), way.clone());
            async move { way.send(server, request).await }
        });
        let config = Config::new(http::Uri::from_static("http://server.test"));
        (network, Client::builder(config).build_over(service).unwrap())
    }

    pub(crate) fn delay(&self, delay: Duration) {
        *locked(&self.0.delay) = delay;
    }

    /// Watches with this text in their description deliver nothing until they are released.
    pub(crate) fn hold(&self, part: &str) {
        self.0.held.send_modify(|held| held.push(part.to_owned()));
    }

    pub(crate) fn release(&self) {
        self.0.held.send_replace(Vec::new());
    }

    /// From now on, answers requests with this text in their description in place of the server.
    pub(crate) fn answer(&self, part: &str, answer: Value) {
        locked(&self.0.answers).push((part.to_owned(), answer));
    }

    /// The requests since the last call, without reads.
    pub(crate) fn writes(&self) -> Vec<String> {
        let requests = std::mem::take(&mut *locked(&self.0.requests));
        requests.into_iter().filter(|request| !request.starts_with("GET ")).collect()
    }

    async fn send(
        self,
        server: impl tower::Service<Request<Body>, Response = Response<ServerBody>, Error = Infallible>,
        request: Request<Body>,
    ) -> Result<Answer, BoxError> {
        let accept = request.headers().get(http::header::ACCEPT).and_then(|accept| accept.to_str().ok());
        let uri = request.uri();
        let address = uri.path_and_query().map_or(uri.path(), |path| path.as_str());
        let description = format!("{} {address} {}", request.method(), accept.unwrap_or_default());
        locked(&self.0.requests).push(description.clone());
        let answer = locked(&self.0.answers).iter().find(|(part, _)| description.contains(part)).cloned();
        if let Some((_, answer)) = answer {
            let body = Full::from(answer.to_string()).map_err(|never: Infallible| match never {}).boxed_unsync();
            return Ok(Response::builder().header("content-type", "application/json").body(body)?);
        }
        let answer = server.oneshot(request).await.unwrap_or_else(|never| match never {});
        if !description.contains("watch=true") {
            return Ok(answer.map(|body| body.map_err(|never| match never {}).boxed_unsync()));
        }
        Ok(answer.map(|body| self.late(body, description)))
    }

    /// Delays every frame by the delay of the network. The delay of one frame does not add to that
    /// of the next.
    fn late(self, body: ServerBody, description: String) -> UnsyncBoxBody<Bytes, BoxError> {
        let (sender, frames) = mpsc::unbounded_channel();
        let mut body = BodyStream::new(body);
        tokio::spawn(async move {
            loop {
                let frame = tokio::select! {
                    frame = body.next() => frame,
                    () = sender.closed() => return,
                };
                let Some(frame) = frame else { return };
                let _ = sender.send((Instant::now(), frame));
            }
        });
        let frames = futures::stream::unfold((frames, self, description), |(mut frames, network, description)| async {
            let (since, frame) = frames.recv().await?;
            let delay = *locked(&network.0.delay);
            sleep_until(since + delay).await;
            let mut held = network.0.held.subscribe();
            let free = |held: &Vec<String>| !held.iter().any(|part| description.contains(part));
            held.wait_for(free).await.map(drop).ok()?;
            drop(held);
            let frame: Result<_, BoxError> = frame.map_err(Into::into);
            Some((frame, (frames, network, description)))
        });
        StreamBody::new(frames).boxed_unsync()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    pub(crate) network: Network,
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
        let (network, client) = Network::new(&server);
        let manager = Manager::builder(client).read_your_writes(limit).build();
        declare(&manager);
        let running = start(&manager).await;
        network.writes();
        Self { network, client: manager.client().clone(), other, manager, _server: server, _running: running }
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
