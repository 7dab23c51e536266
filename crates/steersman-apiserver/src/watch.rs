//! Watch: the events of a resource, one line each, until the client has had enough.
//!
//! Events are encoded one by one, as the connection takes them. In between a watch holds weak
//! references to the objects of its beginning and at most one batch of changes: the log is the
//! buffer of all watches, and its bound is theirs. A watch whose client is slower than the log
//! forgets ends with 410, and keeps no past state in memory until then (tests:
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
use tokio::time::{Instant, sleep_until};

use crate::answer::{Answer, Body, Form};
use crate::kinds::Kind;
use crate::object::Object;
use crate::read::{Selection, revision};
use crate::request::{Query, ResourceRequest};
use crate::server::{Panicked, Shared};
use crate::status::{FieldError, Named, Status};
use crate::store::{Change, EventType, Expired, Follower, Revision};

/// The most changes that a watch takes from the log at once.
const BATCH: usize = 256;
/// The most bytes of objects in them, unless the first alone is larger.
const BATCH_BYTES: usize = 64 << 10;
/// A watch ends after this time when the client names none.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// A watch ends after this time at the latest: a year, so that its end is a time that there is.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// So often a client that wants bookmarks is told how far it is.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// And so long before the end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Marks the bookmark that ends the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

impl Shared {
    pub(crate) fn watch(
        self: &Arc<Self>,
        kind: &Arc<Kind>,
        request: &ResourceRequest,
        query: &Query,
        form: Form,
    ) -> Answer {
        let selection = Selection::new(request, query)?;
        selection.check_fields(kind)?;
        let bookmarks = query.is_on("allowWatchBookmarks");
        let streams_list = send_initial_events(query)?;
        let from = revision(query).map_err(Status::unexpected)?;
        let timeout = query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0);
        let timeout = timeout.map_or(TIMEOUT, |seconds| Duration::from_secs(seconds.unsigned_abs())).min(TIMEOUT_MAX);

        // From nowhere in particular a watch begins with what there is.
        let initial = streams_list.unwrap_or(matches!(from, None | Some(0)));
        let ends = Instant::now() + timeout;
        if streams_list == Some(true)
            && let Err(status) = self.wait_for(from)
        {
            return Ok(streaming(stream::iter([error(&status)]), self));
        }
        let (initial, start) = if initial {
            let snapshot = self.store.list(&kind.id(), selection.namespace());
            (snapshot.objects.iter().map(Arc::downgrade).collect(), snapshot.revision)
        } else {
            (Vec::new(), from.filter(|revision| *revision > 0).unwrap_or_else(|| self.store.revision()))
        };
        // That its version is gone is told in the stream, by an event, not by the answer.
        let follower = match self.store.follow(&kind.id(), start) {
            Ok(follower) => follower,
            Err(expired) => return Ok(streaming(stream::iter([error(&too_old(start, expired))]), self)),
        };
        let watcher = Watcher {
            shared: Arc::clone(self),
            kind: Arc::clone(kind),
            form,
            selection,
            initial: initial.into_iter(),
            ends_initial: streams_list == Some(true) && bookmarks,
            follower,
            changes: VecDeque::new(),
            parts: VecDeque::new(),
            bookmarks,
            next_bookmark: next_bookmark(ends),
            ends,
        };
        Ok(streaming(watcher.parts(), self))
    }
}

/// A client that wants bookmarks is told how far it is now and then, and shortly before the end.
fn next_bookmark(ends: Instant) -> Instant {
    let regular = Instant::now() + BOOKMARK_INTERVAL;
    match ends.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > Instant::now()) {
        Some(last) => regular.min(last),
        None => regular,
    }
}

/// Whether the list comes as events, checked against what goes with it.
fn send_initial_events(query: &Query) -> Result<Option<bool>, Status> {
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
    if matching != "NotOlderThan" {
        let mut errors = Vec::new();
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden("resourceVersionMatch", detail));
        if !matching.is_empty() {
            errors.push(FieldError::not_supported("resourceVersionMatch", matching, &["NotOlderThan"]));
        }
        return Err(Status::invalid(options, "", &errors));
    }
    Ok(Some(wanted))
}

/// One watch that is under way.
struct Watcher {
    shared: Arc<Shared>,
    kind: Arc<Kind>,
    form: Form,
    selection: Selection,
    /// The objects that the watch begins with and has not shown. The store keeps them for as long
    /// as its log goes back to the beginning of the watch.
    initial: std::vec::IntoIter<Weak<Object>>,
    /// Whether a bookmark has yet to mark the end of the initial events.
    ends_initial: bool,
    follower: Follower,
    /// Changes that were taken from the log and not shown.
    changes: VecDeque<Arc<Change>>,
    /// What is left of the event that was encoded last.
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
                Next::Part(part) => Some((part, Some(watcher))),
                Next::Last(line) => Some((line, None)),
                Next::End => None,
            }
        })
    }

    async fn next(&mut self) -> Next {
        if let Some(next) = self.next_initial() {
            return next;
        }
        loop {
            while let Some(change) = self.changes.pop_front() {
                if let Some(part) = self.encode_change(&change) {
                    return Next::Part(part);
                }
            }
            match self.shared.store.next_changes(&mut self.follower, BATCH, BATCH_BYTES) {
                Ok(changes) => self.changes = changes.into(),
                Err(expired) => return Next::Last(error(&too_old(self.follower.reached(), expired))),
            }
            if !self.changes.is_empty() {
                continue;
            }
            tokio::select! {
                biased;
                () = sleep_until(self.ends) => return Next::End,
                alive = self.follower.changed() => if !alive { return Next::End },
                () = sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = next_bookmark(self.ends);
                    return Next::Part(bookmark(&self.kind, self.form, self.follower.reached(), false));
                }
            }
        }
    }

    /// The next of the initial events, as long as there are any.
    fn next_initial(&mut self) -> Option<Next> {
        while let Some(object) = self.initial.next() {
            let Some(object) = object.upgrade() else {
                // The log has forgotten the change that replaced it, and so the beginning of this
                // watch.
                let expired = self.shared.store.expired(&self.follower);
                return Some(Next::Last(error(&too_old(self.follower.reached(), expired))));
            };
            let object = self.shared.view(&self.kind).of(&object);
            if self.selection.matches(&object) {
                return self.encode("ADDED", &object).map(Next::Part);
            }
        }
        // Frees the room for the references.
        self.initial = Vec::new().into_iter();
        let ends = std::mem::take(&mut self.ends_initial);
        ends.then(|| Next::Part(bookmark(&self.kind, self.form, self.follower.reached(), true)))
    }

    /// What the watcher is shown of a change, if anything.
    fn encode_change(&mut self, change: &Change) -> Option<Bytes> {
        let view = self.shared.view(&self.kind);
        let matches = |object: &Option<Arc<Object>>| {
            object.as_ref().is_some_and(|object| self.selection.matches(&view.of(object)))
        };
        let event = match (matches(&change.before), matches(&change.after)) {
            (false, true) => EventType::Added,
            (true, true) => EventType::Modified,
            (true, false) => EventType::Deleted,
            (false, false) => return None,
        };
        let object = view.of_change(change, event)?;
        self.encode(event.name(), &object)
    }

    /// Encodes an event, and gives its first part.
    fn encode(&mut self, event: &str, object: &Object) -> Option<Bytes> {
        self.form.event(&self.kind, event, object, &mut self.parts);
        self.parts.pop_front()
    }
}

enum Next {
    /// An event, or the first part of one.
    Part(Bytes),
    Last(Bytes),
    End,
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

/// What is done about a panic in a watch, once its answer is under way. An extension of the answer
/// of a watch, for the log.
#[derive(Clone, Default)]
pub(crate) struct OnPanic(Arc<OnceLock<Report>>);

type Report = Box<dyn Fn(&Panicked) + Send + Sync>;

impl OnPanic {
    pub(crate) fn set(&self, report: impl Fn(&Panicked) + Send + Sync + 'static) {
        // There is one answer, and one log for it.
        let _ = self.0.set(Box::new(report));
    }
}

/// The answer of a watch. A panic while events are made ends it with an error event, and is reported
/// to [`OnPanic`].
pub(crate) fn streaming(lines: impl Stream<Item = Bytes> + Send + 'static, shared: &Arc<Shared>) -> Response<Body> {
    let shared = Arc::clone(shared);
    let on_panic = OnPanic::default();
    let report = on_panic.clone();
    let lines = AssertUnwindSafe(lines).catch_unwind().map(move |line| {
        line.unwrap_or_else(|panic| {
            let panicked = shared.panicked(&*panic);
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
    use crate::ApiServer;

    use super::*;

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
