//! A stand-in for an API server that sends synthetic Pods, or small objects of ten kinds, as fast
//! as its client reads them.
//!
//! It serves lists, whole or in pages; watches; streaming lists; and the discovery that Go's
//! clients request first. It is faster than any client, so that the client is measured:
//! - The list is built once. A list, or a page of it, is sent from there in pieces of 64 KiB.
//! - Events are copied into pieces of the same size, which costs far less than reading them.
//! - It runs on one thread, so that the client has the other cores to itself.
//!
//! Its history is fixed. Every list shows the same state, at [`Replay::version`]. Event `k`
//! (counted from 1) changes only the resource version of Pod `k - 1` (and starts over after the
//! last), to `version() + k`. A watch sends the events after the version that it starts from, so a
//! client that reconnects misses nothing and sees nothing twice. No event is sent before a
//! contestant requests it ([`START_EVENTS`]), so a contestant can measure the events alone, or some
//! of them now and the rest later (`?events=K` requests those up to event `K`). They come as fast
//! as they are read, unless the replay has a rate.

use std::convert::Infallible;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::Either;
use http_body_util::channel::{Channel, SendError, Sender};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::contestant::{FIRST_VERSION, START_EVENTS};
use crate::kinds::{KINDS, POD, Resource};
use crate::pods::{Pods, Shape};

/// The size of a piece.
const PIECE: usize = 64 * 1024;
/// How many pieces of a watch may wait for the connection.
const PIECES_WAITING: usize = 4;
/// The interval of releases of events with a rate: a tick of tokio's clock, so that they are sent
/// separately.
const TICK: Duration = Duration::from_millis(1);
/// The duration of a watch without a timeout.
const WATCH_TIMEOUT: Duration = Duration::from_secs(600);

/// The objects of a cluster, ready to be sent.
#[derive(Debug)]
pub struct Replay {
    collections: Vec<Collection>,
    /// The number of events, which change objects of the first collection.
    events: u64,
    /// The rate of the events in a second; no limit if this is `None`.
    rate: Option<u64>,
    /// How many of the events may be sent.
    released: watch::Sender<u64>,
}

/// The objects of one kind.
#[derive(Debug)]
struct Collection {
    resource: Resource,
    path: String,
    /// The objects, with a comma after each but the last.
    objects: Bytes,
    /// The place of each of them.
    places: Vec<Extent>,
}

/// The place of an object in the prepared bytes, without its comma.
#[derive(Debug)]
struct Extent {
    object: Range<usize>,
    version: Range<usize>,
}

/// The body of a response: prepared bytes, or the pieces of a watch.
type Answer = Response<Either<Prepared, Channel<Bytes>>>;

impl Replay {
    /// Prepares `count` Pods. Every watch sends `events` events after its list, or none if there is
    /// no Pod to change.
    pub fn new(count: u64, shape: Shape, events: u64) -> Self {
        let generator = Pods::new(shape);
        let pods = Collection::new(POD, count, |index, version, out| generator.write(index, version, out));
        let events = if count == 0 { 0 } else { events };
        Self { collections: vec![pods], events, rate: None, released: watch::Sender::new(0) }
    }

    /// Prepares `count` small objects of each of the first `kinds` of the ten kinds. They do not
    /// change. At least one kind is served.
    pub fn of_small_objects(count: u64, kinds: usize) -> Self {
        let kinds = KINDS
            .iter()
            .take(kinds.max(1))
            .map(|kind| Collection::new(kind.resource, count, |index, version, out| kind.write(index, version, out)));
        Self { collections: kinds.collect(), events: 0, rate: None, released: watch::Sender::new(0) }
    }

    /// The same, with events at this rate once they are requested. A slower client gets them later.
    pub fn with_rate(self, events_per_second: u64) -> Self {
        Self { rate: Some(events_per_second), ..self }
    }

    /// The resource version of every list.
    pub fn version(&self) -> u64 {
        self.collections[0].version()
    }

    /// The size of the body of a whole list in bytes: of Pods, or of the first kind.
    pub fn list_bytes(&self) -> u64 {
        self.collections[0].list(0, None).left()
    }

    /// The number of objects of each kind.
    pub fn count(&self) -> u64 {
        self.collections[0].count()
    }

    /// Accepts connections forever.
    pub async fn serve(self, listener: TcpListener) -> std::io::Result<()> {
        let replay = Arc::new(self);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let replay = Arc::clone(&replay);
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = replay.answer(request.uri().path(), request.uri().query().unwrap_or_default());
                async move { Ok::<_, Infallible>(answer) }
            });
            // A connection that breaks is ignored.
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    }

    fn answer(self: &Arc<Self>, path: &str, query: &str) -> Answer {
        if let Some(index) = self.collections.iter().position(|collection| collection.path == path) {
            return self.objects(index, query);
        }
        let body = match path {
            "/version" => Some(r#"{"major":"1","minor":"36","gitVersion":"v1.36.3"}"#.to_owned()),
            START_EVENTS => {
                let last = parameter(query, "events").and_then(|value| value.parse().ok()).unwrap_or(self.events);
                self.release(last);
                Some(r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#.to_owned())
            }
            _ => discovery(&self.resources(), path),
        };
        match body {
            Some(body) => answer(StatusCode::OK, Either::Left(Prepared::text(body))),
            None => {
                let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}"#;
                answer(StatusCode::NOT_FOUND, Either::Left(Prepared::text(body)))
            }
        }
    }

    fn resources(&self) -> Vec<Resource> {
        self.collections.iter().map(|collection| collection.resource).collect()
    }

    /// Releases the events up to `last`, at their rate.
    fn release(self: &Arc<Self>, last: u64) {
        let last = last.min(self.events);
        let raise = |replay: &Self, to: u64| {
            replay.released.send_if_modified(|released| {
                let higher = to > *released;
                *released = to.max(*released);
                higher
            })
        };
        let Some(rate) = self.rate else {
            raise(self, last);
            return;
        };
        let replay = Arc::clone(self);
        tokio::spawn(async move {
            let first = *replay.released.borrow();
            // Late ticks are made up for. With the time itself, a tick would release none at one
            // time and two at another.
            let mut ticks = tokio::time::interval(TICK);
            for tick in 0.. {
                ticks.tick().await;
                let due = first + tick * rate * TICK.as_micros() as u64 / 1_000_000;
                raise(&replay, due.min(last));
                if due >= last {
                    return;
                }
            }
        });
    }

    fn objects(self: &Arc<Self>, index: usize, query: &str) -> Answer {
        let collection = &self.collections[index];
        let parameter = |name: &str| parameter(query, name);
        let number = |name: &str| parameter(name).and_then(|value| value.parse::<u64>().ok());
        if !matches!(parameter("watch"), Some("true" | "1")) {
            let start = parameter("continue").and_then(|token| token.strip_prefix('c')?.parse().ok()).unwrap_or(0);
            let limit = number("limit").filter(|limit| *limit > 0);
            return answer(StatusCode::OK, Either::Left(collection.list(start, limit)));
        }
        let (sender, body) = Channel::new(PIECES_WAITING);
        let watch = Watch {
            replay: Arc::clone(self),
            collection: index,
            sender,
            initial_events: parameter("sendInitialEvents") == Some("true"),
            events_seen: number("resourceVersion").unwrap_or(0).saturating_sub(collection.version()),
            timeout: number("timeoutSeconds").map_or(WATCH_TIMEOUT, Duration::from_secs),
        };
        // The client may disconnect at any time.
        tokio::spawn(async move { watch.run().await.ok() });
        answer(StatusCode::OK, Either::Right(body))
    }
}

impl Collection {
    /// `write` appends the object with an index and a version, and returns the range of the
    /// version.
    fn new(resource: Resource, count: u64, write: impl Fn(u64, u64, &mut Vec<u8>) -> Range<usize>) -> Self {
        let mut objects = Vec::new();
        let places = (0..count)
            .map(|index| {
                if index > 0 {
                    objects.push(b',');
                }
                let start = objects.len();
                let version = write(index, FIRST_VERSION + index, &mut objects);
                Extent { object: start..objects.len(), version }
            })
            .collect();
        Self { resource, path: resource.path(), objects: objects.into(), places }
    }

    fn count(&self) -> u64 {
        self.places.len() as u64
    }

    fn version(&self) -> u64 {
        FIRST_VERSION + self.count()
    }

    /// The objects from `start` on, at most `limit` of them.
    fn list(&self, start: u64, limit: Option<u64>) -> Prepared {
        let start = start.min(self.count());
        let end = limit.map_or(self.count(), |limit| self.count().min(start.saturating_add(limit)));
        let remaining = self.count() - end;
        let next = if remaining > 0 {
            format!(r#""continue":"c{end}","remainingItemCount":{remaining},"#)
        } else {
            String::new()
        };
        let (kind, api_version, version) = (self.resource.kind, self.resource.api_version(), self.version());
        let head = format!(
            r#"{{"kind":"{kind}List","apiVersion":"{api_version}","metadata":{{{next}"resourceVersion":"{version}"}},"items":["#
        );
        let objects = match &self.places[start as usize..end as usize] {
            [] => Bytes::new(),
            [first, .., last] => self.objects.slice(first.object.start..last.object.end),
            [only] => self.objects.slice(only.object.clone()),
        };
        Prepared { parts: [Bytes::from(head), objects, Bytes::from_static(b"]}")] }
    }
}

/// The discovery response at a path; nothing if there is none.
fn discovery(resources: &[Resource], path: &str) -> Option<String> {
    let group = |of: &Resource| {
        let (name, version, api_version) = (of.group, of.version, of.api_version());
        let version = format!(r#"{{"groupVersion":"{api_version}","version":"{version}"}}"#);
        format!(r#""name":"{name}","versions":[{version}],"preferredVersion":{version}"#)
    };
    let mut named: Vec<&Resource> = resources.iter().filter(|resource| !resource.group.is_empty()).collect();
    // Kinds of a group are adjacent in the table.
    named.dedup_by_key(|resource| resource.group);
    match path {
        "/api" => {
            return Some(r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]}"#.to_owned());
        }
        "/apis" => {
            let groups: Vec<String> = named.iter().map(|of| format!("{{{}}}", group(of))).collect();
            return Some(format!(r#"{{"kind":"APIGroupList","apiVersion":"v1","groups":[{}]}}"#, groups.join(",")));
        }
        _ => {}
    }
    if let Some(of) = named.iter().find(|of| path.strip_prefix("/apis/") == Some(of.group)) {
        return Some(format!(r#"{{"kind":"APIGroup","apiVersion":"v1",{}}}"#, group(of)));
    }
    let siblings: Vec<&Resource> = resources.iter().filter(|resource| resource.group_path() == path).collect();
    let api_version = siblings.first()?.api_version();
    let described: Vec<String> = siblings
        .iter()
        .map(|Resource { kind, plural, .. }| {
            let singular = kind.to_lowercase();
            format!(
                r#"{{"name":"{plural}","singularName":"{singular}","namespaced":true,"kind":"{kind}","verbs":["get","list","watch"]}}"#
            )
        })
        .collect();
    let described = described.join(",");
    Some(format!(
        r#"{{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"{api_version}","resources":[{described}]}}"#
    ))
}

/// The value of a parameter of a query.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn answer(status: StatusCode, body: Either<Prepared, Channel<Bytes>>) -> Answer {
    let answer = Response::builder().status(status).header("Content-Type", "application/json");
    answer.body(body).expect("status and header are valid")
}

/// A body of prepared bytes.
#[derive(Debug)]
struct Prepared {
    parts: [Bytes; 3],
}

impl Prepared {
    fn text(text: impl Into<Bytes>) -> Self {
        Self { parts: [text.into(), Bytes::new(), Bytes::new()] }
    }

    fn left(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }
}

impl Body for Prepared {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.parts.iter_mut().find(|part| !part.is_empty());
        Poll::Ready(next.map(|part| Ok(Frame::data(part.split_to(part.len().min(PIECE))))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}

/// A requested watch.
struct Watch {
    replay: Arc<Replay>,
    /// The index of its collection.
    collection: usize,
    sender: Sender<Bytes>,
    /// Whether the list comes first, as events.
    initial_events: bool,
    /// The client has this many events already.
    events_seen: u64,
    timeout: Duration,
}

impl Watch {
    /// Sends everything, then nothing until the timeout.
    async fn run(mut self) -> Result<(), SendError> {
        let replay = Arc::clone(&self.replay);
        let collection = &replay.collections[self.collection];
        let mut piece = Piece::default();
        if self.initial_events {
            for (place, version) in collection.places.iter().zip(FIRST_VERSION..) {
                piece.event("ADDED", &collection.objects, place, version);
                self.send_if_full(&mut piece).await?;
            }
            piece.end_of_initial_events(collection);
            self.sender.send_data(piece.take()).await?;
        }
        let mut released = replay.released.subscribe();
        let mut sent = self.events_seen;
        while sent < replay.events {
            let last = *released.wait_for(|released| *released > sent).await.expect("the sender lives with the replay");
            for event in sent..last {
                let place = &collection.places[(event % collection.count()) as usize];
                piece.event("MODIFIED", &collection.objects, place, collection.version() + event + 1);
                self.send_if_full(&mut piece).await?;
            }
            sent = last;
            self.sender.send_data(piece.take()).await?;
        }
        tokio::time::sleep(self.timeout).await;
        Ok(())
    }

    async fn send_if_full(&mut self, piece: &mut Piece) -> Result<(), SendError> {
        if piece.0.len() >= PIECE {
            self.sender.send_data(piece.take()).await?;
        }
        Ok(())
    }
}

/// Events that will be sent together.
#[derive(Default)]
struct Piece(BytesMut);

impl Piece {
    fn event(&mut self, kind: &str, objects: &[u8], place: &Extent, version: u64) {
        self.0.extend_from_slice(b"{\"type\":\"");
        self.0.extend_from_slice(kind.as_bytes());
        self.0.extend_from_slice(b"\",\"object\":");
        self.0.extend_from_slice(&objects[place.object.start..place.version.start]);
        self.0.extend_from_slice(version.to_string().as_bytes());
        self.0.extend_from_slice(&objects[place.version.end..place.object.end]);
        self.0.extend_from_slice(b"}\n");
    }

    fn end_of_initial_events(&mut self, of: &Collection) {
        let (kind, api_version, version) = (of.resource.kind, of.resource.api_version(), of.version());
        // A real server encodes a Pod that has a version only.
        let rest = if of.resource == POD { r#","spec":{"containers":null},"status":{}"# } else { "" };
        let bookmark = format!(
            r#"{{"type":"BOOKMARK","object":{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{{"resourceVersion":"{version}","creationTimestamp":null,"annotations":{{"k8s.io/initial-events-end":"true"}}}}{rest}}}}}"#
        );
        self.0.extend_from_slice(bookmark.as_bytes());
        self.0.extend_from_slice(b"\n");
    }

    fn take(&mut self) -> Bytes {
        let full = std::mem::replace(&mut self.0, BytesMut::with_capacity(PIECE + PIECE / 4));
        full.freeze()
    }
}
