use std::time::Duration;

use http::Request;
use serde_json::{Value, json};
use steersman_testing::eventually_within;

use super::target::Target;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const OWN: &str = "/openapi/v3/apis/example.com/v1";
const PROTOBUF_V2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const PROTOBUF_V3: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";
const JSON: &str = "application/json";
/// How long a real server takes to publish a definition, at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// Compares OpenAPI documents byte for byte, with and without definitions. Nothing else may define
/// kinds on these servers, because the document of version 2 has all of them.
pub(crate) async fn compare(real: &Target, embedded: &Target) {
    let mut documents = vec![("/openapi/v2", PROTOBUF_V2), ("/openapi/v2", JSON)];
    // The index of a real server keeps the hash of a definition's first document, which has less in
    // it than the document of that hash's address. So it is compared before there are definitions.
    equal(real, embedded, &[("/openapi/v3", JSON)]).await;
    equal(real, embedded, &documents).await;
    for server in [real, embedded] {
        for definition in [widgets(), irons()] {
            let request = Request::post(DEFINITIONS).header("content-type", JSON);
            let answer = server.send(request.body(definition.to_string().into_bytes()).unwrap()).await.unwrap();
            assert_eq!(answer.status, 201, "{}", server.name);
        }
    }
    documents.extend([(OWN, JSON), (OWN, PROTOBUF_V3), ("/openapi/v3/apis/example.com/v1beta1", PROTOBUF_V3)]);
    equal(real, embedded, &documents).await;
}

/// Waits until both servers send the same documents. A real server builds each of them in the
/// background, at a time of its own.
async fn equal(real: &Target, embedded: &Target, documents: &[(&str, &str)]) {
    for (path, accept) in documents {
        let right = get(embedded, path, accept).await;
        assert!(right.len() > 1000, "{path} is empty");
        eventually_within(PATIENCE, &format!("{path} as {accept} is the same on both servers"), async || {
            let left = get(real, path, accept).await;
            if left == right { Ok(()) } else { Err(difference((real, &left), (embedded, &right))) }
        })
        .await;
    }
}

fn difference(left: (&Target, &[u8]), right: (&Target, &[u8])) -> String {
    let (shorter, pairs) = (left.1.len().min(right.1.len()), left.1.iter().zip(right.1));
    let at = pairs.into_iter().position(|(left, right)| left != right).unwrap_or(shorter);
    let around = |(server, bytes): (&Target, &[u8])| {
        let (start, end) = (at.saturating_sub(100).min(bytes.len()), (at + 100).min(bytes.len()));
        format!("{}: {}", server.name, String::from_utf8_lossy(&bytes[start..end]))
    };
    format!("it differs at byte {at}:\n{}\n{}", around(left), around(right))
}

async fn get(server: &Target, path: &str, accept: &str) -> Vec<u8> {
    let request = Request::get(path).header("accept", accept).body(Vec::new()).unwrap();
    server.send(request).await.unwrap().bytes().await.unwrap()
}

fn irons() -> Value {
    json!({"metadata": {"name": "irons.example.com"}, "spec": {
        "group": "example.com", "scope": "Cluster", "names": {"plural": "irons", "kind": "Iron"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "string"}}}}}],
    }})
}

/// A definition with everything that a schema may have.
fn widgets() -> Value {
    let spec = json!({
        "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 10, "exclusiveMaximum": true,
            "default": 3, "description": "Its <size>."},
        "ratio": {"type": "number", "multipleOf": 0.5, "minimum": 0.25},
        "color": {"type": "string", "enum": ["red", "true", "1", "a: b"], "default": "red"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 1, "maxLength": 63, "title": "N", "example": "x"},
        "replicas": {"type": "integer"},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "bare": {"x-kubernetes-int-or-string": true},
        "maybe": {"type": "string", "nullable": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "maxItems": 9,
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
        "labels": {"type": "object", "x-kubernetes-map-type": "granular", "additionalProperties": {"type": "string"}},
        "any": {"type": "object", "additionalProperties": true},
        "choice": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"minLength": 2}}}],
            "not": {"required": ["a", "b"]}, "allOf": [{"properties": {"a": {"maxLength": 4}}}]},
        "docs": {"type": "string", "externalDocs": {"url": "https://x.y", "description": "d"}},
        "flag": {"type": "boolean", "default": false},
        "object": {"type": "object", "default": {"z": 1, "a": [true, "x<y"]},
            "x-kubernetes-preserve-unknown-fields": true},
    });
    let rules = json!([
        {"rule": "self.size > 0", "message": "must be <positive>"},
        {"rule": "self.size < 100", "messageExpression": "'no'", "reason": "FieldValueInvalid", "fieldPath": ".size"},
    ]);
    let schema = json!({"type": "object", "description": "A widget.", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["size", "maybe"], "properties": spec, "x-kubernetes-validations": rules},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    }});
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "selectableFields": [{"jsonPath": ".spec.color"}]},
            {"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": free}},
            {"name": "v1alpha1", "served": false, "storage": false, "schema": {"openAPIV3Schema": free}},
        ],
    }})
}
