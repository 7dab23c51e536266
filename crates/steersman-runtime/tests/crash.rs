//! A manager that is killed at each of its requests in turn, before the request is sent and after
//! the server has handled it, and then started again. The end state is always the same.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube_client::client::Body;
use steersman_client::{Client, Config, DeleteParams, ListParams, ObjectMeta, Patch, PostParams};
use steersman_runtime::finalizer::{Finalizer, FinalizerState};
use steersman_runtime::owner::set_controller_reference;
use steersman_runtime::{Action, Cached, Context, ListQuery, Manager, ObjectKey, ReconcileError, Reconciler, kind};
use steersman_testing::{Embedded, eventually_within};
use steersman_wire::LabelSelector;
use tokio::sync::Notify;
use tower::{BoxError, ServiceExt};

use support::{LONG, client, key, map, settle, start};

const PARENTS: [&str; 2] = ["a", "b"];
const CHILDREN: usize = 3;

/// Creates three Secrets for each parent, and a record of it in another namespace, which garbage
/// collection does not reach.
struct Family {
    finalizer: Finalizer<ConfigMap>,
}

impl Family {
    fn new() -> Self {
        let finalizer = Finalizer::new("crash.test/record").unwrap().hook("record", |ctx, parent| async move {
            match ctx.client().delete::<Secret>(&record_key(&parent.key())).await {
                Err(error) if !error.is_not_found() => Err(error),
                _ => Ok(()),
            }
        });
        Self { finalizer }
    }

    /// The server generates the names of the children: only the existing objects show how many are
    /// missing.
    async fn make_children(ctx: &Context<ConfigMap>, parent: &Cached<ConfigMap>) -> Result<(), ReconcileError> {
        let (parent, key) = (parent.get()?, parent.key());
        let selector = LabelSelector::parse(&format!("parent={}", key.name()))?;
        let there = ctx
            .client()
            .objects::<Secret>()
            .list(&ListQuery::all().namespace(key.namespace().unwrap_or_default()).labels(selector.clone()))
            .await?;
        for number in there.len()..CHILDREN {
            let metadata = ObjectMeta {
                generate_name: Some(format!("{}-", key.name())),
                namespace: key.namespace().map(Into::into),
                labels: Some([("parent".to_owned(), key.name().to_owned())].into()),
                annotations: Some([("number".to_owned(), number.to_string())].into()),
                ..ObjectMeta::default()
            };
            let mut child = Secret { metadata, ..Secret::default() };
            set_controller_reference(&*parent, &mut child)?;
            ctx.client().create(&child).await?;
        }
        Ok(())
    }
}

fn record_key(parent: &ObjectKey) -> ObjectKey {
    ObjectKey::new("records", parent.name())
}

impl Reconciler<ConfigMap> for Family {
    type Error = ReconcileError;

    async fn reconcile(&self, ctx: &Context<ConfigMap>, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(parent) = ctx.object(key).await? else { return Ok(Action::done()) };
        if self.finalizer.ensure(ctx, &parent).await? == FinalizerState::Finalized {
            return Ok(Action::done());
        }
        let record = record_key(key);
        let metadata = ObjectMeta {
            name: Some(record.name().to_owned()),
            namespace: record.namespace().map(Into::into),
            ..ObjectMeta::default()
        };
        ctx.client().create_or_update(Secret { metadata, ..Secret::default() }, |_| {}).await?;
        Self::make_children(ctx, &parent).await?;
        if parent.meta().annotation("ready").is_none() {
            let ready = Patch::Merge(serde_json::json!({"metadata": {"annotations": {"ready": "yes"}}}));
            ctx.client().objects::<ConfigMap>().patch(key, &ready).await?;
        }
        Ok(Action::done())
    }
}

/// The request at which the process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Before,
    After,
}

/// The network to the server, on which the process is killed.
///
/// Not `FaultyNetwork`: its faults are of requests that a text selects, and do not depend on how
/// many there were before. None of them lets the server handle a request and then ends the client.
#[derive(Clone)]
struct Killer {
    at: Option<(usize, When)>,
    requests: Arc<AtomicUsize>,
    writes: Arc<AtomicUsize>,
    killed: Arc<Notify>,
}

impl Killer {
    fn new(at: Option<(usize, When)>) -> Self {
        Self { at, requests: Arc::default(), writes: Arc::default(), killed: Arc::default() }
    }

    /// Nothing runs after this point.
    async fn die(&self) {
        self.killed.notify_one();
        std::future::pending::<()>().await;
    }

    fn client(&self, server: &Embedded) -> Client {
        let (server, killer) = (server.server().clone(), self.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, killer) = (server.clone(), killer.clone());
            async move {
                let number = killer.requests.fetch_add(1, Ordering::Relaxed) + 1;
                killer.writes.fetch_add(usize::from(request.method() != Method::GET), Ordering::Relaxed);
                // Other tasks may run for a moment longer, without an effect.
                if killer.at.is_some_and(|(at, when)| number > at || (number, When::Before) == (at, when)) {
                    killer.die().await;
                }
                let answer = server.oneshot(request).await.unwrap_or_else(|never| match never {});
                if killer.at == Some((number, When::After)) {
                    killer.die().await;
                }
                Ok::<_, BoxError>(answer)
            }
        });
        Client::builder(Config::new(http::Uri::from_static("http://server.test"))).build_over(service).unwrap()
    }
}

/// All objects of the controller, sorted. A duplicate is listed twice.
async fn state(client: &Client) -> Vec<String> {
    let parents = client.namespaced::<ConfigMap>("default").list(&ListParams::default()).await.unwrap().items;
    let secrets = client.all_namespaces::<Secret>().list(&ListParams::default()).await.unwrap().items;
    let mut all = Vec::new();
    for parent in &parents {
        let ready = parent.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key("ready"));
        let finalizers = parent.metadata.finalizers.clone().unwrap_or_default();
        all.push(format!(
            "parent {}, ready: {ready}, {}",
            parent.metadata.name.as_ref().unwrap(),
            finalizers.join(" ")
        ));
    }
    for secret in &secrets {
        let meta = &secret.metadata;
        if meta.namespace.as_deref() == Some("records") {
            all.push(format!("record of {}", meta.name.as_ref().unwrap()));
            continue;
        }
        let owner = &meta.owner_references.as_ref().unwrap()[0];
        let lives = parents.iter().any(|parent| parent.metadata.uid.as_ref() == Some(&owner.uid));
        let number = &meta.annotations.as_ref().unwrap()["number"];
        all.push(format!("child {number} of {}, which lives: {lives}", owner.name));
    }
    all.sort();
    all
}

/// The expected end state of these parents.
fn complete(parents: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for parent in parents {
        all.push(format!("parent {parent}, ready: true, crash.test/record"));
        all.push(format!("record of {parent}"));
        all.extend((0..CHILDREN).map(|number| format!("child {number} of {parent}, which lives: true")));
    }
    all.sort();
    all
}

/// Waits until the state is as expected, and checks that it stays so.
async fn settled(server: &Embedded, wanted: &[String]) {
    let client = client(server);
    eventually_within(LONG, "it ends as expected", || async {
        let state = state(&client).await;
        if state == wanted { Ok(()) } else { Err(format!("it is {state:#?} and not {wanted:#?}")) }
    })
    .await;
    for _ in 0..10 {
        settle().await;
    }
    assert_eq!(state(&client).await, wanted, "it stays so");
}

/// A process: it has a runtime of its own, which ends with all its tasks.
fn process<T>(life: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(life)
}

/// A server with two parents and a namespace for their records.
fn server_with_parents() -> Embedded {
    let server = Embedded::empty();
    process(async {
        let metadata = ObjectMeta { name: Some("records".to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        client(&server).cluster().create(&PostParams::default(), &namespace).await.unwrap();
        for name in PARENTS {
            let parents = client(&server).namespaced::<ConfigMap>("default");
            parents.create(&PostParams::default(), &map(name, "1")).await.unwrap();
        }
    });
    server
}

/// The life of a controller's process, until all work is done or it is killed. Returns the number
/// of its writes if it was not killed.
fn live(server: &Embedded, kill: Option<(usize, When)>, wanted: &[String]) -> Option<usize> {
    process(async {
        let killer = Killer::new(kill);
        let manager = Manager::new(killer.client(server));
        manager
            .controller(kind::<ConfigMap>().namespace("default"))
            .owns(kind::<Secret>())
            .max_concurrent(2)
            .complete(Family::new())
            .unwrap();
        let running = start(&manager);
        tokio::select! {
            () = killer.killed.notified() => None,
            () = settled(server, wanted) => {
                running.stop().await.unwrap();
                Some(killer.writes.load(Ordering::Relaxed))
            }
        }
    })
}

/// Repeats the run, each time killed at another request, until no request is left. Returns the
/// number of requests, and how many of them were writes.
fn killed_everywhere(prepare: impl Fn(&Embedded), wanted: &[String]) -> (usize, usize) {
    for number in 1..1_000 {
        let mut writes = None;
        for when in [When::Before, When::After] {
            let server = server_with_parents();
            prepare(&server);
            writes = live(&server, Some((number, when)), wanted);
            if writes.is_none() {
                live(&server, None, wanted).unwrap();
            }
        }
        if let Some(writes) = writes {
            return (number - 1, writes);
        }
    }
    panic!("it never ends by itself");
}

#[test]
fn a_controller_that_is_killed_while_it_creates_ends_in_the_same_state() {
    let (requests, writes) = killed_everywhere(|_| {}, &complete(&PARENTS));
    // For each parent: the finalizer, the record, three children, the annotation.
    assert_eq!(writes, PARENTS.len() * 6);
    assert!(requests > writes, "it was killed while it listed, too: {requests}");
}

#[test]
fn a_controller_that_is_killed_while_it_cleans_up_ends_in_the_same_state() {
    let prepare = |server: &Embedded| {
        live(server, None, &complete(&PARENTS)).unwrap();
        process(async {
            let parents = client(server).namespaced::<ConfigMap>("default");
            parents.delete("a", &DeleteParams::default()).await.unwrap();
            assert!(parents.get(key("a").name()).await.unwrap().metadata.deletion_timestamp.is_some());
        });
    };
    let (_, writes) = killed_everywhere(prepare, &complete(&["b"]));
    // The record is deleted, the finalizer removed.
    assert_eq!(writes, 2);
}

#[test]
fn a_controller_that_is_killed_again_and_again_gets_there() {
    let server = server_with_parents();
    let wanted = complete(&PARENTS);
    let mut lives = 0;
    // Each life has three requests in addition to its lists.
    while live(&server, Some((5, When::After)), &wanted).is_none() {
        lives += 1;
        assert!(lives < 100, "it makes no progress");
    }
    assert!(lives > 3, "{lives}");
}
