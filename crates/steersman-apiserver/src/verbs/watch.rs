//! Watch: the events of a resource, one line each, until the client disconnects.
//!
//! Events are encoded one by one, as the connection accepts them. In between, a watch holds weak
//! references to its initial objects and at most one batch of changes: the log is the buffer of all
//! watches, and its bound is theirs. If the log drops changes that a slow client has not read, its
//! watch ends with 410. Until then it keeps no past state in memory (tests:
//! `tests/watch_memory.rs`).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use crate::request::{Query, RequestContext, Selection};
use crate::response::form::Form;
use crate::response::status::{FieldError, Named, Status};
use crate::response::table::age::Now;
use crate::response::{Body, HandlerResult};
use crate::rules::kinds::Kind;
use crate::server::{CaughtPanic, Shared};
use crate::store::object::Object;
use crate::store::{Change, EventType, Expired, Follower, Revision};
use crate::verbs::read::revision;

/// The most changes that a watch takes from the log at once.
const BATCH: usize = 256;
/// The most bytes of objects in them, unless the first alone is larger.
const BATCH_BYTES: usize = 64 << 10;
/// After this many comparisons with objects that it does not send, a watch yields to other tasks.
const SKIPPED_MAX: usize = 1_000;
/// A watch without a timeout ends after this time.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// The longest watch: a year, so that the time of its end exists.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// The interval of bookmarks.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// The time of the last bookmark before the end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Marks the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

impl Shared {
    pub(crate) fn watch(self: &Arc<Self>, request: &RequestContext<'_>) -> HandlerResult {
        let RequestContext { kind, query, form, .. } = *request;
        let selection = Selection::new(request.target, query)?;
        selection.check_fields(kind)?;
        let bookmarks = query.is_on("allowWatchBookmarks");
        let streams_list = send_initial_events(query, self.streaming_lists)?;
        let from = revision(query).map_err(Status::unexpected)?;
        let timeout = query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
        let timeout = timeout.map_or(TIMEOUT, |seconds| Duration::from_secs(seconds.unsigned_abs())).min(TIMEOUT_MAX);

        // Without a version, a watch begins with the existing objects.
        let initial = streams_list.unwrap_or(matches!(from, None | Some(0)));
        let ends = Instant::now() + timeout;
        if streams_list == Some(true)
            && let Err(status) = self.check_revision(from)
        {
            return Ok(streaming(stream::iter([error(&status)]), self));
        }
        let (initial, start) = if initial {
            let snapshot = self.store.list(&kind.id(), selection.namespace());
            (snapshot.objects.iter().map(Arc::downgrade).collect(), snapshot.revision)
        } else {
            (Vec::new(), from.filter(|revision| *revision > 0).unwrap_or_else(|| self.store.revision()))
        };
        // A compacted version is reported by an event in the stream, not by the response.
        let follower = match self.store.follow(&kind.id(), start) {
            Ok(follower) => follower,
            Err(expired) => return Ok(streaming(stream::iter([error(&too_old(start, expired))]), self)),
        };
        let offload = Offload::default();
        let watcher = Watcher {
            encoder: Encoder { shared: Arc::clone(self), kind: Arc::clone(kind), form, selection: Arc::new(selection) },
            offload: offload.clone(),
            skipped: 0,
            initial: initial.into_iter(),
            ends_initial: streams_list == Some(true) && bookmarks,
            follower,
            changes: VecDeque::new(),
            parts: VecDeque::new(),
            bookmarks,
            next_bookmark: next_bookmark(ends),
            ends,
        };
        let mut response = streaming(watcher.parts(), self);
        response.extensions_mut().insert(offload);
        Ok(response)
    }
}

/// The times of bookmarks: at an interval, and shortly before the end.
fn next_bookmark(ends: Instant) -> Instant {
    let regular = Instant::now() + BOOKMARK_INTERVAL;
    match ends.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > Instant::now()) {
        Some(last) => regular.min(last),
        None => regular,
    }
}

/// Whether the list comes as events. Checks the other parameters.
fn send_initial_events(query: &Query, is_served: bool) -> Result<Option<bool>, Status> {
    let options = Named { group: "meta.k8s.io", resource: "ListOptions" };
    let matching = query.get("resourceVersionMatch").unwrap_or_default();
    if query.get("continue").is_some_and(|token| !token.is_empty()) {
        let detail = "resourceVersionMatch is forbidden when continue is provided";
        return Err(Status::invalid(options, "", &[FieldError::forbidden("resourceVersionMatch", detail)]));
    }
    let Some(wanted) = query.get("sendInitialEvents").filter(|value| !value.is_empty()) else {
        if !matching.is_empty() {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            return Err(Status::invalid(options, "", &[FieldError::forbidden("resourceVersionMatch", detail)]));
        }
        return Ok(None);
    };
    let wanted = !matches!(wanted, "false" | "0");
    let mut errors = Vec::new();
    if matching != "NotOlderThan" {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden("resourceVersionMatch", detail));
    }
    if !is_served {
        let detail = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        errors.push(FieldError::forbidden("sendInitialEvents", detail));
    }
    if !matches!(matching, "" | "NotOlderThan") {
        errors.push(FieldError::not_supported("resourceVersionMatch", matching, &["NotOlderThan"]));
    }
    if errors.is_empty() { Ok(Some(wanted)) } else { Err(Status::invalid(options, "", &errors)) }
}

/// A running watch.
struct Watcher {
    encoder: Encoder,
    offload: Offload,
    /// The comparisons with objects that the watch does not send, since it last yielded to other
    /// tasks.
    skipped: usize,
    /// The initial objects that the watch has not sent. The store keeps them as long as its log
    /// goes back to the beginning of the watch.
    initial: std::vec::IntoIter<Weak<Object>>,
    /// Whether the bookmark at the end of the initial events is still to come.
    ends_initial: bool,
    follower: Follower,
    /// Changes from the log that were not sent.
    changes: VecDeque<Arc<Change>>,
    /// The rest of the last encoded event.
    parts: VecDeque<Bytes>,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
}

impl Watcher {
    fn parts(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(Some(self), |watcher| async {
            let mut watcher = watcher?;
            if let Some(part) = watcher.parts.pop_front() {
                return Some((part, Some(watcher)));
            }
            match watcher.next().await {
                Ok(Next::Part(part)) => Some((part, Some(watcher))),
                Ok(Next::End) => None,
                Err(status) => Some((error(&status), None)),
            }
        })
    }

    /// The next part to send. An error ends the watch.
    async fn next(&mut self) -> Result<Next, Status> {
        if let Some(next) = self.next_initial().await? {
            return Ok(next);
        }
        loop {
            while let Some(change) = self.changes.pop_front() {
                if let Some(part) = self.encode(Source::Change(change)).await? {
                    return Ok(Next::Part(part));
                }
            }
            let changes = self.encoder.shared.store.next_changes(&mut self.follower, BATCH, BATCH_BYTES);
            self.changes = changes.map_err(|expired| too_old(self.follower.reached(), expired))?.into();
            if !self.changes.is_empty() {
                continue;
            }
            tokio::select! {
                biased;
                () = sleep_until(self.ends) => return Ok(Next::End),
                alive = self.follower.changed() => if !alive { return Ok(Next::End) },
                () = sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = next_bookmark(self.ends);
                    return Ok(Next::Part(self.bookmark(false)));
                }
            }
        }
    }

    /// The next of the initial events, if there are any.
    async fn next_initial(&mut self) -> Result<Option<Next>, Status> {
        while let Some(object) = self.initial.next() {
            let Some(object) = object.upgrade() else {
                // The log has dropped the change that replaced it, and with it the beginning of
                // this watch.
                let expired = self.encoder.shared.store.expired(&self.follower);
                return Err(too_old(self.follower.reached(), expired));
            };
            if let Some(part) = self.encode(Source::Initial(object)).await? {
                return Ok(Some(Next::Part(part)));
            }
        }
        // Frees the memory of the references.
        self.initial = Vec::new().into_iter();
        let ends = std::mem::take(&mut self.ends_initial);
        Ok(ends.then(|| Next::Part(self.bookmark(true))))
    }

    /// Encodes an event, and returns its first part. `None` if the watch does not send it.
    ///
    /// An object whose schema has changed may take long. On a socket it is encoded on another
    /// thread than that of the connection, like such objects of a list.
    async fn encode(&mut self, source: Source) -> Result<Option<Bytes>, Status> {
        self.parts = match self.offload.lane().filter(|_| self.encoder.converts()) {
            None => self.encoder.encode(&source)?,
            Some(lane) => {
                let encoder = self.encoder.clone();
                // The lane is never closed.
                let running = Arc::clone(lane).acquire_owned().await;
                let encoded = tokio::task::spawn_blocking(move || {
                    let encoded = encoder.encode(&source);
                    drop(running);
                    encoded
                });
                match encoded.await {
                    Ok(encoded) => encoded?,
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    // The runtime shuts down, and with it this watch.
                    Err(_) => VecDeque::new(),
                }
            }
        };
        let first = self.parts.pop_front();
        if first.is_some() {
            self.encoder.form = self.encoder.form.without_headers();
        }
        if first.is_none() {
            self.skipped += 1 + self.encoder.selection.requirements();
            if self.skipped > SKIPPED_MAX {
                self.skipped = 0;
                tokio::task::yield_now().await;
            }
        }
        Ok(first)
    }

    fn bookmark(&mut self, ends_initial: bool) -> Bytes {
        let form = self.encoder.form.at(Now(self.encoder.shared.world.now().as_microsecond()));
        self.encoder.form = form.without_headers();
        bookmark(&self.encoder.kind, form, self.follower.reached(), ends_initial)
    }
}

enum Next {
    /// An event, or the first part of one.
    Part(Bytes),
    End,
}

/// The content of an event.
enum Source {
    Initial(Arc<Object>),
    Change(Arc<Change>),
}

/// Encodes the events of one watch.
#[derive(Clone)]
struct Encoder {
    shared: Arc<Shared>,
    kind: Arc<Kind>,
    form: Form,
    selection: Arc<Selection>,
}

impl Encoder {
    /// Whether objects are sent in another form than they are stored: after a change of the schema,
    /// or as cells.
    fn converts(&self) -> bool {
        matches!(self.form, Form::Table(_)) || !self.shared.customs.are_seen_as_stored(&self.kind)
    }

    /// The parts of an event. There are none if the watch does not send it.
    fn encode(&self, source: &Source) -> Result<VecDeque<Bytes>, Status> {
        #[cfg(test)]
        self.shared.encoders.lock().unwrap().push(std::thread::current().id());
        let view = self.shared.view(&self.kind);
        let seen = |object: Option<&Arc<Object>>| -> Result<Option<Arc<Object>>, Status> {
            let seen = object.map(|object| view.of(object)).transpose()?;
            Ok(seen.filter(|object| self.selection.matches(object)))
        };
        let shown = match source {
            Source::Initial(object) => seen(Some(object))?.map(|object| (EventType::Added, object)),
            Source::Change(change) => match (seen(change.before.as_ref())?, seen(change.after.as_ref())?) {
                (None, Some(after)) => Some((EventType::Added, after)),
                (Some(_), Some(after)) => Some((EventType::Modified, after)),
                (Some(_), None) => {
                    view.of_change(change, EventType::Deleted)?.map(|object| (EventType::Deleted, object))
                }
                (None, None) => None,
            },
        };
        let mut parts = VecDeque::new();
        if let Some((event, object)) = shown {
            let form = self.form.at(Now(self.shared.world.now().as_microsecond()));
            form.event(&self.kind, event.name(), &object, &mut parts);
        }
        Ok(parts)
    }
}

/// The threads on which a watch on a socket encodes slow events. An extension of the response to a
/// watch. In process it is not set, and everything is encoded inline.
#[derive(Clone, Default)]
pub(crate) struct Offload(Arc<OnceLock<Arc<Semaphore>>>);

impl Offload {
    /// Encodes on other threads, within this lane.
    pub(crate) fn set(&self, lane: Arc<Semaphore>) {
        // There is one response, and one connection for it.
        let _ = self.0.set(lane);
    }

    fn lane(&self) -> Option<&Arc<Semaphore>> {
        self.0.get()
    }
}

fn bookmark(kind: &Kind, form: Form, revision: Revision, ends_initial: bool) -> Bytes {
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if ends_initial {
        metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
    }
    let mut object = match form {
        Form::Whole => json!({"kind": kind.kind, "apiVersion": kind.api_version()}),
        Form::As(view) => json!({"kind": view.kind, "apiVersion": view.api_version()}),
        Form::Metadata(version, _) => json!({"kind": "PartialObjectMetadata", "apiVersion": version}),
        Form::Table(_) => {
            // The row of an object without a name.
            let object = Object::new(&json!({ "metadata": metadata }), revision, Vec::new());
            let mut parts = VecDeque::new();
            form.event(kind, "BOOKMARK", &object, &mut parts);
            return parts.pop_front().unwrap_or_default();
        }
    };
    object["metadata"] = metadata;
    line("BOOKMARK", &object)
}

fn error(status: &Status) -> Bytes {
    line("ERROR", &status.object())
}

fn line(event: &str, object: &Value) -> Bytes {
    format!("{}\n", json!({"type": event, "object": object})).into()
}

fn too_old(wanted: Revision, expired: Expired) -> Status {
    Status::expired(format!("too old resource version: {wanted} ({})", expired.oldest))
}

/// The handler of a panic in a watch after its response has begun. An extension of the response to
/// a watch, for the log.
#[derive(Clone, Default)]
pub(crate) struct OnPanic(Arc<OnceLock<Report>>);

type Report = Box<dyn Fn(&CaughtPanic) + Send + Sync>;

impl OnPanic {
    pub(crate) fn set(&self, report: impl Fn(&CaughtPanic) + Send + Sync + 'static) {
        // There is one response, and one log for it.
        let _ = self.0.set(Box::new(report));
    }
}

/// The response of a watch. A panic while an event is encoded ends it with an error event, and is
/// reported to [`OnPanic`].
pub(crate) fn streaming(lines: impl Stream<Item = Bytes> + Send + 'static, shared: &Arc<Shared>) -> Response<Body> {
    let shared = Arc::clone(shared);
    let on_panic = OnPanic::default();
    let report = on_panic.clone();
    let lines = AssertUnwindSafe(lines).catch_unwind().map(move |line| {
        line.unwrap_or_else(|panic| {
            let panicked = shared.count_panic(&*panic);
            if let Some(report) = report.0.get() {
                report(&panicked);
            }
            error(&Status::panicked())
        })
    });
    let frames = lines.map(|line| Ok::<_, Infallible>(Frame::data(line)));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.extensions_mut().insert(on_panic);
    response
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures::FutureExt;
    use http_body_util::Full;
    use tower::Service;

    use crate::ApiServer;

    use super::*;

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    async fn call(server: &ApiServer, method: &str, path: &str, body: &Value) -> Response<Body> {
        let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        let Ok(response) = server.clone().call(request.body(Full::from(body.to_string())).unwrap()).await;
        response
    }

    #[tokio::test]
    async fn a_watch_that_skips_many_objects_gives_way() {
        const OBJECTS: usize = 600;
        let server = ApiServer::new();
        for at in 0..OBJECTS {
            call(&server, "POST", MAPS, &json!({"metadata": {"name": format!("m{at}")}})).await;
        }
        let requirements = 20;
        let selector = vec!["a"; requirements].join(",");
        let path = format!(
            "{MAPS}?watch=1&allowWatchBookmarks=1&sendInitialEvents=1&resourceVersionMatch=NotOlderThan\
             &labelSelector={selector}"
        );
        let mut watch = call(&server, "GET", &path, &Value::Null).await.into_body();
        let mut pauses = 0;
        let mut frame = tokio::task::unconstrained(watch.frame());
        let first = std::future::poll_fn(|context| match frame.poll_unpin(context) {
            Poll::Pending => {
                pauses += 1;
                Poll::Pending
            }
            ready => ready,
        });
        let first = first.await.unwrap().unwrap().into_data().unwrap();
        assert!(first.starts_with(br#"{"type":"BOOKMARK""#) || first.windows(8).any(|text| text == b"BOOKMARK"));
        let expected = OBJECTS * requirements / SKIPPED_MAX;
        assert!((expected / 2..=expected + 1).contains(&pauses), "{pauses} pauses");
    }

    #[tokio::test]
    async fn a_panic_in_a_watch_is_its_last_event() {
        let server = ApiServer::new();
        let lines = stream::iter(0..).map(|place| match place {
            0 => Bytes::from_static(b"first\n"),
            _ => panic!("as the test wants"),
        });
        let body = streaming(lines, server.shared()).into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&body);
        let (first, last) = text.split_once('\n').unwrap();
        assert_eq!(first, "first");
        let event: Value = serde_json::from_str(last).unwrap();
        assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(500)));
        assert_eq!(server.panics(), 1);
    }
}
