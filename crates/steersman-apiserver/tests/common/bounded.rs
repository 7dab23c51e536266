//! Requests whose work and memory are bounded.

// Not every test uses all of it.
#![allow(dead_code)]

use bytes::Bytes;
use futures::FutureExt;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use steersman_apiserver::{ApiServer, Cost};
use tower::Service;

/// The allowed responses to a request that exceeds a limit.
pub(crate) const REFUSED: [u16; 3] = [400, 413, 422];

/// A request with its response.
pub(crate) struct Sent {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) cost: Cost,
}

impl Sent {
    /// Sends a request and reads the whole response. In process, only the response of a watch
    /// waits.
    pub(crate) fn send(server: &ApiServer, method: &str, path: &str, content_type: &str, body: Bytes) -> Self {
        let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
        Self::answered(server, request.body(Full::new(body)).expect("a request"))
    }

    /// Sends a GET for this media type, or for any.
    pub(crate) fn accept(server: &ApiServer, path: &str, media_type: &str) -> Self {
        let mut request = http::Request::get(path);
        if !media_type.is_empty() {
            request = request.header("accept", media_type);
        }
        Self::answered(server, request.body(Full::default()).expect("a request"))
    }

    fn answered(server: &ApiServer, request: http::Request<Full<Bytes>>) -> Self {
        let Ok(answer) = server.clone().call(request).now_or_never().expect("the answer waits for something");
        let status = answer.status().as_u16();
        let cost = *answer.extensions().get().expect("each answer has its cost");
        let body = answer.into_body().collect().now_or_never().expect("the body waits for something");
        let body = serde_json::from_slice(&body.expect("a body").to_bytes()).unwrap_or_default();
        Self { status, body, cost }
    }
}

/// Runs the test of this name in a process with this number of megabytes of memory.
pub(crate) fn within_memory(name: &str, megabytes: usize, run: impl FnOnce()) {
    const INSIDE: &str = "STEERSMAN_TEST_WITHIN_MEMORY";
    if std::env::var_os(INSIDE).is_some() || cfg!(not(target_os = "linux")) {
        return run();
    }
    let limited = format!("ulimit -v {} && exec \"$0\" \"$@\"", megabytes << 10);
    let test = std::env::current_exe().expect("the test's own path");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &limited]).arg(test).args([name, "--exact", "--nocapture", "--test-threads=1"]);
    let output = command.env(INSIDE, "1").env("MALLOC_ARENA_MAX", "1").output().expect("a shell");
    assert!(
        output.status.success(),
        "{name} within {megabytes} MB: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
