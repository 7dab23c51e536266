//! Watch: the events of a resource, one line each, until the client has had enough.

use std::convert::Infallible;
use std::sync::Arc;
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
use crate::server::Shared;
use crate::status::{FieldError, Named, Status};
use crate::store::{Change, EventType, Expired, Follower, Revision};

/// So many changes are taken from the log at once.
const BATCH: usize = 256;
/// A watch ends after this time when the client names none.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);
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
        let timeout = timeout.map_or(TIMEOUT, |seconds| Duration::from_secs(seconds.unsigned_abs()));

        // From nowhere in particular a watch begins with what there is.
        let initial = streams_list.unwrap_or(matches!(from, None | Some(0)));
        let ends = Instant::now() + timeout;
        if streams_list == Some(true)
            && let Err(status) = self.wait_for(from)
        {
            return Ok(streaming(stream::iter([error(&status)])));
        }
        let (first, start) = if initial {
            let snapshot = self.store.list(&kind.id(), selection.namespace());
            let view = self.view(kind);
            let objects = snapshot.objects.iter().map(|object| view.of(object));
            let objects = objects.filter(|object| selection.matches(object));
            let mut lines: Vec<Bytes> = objects.map(|object| form.event(kind, "ADDED", &object)).collect();
            if streams_list == Some(true) && bookmarks {
                lines.push(bookmark(kind, form, snapshot.revision, true));
            }
            (lines, snapshot.revision)
        } else {
            (Vec::new(), from.filter(|revision| *revision > 0).unwrap_or_else(|| self.store.revision()))
        };
        let follower = self.store.follow(&kind.id(), start).map_err(|expired| too_old(start, expired));
        let watcher = Watcher {
            shared: Arc::clone(self),
            kind: Arc::clone(kind),
            form,
            selection,
            follower: None,
            bookmarks,
            next_bookmark: next_bookmark(ends),
            ends,
        };
        // That its version is gone is told in the stream, by an event, not by the answer.
        let rest = match follower {
            Ok(follower) => Watcher { follower: Some(follower), ..watcher }.lines().boxed(),
            Err(status) => stream::iter([error(&status)]).boxed(),
        };
        let lines = stream::iter(first).chain(rest);
        Ok(streaming(lines))
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
    follower: Option<Follower>,
    bookmarks: bool,
    next_bookmark: Instant,
    ends: Instant,
}

impl Watcher {
    fn lines(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(Some(self), |watcher| async {
            let mut watcher = watcher?;
            match watcher.next().await {
                Next::Lines(lines) => Some((stream::iter(lines), Some(watcher))),
                Next::Last(line) => Some((stream::iter(vec![line]), None)),
                Next::End => None,
            }
        })
        .flatten()
    }

    async fn next(&mut self) -> Next {
        let Some(follower) = &mut self.follower else { return Next::End };
        loop {
            let changes = match self.shared.store.next_changes(follower, BATCH) {
                Ok(changes) => changes,
                Err(expired) => return Next::Last(error(&too_old(follower.reached(), expired))),
            };
            let event = |change: &Arc<Change>| event(&self.shared, &self.selection, &self.kind, self.form, change);
            let lines: Vec<Bytes> = changes.iter().filter_map(event).collect();
            if !lines.is_empty() {
                return Next::Lines(lines);
            }
            if !changes.is_empty() {
                continue;
            }
            tokio::select! {
                biased;
                () = sleep_until(self.ends) => return Next::End,
                alive = follower.changed() => if !alive { return Next::End },
                () = sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = next_bookmark(self.ends);
                    return Next::Lines(vec![bookmark(&self.kind, self.form, follower.reached(), false)]);
                }
            }
        }
    }
}

/// What a watcher is told of a change, if anything.
fn event(shared: &Shared, selection: &Selection, kind: &Kind, form: Form, change: &Change) -> Option<Bytes> {
    let view = shared.view(kind);
    let matches =
        |object: &Option<Arc<Object>>| object.as_ref().is_some_and(|object| selection.matches(&view.of(object)));
    let event = match (matches(&change.before), matches(&change.after)) {
        (false, true) => EventType::Added,
        (true, true) => EventType::Modified,
        (true, false) => EventType::Deleted,
        (false, false) => return None,
    };
    Some(form.event(kind, event.name(), &*view.of_change(change, event)?))
}

enum Next {
    Lines(Vec<Bytes>),
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

fn streaming(lines: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    let frames = lines.map(|line| Ok::<_, Infallible>(Frame::data(line)));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
