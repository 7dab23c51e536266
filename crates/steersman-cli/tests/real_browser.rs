//! Web pages in a real browser against `steersman proxy`: a page of another origin reads nothing
//! and creates nothing.
//!
//! Needs Chromium, which `cargo xtask test` installs on Debian.

mod common;

use std::convert::Infallible;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use common::http::{get, post};
use common::{Running, steersman};
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const PAGE: &str = include_str!("real_browser.html");
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The names by which Chromium is installed.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// The deadline of each step, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// A request as a server saw it.
#[derive(Debug)]
struct Seen {
    method: String,
    target: String,
    content_type: Option<String>,
    origin: Option<String>,
    site: Option<String>,
    body: String,
}

/// Serves the page at `/`, and reports every other request.
async fn page_server() -> (SocketAddr, UnboundedReceiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let sender = sender.clone();
            let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let sender = sender.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                    let header = |name: &str| Some(parts.headers.get(name)?.to_str().unwrap().to_owned());
                    let seen = Seen {
                        method: parts.method.to_string(),
                        target: parts.uri.to_string(),
                        content_type: header("content-type"),
                        origin: header("origin"),
                        site: header("sec-fetch-site"),
                        body: String::from_utf8_lossy(&body).into_owned(),
                    };
                    let mut response = http::Response::new(Full::<Bytes>::default());
                    if parts.uri.path() == "/" {
                        let html = HeaderValue::from_static("text/html");
                        response.headers_mut().insert(CONTENT_TYPE, html);
                        *response.body_mut() = PAGE.into();
                    } else {
                        // The test may have ended.
                        let _ = sender.send(seen);
                    }
                    Ok::<_, Infallible>(response)
                }
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    (address, receiver)
}

/// A browser that is killed with the test.
struct Browser(Child);

impl Browser {
    /// Opens `url`. Names below `test.` resolve to this machine, as the DNS of an attacker would.
    fn open(profile: &Path, url: &str) -> Self {
        let mut arguments = vec!["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
        // The sandbox needs permissions that root in a container does not have. The pages are ours.
        arguments.extend(["--no-sandbox", "--disable-background-networking", "--remote-debugging-port=0"]);
        arguments.push("--host-resolver-rules=MAP *.test 127.0.0.1");
        let start = |browser: &&str| {
            let mut command = Command::new(browser);
            command.args(&arguments).arg(format!("--user-data-dir={}", profile.display())).arg(url);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
        };
        let child = BROWSERS.iter().find_map(start);
        Self(child.expect("Chromium is not installed: `cargo xtask test` provides it on Debian, or install it"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn next(receiver: &mut UnboundedReceiver<Seen>) -> Seen {
    tokio::time::timeout(DEADLINE, receiver.recv()).await.expect("the browser sends nothing").unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

#[tokio::test]
async fn a_page_of_another_origin_reads_nothing_and_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let log = folder.path().join("requests.log");
    let apiserver = Running::start(
        steersman()
            .args(["apiserver", "--log-requests", "--kubeconfig"])
            .arg(&kubeconfig)
            .stderr(File::create(&log).unwrap()),
    );
    let proxy = Running::start(steersman().args(["proxy", "--port", "0", "--kubeconfig"]).arg(&kubeconfig));

    // The same requests go to a server that refuses nothing, which shows that the browser sends
    // them.
    let (page, mut done) = page_server().await;
    let (control, mut attempts) = page_server().await;
    for (host, profile) in [("evil.test", "cross-site"), ("127.0.0.1", "same-site")] {
        let port = page.port();
        let url = format!("http://{host}:{port}/?target=http://{control}&target={}", proxy.url);
        let browser = Browser::open(&folder.path().join(profile), &url);
        let report = loop {
            let seen = next(&mut done).await;
            if seen.target == "/done" {
                break seen;
            }
        };
        drop(browser);
        assert_eq!(report.body, "[]", "the page reads an response");

        let mut seen = Vec::new();
        while let Ok(attempt) = attempts.try_recv() {
            assert_eq!(attempt.site.as_deref(), Some(profile), "{attempt:?}");
            let from_page = attempt.origin.as_deref() == Some(&format!("http://{host}:{port}"));
            assert!(from_page || attempt.target.contains("image"), "{attempt:?}");
            seen.push((attempt.method, attempt.content_type, attempt.body));
        }
        let of = |name: &str| seen.iter().find(|(_, _, body)| body.contains(&format!("{name:?}")));
        assert_eq!(of("fetch-without-type").unwrap().1, None);
        assert_eq!(of("fetch-text").unwrap().1.as_deref(), Some("text/plain;charset=UTF-8"));
        assert_eq!(of("form").unwrap().1.as_deref(), Some("text/plain"));
        for method in ["OPTIONS", "GET"] {
            assert!(seen.iter().any(|(seen, _, _)| seen == method), "no {method} in {seen:?}");
        }
    }

    // A page whose name resolves to the proxy itself is of the same origin: the proxy checks the
    // name.
    let rebound = proxy.url.replace("127.0.0.1", "rebound.test");
    let url = format!("{rebound}{MAPS}?rebound=true");
    let printed = Command::new(BROWSERS.iter().find(|name| installed(name)).unwrap())
        .args(["--headless", "--disable-gpu", "--no-sandbox", "--dump-dom"])
        .arg("--host-resolver-rules=MAP *.test 127.0.0.1")
        .arg(format!("--user-data-dir={}", folder.path().join("rebound").display()))
        .arg(&url)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&printed.stdout);
    assert!(printed.contains("is not a name of this machine"), "{printed}");

    // Nothing reached the API server. Clients other than browsers still do.
    let log = std::fs::read_to_string(&log).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains(MAPS)).count(), 0, "{log}");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "curl"}});
    assert_eq!(post(&proxy.url, MAPS, object).await.0, 201);
    assert_eq!(names(&get(&proxy.url, MAPS).await.1), ["curl", "kube-root-ca.crt"]);
    drop(apiserver);
}

fn installed(browser: &str) -> bool {
    Command::new(browser).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}
