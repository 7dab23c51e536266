//! A plain client of the server, and the expected watches and lists of a history.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::FutureExt;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, ServerBody};
use tower::Service;

/// Calls the server and reads the whole response.
pub(crate) async fn call(
    server: &ApiServer,
    method: &str,
    path: &str,
    content_type: &str,
    body: &Value,
) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = send(server, method, path, content_type, body).await;
    let status = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap())
}

async fn send(
    server: &ApiServer,
    method: &str,
    path: &str,
    content_type: &str,
    body: String,
) -> http::Response<ServerBody> {
    let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
    let request = request.body(Full::<Bytes>::from(body)).unwrap();
    let Ok(answer) = server.clone().call(request).await;
    answer
}

pub(crate) async fn get(server: &ApiServer, path: &str) -> (u16, Value) {
    call(server, "GET", path, "application/json", &Value::Null).await
}

/// A number in a resource version.
pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a resource version")
}

/// The kinds of the histories: two namespaced ones and one that is not. A new server has no objects
/// of them.
pub(crate) const KINDS: [(&str, &str, bool); 3] =
    [("/api/v1", "resourcequotas", true), ("/api/v1", "secrets", true), ("/api/v1", "nodes", false)];
pub(crate) const NAMESPACES: [&str; 3] = ["n", "n0", "n-0"];
pub(crate) const NAMES: [&str; 4] = ["a", "a-b", "a.b", "b"];

/// The place of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectPath {
    pub(crate) kind: usize,
    pub(crate) namespace: &'static str,
    pub(crate) name: &'static str,
}

impl ObjectPath {
    pub(crate) fn new(kind: usize, namespace: usize, name: usize) -> Self {
        let namespace = if KINDS[kind].2 { NAMESPACES[namespace] } else { "" };
        Self { kind, namespace, name: NAMES[name] }
    }

    pub(crate) fn collection(&self) -> String {
        collection(self.kind, self.namespace)
    }

    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }
}

/// The path of a collection: of one namespace, or of all of them.
pub(crate) fn collection(kind: usize, namespace: &str) -> String {
    let (prefix, plural, _) = KINDS[kind];
    if namespace.is_empty() {
        format!("{prefix}/{plural}")
    } else {
        format!("{prefix}/namespaces/{namespace}/{plural}")
    }
}

/// An object without its kind, as lists have it.
pub(crate) fn plain(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.remove("kind");
        members.remove("apiVersion");
    }
    object
}

/// One change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) place: ObjectPath,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

/// The changes, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) changes: Vec<Change>,
}

impl History {
    /// The state after the change of that version.
    pub(crate) fn at(&self, version: u64) -> BTreeMap<ObjectPath, Value> {
        let mut state = BTreeMap::new();
        for change in self.changes.iter().take_while(|change| change.version <= version) {
            match &change.after {
                Some(object) => drop(state.insert(change.place.clone(), object.clone())),
                None => drop(state.remove(&change.place)),
            }
        }
        state
    }

    /// The items of a list of that version, in the order of their paths.
    pub(crate) fn list(&self, selection: &Selection, version: u64) -> Vec<Value> {
        let mut items: Vec<_> =
            self.at(version).into_iter().filter(|(place, object)| selection.matches(place, object)).collect();
        items.sort_by_key(|(place, _)| format!("{}/{}", place.namespace, place.name));
        items.into_iter().map(|(_, object)| object).collect()
    }

    /// The expected events of a watch from that version on: the type and the object of each.
    pub(crate) fn events(&self, selection: &Selection, after: u64) -> Vec<(&'static str, Value)> {
        let event = |change: &Change| {
            let inside =
                |object: &Option<Value>| object.as_ref().is_some_and(|object| selection.matches(&change.place, object));
            match (inside(&change.before), inside(&change.after)) {
                (false, false) => None,
                (false, true) => Some(("ADDED", change.after.clone()?)),
                (true, true) => Some(("MODIFIED", change.after.clone()?)),
                (true, false) => {
                    let mut last = change.before.clone()?;
                    last["metadata"]["resourceVersion"] = change.version.to_string().into();
                    Some(("DELETED", last))
                }
            }
        };
        self.changes.iter().filter(|change| change.version > after).filter_map(event).collect()
    }
}

/// Selectors, and their meaning.
type Selector = (&'static str, fn(&ObjectPath, &Value) -> bool);
pub(crate) const SELECTORS: [Selector; 7] = [
    ("", |_, _| true),
    ("&labelSelector=app%3Dweb", |_, object| app(object) == Some("web")),
    ("&labelSelector=app!%3Dweb", |_, object| app(object) != Some("web")),
    ("&labelSelector=app", |_, object| app(object).is_some()),
    ("&labelSelector=app%20notin%20(db),app", |_, object| app(object).is_some_and(|app| app != "db")),
    ("&fieldSelector=metadata.name%3Da", |place, _| place.name == "a"),
    ("&fieldSelector=metadata.name!%3Da&labelSelector=!app", |place, object| {
        place.name != "a" && app(object).is_none()
    }),
];

fn app(object: &Value) -> Option<&str> {
    object["metadata"]["labels"]["app"].as_str()
}

/// The objects of a list or a watch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    pub(crate) kind: usize,
    /// None: all of them.
    pub(crate) namespace: Option<usize>,
    pub(crate) selector: usize,
}

impl Selection {
    pub(crate) fn matches(&self, place: &ObjectPath, object: &Value) -> bool {
        place.kind == self.kind
            && self.namespace().is_none_or(|namespace| place.namespace == namespace)
            && SELECTORS[self.selector].1(place, object)
    }

    fn namespace(&self) -> Option<&'static str> {
        self.namespace.filter(|_| KINDS[self.kind].2).map(|namespace| NAMESPACES[namespace])
    }

    /// The path and the beginning of the query.
    pub(crate) fn path(&self) -> String {
        let collection = collection(self.kind, self.namespace().unwrap_or_default());
        format!("{collection}?x=y{}", SELECTORS[self.selector].0)
    }
}

/// A running watch, and its events.
pub(crate) struct Watch {
    body: ServerBody,
    received: Vec<u8>,
    pub(crate) events: Vec<Value>,
    pub(crate) ended: bool,
}

impl Watch {
    pub(crate) async fn open(server: &ApiServer, path: &str) -> Self {
        let answer = send(server, "GET", path, "application/json", String::new()).await;
        assert_eq!(answer.status(), 200, "{path}");
        Self { body: answer.into_body(), received: Vec::new(), events: Vec::new(), ended: false }
    }

    /// Waits for more.
    pub(crate) async fn more(&mut self) {
        let Some(frame) = self.body.frame().await else {
            self.ended = true;
            return std::future::pending().await;
        };
        let Ok(frame) = frame;
        self.received.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            self.events.push(serde_json::from_slice(&line).unwrap());
        }
    }

    /// Reads everything that is available.
    pub(crate) fn drain(&mut self) {
        // It is not `Pending` because the task has used up its budget, but only because there is
        // nothing.
        while !self.ended && tokio::task::unconstrained(self.more()).now_or_never().is_some() {}
    }

    /// Checks the events against the changes after `after`; `initial` objects come first. They are
    /// complete, unless the watch was reported as expired.
    pub(crate) fn check(&self, history: &History, selection: &Selection, from: Beginning, may_fall_behind: bool) {
        let mut shown = self.events.iter().peekable();
        let mut expected: Vec<(&str, Value)> = Vec::new();
        let after = match from {
            Beginning::After(after) => after,
            Beginning::State(version) => {
                expected.extend(history.list(selection, version).into_iter().map(|object| ("ADDED", object)));
                version
            }
        };
        let initial = expected.len();
        expected.extend(history.events(selection, after));
        let (mut seen, mut reached) = (0, after);
        let mut fell_behind = false;
        while let Some(event) = shown.next() {
            let object = &event["object"];
            match event["type"].as_str() {
                Some("BOOKMARK") => {
                    let at = version(object);
                    assert!(at >= reached, "a bookmark of {at} after {reached}");
                    reached = at;
                    // A client that resumes there must miss nothing.
                    let missing = expected.get(seen.max(initial)).map(|(_, next)| version(next));
                    assert!(missing.is_none_or(|next| next > at), "a bookmark of {at} before {missing:?}");
                    if object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true" {
                        assert_eq!(seen, initial, "the initial events end early or late");
                    }
                }
                Some("ERROR") => {
                    assert_eq!(object["code"], 410, "{event}");
                    assert!(shown.peek().is_none(), "something comes after the end");
                    fell_behind = true;
                }
                kind => {
                    let actual = (kind.unwrap_or_default(), plain(object.clone()));
                    assert_eq!(Some(&actual), expected.get(seen), "event {seen} of {selection:?} from {from:?}");
                    if seen >= initial {
                        let at = version(object);
                        assert!(at > reached, "an event of {at} after {reached}");
                        reached = at;
                    }
                    seen += 1;
                }
            }
        }
        assert!(may_fall_behind || !fell_behind, "expired although it had not fallen behind");
        assert!(
            fell_behind || seen == expected.len(),
            "{:?} never came to {selection:?} from {from:?}",
            &expected[seen..]
        );
    }
}

/// The beginning of a watch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Beginning {
    /// With the first change after this version.
    After(u64),
    /// With all objects as of this version.
    State(u64),
}

/// Reads a list in pages, with other work between them, and returns its version and its items.
pub(crate) async fn pages(
    server: &ApiServer,
    path: &str,
    limit: usize,
    mut between: impl AsyncFnMut(),
) -> (u64, Vec<Value>) {
    let (mut items, mut first, mut token) = (Vec::new(), None, String::new());
    loop {
        let (status, page) = get(server, &format!("{path}&limit={limit}&continue={token}")).await;
        assert_eq!(status, 200, "{page}");
        let at = version(&page);
        assert_eq!(*first.get_or_insert(at), at, "the pages are of one version");
        let found = page["items"].as_array().expect("items");
        assert!(found.len() <= limit);
        items.extend(found.iter().cloned());
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => next.clone_into(&mut token),
            _ => return (at, items),
        }
        between().await;
    }
}

/// A server with the namespaces of the histories.
pub(crate) async fn server() -> ApiServer {
    let server = ApiServer::new();
    for name in NAMESPACES {
        let (status, _) =
            call(&server, "POST", "/api/v1/namespaces", "application/json", &json!({"metadata": {"name": name}})).await;
        assert_eq!(status, 201);
    }
    server
}

/// The version of the server's state.
pub(crate) async fn revision(server: &ApiServer) -> u64 {
    version(&get(server, "/api/v1/nodes").await.1)
}
