//! A server with scripted responses.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::header::{ACCEPT, ETAG, IF_NONE_MATCH};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use kube_client::client::Body;
use serde_json::{Value, json};
use steersman_client::{Client, Config};
use tokio::sync::Semaphore;

/// Responds by path, with 404 for all others.
#[derive(Clone)]
pub(crate) struct Scripted {
    answers: Arc<Mutex<HashMap<String, (StatusCode, Value)>>>,
    asked: Arc<Mutex<Vec<(String, String)>>>,
    /// A request takes a permit before it gets its response.
    turns: Arc<Semaphore>,
    /// Whether a request for the aggregated form gets 406.
    refuses_aggregated: bool,
    /// Whether the server sends etags, and responds 304 to one that has not changed.
    etags: bool,
    unchanged: Arc<AtomicUsize>,
}

impl Scripted {
    pub(crate) fn new() -> Self {
        Self {
            answers: Arc::default(),
            asked: Arc::default(),
            turns: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            refuses_aggregated: false,
            etags: false,
            unchanged: Arc::default(),
        }
    }

    /// A server that lets `turns` requests through, until [`Self::allow`].
    pub(crate) fn with_turns(turns: usize) -> Self {
        Self { turns: Arc::new(Semaphore::new(turns)), ..Self::new() }
    }

    pub(crate) fn refusing_aggregated(mut self) -> Self {
        self.refuses_aggregated = true;
        self
    }

    pub(crate) fn with_etags(mut self) -> Self {
        self.etags = true;
        self
    }

    /// How many responses were 304.
    pub(crate) fn unchanged(&self) -> usize {
        self.unchanged.load(Ordering::SeqCst)
    }

    pub(crate) fn allow(&self, turns: usize) {
        self.turns.add_permits(turns);
    }

    pub(crate) fn answer(&self, path: &str, code: u16, body: Value) {
        self.answers.lock().unwrap().insert(path.to_owned(), (StatusCode::from_u16(code).unwrap(), body));
    }

    pub(crate) fn with(self, path: &str, body: Value) -> Self {
        self.answer(path, 200, body);
        self
    }

    /// The requested paths since the last call, in alphabetical order.
    pub(crate) fn asked(&self) -> Vec<String> {
        let mut asked: Vec<String> = self.asked.lock().unwrap().drain(..).map(|(path, _)| path).collect();
        asked.sort();
        asked
    }

    /// The `Accept` header of the last request for `path`.
    pub(crate) fn accepted(&self, path: &str) -> String {
        let asked = self.asked.lock().unwrap();
        asked.iter().rev().find(|(asked, _)| asked == path).unwrap().1.clone()
    }

    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, std::io::Error>(server.serve(request).await) }
        });
        let config = Config::new("http://scripted.test".parse().unwrap());
        Client::builder(config).build_over(service).unwrap()
    }

    async fn serve(self, request: Request<Body>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let accept = request.headers()[ACCEPT].to_str().unwrap().to_owned();
        self.asked.lock().unwrap().push((path.clone(), accept.clone()));
        self.turns.acquire().await.unwrap().forget();
        let refused = self.refuses_aggregated && accept.contains("apidiscovery");
        let (code, body) = if refused {
            (StatusCode::NOT_ACCEPTABLE, Value::Null)
        } else {
            let answer = self.answers.lock().unwrap().get(&path).cloned();
            answer.unwrap_or((StatusCode::NOT_FOUND, Value::Null))
        };
        let body = if body.is_null() { code.to_string() } else { body.to_string() };
        let mut response = Response::builder().status(code);
        if self.etags {
            let etag = format!("{:?}", std::hash::BuildHasherDefault::<DefaultHasher>::default().hash_one(&body));
            if request.headers().get(IF_NONE_MATCH).is_some_and(|known| *known == *etag) {
                self.unchanged.fetch_add(1, Ordering::SeqCst);
                return response.status(StatusCode::NOT_MODIFIED).body(Full::default()).unwrap();
            }
            response = response.header(ETAG, etag);
        }
        response.body(Full::from(body)).unwrap()
    }
}

/// The old documents: the core group and `apps` in two versions.
pub(crate) fn plain(server: Scripted) -> Scripted {
    let group = |name: &str, versions: &[&str], preferred: &str| {
        let version = |version: &str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
        let versions: Vec<Value> = versions.iter().copied().map(version).collect();
        json!({"name": name, "versions": versions, "preferredVersion": version(preferred)})
    };
    let resource = |name: &str, kind: &str, short: &str| {
        json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get", "list"],
            "shortNames": [short], "categories": ["all"]})
    };
    let scale = json!({"name": "deployments/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
        "version": "v1", "kind": "Scale", "verbs": ["get"]});
    let list = |resources: Vec<Value>| json!({"kind": "APIResourceList", "resources": resources});
    server
        .with("/api", json!({"kind": "APIVersions", "versions": ["v1"]}))
        .with(
            "/apis",
            json!({"kind": "APIGroupList", "groups": [
                group("apps", &["v1beta1", "v1"], "v1"),
                group("metrics.k8s.io", &["v1"], "v1"),
            ]}),
        )
        .with(
            "/api/v1",
            list(vec![resource("pods", "Pod", "po"), json!({"name": "nodes", "kind": "Node", "verbs": null})]),
        )
        .with(
            "/apis/apps/v1beta1",
            list(vec![resource("deployments", "Deployment", "deploy"), resource("olds", "Old", "o")]),
        )
        .with("/apis/apps/v1", list(vec![resource("deployments", "Deployment", "deploy"), scale]))
        .with("/apis/metrics.k8s.io/v1", list(vec![resource("pods", "PodMetrics", "pm")]))
}

/// The requests for all of [`plain`].
pub(crate) const PLAIN_PATHS: [&str; 6] =
    ["/api", "/api/v1", "/apis", "/apis/apps/v1", "/apis/apps/v1beta1", "/apis/metrics.k8s.io/v1"];

/// A resource of an aggregated document.
pub(crate) fn aggregated_resource(name: &str, kind: &str) -> Value {
    json!({"resource": name, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": "Namespaced",
        "singularResource": kind.to_lowercase(), "verbs": ["get", "list", "watch"]})
}

/// Aggregated documents: a core group with Pods, and `groups`, each of one version.
pub(crate) fn aggregated(server: &Scripted, version: &str, groups: &[(&str, &str, Vec<Value>)]) {
    let group = |name: &str, freshness: &str, resources: &[Value]| {
        json!({"metadata": {"name": name},
            "versions": [{"version": "v1", "freshness": freshness, "resources": resources}]})
    };
    let list = |groups: Vec<Value>| {
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
            "metadata": {}, "items": groups})
    };
    server.answer("/api", 200, list(vec![group("", "Current", &[aggregated_resource("pods", "Pod")])]));
    let groups = groups.iter().map(|(name, freshness, resources)| group(name, freshness, resources)).collect();
    server.answer("/apis", 200, list(groups));
}
