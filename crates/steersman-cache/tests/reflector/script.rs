//! A scripted server, a store that records its calls, and a reflector between them.
//!
//! Scripts are words: `a@5` is an object, `+a@5`, `~a@6`, `-a@7` are events, `*8` is a bookmark,
//! `$8` the one that ends a streaming list, `!a` an object that cannot be read, `!` one whose key
//! cannot be read either, `kind:Secret:a@5` one of another kind, `gone:Secret:a@6` the deletion of
//! one, `wait:300` is time in seconds, `fail:410` a failure, `open` a watch in which nothing comes,
//! `end` the end of one, `=>10` the version of a list and `..token` its next page.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::client::Body;
use steersman_cache::{
    Cached, ListOptions, ListStream, ListerWatcher, Object, Reflector, ReflectorOptions, ReflectorStatus,
    ReflectorStore, StatusReader, Storage, WatchOptions, WatchStream,
};
use steersman_client::{Client, Config, Error, RequestInfo, Status, TimeoutError};
use steersman_wire::{ListMeta, ObjectError, ObjectFault, RawItem, TypeMeta, WatchEvent};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// An object as the server sends it.
pub(crate) fn json(name: &str, version: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"ns","uid":"{name}","resourceVersion":"{version}"}},"data":{{"key":"{version}"}}}}"#
    )
}

fn object(text: &str) -> Bytes {
    let (name, version) = text.split_once('@').unwrap();
    json(name, version).into()
}

fn unreadable(name: &str) -> ObjectError {
    let key = (!name.is_empty()).then(|| format!("ns/{name}"));
    ObjectError { index: None, key, fault: ObjectFault::TooDeep }
}

/// The error of a failed request.
pub(crate) fn request_info() -> RequestInfo {
    RequestInfo { method: http::Method::GET, url: "http://server/api/v1/configmaps".to_owned() }
}

async fn error(text: &str) -> Error {
    // `429;45`: with a Retry-After of 45 seconds.
    let (text, retry_after) = text.split_once(';').unwrap_or((text, "0"));
    let (code, reason, message) = match text {
        "refused" => return transport(io::ErrorKind::ConnectionRefused).await,
        "reset" => return transport(io::ErrorKind::ConnectionReset).await,
        "closed" => return transport(io::ErrorKind::UnexpectedEof).await,
        "timeout" => {
            return Error::Timeout {
                request: request_info(),
                timeout: TimeoutError::Response(Duration::from_secs(30)),
            };
        }
        "toolarge" => (504, "Timeout", "Timeout: Too large resource version: 30, current: 20"),
        "400" => (400, "BadRequest", "no such option"),
        "403" => (403, "Forbidden", "configmaps is forbidden: User \"jane\" cannot list resource \"configmaps\""),
        "404" => (404, "NotFound", "the server could not find the requested resource"),
        "410" => (410, "Expired", "too old resource version"),
        "422" => (422, "Invalid", "sendInitialEvents is forbidden"),
        "429" => (429, "TooManyRequests", "the server has too much to do"),
        "500" => (500, "InternalError", "an error on the server"),
        other => panic!("no failure is called {other}"),
    };
    let mut status = Status::failure(message, reason).with_code(code);
    let details = serde_json::json!({"retryAfterSeconds": retry_after.parse::<u32>().unwrap()});
    status.details = Some(serde_json::from_value(details).unwrap());
    Error::Api { request: request_info(), status: Box::new(status) }
}

/// The error of a client whose connection fails.
async fn transport(kind: io::ErrorKind) -> Error {
    let service = tower::service_fn(move |_: http::Request<Body>| async move {
        Err::<http::Response<String>, _>(io::Error::from(kind))
    });
    let client = Client::builder(Config::new("http://server".parse().unwrap())).build_over(service).unwrap();
    let watch = client.all_namespaces::<ConfigMap>().watch(&Default::default(), "0").await;
    watch.err().unwrap()
}

/// The script, and the requests so far.
#[derive(Clone)]
pub(crate) struct Server(Arc<Mutex<State>>);

struct State {
    started: Instant,
    lists: VecDeque<String>,
    watches: VecDeque<String>,
    /// The response after the end of the script; no response without.
    lists_then: Option<String>,
    watches_then: Option<String>,
    requests: Vec<(Duration, String)>,
    timeouts: Vec<u32>,
}

impl Server {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            started: Instant::now(),
            lists: VecDeque::new(),
            watches: VecDeque::new(),
            lists_then: None,
            watches_then: None,
            requests: Vec::new(),
            timeouts: Vec::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn list(self, script: &str) -> Self {
        self.state().lists.push_back(script.to_owned());
        self
    }

    pub(crate) fn watch(self, script: &str) -> Self {
        self.state().watches.push_back(script.to_owned());
        self
    }

    pub(crate) fn always_list(self, script: &str) -> Self {
        self.state().lists_then = Some(script.to_owned());
        self
    }

    pub(crate) fn always_watch(self, script: &str) -> Self {
        self.state().watches_then = Some(script.to_owned());
        self
    }

    /// The requests: `list "0"`, `watch "10"`, or `stream ""` for a streaming list.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state().requests.iter().map(|(_, request)| request.clone()).collect()
    }

    /// The times of the requests.
    pub(crate) fn times(&self) -> Vec<Duration> {
        self.state().requests.iter().map(|(time, _)| *time).collect()
    }

    /// The timeouts of the watches in seconds.
    pub(crate) fn timeouts(&self) -> Vec<u32> {
        self.state().timeouts.clone()
    }

    fn ask(&self, request: String) -> MutexGuard<'_, State> {
        let mut state = self.state();
        let time = state.started.elapsed();
        state.requests.push((time, request));
        state
    }
}

impl ListerWatcher for Server {
    type List = Words;
    type Watch = Words;

    fn describe(&self) -> String {
        "config maps".to_owned()
    }

    async fn list(&self, options: &ListOptions) -> Result<Words, Error> {
        let mut request = format!("list {:?}", options.resource_version);
        if let Some(limit) = options.limit {
            request += &format!(" limit={limit}");
        }
        if let Some(token) = &options.continue_token {
            request += &format!(" continue={token}");
        }
        let script = {
            let mut state = self.ask(request);
            state.lists.pop_front().or_else(|| state.lists_then.clone())
        };
        Words::answer(script).await
    }

    async fn watch(&self, options: &WatchOptions) -> Result<Words, Error> {
        let verb = if options.send_initial_events { "stream" } else { "watch" };
        let script = {
            let mut state = self.ask(format!("{verb} {:?}", options.resource_version));
            state.timeouts.push(options.timeout_seconds);
            state.watches.pop_front().or_else(|| state.watches_then.clone())
        };
        Words::answer(script).await
    }
}

/// A list or a watch: the remaining words of its script.
pub(crate) struct Words {
    left: VecDeque<String>,
    meta: ListMeta,
}

impl Words {
    /// A script that begins with a failure is a rejected request.
    async fn answer(script: Option<String>) -> Result<Self, Error> {
        let Some(script) = script else { return pending().await };
        let mut left: VecDeque<String> = script.split_whitespace().map(str::to_owned).collect();
        while let Some(seconds) = left.front().and_then(|word| word.strip_prefix("wait:")) {
            sleep(Duration::from_secs(seconds.parse().unwrap())).await;
            left.pop_front();
        }
        if let Some(failure) = left.front().and_then(|word| word.strip_prefix("fail:")) {
            return Err(error(failure).await);
        }
        if left.front().is_some_and(|word| word == "open") {
            left.pop_front();
        }
        let type_meta = TypeMeta { api_version: "v1".to_owned(), kind: "ConfigMapList".to_owned() };
        let mut meta = ListMeta { type_meta, ..ListMeta::default() };
        for word in &left {
            if let Some(version) = word.strip_prefix("=>") {
                meta.resource_version = version.to_owned();
            } else if let Some(token) = word.strip_prefix("..") {
                meta.continue_token = token.to_owned();
            }
        }
        Ok(Self { left, meta })
    }
}

impl ListStream for Words {
    async fn next(&mut self) -> Result<Option<Result<RawItem, ObjectError>>, Error> {
        tokio::task::yield_now().await;
        while let Some(word) = self.left.pop_front() {
            if let Some(failure) = word.strip_prefix("fail:") {
                return Err(error(failure).await);
            } else if let Some(name) = word.strip_prefix('!') {
                return Ok(Some(Err(unreadable(name))));
            } else if let Some(kind) = word.strip_prefix("kind:") {
                return Ok(Some(Ok(RawItem::new(0, of_kind(kind)))));
            } else if !word.starts_with("=>") && !word.starts_with("..") {
                return Ok(Some(Ok(RawItem::new(0, object(&word)))));
            }
        }
        Ok(None)
    }

    fn meta(&self) -> &ListMeta {
        &self.meta
    }
}

/// `Secret:a@5`: an object of another kind.
pub(crate) fn of_kind(text: &str) -> Bytes {
    let (kind, text) = text.split_once(':').unwrap();
    let (name, version) = text.split_once('@').unwrap();
    json(name, version).replace("ConfigMap", kind).into()
}

impl WatchStream for Words {
    async fn next(&mut self) -> Result<Option<Result<WatchEvent, ObjectError>>, Error> {
        tokio::task::yield_now().await;
        loop {
            let Some(word) = self.left.pop_front() else { return pending().await };
            if word == "end" {
                return Ok(None);
            } else if let Some(seconds) = word.strip_prefix("wait:") {
                sleep(Duration::from_secs(seconds.parse().unwrap())).await;
                continue;
            } else if let Some(failure) = word.strip_prefix("fail:") {
                return Err(error(failure).await);
            } else if let Some(kind) = word.strip_prefix("kind:") {
                return Ok(Some(Ok(WatchEvent::Modified(of_kind(kind).into()))));
            } else if let Some(kind) = word.strip_prefix("gone:") {
                return Ok(Some(Ok(WatchEvent::Deleted(of_kind(kind).into()))));
            }
            let (sign, rest) = word.split_at(1);
            let bookmark =
                |initial_events_end| WatchEvent::Bookmark { resource_version: rest.to_owned(), initial_events_end };
            return Ok(Some(Ok(match sign {
                "+" => WatchEvent::Added(object(rest).into()),
                "~" => WatchEvent::Modified(object(rest).into()),
                "-" => WatchEvent::Deleted(object(rest).into()),
                "*" => bookmark(false),
                "$" => bookmark(true),
                "!" => return Ok(Some(Err(unreadable(rest)))),
                other => panic!("no event begins with {other}"),
            })));
        }
    }
}

/// What a reflector wrote, as text.
pub(crate) struct Store<K = ConfigMap>(Arc<Mutex<Stored<K>>>);

struct Stored<K> {
    log: Vec<String>,
    objects: HashMap<String, Cached<K>>,
}

impl<K> Default for Store<K> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Stored { log: Vec::new(), objects: HashMap::new() })))
    }
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

fn show<K>(object: &Cached<K>) -> String {
    format!("{}@{}", object.meta().name(), object.meta().resource_version())
}

impl<K> Store<K> {
    fn kept(&self) -> MutexGuard<'_, Stored<K>> {
        self.0.lock().unwrap()
    }

    fn put(&self, sign: char, object: &Cached<K>) -> MutexGuard<'_, Stored<K>> {
        let mut kept = self.kept();
        kept.log.push(format!("{sign}{}", show(object)));
        kept
    }

    /// `[a@5 b@6]=>10` for a list, events as in scripts, `?a@5` for a deletion whose
    /// final state could not be read.
    pub(crate) fn log(&self) -> Vec<String> {
        self.kept().log.clone()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Cached<K>> {
        self.kept().objects.get(name).cloned()
    }
}

impl<K: Object> ReflectorStore<K> for Store<K> {
    fn get(&self, _: &str, name: &str) -> Option<Cached<K>> {
        self.get(name)
    }

    fn add(&self, object: Cached<K>) {
        self.put('+', &object).objects.insert(object.meta().name().to_owned(), object);
    }

    fn update(&self, object: Cached<K>) {
        self.put('~', &object).objects.insert(object.meta().name().to_owned(), object);
    }

    fn delete(&self, object: Cached<K>) {
        self.put('-', &object).objects.remove(object.meta().name());
    }

    fn delete_unseen(&self, object: Cached<K>) {
        self.put('?', &object).objects.remove(object.meta().name());
    }

    fn bookmark(&self, resource_version: &str) {
        self.kept().log.push(format!("*{resource_version}"));
    }

    fn replace(&self, objects: Vec<Cached<K>>, resource_version: &str) {
        let mut kept = self.kept();
        let names: Vec<_> = objects.iter().map(show).collect();
        kept.log.push(format!("[{}]=>{resource_version}", names.join(" ")));
        kept.objects = objects.into_iter().map(|object| (object.meta().name().to_owned(), object)).collect();
    }

    async fn wait_for_capacity(&self) {
        tokio::task::yield_now().await;
    }

    async fn wait_until_applied(&self) {
        tokio::task::yield_now().await;
    }
}

/// Options with plain lists.
pub(crate) fn plain() -> ReflectorOptions {
    ReflectorOptions { streaming: false, ..streaming() }
}

/// Options with streaming lists.
pub(crate) fn streaming() -> ReflectorOptions {
    let type_meta = TypeMeta { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned() };
    ReflectorOptions { type_meta: Some(type_meta), ..ReflectorOptions::default() }
}

/// A running reflector.
pub(crate) struct Running<K = ConfigMap> {
    pub(crate) store: Store<K>,
    pub(crate) status: StatusReader,
    task: JoinHandle<()>,
}

impl<K: Object> Running<K> {
    pub(crate) fn start(lister_watcher: impl ListerWatcher, options: ReflectorOptions) -> Self {
        let store = Store::default();
        let reflector = Reflector::new(lister_watcher, Storage::default(), store.clone(), options);
        let status = reflector.status();
        let task = tokio::spawn(async move { match reflector.run().await {} });
        Self { store, status, task }
    }

    pub(crate) fn status(&self) -> ReflectorStatus {
        self.status.get()
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.store.log()
    }
}

impl<K> Drop for Running<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs a script for an hour. Returns the requests and the writes.
pub(crate) async fn play(server: Server, options: ReflectorOptions) -> (Vec<String>, Vec<String>) {
    let running: Running = Running::start(server.clone(), options);
    sleep(HOUR).await;
    (server.requests(), running.log())
}

pub(crate) const HOUR: Duration = Duration::from_secs(3600);
