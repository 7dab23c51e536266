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

/// A definition of Gadgets with this number of versions and categories.
fn gadgets(versions: usize, categories: usize) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version =
        |at: usize| json!({"name": format!("v{}", at + 1), "served": true, "storage": at == 0, "schema": schema});
    let categories: Vec<String> = (0..categories).map(|at| format!("c{at}{}", "x".repeat(40))).collect();
    let names = json!({"plural": "gadgets", "kind": "Gadget", "categories": categories});
    json!({"metadata": {"name": "gadgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Cluster", "names": names,
        "versions": (0..versions).map(version).collect::<Vec<_>>(),
    }})
}

#[test]
fn names_of_a_definition_are_not_multiplied_by_its_versions() {
    const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    within_memory("names_of_a_definition_are_not_multiplied_by_its_versions", 400, || {
        let server = ApiServer::new();
        let create = |definition: &Value| post(&server, DEFINITIONS, "application/json", definition.to_string());
        // 1.1 MB, and 3.6 GB if each version had its own copy of the categories.
        let sent = create(&gadgets(6_000, 10_000));
        assert_eq!(sent.status, 413, "{}", message(&sent));
        assert!(message(&sent).ends_with("use fewer names, or fewer versions"), "{}", message(&sent));
        assert_eq!(create(&gadgets(90, 100)).status, 201);
        let path = format!("{DEFINITIONS}/gadgets.example.com");
        let stored = Sent::send(&server, "GET", &path, "", Bytes::new());
        // Nor by way of the status, where the names in use stand.
        let mut status = gadgets(90, 10_000);
        status["metadata"] = stored.body["metadata"].clone();
        status["status"] = json!({"acceptedNames": status["spec"]["names"]});
        let sent = Sent::send(&server, "PUT", &format!("{path}/status"), "application/json", status.to_string().into());
        assert_eq!(sent.status, 413, "{}", message(&sent));
        let listed = Sent::accept(&server, "/apis", AGGREGATED);
        let group =
            listed.body["items"].as_array().unwrap().iter().find(|group| group["metadata"]["name"] == "example.com");
        let versions = group.unwrap()["versions"].as_array().unwrap();
        assert_eq!(versions.len(), 90);
        assert!(versions.iter().all(|version| version["resources"][0]["categories"].as_array().unwrap().len() == 100));
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

/// A schema, the names of which end at `inner`, and an object of it.
type Nested = (fn(Value) -> Value, fn(Value) -> Value);

const NESTED: [Nested; 6] = [
    (|inner| json!({"type": "object", "properties": {"a": inner}, "default": {}}), |inner| json!({"a": inner})),
    (|inner| json!({"type": "object", "properties": {"a": inner}, "required": ["a"]}), |inner| json!({"a": inner})),
    (|inner| json!({"type": "array", "items": inner}), |inner| json!([inner])),
    (|inner| json!({"type": "object", "additionalProperties": inner}), |inner| json!({"a": inner})),
    (|inner| json!({"type": "string", "allOf": [without_type(inner)]}), |inner| inner),
    (|inner| json!({"type": "string", "not": without_type(inner)}), |inner| inner),
];

fn without_type(mut schema: Value) -> Value {
    schema.as_object_mut().unwrap().remove("type");
    schema
}

/// A stack overflow ends the process, whatever else it does. Most threads have a stack of 2 MiB.
#[test]
fn the_deepest_requests_do_not_overflow_the_stack() {
    const THINGS: &str = "/apis/example.com/v1/things";
    const JSON: &str = "application/json";
    // The deepest schema below `spec`, with the structs that it is in, and the deepest body.
    const SCHEMAS: usize = 64 - 6;
    const LEVELS: usize = 512;
    let nested = |depth: usize, leaf: Value, wrap: fn(Value) -> Value| (0..depth).fold(leaf, |inner, _| wrap(inner));
    let run = move || {
        for (schema, object) in NESTED {
            let server = ApiServer::new();
            for depth in [LEVELS, LEVELS / 2 - 10, SCHEMAS + 1, SCHEMAS] {
                let inner = nested(depth, json!({"type": "string"}), schema);
                let definition = definition(&json!({"type": "object", "properties": {"spec": inner}}));
                let sent = post(&server, DEFINITIONS, JSON, definition.to_string());
                let expected: &[u16] = if depth == SCHEMAS { &[201] } else { &[400, 413] };
                assert!(expected.contains(&sent.status), "{depth} of {}: {}", schema(json!({})), message(&sent));
            }
            let spec = nested(SCHEMAS, json!("x"), object);
            let thing =
                json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec});
            let sent = post(&server, THINGS, JSON, thing.to_string());
            assert!([201, 422].contains(&sent.status), "{}", message(&sent));
        }
        // Objects whose schema leaves their contents open, and their defaults.
        let (server, deepest) = (ApiServer::new(), nested(LEVELS - 40, json!("x"), |inner| json!({"a": inner})));
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "default": deepest});
        let definition = definition(&json!({"type": "object", "properties": {"spec": open, "more": open}}));
        let sent = post(&server, DEFINITIONS, JSON, definition.to_string());
        assert_eq!(sent.status, 201, "{}", message(&sent));
        let deepest = nested(LEVELS - 2, json!("x"), |inner| json!({"a": inner}));
        let thing =
            json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": deepest});
        for (media_type, code) in [(JSON, 201), ("application/yaml", 409)] {
            let sent = post(&server, THINGS, media_type, thing.to_string());
            assert_eq!(sent.status, code, "{}", message(&sent));
        }
        let path = format!("{THINGS}/a");
        let patch = json!({"spec": {"b": nested(LEVELS - 3, json!("x"), |inner| json!([inner]))}});
        let copy =
            json!([{"op": "copy", "from": "/spec/a", "path": "/more/b"}, {"op": "test", "path": "/spec", "value": {}}]);
        for (kind, patch) in [("merge-patch", patch), ("json-patch", copy)] {
            let sent =
                Sent::send(&server, "PATCH", &path, &format!("application/{kind}+json"), patch.to_string().into());
            assert!([200, 422].contains(&sent.status), "{kind}: {} {}", sent.status, message(&sent));
        }
        for accept in ["", "application/yaml", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"] {
            assert_eq!(Sent::accept(&server, THINGS, accept).status, 200, "{accept}");
        }
        assert_eq!(Sent::accept(&server, &format!("{path}?pretty=1"), "").status, 200);
        let revision = json!({"metadata": {"name": "a"}, "revision": 1, "data": deepest});
        for media_type in [JSON, "application/yaml"] {
            let path = "/apis/apps/v1/namespaces/default/controllerrevisions";
            let sent = post(&server, path, media_type, revision.to_string());
            assert!([201, 409].contains(&sent.status), "{}", message(&sent));
        }
    };
    within_memory("the_deepest_requests_do_not_overflow_the_stack", 700, move || {
        std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
    });
}
