//! The fuzz targets. Each takes any bytes and must neither panic nor overflow the stack, and some
//! check more. No request takes more steps than the server allows. The runner limits the memory.

use bytes::Bytes;
use futures::FutureExt;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use steersman_apiserver::{ApiServer, Cost, Identity};
use tower::Service;

/// The limit of the server, and a tenth for the operation that reaches it.
const STEPS_MAX: u64 = 22_000_000;
const MAP: &str = "/api/v1/namespaces/default/configmaps/one";

/// Sends a request to a server and reads the response, or the beginning of a watch.
fn send(server: &ApiServer, method: &str, uri: &str, content_type: &[u8], body: &[u8]) -> Option<(u16, Bytes)> {
    let request = http::Request::builder().method(method).uri(uri).header("content-type", content_type);
    // Bytes that are no request do not reach a server.
    let request = request.body(Full::new(Bytes::copy_from_slice(body))).ok()?;
    let Ok(mut answer) = server.clone().call(request).now_or_never().expect("an answer waits for nothing");
    let status = answer.status().as_u16();
    let cost: &Cost = answer.extensions().get().expect("each answer has its cost");
    assert!(cost.steps <= STEPS_MAX, "{} steps for {} bytes", cost.steps, body.len());
    let mut bytes = Vec::new();
    while let Some(Some(Ok(frame))) = answer.body_mut().frame().now_or_never() {
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    Some((status, bytes.into()))
}

/// Within a runtime, because watches read its clock.
fn with_server(run: impl FnOnce(&ApiServer)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let server = ApiServer::new();
        let map = br#"{"metadata":{"name":"one","labels":{"a":"b"},"finalizers":["a/b"]},"data":{"k":"v"}}"#;
        send(&server, "POST", "/api/v1/namespaces/default/configmaps", b"application/json", map);
        run(&server);
        // The server catches panics, so they are detected here.
        assert_eq!(server.panics(), 0, "a handler panicked");
        let (status, _) = send(&server, "GET", MAP, b"", b"").expect("a request");
        assert!(matches!(status, 200 | 404), "the server is broken: {status}");
    });
}

fn expect_json(answer: Option<(u16, Bytes)>) {
    if let Some((status, body)) = answer
        && status != 404
        && body.starts_with(b"{")
    {
        // A watch is one value a line; a single response is one value.
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

/// A strategic merge patch, of a Pod with several merged lists.
pub(crate) fn strategic_merge(data: &[u8]) {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    with_server(|server| {
        let container = r#"{"name":"a","image":"i","args":["x","y"],"env":[{"name":"A","value":"1"},{"name":"B"}]}"#;
        let volumes = r#"[{"name":"v","emptyDir":{}},{"name":"w","emptyDir":{}}]"#;
        let spec = format!(r#"{{"containers":[{container},{{"name":"b","image":"i"}}],"volumes":{volumes}}}"#);
        let pod = format!(r#"{{"metadata":{{"name":"one","finalizers":["a/b","a/c"]}},"spec":{spec}}}"#);
        let created = send(server, "POST", PODS, b"application/json", pod.as_bytes());
        assert!(created.is_some_and(|(status, _)| status == 201));
        let media_type = b"application/strategic-merge-patch+json";
        for path in [format!("{PODS}/one?dryRun=All"), format!("{PODS}/one/status"), MAP.to_owned()] {
            expect_json(send(server, "PATCH", &path, media_type, data));
        }
    });
}

/// Configurations to apply, one a line, in turns by two managers: to a ConfigMap, to its managed
/// fields, and to a custom resource with each kind of list.
pub(crate) fn apply(data: &[u8]) {
    const SCHEMA: &str = r#"{"type":"object","properties":{
        "keyed":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":
            {"type":"object","required":["name"],"properties":{"name":{"type":"string"},"v":{"type":"integer"}}}},
        "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
        "list":{"type":"array","items":{"type":"string"}},
        "whole":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"string"}},
        "any":{"x-kubernetes-preserve-unknown-fields":true}}}"#;
    with_server(|server| {
        define(server, SCHEMA);
        for (place, line) in data.split(|byte| *byte == b'\n').take(8).enumerate() {
            let options = ["fieldManager=a", "fieldManager=b&force=1"][place % 2];
            let managed = [&br#"{"metadata":{"managedFields":"#[..], line, b"}}"].concat();
            expect_json(send(server, "PATCH", MAP, b"application/merge-patch+json", &managed));
            let thing = [&b"apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: "[..], line].concat();
            for (path, body) in [(MAP, line), (&format!("{THINGS}/a"), &thing)] {
                let uri = format!("{path}?{options}");
                let applied = send(server, "PATCH", &uri, b"application/apply-patch+yaml", body);
                // The same again changes nothing.
                if let Some((200 | 201, first)) = &applied {
                    let again = send(server, "PATCH", &uri, b"application/apply-patch+yaml", body);
                    assert!(again.is_some_and(|(status, second)| status == 200 && second == *first), "{body:?}");
                }
                expect_json(applied);
            }
        }
    });
}

/// Label and field selectors: a parsed selector can be written and parsed again, and means the
/// same.
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

/// A continue token: the bytes themselves, and as the content of a token.
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

/// A document in YAML, for a built-in kind and for a custom one that preserves unknown fields.
pub(crate) fn yaml(data: &[u8]) {
    with_server(|server| {
        let schema = r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true}"#;
        define(server, schema);
        expect_json(send(server, "POST", "/api/v1/namespaces/default/pods", b"application/yaml", data));
        let mut object = b"apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec:\n  x: ".to_vec();
        object.extend_from_slice(data);
        expect_json(send(server, "POST", THINGS, b"application/yaml", &object));
        let read = http::Request::get(format!("{THINGS}/a")).header("accept", "application/yaml");
        let read = read.body(Full::<Bytes>::default()).expect("a request");
        let Ok(_) = server.clone().call(read).now_or_never().expect("an answer waits for nothing");
    });
}

/// A schema and, behind a line break, an object. Both are used if they are JSON.
pub(crate) fn schema(data: &[u8]) {
    let (schema, spec) = data.split_at(data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len()));
    with_server(|server| {
        define(server, &String::from_utf8_lossy(schema));
        let object = |spec: &str| {
            format!(r#"{{"apiVersion":"example.com/v1","kind":"Thing","metadata":{{"name":"a"}},"spec":{spec}}}"#)
        };
        let spec = String::from_utf8_lossy(spec.get(1..).unwrap_or(b"{}"));
        for (method, path) in [("POST", THINGS), ("PUT", &format!("{THINGS}/a"))] {
            expect_json(send(server, method, path, b"application/json", object(&spec).as_bytes()));
        }
        let patch = format!(r#"{{"spec":{spec}}}"#);
        let path = format!("{THINGS}/a");
        expect_json(send(server, "PATCH", &path, b"application/merge-patch+json", patch.as_bytes()));
    });
}

const THINGS: &str = "/apis/example.com/v1/things";

/// Defines Things whose `spec` has this schema.
fn define(server: &ApiServer, schema: &str) {
    let schema = format!(r#"{{"type":"object","properties":{{"spec":{schema}}}}}"#);
    let version = format!(r#"{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}"#);
    let names = r#"{"plural":"things","kind":"Thing"}"#;
    let spec = format!(r#"{{"group":"example.com","scope":"Cluster","names":{names},"versions":[{version}]}}"#);
    let definition = format!(r#"{{"metadata":{{"name":"things.example.com"}},"spec":{spec}}}"#);
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    expect_json(send(server, "POST", path, b"application/json", definition.as_bytes()));
}

/// A protobuf message, for the kind that its first byte selects.
pub(crate) fn kinds(data: &[u8]) {
    let Some((which, message)) = data.split_first() else { return };
    with_server(|server| {
        let kinds = protobuf_kinds(server);
        let (path, api_version, kind) = &kinds[usize::from(*which) % kinds.len()];
        let field = |number: u8, bytes: &[u8]| {
            let mut field = vec![number << 3 | 2];
            let mut length = bytes.len();
            while length > 0x7f {
                field.push(0x80 | (length & 0x7f) as u8);
                length >>= 7;
            }
            field.push(length as u8);
            field.extend_from_slice(bytes);
            field
        };
        let of_type = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        let body = [b"k8s\0".to_vec(), field(1, &of_type), field(2, message)].concat();
        expect_json(send(server, "POST", path, b"application/vnd.kubernetes.protobuf", &body));
    });
}

/// An `Accept` header, for every negotiated response: each is a response in JSON or YAML, or a
/// refusal.
pub(crate) fn accept(data: &[u8]) {
    with_server(|server| {
        let maps = "/api/v1/namespaces/default/configmaps";
        for path in [MAP, maps, &format!("{maps}?watch=1&timeoutSeconds=1"), "/api", "/apis", "/api/v1", "/version"] {
            let request = http::Request::get(path).header("accept", data);
            // Bytes that are no header do not reach a server.
            let Ok(request) = request.body(Full::<Bytes>::default()) else { return };
            let Ok(answer) = server.clone().call(request).now_or_never().expect("an answer waits for nothing");
            assert!(matches!(answer.status().as_u16(), 200 | 406), "{path}: {}", answer.status());
            let cost: &Cost = answer.extensions().get().expect("each answer has its cost");
            assert!(cost.steps <= STEPS_MAX, "{} steps for {} bytes", cost.steps, data.len());
        }
    });
}

/// A client certificate, as DER: an identity has a name, and is about as long as the certificate.
pub(crate) fn certificate(data: &[u8]) {
    let Some(identity) = Identity::of_certificate(data) else { return };
    assert!(!identity.name().is_empty());
    assert!(identity.groups().iter().any(|group| group == "system:authenticated"), "{identity:?}");
    let groups: usize = identity.groups().iter().map(String::len).sum();
    // Bytes that are not UTF-8 become three.
    assert!(identity.name().len() + groups <= 3 * data.len() + "system:authenticated".len());
    assert_eq!(Identity::of_certificate(data), Some(identity));
}

/// The kinds that can be created and have a message: their path, version and name.
pub(crate) fn protobuf_kinds(server: &ApiServer) -> Vec<(String, String, String)> {
    let read = |path: &str| -> Value {
        let (_, body) = send(server, "GET", path, b"", b"").expect("a request");
        serde_json::from_slice(&body).expect("discovery is JSON")
    };
    let groups = read("/apis");
    let versions = groups["groups"].as_array().into_iter().flatten().filter_map(|group| {
        let version = group["preferredVersion"]["groupVersion"].as_str()?;
        Some((format!("/apis/{version}"), version.to_owned()))
    });
    let mut kinds = Vec::new();
    for (path, version) in versions.chain([("/api/v1".to_owned(), "v1".to_owned())]) {
        for resource in read(&path)["resources"].as_array().into_iter().flatten() {
            let (name, kind) = (resource["name"].as_str().unwrap_or(""), resource["kind"].as_str().unwrap_or(""));
            let is_created =
                resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "create"));
            if !is_created || name.contains('/') || !steersman_wire::protobuf::has_kind(&version, kind) {
                continue;
            }
            let namespace = if resource["namespaced"] == true { "/namespaces/default" } else { "" };
            kinds.push((format!("{path}{namespace}/{name}"), version.clone(), kind.to_owned()));
        }
    }
    kinds
}
