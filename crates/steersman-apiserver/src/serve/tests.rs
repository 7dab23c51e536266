//! The server over real sockets, with valid and with hostile clients.

mod heavy;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{CipherSuite, ClientConfig, RootCertStore};

use super::{ListenError, STOP_TIMEOUT, Serving};
use crate::ApiServer;

/// The limit of every wait, on a busy machine, too.
const PATIENCE: Duration = Duration::from_secs(20);
/// A limit that a test waits for.
const SHORT: Duration = Duration::from_millis(200);

async fn start() -> Serving {
    ApiServer::new().serve().start().await.unwrap()
}

fn address(serving: &Serving) -> SocketAddr {
    serving.url().strip_prefix("https://").unwrap().parse().unwrap()
}

async fn tcp(serving: &Serving) -> TcpStream {
    TcpStream::connect(address(serving)).await.unwrap()
}

/// A connection without a client certificate.
async fn tls(serving: &Serving, protocol: &str) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(serving.authority().as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let name = ServerName::from(address(serving).ip());
    TlsConnector::from(Arc::new(config)).connect(name, tcp(serving).await).await.unwrap()
}

#[tokio::test]
async fn the_shorter_key_is_preferred_as_in_servers_of_go() {
    let serving = ApiServer::new().serve().start().await.unwrap();
    let stream = tls(&serving, "h2").await;
    let suite = stream.get_ref().1.negotiated_cipher_suite().unwrap().suite();
    assert_eq!(suite, CipherSuite::TLS13_AES_128_GCM_SHA256);
}

/// Sends a request with these header lines, and reads the status and the body of the response.
async fn get(stream: &mut TlsStream<TcpStream>, headers: &str) -> (u16, Value) {
    let request = format!("GET /api/v1/namespaces/default HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&response);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                let status = head.split(' ').nth(1).unwrap().parse().unwrap();
                return (status, serde_json::from_str(body).unwrap());
            }
        }
        assert_ne!(stream.read_buf(&mut response).await.unwrap(), 0, "the connection ended early");
    }
}

/// Waits until the other side closes the connection.
async fn closed(stream: &mut (impl AsyncRead + Unpin)) {
    let mut rest = Vec::new();
    // An error is an end as well: a reset, or TLS that was cut short.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the connection stays open");
}

/// Polls until a condition holds. That of `steersman-testing` is not for this crate, of which it is
/// made.
async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < PATIENCE, "this did not happen within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn config(kubeconfig: &str) -> Config {
    let kubeconfig: Kubeconfig = serde_json::from_str(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    config
}

async fn maps(serving: &Serving) -> Api<ConfigMap> {
    Api::default_namespaced(Client::try_from(config(serving.kubeconfig()).await).unwrap())
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..Default::default() }, ..Default::default() }
}

#[tokio::test]
async fn a_client_of_the_kubeconfig_creates_reads_and_watches() {
    let serving = start().await;
    let maps = maps(&serving).await;
    let first = maps.create(&PostParams::default(), &config_map("first")).await.unwrap();
    assert_eq!(maps.get("first").await.unwrap().uid(), first.uid());

    let version = first.resource_version().unwrap();
    let mut events = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    maps.create(&PostParams::default(), &config_map("second")).await.unwrap();
    let event = tokio::time::timeout(PATIENCE, events.try_next()).await.expect("no event comes").unwrap();
    assert!(matches!(event, Some(WatchEvent::Added(map)) if map.name_any() == "second"));
}

#[tokio::test]
async fn the_certificate_alone_and_the_token_alone_are_enough() {
    let serving = start().await;
    for fields in [&["token"][..], &["client-certificate-data", "client-key-data"]] {
        let mut kubeconfig: Value = serde_json::from_str(serving.kubeconfig()).unwrap();
        for field in fields {
            kubeconfig["users"][0]["user"].as_object_mut().unwrap().remove(*field).unwrap();
        }
        let client = Client::try_from(config(&kubeconfig.to_string()).await).unwrap();
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        maps.list(&Default::default()).await.unwrap_or_else(|error| panic!("without {fields:?}: {error}"));
    }
}

#[tokio::test]
async fn the_token_of_a_service_account_is_a_credential() {
    let server = ApiServer::new().with_rbac();
    let serving = server.serve().start().await.unwrap();
    let admin = Client::try_from(config(serving.kubeconfig()).await).unwrap();
    let post = async |path: &str, body: Value| -> Value {
        let request = http::Request::post(path).header("content-type", "application/json");
        admin.request(request.body(body.to_string().into_bytes()).unwrap()).await.unwrap()
    };
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    post(accounts, json!({"metadata": {"name": "sa"}})).await;
    let token = post(&format!("{accounts}/sa/token"), json!({})).await;
    let mut kubeconfig: Value = serde_json::from_str(serving.kubeconfig()).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": token["status"]["token"]});
    let client = Client::try_from(config(&kubeconfig.to_string()).await).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let refused = maps.list(&Default::default()).await.unwrap_err().to_string();
    assert!(refused.contains("User \"system:serviceaccount:default:sa\" cannot list"), "{refused}");
    let account = http::Request::delete(format!("{accounts}/sa")).body(Vec::new()).unwrap();
    admin.request_text(account).await.unwrap();
    let refused = maps.list(&Default::default()).await.unwrap_err().to_string();
    assert!(refused.contains("Unauthorized"), "{refused}");
    serving.stop().await;
}

#[tokio::test]
async fn a_request_without_a_credential_is_refused() {
    let serving = start().await;
    let mut stream = tls(&serving, "http/1.1").await;
    let (token, wrong) = (serving.token(), "0".repeat(serving.token().len()));
    let headers = [
        String::new(),
        "Authorization: Bearer\r\n".to_owned(),
        "Authorization: Bearer \r\n".to_owned(),
        format!("Authorization: Bearer {wrong}\r\n"),
        format!("Authorization: Bearer {token}0\r\n"),
        format!("Authorization: Basic {token}\r\n"),
        format!("X-Authorization: Bearer {token}\r\n"),
    ];
    for headers in headers {
        let (status, body) = get(&mut stream, &headers).await;
        assert_eq!((status, &body["reason"], &body["code"]), (401, &"Unauthorized".into(), &401.into()), "{headers:?}");
    }
    // A token is valid for its request and for no other.
    let good = format!("Authorization: bearer {token}\r\n");
    let (status, body) = get(&mut stream, &good).await;
    assert_eq!((status, &body["kind"]), (200, &"Namespace".into()));
    assert_eq!(get(&mut stream, "").await.0, 401);
}

#[tokio::test]
async fn the_credentials_of_another_server_are_none() {
    let (serving, other) = (start().await, start().await);
    let mut kubeconfig: Value = serde_json::from_str(other.kubeconfig()).unwrap();
    let ours: Value = serde_json::from_str(serving.kubeconfig()).unwrap();
    kubeconfig["clusters"] = ours["clusters"].clone();
    let client = Client::try_from(config(&kubeconfig.to_string()).await).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    assert!(maps.list(&Default::default()).await.is_err());
}

#[tokio::test]
async fn http_2_is_spoken_with_those_who_offer_it() {
    let serving = start().await;
    let stream = tls(&serving, "h2").await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = |token: &str| {
        http::Request::get(format!("{}/api/v1/namespaces/default", serving.url()))
            .header("authorization", format!("Bearer {token}"))
            .body(Empty::<bytes::Bytes>::new())
            .unwrap()
    };
    let response = sender.send_request(request(serving.token())).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
    assert!(response.into_body().collect().await.unwrap().to_bytes().starts_with(br#"{"kind":"Namespace""#));
    assert_eq!(sender.send_request(request("")).await.unwrap().status(), 401);
}

#[tokio::test]
async fn invalid_bytes_delay_no_other_connection() {
    let serve = ApiServer::new().serve().handshake_timeout(SHORT).header_timeout(SHORT);
    let serving = serve.start().await.unwrap();
    let mut silent = tcp(&serving).await;
    let mut garbage = tcp(&serving).await;
    garbage.write_all(&[0xff; 4096]).await.unwrap();
    let mut plain = tcp(&serving).await;
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut half_hello = tcp(&serving).await;
    half_hello.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]).await.unwrap();
    let mut half_head = tls(&serving, "http/1.1").await;
    half_head.write_all(b"GET /version HTTP/1.1\r\nHost: lo").await.unwrap();
    let mut half_preface = tls(&serving, "h2").await;
    half_preface.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let mut not_http = tls(&serving, "http/1.1").await;
    not_http.write_all(&[0; 512]).await.unwrap();

    maps(&serving).await.list(&Default::default()).await.unwrap();
    for stream in [&mut silent, &mut garbage, &mut plain, &mut half_hello] {
        closed(stream).await;
    }
    for stream in [&mut half_head, &mut half_preface, &mut not_http] {
        closed(stream).await;
    }
}

#[tokio::test]
async fn a_connection_without_a_credential_is_closed() {
    let serving = ApiServer::new().serve().header_timeout(SHORT).start().await.unwrap();
    let mut refused = tls(&serving, "http/1.1").await;
    assert_eq!(get(&mut refused, "").await.0, 401);
    closed(&mut refused).await;

    // The whole preface and settings of HTTP/2, and then nothing.
    let mut idle = tls(&serving, "h2").await;
    idle.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    closed(&mut idle).await;
}

#[tokio::test]
async fn a_watch_outlives_the_time_for_headers() {
    let serving = ApiServer::new().serve().header_timeout(SHORT).start().await.unwrap();
    let watcher = maps(&serving).await;
    let mut events = watcher.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    // A later connection has reached its time limit: that of the watch is over as well.
    let mut later = tls(&serving, "http/1.1").await;
    closed(&mut later).await;
    maps(&serving).await.create(&PostParams::default(), &config_map("late")).await.unwrap();
    let event = tokio::time::timeout(PATIENCE, events.try_next()).await.expect("no event comes").unwrap();
    assert!(matches!(event, Some(WatchEvent::Added(_))));
}

#[tokio::test]
async fn one_connection_too_many_is_closed_at_once() {
    let serving = ApiServer::new().serve().connections_max(2).start().await.unwrap();
    let good = format!("Authorization: Bearer {}\r\n", serving.token());
    let mut first = tls(&serving, "http/1.1").await;
    let mut second = tls(&serving, "http/1.1").await;
    assert_eq!(get(&mut first, &good).await.0, 200);
    assert_eq!(get(&mut second, &good).await.0, 200);
    closed(&mut tcp(&serving).await).await;
    assert_eq!(get(&mut second, &good).await.0, 200);

    drop(first);
    let maps = maps(&serving).await;
    eventually("a place that has become free", async || maps.list(&Default::default()).await.is_ok()).await;
}

#[tokio::test]
async fn silent_connections_lock_no_client_out() {
    // They would stay forever if the server waited for them.
    let long = Duration::from_secs(3600);
    let serve = ApiServer::new().serve().handshake_timeout(long).header_timeout(long);
    let serving = serve.connections_max(2).unauthenticated_max(4).start().await.unwrap();
    let known = maps(&serving).await;
    known.list(&Default::default()).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..6 {
        silent.push(tcp(&serving).await);
    }
    let mut half_head = tls(&serving, "http/1.1").await;
    half_head.write_all(b"GET /version HTTP/1.1\r\nHost: lo").await.unwrap();
    for _ in 0..6 {
        silent.push(tcp(&serving).await);
    }
    // Neither an older nor a new client waits for them.
    known.list(&Default::default()).await.unwrap();
    maps(&serving).await.list(&Default::default()).await.unwrap();
    for stream in &mut silent[..8] {
        closed(stream).await;
    }
    closed(&mut half_head).await;
}

/// Reads the head of a response and returns its status.
async fn status(stream: &mut TlsStream<TcpStream>) -> u16 {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let read = tokio::time::timeout(PATIENCE, stream.read_u8()).await.expect("no response comes");
        head.push(read.expect("the connection ended early"));
    }
    String::from_utf8_lossy(&head).split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_body_that_stops_is_refused() {
    let serving = ApiServer::new().serve().body_timeout(SHORT).start().await.unwrap();
    for body in ["", "{\"metadata\""] {
        let mut stream = tls(&serving, "http/1.1").await;
        let head = format!(
            "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\
             Authorization: Bearer {}\r\nContent-Type: application/json\r\n\r\n{body}",
            serving.token()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(status(&mut stream).await, 504);
        closed(&mut stream).await;
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_loses_its_connection() {
    let server = ApiServer::new();
    let serving = server.serve().connections_max(2).write_timeout(SHORT).start().await.unwrap();
    let writer = maps(&serving).await;
    // More than the buffers of sockets hold.
    for index in 0..24 {
        let data = [("text".to_owned(), "x".repeat(1_000_000))].into();
        let map = ConfigMap { data: Some(data), ..config_map(&format!("large-{index}")) };
        writer.create(&PostParams::default(), &map).await.unwrap();
    }
    let mut unread = tls(&serving, "http/1.1").await;
    let path = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0";
    let token = serving.token();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    unread.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(status(&mut unread).await, 200);
    // The writer and the watch have all slots, until that of the watch is free again.
    let other = maps(&serving).await;
    let limited = kube_client::api::ListParams::default().limit(1);
    eventually("the place of the watch", async || other.list(&limited).await.is_ok()).await;
    let mut rest = Vec::new();
    let end = tokio::time::timeout(PATIENCE, unread.read_to_end(&mut rest)).await.expect("the watch goes on");
    assert!(end.is_err(), "it ends in the middle of an event");
    assert!(rest.len() < 24_000_000);
}

#[tokio::test]
async fn watches_end_with_the_server() {
    let serving = start().await;
    let address = address(&serving);
    let maps = maps(&serving).await;
    let mut events = maps.watch(&WatchParams::default().fields("metadata.name=none"), "0").await.unwrap().boxed();
    // Their remaining output is not waited for.
    let _silent = tcp(&serving).await;
    let mut half_head = tls(&serving, "http/1.1").await;
    half_head.write_all(b"GET /version HTTP/1.1\r\n").await.unwrap();
    let mut half_preface = tls(&serving, "h2").await;
    half_preface.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let mut idle = tls(&serving, "http/1.1").await;
    assert_eq!(get(&mut idle, &format!("Authorization: Bearer {}\r\n", serving.token())).await.0, 200);
    let began = Instant::now();
    serving.stop().await;
    assert!(began.elapsed() < STOP_TIMEOUT, "it had to be cut off");
    let end = tokio::time::timeout(PATIENCE, events.try_next()).await.expect("the watch does not end");
    assert!(end.unwrap().is_none(), "a watch ends as it does when its time is up");
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_server_that_is_dropped_stops() {
    let serving = start().await;
    let address = address(&serving);
    let maps = maps(&serving).await;
    let mut events = maps.watch(&WatchParams::default().fields("metadata.name=none"), "0").await.unwrap().boxed();
    drop(serving);
    let end = tokio::time::timeout(PATIENCE, events.try_next()).await.expect("the watch does not end");
    assert!(end.unwrap().is_none());
    eventually("the port to be free", async || TcpStream::connect(address).await.is_err()).await;
}

#[tokio::test]
async fn the_log_has_each_request_and_no_credential() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    let serve = ApiServer::new().serve().log(move |line| log.lock().unwrap().push(line.to_owned()));
    let serving = serve.start().await.unwrap();
    let mut stream = tls(&serving, "http/1.1").await;
    get(&mut stream, "").await;
    get(&mut stream, &format!("Authorization: Bearer {}\r\n", serving.token())).await;
    maps(&serving).await.list(&kube_client::api::ListParams::default().limit(7)).await.unwrap();
    let lines = lines.lock().unwrap();
    let wanted = [
        "GET /api/v1/namespaces/default 401 ",
        "GET /api/v1/namespaces/default 200 ",
        "GET /api/v1/namespaces/default/configmaps?&limit=7 200 ",
    ];
    assert_eq!(lines.len(), wanted.len(), "{lines:?}");
    for (line, wanted) in lines.iter().zip(wanted) {
        let rest = line.strip_prefix(wanted).unwrap_or_else(|| panic!("{line:?} does not begin with {wanted:?}"));
        assert!(rest.strip_suffix("ms").unwrap().parse::<f64>().is_ok(), "{line:?}");
    }
}

#[tokio::test]
async fn a_port_in_use_is_reported() {
    let serving = start().await;
    let port = address(&serving).port();
    let error = ApiServer::new().serve().address((Ipv4Addr::LOCALHOST, port)).start().await.unwrap_err();
    assert!(matches!(&error, ListenError::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse));
    assert!(error.to_string().starts_with(&format!("cannot listen on 127.0.0.1:{port}: ")));
}

#[tokio::test]
async fn the_objects_outlive_the_socket() {
    let server = ApiServer::new();
    let serving = server.serve().start().await.unwrap();
    maps(&serving).await.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    serving.stop().await;
    let again = server.serve().start().await.unwrap();
    maps(&again).await.get("kept").await.unwrap();
}

/// The user that the server sees for a client of this kubeconfig.
async fn who(kubeconfig: &str) -> Value {
    let client = Client::try_from(config(kubeconfig).await).unwrap();
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let request = request.header("content-type", "application/json").body(b"{}".to_vec()).unwrap();
    let review: Value = client.request(request).await.unwrap();
    review["status"]["userInfo"].clone()
}

#[tokio::test]
async fn a_certificate_a_token_and_impersonation_name_the_user() {
    let serving = start().await;
    let mut kubeconfig: Value = serde_json::from_str(serving.kubeconfig()).unwrap();
    let by_certificate = who(serving.kubeconfig()).await;
    assert_eq!(by_certificate["username"], "steersman-admin");
    assert_eq!(by_certificate["groups"], serde_json::json!(["system:masters", "system:authenticated"]));
    let credential = &by_certificate["extra"]["authentication.kubernetes.io/credential-id"][0];
    assert!(credential.as_str().is_some_and(|text| text.starts_with("X509SHA256=")), "{by_certificate}");

    kubeconfig["users"][0]["user"] = serde_json::json!({"token": serving.token()});
    let by_token = who(&kubeconfig.to_string()).await;
    assert_eq!(by_token, serde_json::json!({"username": "steersman-admin", "groups": by_certificate["groups"]}));

    let jane = crate::Identity::new("jane", ["developers", "testers"]);
    let groups = serde_json::json!(["developers", "testers", "system:authenticated"]);
    let by_wish = who(&serving.kubeconfig_as(&jane)).await;
    assert_eq!(by_wish, serde_json::json!({"username": "jane", "groups": groups}));
}

/// A burst waits to be accepted. Connections that the system drops come back after a second.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "current_thread")]
async fn a_burst_of_connections_is_not_dropped() {
    let serving = start().await;
    let address: std::net::SocketAddr = serving.url().strip_prefix("https://").unwrap().parse().unwrap();
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse::<usize>().unwrap();
    // On the only thread: nothing is accepted during the burst.
    let connect = |_| std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_millis(900));
    let open = (0..most.min(1_000)).map(connect).collect::<Result<Vec<_>, _>>();
    assert!(open.is_ok(), "{open:?}");
}
