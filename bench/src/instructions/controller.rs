//! A manager with one controller, on a server that only plays back.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures::channel::mpsc;
use futures::{StreamExt, stream};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use steersman_client::Client;
use steersman_runtime::{
    Action, Context, Controller, FlightRecorder, Manager, ObjectKey, ReconcileError, Reconciler, kind,
};
use tokio::runtime::Runtime;
use tower::service_fn;

use super::{event_line, measured, pod, runtime, world};
use crate::contestant::{Counter, FIRST_VERSION};

/// How many keys or events are measured.
const OPERATIONS: u64 = 200;

/// How many series of Events the occurrences that wait belong to.
const PENDING_SERIES: u64 = 2_000;

/// The body of a watch.
type Watch = UnsyncBoxBody<Bytes, Infallible>;

/// What each reconcile does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Nothing,
    /// Reads its Pod.
    Read,
    /// Records an Event of a series that has begun.
    Event,
}

/// Counts reconciles.
struct Counting {
    work: Work,
    reconciles: Arc<Counter>,
}

impl Reconciler<Pod> for Counting {
    type Error = ReconcileError;

    async fn reconcile(&self, ctx: &Context<Pod>, key: &ObjectKey) -> Result<Action, ReconcileError> {
        match self.work {
            Work::Nothing => {}
            Work::Read => {
                let pod = ctx.object(key).await?;
                let pod = pod.ok_or_else(|| ReconcileError::message("the Pod is not in the cache"))?;
                std::hint::black_box(pod.get()?);
            }
            Work::Event => ctx.events().normal(reference(key.name()), "Copied", "Copy", "copied to 3 namespaces"),
        }
        self.reconciles.add();
        Ok(Action::done())
    }
}

/// What a manager records of reconciles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Records {
    /// Neither metrics of controllers nor the flight recorder.
    Nothing,
    Metrics,
    /// Both, as by default.
    All,
}

/// A controller whose cache holds one Pod, and the other end of its watch.
struct Running {
    runtime: Runtime,
    controller: Controller,
    reconciles: Arc<Counter>,
    events: mpsc::UnboundedSender<Bytes>,
}

impl Running {
    fn start(work: Work, records: Records) -> Result<Self> {
        Self::start_with(work, records, 0)
    }

    /// `pending` occurrences of Events wait for the server.
    fn start_with(work: Work, records: Records, pending: u64) -> Result<Self> {
        let runtime = runtime()?;
        let (events, watch) = mpsc::unbounded();
        let reconciles = Arc::new(Counter::new(1));
        let controller = runtime.block_on(async {
            let client = Client::from(playback(watch)).with_world(world());
            let mut manager = Manager::builder(client);
            if records != Records::All {
                manager = manager.flight_recorder(FlightRecorder::off());
            }
            if records == Records::Nothing {
                manager = manager.without_controller_metrics();
            }
            let manager = manager.build();
            let reconciler = Counting { work, reconciles: Arc::clone(&reconciles) };
            let controller = manager.controller(kind::<Pod>()).complete(reconciler)?;
            let recorder = manager.events("pending")?;
            for number in 0..pending {
                let object = reference(&format!("pending-{}", number % PENDING_SERIES));
                recorder.normal(object, "Copied", "Copy", "copied to 3 namespaces");
            }
            let metrics = manager.event_metrics();
            ensure!(metrics.pending == pending, "{} occurrences wait instead of {pending}", metrics.pending);
            tokio::spawn(async move { manager.start(std::future::pending()).await });
            reconciles.reached().await;
            anyhow::Ok(controller)
        })?;
        Ok(Self { runtime, controller, reconciles, events })
    }

    /// Does `act` with each number, and waits each time for the reconcile that follows.
    fn each(&self, numbers: std::ops::Range<u64>, act: impl Fn(u64)) {
        self.runtime.block_on(async {
            for number in numbers {
                self.reconciles.go_on(1);
                act(number);
                self.reconciles.reached().await;
            }
        });
    }

    fn finish(&self, expected: u64) -> Result<u64> {
        let reconciles = self.reconciles.value();
        ensure!(reconciles == expected, "there were {reconciles} reconciles instead of {expected}");
        let errors = self.controller.metrics().errors_total;
        ensure!(errors == 0, "{errors} reconciles failed");
        Ok(OPERATIONS)
    }
}

/// The object of an Event.
fn reference(name: &str) -> ObjectReference {
    let text = |text: &str| Some(text.to_owned());
    ObjectReference {
        api_version: text("v1"),
        kind: text("Pod"),
        namespace: text("team-0"),
        name: text(name),
        ..ObjectReference::default()
    }
}

/// A client of a server whose only watch begins with one Pod and continues with the events from
/// `watch`.
fn playback(watch: mpsc::UnboundedReceiver<Bytes>) -> kube_client::Client {
    let bookmark = format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"Pod","apiVersion":"v1","metadata":{{"resourceVersion":"{FIRST_VERSION}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}{}"#,
        '\n'
    );
    let first = [event_line("ADDED", &pod(0, FIRST_VERSION)), Bytes::from(bookmark)];
    let frames = stream::iter(first).chain(watch).map(|line| Ok::<_, Infallible>(Frame::data(line)));
    let body: Pin<Box<Watch>> = Box::pin(StreamBody::new(frames).boxed_unsync());
    let body = Arc::new(Mutex::new(Some(*Pin::into_inner(body))));
    let service = service_fn(move |request: Request<kube_client::client::Body>| {
        let is_write = *request.method() == Method::POST;
        let body = if is_write { None } else { body.lock().ok().and_then(|mut body| body.take()) };
        async move {
            if is_write {
                // An Event. The server takes its time.
                std::future::pending::<()>().await;
            }
            let body = body.context("the reflector asks once")?;
            let response = Response::builder().header(http::header::CONTENT_TYPE, "application/json").body(body)?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(response)
        }
    });
    kube_client::Client::new(service, "default")
}

/// From a key that is added by a call to the end of a reconcile that does nothing.
pub(super) fn empty(records: Records) -> Result<u64> {
    by_key(&Running::start(Work::Nothing, records)?)
}

/// The same with a reconcile that reads its Pod from the cache.
pub(super) fn cached() -> Result<u64> {
    by_key(&Running::start(Work::Read, Records::All)?)
}

/// The same with a reconcile that records an Event of a series that has begun, while this number of
/// other occurrences waits for the server.
pub(super) fn recorded(pending: u64) -> Result<u64> {
    by_key(&Running::start_with(Work::Event, Records::All, pending)?)
}

fn by_key(running: &Running) -> Result<u64> {
    let key = ObjectKey::new("team-0", "web-0-6f7c9b8d54-00000");
    let enqueue = |_| running.controller.enqueue(key.clone());
    running.each(0..OPERATIONS, enqueue);
    measured(&mut || running.each(0..OPERATIONS, enqueue));
    running.finish(1 + 2 * OPERATIONS)
}

/// From a watch event to the end of a reconcile that reads its 6 KB Pod.
pub(super) fn event(records: Records) -> Result<u64> {
    let running = Running::start(Work::Read, records)?;
    let versions = FIRST_VERSION + 1..FIRST_VERSION + 1 + 2 * OPERATIONS;
    let events: Vec<Bytes> = versions.map(|version| event_line("MODIFIED", &pod(0, version))).collect();
    // The channel ends with the receiver, and then the next wait for a reconcile would not end: the
    // count shows it.
    let send = |number: u64| drop(running.events.unbounded_send(events[number as usize].clone()));
    running.each(0..OPERATIONS, send);
    measured(&mut || running.each(OPERATIONS..2 * OPERATIONS, send));
    running.finish(1 + 2 * OPERATIONS)
}
