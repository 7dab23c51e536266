//! A controller that knows nothing of us, made with kube-rs, lives on the embedded server as on a
//! real one: nothing that is created, changed or deleted escapes it, also while it is away and also
//! when the history is compacted in between.
//!
//! Time is paused: what waits for the clock does not wait, and what would wait for ever fails at
//! once.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, StreamBody};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube_client::client::Body;
use kube_client::{Api, Client, Error, Resource, ResourceExt};
use kube_runtime::controller::{self, Action, Controller};
use kube_runtime::finalizer::{Event, finalizer};
use kube_runtime::watcher::{self, InitialListStrategy};
use serde_json::json;
use steersman_apiserver::ApiServer;
use steersman_testing::Embedded;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tower::Service;

/// How long something that must happen may take, on the paused clock.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
const FINALIZER: &str = "example.com/cleanup";

/// The way to the server, which can be cut: watches end then, and requests wait until it is whole
/// again.
#[derive(Clone)]
struct Road {
    server: ApiServer,
    open: watch::Sender<bool>,
    /// How many lists of ConfigMaps went along, in whatever form.
    lists: Arc<AtomicUsize>,
}

impl Road {
    fn to(server: &Embedded) -> Self {
        Self { server: server.server().clone(), open: watch::Sender::new(true), lists: Arc::default() }
    }

    fn set_open(&self, open: bool) {
        self.open.send_replace(open);
    }

    fn lists(&self) -> usize {
        self.lists.load(Ordering::Relaxed)
    }
}

impl Service<Request<Body>> for Road {
    type Response = Response<steersman_apiserver::ServerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut server, mut open, lists) = (self.server.clone(), self.open.subscribe(), Arc::clone(&self.lists));
        Box::pin(async move {
            // The road does not go away before its clients.
            let _ = open.wait_for(|open| *open).await;
            let query = request.uri().query().unwrap_or_default();
            let watches = query.contains("watch=true");
            let collection = request.method() == Method::GET && request.uri().path().ends_with("/configmaps");
            if collection && (!watches || query.contains("sendInitialEvents=true")) {
                lists.fetch_add(1, Ordering::Relaxed);
            }
            let answer = server.call(request).await?;
            if !watches {
                return Ok(answer);
            }
            Ok(answer.map(|body| {
                let cut = async move {
                    let _ = open.wait_for(|open| !*open).await;
                };
                let frames = stream::unfold(body, |mut body| async { Some((body.frame().await?, body)) });
                StreamBody::new(frames.take_until(Box::pin(cut))).boxed_unsync()
            }))
        })
    }
}

/// What a reconcile did.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Did {
    /// The Secret of that name holds that value.
    Applied(String, String),
    /// The ConfigMap of that name may go.
    Cleaned(String),
}

struct Tools {
    maps: Api<ConfigMap>,
    secrets: Api<Secret>,
    did: mpsc::UnboundedSender<Did>,
}

#[derive(Debug)]
struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// Keeps a Secret with the value of each ConfigMap.
async fn reconcile(map: Arc<ConfigMap>, context: Arc<Tools>) -> Result<Action, Failed> {
    let done = finalizer(&context.maps, FINALIZER, map, async |event| match event {
        Event::Apply(map) => apply(&map, &context).await.map_err(|error| Failed(error.to_string())),
        Event::Cleanup(map) => {
            let _ = context.did.send(Did::Cleaned(map.name_any()));
            Ok(Action::await_change())
        }
    });
    done.await.map_err(|error| Failed(error.to_string()))
}

async fn apply(map: &ConfigMap, context: &Tools) -> Result<Action, Error> {
    let (name, value) = (map.name_any(), value(map));
    let wanted = Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: map.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..Default::default()
        },
        string_data: Some(BTreeMap::from([("key".to_owned(), value.clone())])),
        ..Default::default()
    };
    match context.secrets.get_opt(&name).await? {
        None => drop(context.secrets.create(&PostParams::default(), &wanted).await?),
        Some(_) => drop(context.secrets.patch(&name, &PatchParams::default(), &Patch::Merge(&wanted)).await?),
    }
    let _ = context.did.send(Did::Applied(name, value));
    Ok(Action::await_change())
}

fn value(map: &ConfigMap) -> String {
    map.data.as_ref().and_then(|data| data.get("key")).cloned().unwrap_or_default()
}

/// A controller that runs until it is stopped.
struct Running {
    did: mpsc::UnboundedReceiver<Did>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(client: &Client, config: watcher::Config) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (sender, did) = mpsc::unbounded_channel();
        let (maps, secrets) = (Api::default_namespaced(client.clone()), Api::default_namespaced(client.clone()));
        let context = Arc::new(Tools { maps: maps.clone(), secrets: secrets.clone(), did: sender });
        let controller = Controller::new(maps, config.clone()).owns(secrets, config).graceful_shutdown_on(async move {
            let _ = stopped.await;
        });
        // While kube-rs lists again it already reconciles, from a cache that it replaces only at
        // the end of the list, and never again what it has done too early (with any server). On the
        // paused clock this is after the list.
        let controller = controller.with_config(controller::Config::default().debounce(Duration::from_millis(1)));
        // What fails is tried again; a test that waits for it sees whether it came to something.
        let run = controller.run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), context);
        Self { did, stop, task: tokio::spawn(run.for_each(|_| async {})) }
    }

    /// Waits until each of these has been done, in any order.
    async fn has<const N: usize>(&mut self, wanted: [Did; N]) {
        let mut missing = wanted.to_vec();
        while !missing.is_empty() {
            let did = tokio::time::timeout(PATIENCE, self.did.recv()).await;
            let did =
                did.unwrap_or_else(|_| panic!("these did not happen: {missing:?}")).expect("the controller ended");
            missing.retain(|wanted| *wanted != did);
        }
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }
}

fn applied(name: &str, value: &str) -> Did {
    Did::Applied(name.to_owned(), value.to_owned())
}

fn cleaned(name: &str) -> Did {
    Did::Cleaned(name.to_owned())
}

/// A user of the objects that the controller manages.
struct User {
    maps: Api<ConfigMap>,
    secrets: Api<Secret>,
}

impl User {
    fn of(server: &Embedded) -> Self {
        let client = Client::from(server.user("jane", ["developers"]));
        Self { maps: Api::default_namespaced(client.clone()), secrets: Api::default_namespaced(client) }
    }

    async fn create(&self, name: &str, value: &str) {
        let map = ConfigMap {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
            data: Some([("key".to_owned(), value.to_owned())].into()),
            ..Default::default()
        };
        self.maps.create(&PostParams::default(), &map).await.unwrap();
    }

    async fn change(&self, name: &str, value: &str) {
        let patch = Patch::Merge(json!({"data": {"key": value}}));
        self.maps.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn delete(&self, name: &str) {
        self.maps.delete(name, &DeleteParams::default()).await.unwrap();
    }

    async fn secret(&self, name: &str) -> Option<String> {
        let data = self.secrets.get_opt(name).await.unwrap()?.data.unwrap_or_default();
        data.get("key").map(|value| String::from_utf8(value.0.clone()).unwrap())
    }

    /// Waits until the ConfigMap is gone.
    async fn gone(&self, name: &str) {
        let params = kube_client::api::WatchParams::default().fields(&format!("metadata.name={name}"));
        let mut events = self.maps.watch(&params, "0").await.unwrap().boxed();
        while self.maps.get_opt(name).await.unwrap().is_some() {
            let next = tokio::time::timeout(PATIENCE, events.try_next()).await;
            next.unwrap_or_else(|_| panic!("{name} stays")).unwrap();
        }
    }
}

/// The ways in which kube-rs can learn what there is.
fn configs() -> [watcher::Config; 3] {
    let streaming = watcher::Config::default().streaming_lists();
    assert!(matches!(streaming.initial_list_strategy, InitialListStrategy::StreamingList));
    [watcher::Config::default().page_size(2), watcher::Config::default().any_semantic(), streaming]
}

#[tokio::test(start_paused = true)]
async fn it_follows_an_object_through_its_life() {
    for config in configs() {
        let server = Embedded::start();
        let user = User::of(&server);
        let mut controller = Running::start(&server.kube_client(), config);
        user.create("a", "1").await;
        controller.has([applied("a", "1")]).await;
        assert_eq!(user.secret("a").await.as_deref(), Some("1"));
        user.change("a", "2").await;
        controller.has([applied("a", "2")]).await;
        assert_eq!(user.secret("a").await.as_deref(), Some("2"));
        // The controller restores what it owns after a change by another client.
        user.secrets.delete("a", &DeleteParams::default()).await.unwrap();
        controller.has([applied("a", "2")]).await;
        assert_eq!(user.secret("a").await.as_deref(), Some("2"));

        user.delete("a").await;
        controller.has([cleaned("a")]).await;
        user.gone("a").await;
        assert_eq!(user.secret("a").await, None, "it goes with its owner");
        controller.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_catches_up_when_it_comes_back() {
    for config in configs() {
        let server = Embedded::start();
        let user = User::of(&server);
        let mut controller = Running::start(&server.kube_client(), config.clone());
        for name in ["kept", "changed", "deleted"] {
            user.create(name, "1").await;
        }
        controller.has([applied("kept", "1"), applied("changed", "1"), applied("deleted", "1")]).await;
        controller.stop().await;

        user.create("new", "1").await;
        user.change("changed", "2").await;
        user.delete("deleted").await;
        assert!(
            user.maps.get("deleted").await.unwrap().metadata.deletion_timestamp.is_some(),
            "it waits for the cleanup"
        );
        let mut controller = Running::start(&server.kube_client(), config);
        let expected = [applied("kept", "1"), applied("changed", "2"), applied("new", "1"), cleaned("deleted")];
        controller.has(expected).await;
        user.gone("deleted").await;
        controller.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_loses_nothing_when_the_past_is_forgotten_while_it_is_cut_off() {
    for (config, forgets) in configs().into_iter().flat_map(|config| [(config.clone(), false), (config, true)]) {
        let server = Embedded::start();
        let user = User::of(&server);
        let road = Road::to(&server);
        let mut controller = Running::start(&Client::new(road.clone(), "default"), config);
        for name in ["kept", "changed", "deleted"] {
            user.create(name, "1").await;
        }
        controller.has([applied("kept", "1"), applied("changed", "1"), applied("deleted", "1")]).await;
        let lists = road.lists();

        road.set_open(false);
        user.create("new", "1").await;
        user.change("changed", "2").await;
        user.delete("deleted").await;
        if forgets {
            server.compact();
        }
        road.set_open(true);
        controller.has([applied("changed", "2"), applied("new", "1"), cleaned("deleted")]).await;
        user.gone("deleted").await;
        assert_eq!(road.lists() > lists, forgets, "it lists again only when it must");
        assert_eq!(user.secret("changed").await.as_deref(), Some("2"));

        // And it goes on from there.
        user.change("kept", "2").await;
        controller.has([applied("kept", "2")]).await;
        controller.stop().await;
    }
}
