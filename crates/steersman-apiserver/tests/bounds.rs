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
use steersman_apiserver::{ApiServer, Identity};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const THINGS: &str = "/apis/example.com/v1/things";
const JSON: &str = "application/json";
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
fn a_strategic_merge_patch_of_long_lists_is_bounded() {
    const MANY: usize = 15_000;
    within_memory("a_strategic_merge_patch_of_long_lists_is_bounded", 700, || {
        let server = ApiServer::new();
        let container = |name: String| json!({"name": name, "image": "i"});
        let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [container("c".to_owned())]}});
        assert_eq!(post(&server, PODS, "application/json", pod.to_string()).status, 201);
        let many: Vec<Value> = (0..MANY).map(|at| container(format!("c{at}"))).collect();
        let same: Vec<Value> = (0..MANY).map(|_| container("c".to_owned())).collect();
        let names: Vec<Value> = (0..MANY).rev().map(|at| json!({"name": format!("c{at}")})).collect();
        let deletions: Vec<Value> = (0..MANY).map(|at| json!({"name": format!("c{at}"), "$patch": "delete"})).collect();
        for (containers, order, codes) in [
            // The containers of a Pod cannot be changed.
            (many.clone(), None, &[413, 422][..]),
            // Items that are not in the order are moved to the front one by one.
            (many.clone(), Some(Vec::new()), &[413]),
            (many, Some(names.clone()), &[413, 500]),
            (same, None, &[200]),
            (deletions, Some(names), &[200]),
        ] {
            let mut spec = json!({"containers": containers});
            if let Some(order) = order {
                spec["$setElementOrder/containers"] = order.into();
            }
            let patch = json!({"spec": spec}).to_string();
            let media_type = "application/strategic-merge-patch+json";
            let sent = Sent::send(&server, "PATCH", &format!("{PODS}/a"), media_type, patch.into());
            assert!(codes.contains(&sent.status), "{} instead of {codes:?}: {}", sent.status, message(&sent));
            assert!(sent.cost.steps < 22_000_000, "{:?}", sent.cost);
        }
    });
}

#[test]
fn printer_columns_of_many_objects_are_bounded() {
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    within_memory("printer_columns_of_many_objects_are_bounded", 700, || {
        let server = ApiServer::new();
        let object = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut definition = definition(&json!({"type": "object", "properties": {"spec": object}}));
        // Each step visits every value below every value that the steps before it found.
        let column =
            |at: usize| json!({"name": format!("c{at}"), "type": "string", "jsonPath": ".spec..a..a..a..a..none"});
        definition["spec"]["versions"][0]["additionalPrinterColumns"] = (0..1_000).map(column).collect();
        let created = post(&server, DEFINITIONS, "application/json", definition.to_string());
        assert_eq!(created.status, 201, "{}", message(&created));
        let deep = (0..200).fold(json!(1), |inner, _| json!({"a": inner, "b": [1]}));
        for name in 0..20 {
            let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": format!("t{name}")}, "spec": deep});
            let sent = post(&server, THINGS, "application/json", thing.to_string());
            assert_eq!(sent.status, 201, "{}", message(&sent));
        }
        assert_eq!(Sent::accept(&server, THINGS, "").status, 200);
        let table = Sent::accept(&server, THINGS, TABLE);
        assert!(table.cost.steps < 22_000_000, "{:?}", table.cost);
        assert_eq!(table.status, 413, "{}", message(&table));
        // An event is not refused: it has no cells that take too long.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let request = http::Request::get(format!("{THINGS}?watch=1&timeoutSeconds=1&includeObject=None"));
            let request = request.header("accept", TABLE);
            let request = request.body(http_body_util::Full::<Bytes>::default()).unwrap();
            let Ok(mut answer) = tower::Service::call(&mut server.clone(), request).await;
            let first = http_body_util::BodyExt::frame(answer.body_mut()).await.unwrap().unwrap();
            let event: Value = serde_json::from_slice(first.data_ref().unwrap()).unwrap();
            assert_eq!((&event["type"], &event["object"]["rows"][0]["cells"][1]), (&json!("ADDED"), &Value::Null));
        });
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

/// Each version of a definition takes 25 KB in the OpenAPI document of version 2.
#[test]
fn an_openapi_document_of_many_versions_is_refused() {
    within_memory("an_openapi_document_of_many_versions_is_refused", 400, || {
        let server = ApiServer::new();
        let sent = post(&server, DEFINITIONS, "application/json", gadgets(3_000, 0).to_string());
        assert_eq!(sent.status, 201, "{}", message(&sent));
        let sent = Sent::accept(&server, "/openapi/v2", "");
        assert_eq!(sent.status, 413);
        assert!(message(&sent).contains("the OpenAPI document v2 takes too many steps"), "{}", message(&sent));
        // The documents of single versions are small, and the index has only their hashes.
        let index = Sent::accept(&server, "/openapi/v3", "");
        let document = &index.body["paths"]["apis/example.com/v3000"]["serverRelativeURL"];
        assert_eq!(Sent::accept(&server, document.as_str().unwrap(), "").status, 200);
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

/// An entry of managed fields.
fn entry(manager: &str, fields: &Value) -> Value {
    json!({"manager": manager, "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
}

/// Managers and fields are the client's to send, and each later write has to look at them.
#[test]
fn managed_fields_of_a_request_are_bounded() {
    within_memory("managed_fields_of_a_request_are_bounded", 900, || {
        let server = ApiServer::new();
        let path = format!("{MAPS}/a");
        let patch = |media_type: &str, uri: &str, body: &Value| {
            Sent::send(&server, "PATCH", uri, &format!("application/{media_type}"), body.to_string().into())
        };
        let map =
            |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
        assert_eq!(post(&server, MAPS, "application/json", map(json!({"k": "v"})).to_string()).status, 201);
        let many = |count: usize| (0..count).map(|at| entry(&format!("m{at}"), &json!({"f:data": {"f:k": {}}})));
        let wide: serde_json::Map<String, Value> = (0..150_000).map(|at| (format!("f:k{at}"), json!({}))).collect();
        let deep = (0..490).fold(json!({}), |inner, _| json!({"f:a": inner}));
        let update = |name: &str, fields: Value| {
            let mut entry = entry(name, &fields);
            entry["operation"] = "Update".into();
            entry
        };
        let half: serde_json::Map<String, Value> = (0..40_000).map(|at| (format!("f:k{at}"), json!({}))).collect();
        // Each of them is merged with the first one.
        let merged = (0..8_000).map(|at| update(&format!("m{at}"), json!({"f:b": {}})));
        let merged = std::iter::once(update("0", json!({"f:a": half}))).chain(merged);
        let hostile = [
            merged.collect::<Value>(),
            many(20_000).collect::<Value>(),
            json!([entry("wide", &json!({"f:data": wide}))]),
            json!([entry("deep", &deep)]),
            json!([entry("k", &json!({"k:[[[[[[[": {}})), entry("v", &json!({"v:": {}}))]),
        ];
        for managed in hostile {
            let sent = patch("merge-patch+json", &path, &json!({"metadata": {"managedFields": managed}}));
            assert!([200, 413, 422].contains(&sent.status), "{}: {}", sent.status, message(&sent));
            // What was accepted does not make later writes cost without end.
            for uri in [format!("{path}?fieldManager=x"), format!("{path}?fieldManager=x&force=1")] {
                let sent =
                    patch("apply-patch+yaml", &uri, &map(json!({"k": format!("{}", managed_at(&server, &path))})));
                assert!([200, 409, 413].contains(&sent.status), "{}: {}", sent.status, message(&sent));
                assert!(sent.cost.steps <= 22_000_000, "{:?}", sent.cost);
            }
        }
    });
}

/// Each level of lists that are merged by keys holds all lists below it.
#[test]
fn an_apply_of_nested_lists_copies_no_list() {
    within_memory("an_apply_of_nested_lists_copies_no_list", 250, || {
        const LISTS: usize = 25;
        let server = ApiServer::new();
        let atomic = json!({"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "atomic"});
        let list = |inner: Value| {
            json!({
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {
                    "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "l": inner},
                },
            })
        };
        let schema = (0..LISTS).fold(atomic, |inner, _| list(inner));
        let sent = post(
            &server,
            DEFINITIONS,
            JSON,
            definition(&json!({"type": "object", "properties": {"l": schema}})).to_string(),
        );
        assert_eq!(sent.status, 201, "{}", message(&sent));
        let numbers = Value::from(vec![7; 150_000]);
        let nested = (0..LISTS).fold(numbers, |inner, _| json!([{"k": "a", "l": inner}]));
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "l": nested});
        for manager in ["one", "two"] {
            let uri = format!("{THINGS}/a?fieldManager={manager}");
            let sent = Sent::send(&server, "PATCH", &uri, "application/apply-patch+yaml", thing.to_string().into());
            assert!([200, 201, 413].contains(&sent.status), "{}: {}", sent.status, message(&sent));
        }
    });
}

/// The number of managers.
fn managed_at(server: &ApiServer, path: &str) -> usize {
    let found = Sent::send(server, "GET", path, "", Bytes::new());
    found.body["metadata"]["managedFields"].as_array().map_or(0, Vec::len)
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
    const OPENAPI: [(&str, &str); 3] = [
        ("/openapi/v3/apis/example.com/v1", JSON),
        ("/openapi/v3/apis/example.com/v1", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"),
        ("/openapi/v2", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"),
    ];
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
            for (path, media_type) in OPENAPI {
                assert_eq!(Sent::accept(&server, path, media_type).status, 200, "{path}");
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
        for (path, media_type) in OPENAPI {
            assert_eq!(Sent::accept(&server, path, media_type).status, 200, "{path}");
        }
        for (media_type, code) in [(JSON, 201), ("application/yaml", 409)] {
            let sent = post(&server, THINGS, media_type, thing.to_string());
            assert_eq!(sent.status, code, "{}", message(&sent));
        }
        let path = format!("{THINGS}/a");
        let patch = json!({"spec": {"b": nested(LEVELS - 3, json!("x"), |inner| json!([inner]))}});
        let copy =
            json!([{"op": "copy", "from": "/spec/a", "path": "/more/b"}, {"op": "test", "path": "/spec", "value": {}}]);
        let revision = json!({"metadata": {"name": "b"}, "revision": 1, "data": {"a": "b"}});
        let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
        assert_eq!(post(&server, revisions, JSON, revision.to_string()).status, 201);
        let strategic =
            json!({"data": {"c": nested(LEVELS - 3, json!({"$patch": "x"}), |inner| json!([inner, null]))}});
        let media_type = "application/strategic-merge-patch+json";
        let sent = Sent::send(&server, "PATCH", &format!("{revisions}/b"), media_type, strategic.to_string().into());
        assert!([200, 422].contains(&sent.status), "{} {}", sent.status, message(&sent));
        for (kind, patch) in [("merge-patch", patch), ("json-patch", copy)] {
            let sent =
                Sent::send(&server, "PATCH", &path, &format!("application/{kind}+json"), patch.to_string().into());
            assert!([200, 422].contains(&sent.status), "{kind}: {} {}", sent.status, message(&sent));
        }
        let applied = json!({
            "apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"},
            "spec": nested(LEVELS - 2, json!("y"), |inner| json!({"a": inner})),
        });
        for force in ["", "&force=1"] {
            let uri = format!("{path}?fieldManager=m{force}");
            let sent = Sent::send(&server, "PATCH", &uri, "application/apply-patch+yaml", applied.to_string().into());
            assert!([200, 409].contains(&sent.status), "{} {}", sent.status, message(&sent));
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

#[test]
fn a_role_with_a_huge_product_of_rights_is_refused() {
    within_memory("a_role_with_a_huge_product_of_rights_is_refused", 700, || {
        const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
        const CLUSTER: &str = "/apis/rbac.authorization.k8s.io/v1";
        let server = ApiServer::new().with_rbac();
        let send = |path: &str, body: Value| post(&server, path, "application/json", body.to_string());
        let rules = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]}]);
        send(&format!("{CLUSTER}/clusterroles"), json!({"metadata": {"name": "writer"}, "rules": rules}));
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"});
        let jane = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}]);
        let binding = json!({"metadata": {"name": "writer"}, "roleRef": role, "subjects": jane});
        assert_eq!(send(&format!("{CLUSTER}/clusterrolebindings"), binding).status, 201);
        let many: Vec<String> = (0..20_000).map(|at| at.to_string()).collect();
        let rule = json!({"apiGroups": many, "resources": many, "verbs": many, "resourceNames": many});
        let role = json!({"metadata": {"name": "huge"}, "rules": [rule]});
        // An administrator may create it; for others each right would have to be compared.
        let sent = send(ROLES, role.clone());
        assert_eq!(sent.status, 201, "{}", message(&sent));
        let jane = server.acting_as(Identity::new("jane", ["a"]));
        let sent = post(&jane, ROLES, "application/json", role.to_string());
        assert_eq!(sent.status, 413, "{}", message(&sent));
        assert!(message(&sent).len() < 1_000);
    });
}

#[test]
fn a_decision_reads_no_binding_of_another_user() {
    within_memory("a_decision_reads_no_binding_of_another_user", 700, || {
        const MANY: usize = 3_000;
        let server = ApiServer::new().with_rbac();
        let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "none"});
        for at in 0..MANY {
            let name = format!("user-{at}");
            let user = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}]);
            let body = json!({"metadata": {"name": name}, "roleRef": role, "subjects": user});
            let sent = post(&server, path, "application/json", body.to_string());
            assert_eq!(sent.status, 201, "{}", message(&sent));
        }
        // The first decision reads all of them.
        Sent::accept(&server.acting_as(Identity::new("first", ["a"])), MAPS, "");
        for (user, missing) in [("user-7", true), ("stranger", false)] {
            let sent = Sent::accept(&server.acting_as(Identity::new(user, ["a"])), MAPS, "");
            assert_eq!((sent.status, message(&sent).contains("RBAC: role")), (403, missing), "{}", message(&sent));
            assert!(sent.cost.steps + sent.cost.follow_up_steps < 100, "{:?}", sent.cost);
        }
    });
}

#[test]
fn a_review_of_many_bindings_to_a_huge_role_is_refused() {
    within_memory("a_review_of_many_bindings_to_a_huge_role_is_refused", 900, || {
        let server = ApiServer::new().with_rbac();
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let send = |path: &str, body: Value| {
            let sent = post(&server, &format!("{rbac}/{path}"), "application/json", body.to_string());
            assert_eq!(sent.status, 201, "{}", message(&sent));
        };
        let own = json!({"apiGroups": ["authorization.k8s.io"], "resources": ["*"], "verbs": ["create"]});
        let mut rules = vec![json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}); 20_000];
        rules.push(own);
        send("clusterroles", json!({"metadata": {"name": "huge"}, "rules": rules}));
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "huge"});
        let group = json!([{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "g"}]);
        for at in 0..200 {
            let body = json!({"metadata": {"name": format!("b{at}")}, "roleRef": role, "subjects": group});
            send("clusterrolebindings", body);
        }
        let jane = server.acting_as(Identity::new("jane", ["g"]));
        let reviews = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let body = json!({"spec": {"namespace": "default"}}).to_string();
        let sent = post(&jane, reviews, "application/json", body);
        assert_eq!(sent.status, 413, "{}", message(&sent));
        // A decision reads the rules of the role once, however often it is bound and named.
        let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let spec =
            json!({"user": "x", "groups": vec!["g"; 100_000], "resourceAttributes": {"verb": "x", "resource": "y"}});
        let sent = post(&server, reviews, "application/json", json!({"spec": spec}).to_string());
        assert_eq!((sent.status, &sent.body["status"]["allowed"]), (201, &false.into()), "{}", message(&sent));
    });
}
