//! Kinds that are installed, removed or forbidden, on the embedded server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube_client::client::Body;
use serde_json::json;
use steersman_cache::{ApiListerWatcher, Phase, Reason, ReflectorOptions};
use steersman_client::{ApiResource, Client, Config, DynamicObject, GroupVersionKind, NamespaceScope};
use steersman_testing::Embedded;
use tokio::time::sleep;
use tower::{BoxError, ServiceExt};

use super::script::{HOUR, Running};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NETWORKS: &str = "/apis/net.example.com/v1/namespaces/default/networks";

/// A server, a reflector of its Networks, its number of requests, and whether they are forbidden.
struct Setup {
    server: Embedded,
    running: Running<DynamicObject>,
    requests: Arc<AtomicUsize>,
    forbidden: Arc<AtomicBool>,
}

impl Setup {
    fn start(server: Embedded, forbidden: bool) -> Self {
        let requests = Arc::new(AtomicUsize::new(0));
        let forbidden = Arc::new(AtomicBool::new(forbidden));
        let (counter, refuses, api_server) = (Arc::clone(&requests), Arc::clone(&forbidden), server.server().clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            counter.fetch_add(1, Ordering::Relaxed);
            let (refused, api_server) = (refuses.load(Ordering::Relaxed), api_server.clone());
            async move {
                if refused {
                    let status = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden",
                        "message": "networks.net.example.com is forbidden: User \"jane\" cannot list resource \"networks\""});
                    let body = Full::from(status.to_string()).map_err(BoxError::from).boxed_unsync();
                    return Ok::<_, BoxError>(Response::builder().status(403).body(body).unwrap());
                }
                let response = api_server.oneshot(request).await.map_err(BoxError::from)?;
                Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
            }
        });
        let client = Client::builder(Config::new("http://server".parse().unwrap())).build_over(service).unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("net.example.com", "v1", "Network"));
        let api = client.dynamic(&resource, NamespaceScope::AllNamespaces);
        let running = Running::start(ApiListerWatcher::new(api), ReflectorOptions::default());
        Self { server, running, requests, forbidden }
    }

    async fn write(&self, method: &str, path: &str, body: serde_json::Value) {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.server.kube_client().request_text(request.body(body).unwrap()).await.unwrap();
    }

    async fn install(&self) {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "networks.net.example.com"},
            "spec": {"group": "net.example.com", "scope": "Namespaced",
                "names": {"plural": "networks", "singular": "network", "kind": "Network", "listKind": "NetworkList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}});
        self.write("POST", CRDS, crd).await;
    }

    async fn create(&self, name: &str) {
        let network = json!({"apiVersion": "net.example.com/v1", "kind": "Network", "metadata": {"name": name}});
        self.write("POST", NETWORKS, network).await;
    }

    /// Number of requests in an hour.
    async fn requests_in_an_hour(&self) -> usize {
        let before = self.requests.load(Ordering::Relaxed);
        sleep(HOUR).await;
        self.requests.load(Ordering::Relaxed) - before
    }

    /// The last error of the reflector.
    fn complaint(&self) -> (Reason, String) {
        let status = self.running.status();
        assert!(matches!(status.phase, Phase::BackingOff { .. }), "{status}");
        (status.last_error.as_ref().unwrap().reason, status.to_string())
    }

    fn names(&self) -> Vec<&'static str> {
        ["blue", "green"].into_iter().filter(|name| self.running.store.get(name).is_some()).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_installed_is_reported_and_syncs_when_it_is() {
    let setup = Setup::start(Embedded::empty(), false);
    let requests = setup.requests_in_an_hour().await;
    assert!((1200..2500).contains(&requests), "{requests} requests in an hour");
    let (reason, words) = setup.complaint();
    assert_eq!(reason, Reason::NotInstalled);
    assert!(
        words.contains("/apis/net.example.com/v1/networks") && words.contains("CustomResourceDefinition"),
        "{words}"
    );
    setup.install().await;
    setup.create("blue").await;
    sleep(Duration::from_secs(4)).await;
    assert_eq!((setup.names(), setup.running.status().phase), (vec!["blue"], Phase::Watching));
    setup.create("green").await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(setup.names(), ["blue", "green"]);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_is_reported_and_syncs_when_it_is_allowed() {
    let setup = Setup::start(Embedded::empty(), true);
    setup.install().await;
    setup.create("blue").await;
    let requests = setup.requests_in_an_hour().await;
    assert!((60..300).contains(&requests), "{requests} requests in an hour");
    let (reason, words) = setup.complaint();
    assert_eq!(reason, Reason::Forbidden);
    assert!(words.contains("User \"jane\" cannot list") && words.contains("grant the verbs list and watch"), "{words}");
    setup.forbidden.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(65)).await;
    assert_eq!((setup.names(), setup.running.status().phase), (vec!["blue"], Phase::Watching));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_deleted_while_it_is_watched_is_reported_and_syncs_when_it_is_back() {
    let setup = Setup::start(Embedded::empty(), false);
    setup.install().await;
    setup.create("blue").await;
    sleep(Duration::from_secs(65)).await;
    assert_eq!((setup.names(), setup.running.status().phase), (vec!["blue"], Phase::Watching));
    setup.write("DELETE", &format!("{CRDS}/networks.net.example.com"), json!(null)).await;
    let requests = setup.requests_in_an_hour().await;
    assert!((1200..2500).contains(&requests), "{requests} requests in an hour");
    assert_eq!(setup.complaint().0, Reason::NotInstalled);
    assert_eq!(setup.names(), Vec::<&str>::new(), "its objects went with it");
    setup.install().await;
    setup.create("green").await;
    sleep(Duration::from_secs(4)).await;
    assert_eq!((setup.names(), setup.running.status().phase), (vec!["green"], Phase::Watching));
}
