//! What is fuzzed: each target takes any bytes and must neither panic nor overflow the stack, and some check more.

use bytes::Bytes;
use futures::FutureExt;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use steersman_apiserver::ApiServer;
use tower::Service;

const MAP: &str = "/api/v1/namespaces/default/configmaps/one";

/// Sends a request to a server and reads the answer, or the beginning of a watch.
fn send(server: &ApiServer, method: &str, uri: &str, content_type: &[u8], body: &[u8]) -> Option<(u16, Bytes)> {
    let request = http::Request::builder().method(method).uri(uri).header("content-type", content_type);
    // What is no request does not get to a server.
    let request = request.body(Full::new(Bytes::copy_from_slice(body))).ok()?;
    let Ok(mut answer) = server.clone().call(request).now_or_never().expect("an answer waits for nothing");
    let status = answer.status().as_u16();
    let mut bytes = Vec::new();
    while let Some(Some(Ok(frame))) = answer.body_mut().frame().now_or_never() {
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    Some((status, bytes.into()))
}

/// Within a runtime, as watches look at its clock.
fn with_server(run: impl FnOnce(&ApiServer)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let server = ApiServer::new();
        let map = br#"{"metadata":{"name":"one","labels":{"a":"b"},"finalizers":["a/b"]},"data":{"k":"v"}}"#;
        send(&server, "POST", "/api/v1/namespaces/default/configmaps", b"application/json", map);
        run(&server);
        let (status, _) = send(&server, "GET", MAP, b"", b"").expect("a request");
        assert!(matches!(status, 200 | 404), "the server is broken: {status}");
    });
}

fn expect_json(answer: Option<(u16, Bytes)>) {
    if let Some((status, body)) = answer
        && status != 404
        && body.starts_with(b"{")
    {
        // A watch is one value a line; a single answer is one value.
        let mut reader = serde_json::Deserializer::from_slice(&body);
        reader.disable_recursion_limit();
        assert!(reader.into_iter::<Value>().all(|value| value.is_ok()), "not JSON: {body:?}");
    }
}

/// A whole request: a line with method, path and content type, separated by spaces, and the body.
pub(crate) fn request(data: &[u8]) {
    let (line, body) = data.split_at(data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len()));
    let line = String::from_utf8_lossy(line);
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (method, uri, content_type) = (word(), word(), word());
    with_server(|server| expect_json(send(server, method, uri, content_type.as_bytes(), body.get(1..).unwrap_or(&[]))));
}

/// A JSON patch.
pub(crate) fn json_patch(data: &[u8]) {
    with_server(|server| expect_json(send(server, "PATCH", MAP, b"application/json-patch+json", data)));
}

/// A merge patch.
pub(crate) fn merge_patch(data: &[u8]) {
    with_server(|server| expect_json(send(server, "PATCH", MAP, b"application/merge-patch+json", data)));
}

/// Label and field selectors: what is read can be written and read again, and means the same.
pub(crate) fn selectors(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(selector) = steersman_wire::LabelSelector::parse(&text) {
        let written = selector.to_string();
        let again = steersman_wire::LabelSelector::parse(&written);
        assert_eq!(again.map(|again| again.to_string()), Ok(written), "{text:?}");
    }
    if let Ok(selector) = steersman_wire::FieldSelector::parse(&text) {
        let written = selector.to_string();
        let again = steersman_wire::FieldSelector::parse(&written);
        assert_eq!(again.map(|again| again.to_string()), Ok(written), "{text:?}");
    }
}

/// A continue token: as it is, and as what a token holds.
pub(crate) fn continue_token(data: &[u8]) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut encoded = String::new();
    for chunk in data.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        encoded.extend((0..=chunk.len()).map(|place| char::from(ALPHABET[(bits >> (18 - 6 * place) & 0x3f) as usize])));
    }
    let escaped: String = data.iter().map(|byte| format!("%{byte:02x}")).collect();
    with_server(|server| {
        for token in [encoded, escaped] {
            expect_json(send(server, "GET", &format!("/api/v1/configmaps?limit=1&continue={token}"), b"", b""));
        }
    });
}

/// The checks of names.
pub(crate) fn names(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let label = steersman_wire::is_dns1123_label(&text).is_empty();
    let subdomain = steersman_wire::is_dns1123_subdomain(&text).is_empty();
    assert!(!label || subdomain, "every label is a subdomain: {text:?}");
    let _ = (steersman_wire::is_dns1035_label(&text), steersman_wire::is_qualified_name(&text));
    let _ = (steersman_wire::is_valid_label_value(&text), steersman_wire::is_path_segment_name(&text));
    let _ = (steersman_wire::is_path_segment_prefix(&text), steersman_wire::quote(&text));
}
