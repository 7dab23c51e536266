//! One request neither exhausts memory nor runs without end: each case here did before the server
//! counted.
//!
//! The cases run in a process of their own whose memory is limited, so that a fault is an abort and
//! not a machine that swaps. Work is measured by counted steps, never by time.

#[path = "common/bounded.rs"]
mod bounded;

use bounded::{REFUSED, Sent, within_memory};
use bytes::Bytes;
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn post(server: &ApiServer, path: &str, content_type: &str, body: impl Into<Bytes>) -> Sent {
    Sent::send(server, "POST", path, content_type, body.into())
}

fn message(sent: &Sent) -> &str {
    sent.body["message"].as_str().unwrap_or_default()
}

#[test]
fn nested_yaml_anchors_are_shared() {
    within_memory("nested_yaml_anchors_are_shared", 400, || {
        // An anchor at each level, with a long text at the bottom: a copy for each level would be
        // 400 MB.
        let depth = 500;
        let open: String = (0..depth).map(|level| format!("&a{level} [")).collect();
        let text = format!("data: {open}{}{}", "x".repeat(800_000), "]".repeat(depth));
        let sent = post(&ApiServer::new(), MAPS, "application/yaml", text);
        assert_eq!(sent.status, 400, "{}", message(&sent));
    });
}

#[test]
fn yaml_aliases_of_a_long_text_are_counted_by_bytes() {
    within_memory("yaml_aliases_of_a_long_text_are_counted_by_bytes", 400, || {
        let aliases: String = (0..4_000).map(|at| format!("  k{at}: *a\n")).collect();
        let text = format!("metadata: {{name: a}}\ndata:\n  a: &a {}\n{aliases}", "x".repeat(900_000));
        let sent = post(&ApiServer::new(), MAPS, "application/yaml", text);
        assert_eq!(sent.status, 400);
        assert!(message(&sent).contains("yaml: document contains excessive aliasing"), "{}", message(&sent));
    });
}

#[test]
fn a_protobuf_pod_of_empty_containers_is_refused() {
    within_memory("a_protobuf_pod_of_empty_containers_is_refused", 700, || {
        let spec = [0x12, 0x00].repeat(300_000);
        let length =
            |bytes: usize| [0x80 | (bytes & 0x7f) as u8, 0x80 | (bytes >> 7 & 0x7f) as u8, (bytes >> 14) as u8];
        let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2][..], &length(bytes.len()), bytes].concat();
        let pod = [field(1, b"\x0a\x01a"), field(2, &spec)].concat();
        let body = [b"k8s\0".to_vec(), field(1, b"\x0a\x02v1\x12\x03Pod"), field(2, &pod)].concat();
        let sent = post(&ApiServer::new(), PODS, "application/vnd.kubernetes.protobuf", body);
        assert!(REFUSED.contains(&sent.status), "{}: {}", sent.status, message(&sent));
        assert!(message(&sent).len() < 2_000_000, "{} bytes of message", message(&sent).len());
    });
}

#[test]
fn errors_are_kept_up_to_a_number() {
    within_memory("errors_are_kept_up_to_a_number", 400, || {
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": vec![json!({}); 20_000]}});
        let sent = post(&ApiServer::new(), PODS, "application/json", pod.to_string());
        assert_eq!(sent.status, 422);
        let causes = sent.body["details"]["causes"].as_array().unwrap();
        assert_eq!(causes.len(), 1_001);
        assert_eq!(causes[0]["field"], "spec.containers[0].name");
        assert_eq!(causes[1_000]["message"], "Too many: more than 1000 errors: the rest is not shown");
    });
}

#[test]
fn defaults_do_not_multiply_without_end() {
    within_memory("defaults_do_not_multiply_without_end", 700, || {
        let server = ApiServer::new();
        let items = json!({"type": "object", "properties": {"a": {"type": "string", "default": "x".repeat(100_000)}}});
        let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": items}}});
        let created = post(&server, DEFINITIONS, "application/json", definition(&schema).to_string());
        assert_eq!(created.status, 201, "{}", message(&created));
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "list": vec![json!({}); 100_000],
        });
        let sent = post(&server, "/apis/example.com/v1/things", "application/json", object.to_string());
        assert_eq!(sent.status, 413, "{}", message(&sent));
        let found = Sent::send(&server, "GET", "/apis/example.com/v1/things/a", "", Bytes::new());
        assert_eq!(found.status, 404, "what is refused is not stored");
    });
}

#[test]
fn node_ports_of_a_refused_service_are_given_back() {
    let server = ApiServer::new();
    let service = |name: &str, count: usize| {
        let ports: Vec<Value> = (0..count).map(|at| json!({"name": format!("p{at}"), "port": at + 1})).collect();
        json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports}}).to_string()
    };
    let services = "/api/v1/namespaces/default/services";
    assert_eq!(post(&server, services, "application/json", service("many", 8_000)).status, 422);
    let one = post(&server, services, "application/json", service("one", 1));
    assert_eq!(one.status, 201, "{}", message(&one));
}

#[test]
fn a_watch_of_the_longest_time_does_not_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        for seconds in [i64::MAX, i64::MAX / 2, 1 << 40] {
            let path = format!("{MAPS}?watch=1&allowWatchBookmarks=1&timeoutSeconds={seconds}");
            let request = http::Request::get(path).body(http_body_util::Full::<Bytes>::default()).unwrap();
            let Ok(answer) = tower::Service::call(&mut ApiServer::new(), request).await;
            assert_eq!(answer.status(), 200);
        }
    });
}

/// A definition of `things.example.com` with that schema.
fn definition(schema: &Value) -> Value {
    json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }})
}

/// A definition of `widgets`, whose field `text` has this default, if any.
fn widgets(default: Option<&str>) -> Value {
    let mut text = json!({"type": "string"});
    if let Some(default) = default {
        text["default"] = default.into();
    }
    let spec = json!({"type": "object", "properties": {"text": text}, "default": {}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

#[test]
fn reads_and_deletions_of_many_objects_are_not_cut_short() {
    const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
    const OBJECTS: usize = 200;
    within_memory("reads_and_deletions_of_many_objects_are_not_cut_short", 1_500, || {
        let server = ApiServer::new();
        let send = |method: &str, path: &str, body: &Value| {
            let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
            let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            let sent = Sent::send(&server, method, path, content_type, body);
            assert!(sent.status < 300, "{method} {path}: {} {}", sent.status, message(&sent));
            sent.body
        };
        send("POST", DEFINITIONS, &widgets(None));
        for name in 0..OBJECTS {
            let metadata = json!({"name": format!("w{name}"), "finalizers": ["example.com/held"]});
            send("POST", WIDGETS, &json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}));
        }
        // All defaults together are more than one request may make.
        let default = "x".repeat(400_000);
        let patch = json!({"spec": widgets(Some(&default))["spec"]});
        send("PATCH", &format!("{DEFINITIONS}/widgets.example.com"), &patch);
        let list = send("GET", WIDGETS, &Value::Null);
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), OBJECTS);
        assert!(items.iter().all(|item| item["spec"]["text"] == *default), "an object of the list lacks its default");
        drop(list);
        send("DELETE", &format!("{DEFINITIONS}/widgets.example.com"), &Value::Null);
        for name in [0, OBJECTS / 2, OBJECTS - 1] {
            let widget = send("GET", &format!("{WIDGETS}/w{name}"), &Value::Null);
            assert!(widget["metadata"]["deletionTimestamp"].is_string(), "w{name} is not deleted");
        }
    });
}
