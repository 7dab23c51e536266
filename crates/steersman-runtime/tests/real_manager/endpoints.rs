//! Metrics behind TLS, to those whom a real API server permits; and a parser of Prometheus' own.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde_json::{Value, json};
use steersman_client::{Client, ObjectMeta, PostParams};
use steersman_http::Tls;
use steersman_runtime::metrics::MetricsServer;
use steersman_runtime::{Action, Context, Manager, Probes, kind, reconcile_fn};
use steersman_testing::eventually_within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use super::{PATIENCE, eventually, map_in, server, start};
use crate::support::exposition::Exposition;

#[path = "../prometheus/home.rs"]
mod home;

/// Reads over TLS, with a token if there is one.
struct Scraper {
    address: SocketAddr,
    tls: TlsConnector,
}

impl Scraper {
    fn new(address: SocketAddr, roots: RootCertStore) -> Self {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { address, tls: TlsConnector::from(Arc::new(config)) }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        self.tls.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
    }

    async fn get(&self, path: &str, token: Option<&str>) -> (u16, String) {
        let token = token.map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"));
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{token}Connection: close\r\n\r\n");
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut response)).await.expect("a response").unwrap();
        let (head, body) = response.split_once("\r\n\r\n").expect(&response);
        let body =
            if head.to_lowercase().contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    whole
}

/// A certificate for `localhost` in files, and the roots that trust it.
fn certificate(directory: &std::path::Path) -> RootCertStore {
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(directory.join("tls.crt"), signed.cert.pem()).unwrap();
    std::fs::write(directory.join("tls.key"), signed.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(signed.cert.der().clone()).unwrap();
    roots
}

/// A token of a new service account.
async fn token_of(client: &Client, namespace: &str, name: &str) -> String {
    let accounts = client.namespaced::<ServiceAccount>(namespace);
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    accounts.create(&PostParams::default(), &ServiceAccount { metadata, ..ServiceAccount::default() }).await.unwrap();
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let params = PostParams::default();
    let made: Value = accounts.subresource("token").create(name, &params, &request).await.unwrap();
    made["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn metrics_are_for_those_whom_the_api_server_permits() {
    let (client, namespace) = server("metrics").await;
    let directory = tempfile::tempdir().unwrap();
    let roots = certificate(directory.path());
    let metrics = MetricsServer::new()
        .listen("127.0.0.1:0".parse().unwrap())
        .secure(Tls::directory(directory.path()))
        .debug_pages();
    let probes = Probes::new().listen("127.0.0.1:0".parse().unwrap());
    let manager = Manager::builder(client.clone()).metrics(metrics).unwrap().probes(probes).unwrap().build();
    let done = reconcile_fn(|_: Context<ConfigMap>, _| async { Ok(Action::done()) });
    let watched = kind::<ConfigMap>().namespace(&namespace);
    manager.controller(watched).complete(done).unwrap();
    let running = start(&manager);
    let scraper = Scraper::new(manager.metrics_address().unwrap(), roots);

    let unauthorized = (401, "Unauthorized\n".to_owned());
    assert_eq!(scraper.get("/metrics", None).await, unauthorized);
    assert_eq!(scraper.get("/metrics", Some("made-up")).await, unauthorized);
    assert_eq!(scraper.get("/nowhere", None).await, unauthorized);
    for page in ["/debug", "/debug/state"] {
        assert_eq!(scraper.get(page, None).await, unauthorized, "{page}");
        assert_eq!(scraper.get(page, Some("made-up")).await, unauthorized, "{page}");
    }
    let stranger = token_of(&client, &namespace, "stranger").await;
    let denied = format!("Authorization denied for user system:serviceaccount:{namespace}:stranger\n");
    assert_eq!(scraper.get("/metrics", Some(&stranger)).await, (403, denied));

    let reader = token_of(&client, &namespace, "reader").await;
    let name = format!("metrics-reader-{namespace}");
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": {"name": name}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }))
    .unwrap();
    client.cluster::<ClusterRole>().create(&PostParams::default(), &role).await.unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
    }))
    .unwrap();
    client.cluster::<ClusterRoleBinding>().create(&PostParams::default(), &binding).await.unwrap();
    // The server's own cache of roles follows a little later.
    let reviews = client.cluster::<k8s_openapi::api::authorization::v1::SubjectAccessReview>();
    let review = serde_json::from_value(json!({
        "spec": {"user": format!("system:serviceaccount:{namespace}:reader"),
                 "nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
    }))
    .unwrap();
    eventually_within(PATIENCE, "the role takes effect", || async {
        reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
    })
    .await;
    let (status, body) = scraper.get("/metrics", Some(&reader)).await;
    assert_eq!(status, 200);
    let shown = Exposition::parse(&body);
    assert_eq!(shown.value("certwatcher_read_certificate_total", &[]), 1.0);
    for other in ["/metrics/cadvisor", "/debug", "/debug/state"] {
        assert_eq!(scraper.get(other, Some(&reader)).await.0, 403, "the right is for one path, not {other}");
    }

    // Probes need neither, beside connections that lead nowhere on both ports.
    let (probes, metrics) = (manager.probes_address().unwrap(), manager.metrics_address().unwrap());
    let mut idle = Vec::new();
    for address in std::iter::repeat_n([probes, metrics], 500).flatten() {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    // One head that never ends, and one that is huge.
    let mut slow = scraper.connect().await;
    slow.write_all(b"GET /metrics HTTP/1.1\r\nX-Slow: x").await.unwrap();
    let mut huge = scraper.connect().await;
    // The server closes the connection before it has read everything.
    let _ = huge.write_all(format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(2 << 20)).as_bytes()).await;
    let mut response = Vec::new();
    let _ = timeout(PATIENCE, huge.read_to_end(&mut response)).await.expect("the server closes the connection");
    assert!(!response.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&response));
    eventually("the manager is ready", || manager.is_ready()).await;
    let mut stream = TcpStream::connect(probes).await.unwrap();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut response = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut response)).await.unwrap().unwrap();
    assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("ok"), "{response}");
    assert_eq!(scraper.get("/metrics", Some(&reader)).await.0, 200);
    drop(slow);
    running.stop().await.unwrap();
}

/// The families of an exposition, as `prometheus_client` of Python reads them.
fn parse_with_prometheus(text: &str) -> Vec<Value> {
    let python = home::folder().expect("a home folder").join("venv/bin/python");
    assert!(python.exists(), "Prometheus' parser is missing: run `cargo xtask servers prometheus`");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/prometheus/parse.py");
    let mut child =
        Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python runs");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the parser refuses it");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn a_parser_of_prometheus_reads_what_ours_reads() {
    let (client, namespace) = server("exposition").await;
    let manager = Manager::builder(client.clone()).detailed_request_metrics().build();
    let reconciler = reconcile_fn(|_: Context<ConfigMap>, key: steersman_runtime::ObjectKey| async move {
        match key.name() {
            "later" => Ok(Action::requeue_after(Duration::from_secs(3600))),
            _ => Ok(Action::done()),
        }
    });
    let watched = kind::<ConfigMap>().namespace(&namespace);
    let controller = manager.controller(watched).complete(reconciler).unwrap();
    let maps = client.namespaced::<ConfigMap>(&namespace);
    for name in ["a", "b", "later"] {
        maps.create(&PostParams::default(), &map_in(&namespace, name)).await.unwrap();
    }
    let running = start(&manager);
    eventually("all maps are reconciled", || controller.metrics().reconciles_total >= 3).await;
    let text = manager.metrics().encode();
    running.stop().await.unwrap();

    let (ours, theirs) = (Exposition::parse(&text), parse_with_prometheus(&text));
    let mut samples = 0;
    for family in &theirs {
        let (name, kind) = (family["name"].as_str().unwrap(), family["type"].as_str().unwrap());
        // That parser leaves out the suffix of counters.
        let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        assert_eq!(ours.types.get(&name).map(String::as_str), Some(kind), "{name}");
        assert!(!family["help"].as_str().unwrap().is_empty(), "{name}");
        for sample in family["samples"].as_array().unwrap() {
            let labels: std::collections::BTreeMap<String, String> = serde_json::from_value(sample[1].clone()).unwrap();
            let series = (sample[0].as_str().unwrap().to_owned(), labels);
            let value: f64 = sample[2].as_str().unwrap().parse().unwrap();
            assert_eq!(ours.samples.get(&series), Some(&value), "{series:?}");
            samples += 1;
        }
    }
    assert_eq!((theirs.len(), samples), (ours.types.len(), ours.samples.len()));
    let requests = ours.of("rest_client_requests_total");
    let host = client.server().trim_start_matches("https://");
    assert!(requests.iter().any(|(labels, _)| labels["host"] == host && labels["code"] == "200"), "{requests:?}");
    assert!(ours.value("rest_client_request_duration_seconds_count", &[("verb", "GET"), ("host", host)]) >= 1.0);
}
