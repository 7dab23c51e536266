//! The HTTP servers of a manager: metrics and probes.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_cache::Phase;
use steersman_client::World;
use steersman_runtime::leader_election::{LeaderElection, Timing};
use steersman_runtime::metrics::MetricsServer;
use steersman_runtime::{Action, Context, Error, Manager, ObjectKey, Probes, kind, reconcile_fn};
use steersman_testing::{Embedded, Fault, FaultyNetwork};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::exposition::Exposition;
use crate::support::{eventually, map, start};

const DEADLINE: Duration = Duration::from_secs(60);

/// The status, the head and the body of a response.
pub(crate) async fn get(port: u16, path: &str) -> (u16, String, String) {
    get_with(port, path, "Host: localhost\r\n").await
}

async fn get_with(port: u16, path: &str, headers: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("the server listens");
    let request = format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    timeout(DEADLINE, stream.read_to_string(&mut response)).await.expect("a response").unwrap();
    let (head, body) = response.split_once("\r\n\r\n").expect(&response);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

fn on_free_port() -> Probes {
    Probes::new().listen(":0".parse().unwrap())
}

async fn nothing(_: Context<ConfigMap>, _: ObjectKey) -> Result<Action, steersman_runtime::ReconcileError> {
    Ok(Action::done())
}

#[tokio::test]
async fn metrics_are_served_on_loopback_while_the_manager_runs() {
    let server = Embedded::empty();
    let metrics = MetricsServer::new().listen("127.0.0.1:0".parse().unwrap());
    let manager = Manager::builder(server.client()).metrics(metrics).unwrap().build();
    manager.controller(kind::<ConfigMap>()).complete(reconcile_fn(nothing)).unwrap();
    let address = manager.metrics_address().unwrap();
    assert!(address.ip().is_loopback());
    let running = start(&manager);
    let (status, head, body) = get(address.port(), "/metrics").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    let shown = Exposition::parse(&body);
    assert_eq!(shown.value("controller_runtime_max_concurrent_reconciles", &[("controller", "configmap")]), 1.0);
    assert_eq!(get(address.port(), "/debug").await.0, 404, "debug pages are off by default");
    running.stop().await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn debug_pages_are_served_beside_the_metrics_if_asked_for() {
    let server = Embedded::empty();
    let metrics = MetricsServer::new().listen("127.0.0.1:0".parse().unwrap()).debug_pages();
    let manager = Manager::builder(server.client()).metrics(metrics).unwrap().build();
    let port = manager.metrics_address().unwrap().port();
    let running = start(&manager);
    let (status, head, body) = get(port, "/debug").await;
    assert!(status == 200 && head.contains("content-type: text/html") && body.contains("<html"), "{head}");
    let state: serde_json::Value = serde_json::from_str(&get(port, "/debug/state").await.2).unwrap();
    assert!(state["controllers"].is_array(), "{state}");
    assert_eq!(get(port, "/metrics").await.0, 200);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn pages_of_other_sites_read_nothing_from_a_plain_server_on_loopback() {
    let server = Embedded::empty();
    let metrics = MetricsServer::new().listen("127.0.0.1:0".parse().unwrap()).debug_pages();
    let manager = Manager::builder(server.client()).metrics(metrics).unwrap().build();
    let port = manager.metrics_address().unwrap().port();
    let running = start(&manager);
    let refused = [
        "Host: rebound.example\r\n".to_owned(),
        format!("Host: rebound.example:{port}\r\n"),
        "Host: localhost.rebound.example\r\n".to_owned(),
        "Host: 127.0.0.1.rebound.example\r\n".to_owned(),
        "Host: localhost\r\nHost: rebound.example\r\n".to_owned(),
        "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n".to_owned(),
        String::new(),
    ];
    for path in ["/metrics", "/debug", "/debug/state"] {
        for headers in &refused {
            assert_eq!(get_with(port, path, headers).await.0, 403, "{path} {headers}");
        }
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"] {
            assert_eq!(get_with(port, path, &format!("Host: {host}\r\n")).await.0, 200, "{path} {host}");
            assert_eq!(get_with(port, path, &format!("Host: {host}:8080\r\n")).await.0, 200, "{path} {host}");
        }
        let own = "Host: localhost\r\nSec-Fetch-Site: none\r\n";
        assert_eq!(get_with(port, path, own).await.0, 200, "{path}");
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_plain_server_on_all_interfaces_answers_by_any_name() {
    let server = Embedded::empty();
    let metrics = MetricsServer::new().listen(":0".parse().unwrap());
    let manager = Manager::builder(server.client()).metrics(metrics).unwrap().build();
    let port = manager.metrics_address().unwrap().port();
    let running = start(&manager);
    assert_eq!(get_with(port, "/metrics", "Host: operator.example\r\n").await.0, 200);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn an_address_in_use_is_an_error_of_the_builder() {
    let server = Embedded::empty();
    let first = Manager::builder(server.client()).probes(on_free_port()).unwrap().build();
    let taken = SocketAddr::from((Ipv4Addr::LOCALHOST, first.probes_address().unwrap().port()));
    let error = Manager::builder(server.client()).metrics(MetricsServer::new().listen(taken.into())).unwrap_err();
    assert!(matches!(error, Error::Serve(_)), "{error}");
    assert!(error.to_string().starts_with(&format!("cannot listen on {taken}: ")), "{error}");
}

#[tokio::test]
async fn a_held_lease_that_is_not_renewed_is_unhealthy() {
    let (server, seconds) = (Embedded::empty(), Duration::from_secs);
    let world = World::seeded(1, "2026-01-31T10:00:00Z".parse().unwrap());
    // The election does not wake during the test.
    let (lease_duration, renew_deadline, retry_period) = (seconds(600), seconds(400), seconds(300));
    let timing = Timing { lease_duration, renew_deadline, retry_period, ..Timing::default() };
    let builder = Manager::builder(server.client()).world(world.clone()).probes(on_free_port()).unwrap();
    let metrics = MetricsServer::new().listen("127.0.0.1:0".parse().unwrap());
    let election = LeaderElection::new("operator").timing(timing);
    let manager = builder.metrics(metrics).unwrap().leader_election(election).unwrap().build();
    let [probes, metrics] =
        [manager.probes_address(), manager.metrics_address()].map(|address| address.unwrap().port());
    let master_status = async || {
        let shown = Exposition::parse(&get(metrics, "/metrics").await.2);
        shown.value("leader_election_master_status", &[("name", "operator")])
    };
    let running = start(&manager);
    eventually("the replica leads", || manager.leadership().unwrap().is_leader()).await;
    assert_eq!((get(probes, "/healthz").await.0, master_status().await), (200, 1.0));
    // Past the renew deadline, before requests under way are cancelled.
    world.suspend(seconds(420));
    assert_eq!((get(probes, "/healthz").await.0, master_status().await), (200, 0.0));
    world.suspend(seconds(80));
    let (status, _, body) = get(probes, "/healthz/leader-election").await;
    assert_eq!((status, get(probes, "/healthz").await.0), (500, 500));
    assert!(body.contains("the lease is held and was not renewed"), "{body}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn readiness_follows_the_caches_once_and_the_stop() {
    let server = Embedded::empty();
    let network = FaultyNetwork::new(&server);
    network.fail("", Fault::Refused);
    let probes = on_free_port().ready_check("neutron", async || Ok::<_, std::io::Error>(()));
    let manager = Manager::builder(network.client()).probes(probes).unwrap().build();
    manager.controller(kind::<ConfigMap>().namespace("default")).complete(reconcile_fn(nothing)).unwrap();
    // A runnable that takes its time to stop.
    let (release, released) = tokio::sync::oneshot::channel::<()>();
    manager
        .add("slow", async move |stop: steersman_runtime::StopSignal| {
            stop.stopped().await;
            let _ = released.await;
            Ok::<_, std::io::Error>(())
        })
        .unwrap();
    let port = manager.probes_address().unwrap().port();
    let running = start(&manager);
    // Healthy, but without its caches.
    assert_eq!(get(port, "/healthz").await, (200, get(port, "/healthz").await.1, "ok".to_owned()));
    let (status, _, body) = get(port, "/readyz").await;
    assert_eq!((status, &*body), (500, "[-]caches failed: reason withheld\n[+]neutron ok\nreadyz check failed\n"));
    let (status, _, body) = get(port, "/readyz/caches").await;
    assert_eq!(status, 500);
    assert!(body.starts_with("internal server error: not all caches have synced: /api/v1/"), "{body}");
    assert_eq!(get(port, "/readyz?exclude=caches").await.0, 200);

    network.mend();
    eventually("the manager is ready", || manager.is_ready()).await;
    assert_eq!(get(port, "/readyz").await.2, "ok");
    // An outage does not change it.
    network.fail("", Fault::Refused);
    network.cut();
    let is_cut_off = || manager.status().iter().all(|status| matches!(status.phase, Phase::BackingOff { .. }));
    eventually("the watch is lost", is_cut_off).await;
    let (_, _, body) = get(port, "/readyz?verbose").await;
    assert_eq!(body, "[+]caches ok\n[+]neutron ok\nreadyz check passed\n");
    assert_eq!(get(port, "/healthz?verbose").await.2, "[+]runtime ok\nhealthz check passed\n");
    network.mend();

    let stopping = tokio::spawn(running.stop());
    eventually("the manager stops", || !manager.is_ready()).await;
    let (status, _, body) = get(port, "/readyz/caches").await;
    assert_eq!((status, &*body), (500, "internal server error: the manager is stopping\n"));
    assert_eq!(get(port, "/healthz").await.0, 200);
    release.send(()).unwrap();
    stopping.await.unwrap().unwrap();
}

#[tokio::test]
async fn probes_take_small_heads_and_no_bodies() {
    let server = Embedded::empty();
    let manager = Manager::builder(server.client()).probes(on_free_port()).unwrap().build();
    let port = manager.probes_address().unwrap().port();
    let running = start(&manager);
    let ask = async |header: String| {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let head = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n\r\n");
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(head.as_bytes()).await;
        let mut response = Vec::new();
        let _ = timeout(DEADLINE, stream.read_to_end(&mut response)).await.expect("the server closes the connection");
        String::from_utf8(response).unwrap()
    };
    assert!(ask(format!("X: {}", "x".repeat(12 << 10))).await.starts_with("HTTP/1.1 200 "));
    assert!(!ask(format!("X: {}", "x".repeat(40 << 10))).await.starts_with("HTTP/1.1 200 "));
    assert!(ask("Content-Length: 1".to_owned()).await.starts_with("HTTP/1.1 413 "));
    assert!(ask("Transfer-Encoding: chunked".to_owned()).await.starts_with("HTTP/1.1 413 "));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_slow_client_is_cut_off_and_the_stop_is_in_order() {
    let server = Embedded::empty();
    let (asked, mut is_asked) = tokio::sync::mpsc::unbounded_channel();
    let probes = on_free_port().ready_check("slow", move || {
        let _ = asked.send(());
        std::future::pending::<Result<(), std::io::Error>>()
    });
    let grace = Duration::from_millis(200);
    let manager = Manager::builder(server.client()).grace_period(grace).probes(probes).unwrap().build();
    let port = manager.probes_address().unwrap().port();
    let running = start(&manager);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    timeout(DEADLINE, is_asked.recv()).await.unwrap().unwrap();
    running.stop().await.unwrap();
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err());
}

#[tokio::test]
async fn events_are_written_while_servers_stop() {
    let server = Embedded::empty();
    let manager = Manager::new(server.client());
    let recorder = manager.events("test").unwrap();
    let handle = manager.clone();
    manager
        .add_server("slow", async move |stop: steersman_runtime::StopSignal| {
            stop.stopped().await;
            eventually("the series is written", || handle.event_metrics().patched_total == 2).await;
            Ok::<_, std::io::Error>(())
        })
        .unwrap();
    let running = start(&manager);
    let record = || recorder.normal(&map("web", ""), "Counted", "Count", "");
    record();
    eventually("the first Event is written", || manager.event_metrics().created_total == 1).await;
    record();
    eventually("the second one is written", || manager.event_metrics().patched_total == 1).await;
    // The third one would be written a minute later.
    record();
    running.stop().await.unwrap();
    assert_eq!(manager.event_metrics().failed_total, 0);
}

#[tokio::test]
async fn probes_keep_answering_beside_a_thousand_idle_connections() {
    let server = Embedded::empty();
    let metrics = MetricsServer::new().listen("127.0.0.1:0".parse().unwrap());
    let manager = Manager::builder(server.client()).probes(on_free_port()).unwrap().metrics(metrics).unwrap().build();
    let (probes, metrics) = (manager.probes_address().unwrap().port(), manager.metrics_address().unwrap().port());
    let running = start(&manager);
    let mut idle = Vec::new();
    for count in 0..1_000 {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, probes)).await.unwrap();
        match count % 3 {
            0 => {}
            // Headers that never end.
            1 => stream.write_all(b"GET /healthz HTTP/1.1\r\nX-Slow: x").await.unwrap(),
            _ => stream.write_all(b"G").await.unwrap(),
        }
        idle.push(stream);
        if count % 100 == 0 {
            assert_eq!(get(probes, "/healthz").await.2, "ok");
        }
    }
    let mut huge = TcpStream::connect((Ipv4Addr::LOCALHOST, probes)).await.unwrap();
    // The server closes the connection before it has read everything.
    let head = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(2 << 20));
    let _ = huge.write_all(head.as_bytes()).await;
    assert_eq!(get(probes, "/healthz").await.2, "ok");
    assert_eq!(get(probes, "/readyz").await.2, "ok");
    assert_eq!(get(metrics, "/metrics").await.0, 200);
    drop(idle);
    running.stop().await.unwrap();
}
