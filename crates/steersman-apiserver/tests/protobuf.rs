//! Protobuf bodies, which Go clients send by default.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_wire::protobuf;
use tower::Service;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn send(server: &ApiServer, method: &str, path: &str, body: impl Into<Bytes>) -> (u16, Value) {
    let request = http::Request::builder().method(method).uri(path);
    // The header of controller-runtime.
    let request = request
        .header("content-type", protobuf::MEDIA_TYPE)
        .header("accept", "application/vnd.kubernetes.protobuf, */*");
    let Ok(answer) = server.clone().call(request.body(Full::new(body.into())).unwrap()).await;
    let status = answer.status().as_u16();
    assert_eq!(answer.headers()["content-type"], "application/json");
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap())
}

fn message(object: &Value) -> Vec<u8> {
    protobuf::from_json(object.to_string().as_bytes()).expect("a built-in kind")
}

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

#[tokio::test]
async fn objects_are_created_replaced_and_deleted() {
    let server = ApiServer::new();
    let (status, created) = send(&server, "POST", MAPS, message(&map("a", "first"))).await;
    assert_eq!((status, &created["data"]["key"]), (201, &json!("first")), "{created}");
    let mut changed = created.clone();
    changed["data"]["key"] = json!("second");
    let path = format!("{MAPS}/a");
    let (status, replaced) = send(&server, "PUT", &path, message(&changed)).await;
    assert_eq!((status, &replaced["data"]["key"]), (200, &json!("second")), "{replaced}");
    assert_eq!(send(&server, "PUT", &path, message(&changed)).await.0, 409, "it has changed");

    // Options have the version of their group.
    let options = json!({"apiVersion": "apps/v1", "kind": "DeleteOptions", "preconditions": {"uid": "another"}});
    assert_eq!(send(&server, "DELETE", &path, message(&options)).await.0, 409);
    let options =
        json!({"apiVersion": "apps/v1", "kind": "DeleteOptions", "preconditions": {"uid": created["metadata"]["uid"]}});
    assert_eq!(send(&server, "DELETE", &path, message(&options)).await.0, 200);
    assert_eq!(send(&server, "GET", &path, Bytes::new()).await.0, 404);
}

#[tokio::test]
async fn what_is_no_message_of_that_kind_is_refused() {
    let server = ApiServer::new();
    let (status, refusal) = send(&server, "POST", MAPS, map("a", "b").to_string()).await;
    assert_eq!(status, 400);
    let expected = "object cannot be read: expected the envelope of an object at byte 0";
    assert_eq!(refusal["message"], expected);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    let (status, refusal) = send(&server, "POST", MAPS, message(&secret)).await;
    assert_eq!(status, 400, "{refusal}");
    assert!(refusal["message"].as_str().unwrap().contains("ConfigMap"), "{refusal}");

    // Custom resources have no messages.
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let request = http::Request::post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
    let request = request.header("content-type", "application/json").body(Full::<Bytes>::from(definition.to_string()));
    let Ok(answer) = server.clone().call(request.unwrap()).await;
    assert_eq!(answer.status(), 201);
    let things = "/apis/example.com/v1/namespaces/default/things";
    assert_eq!(send(&server, "POST", things, message(&map("a", "b"))).await.0, 415);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (status, refusal) = send(&server, "POST", definitions, message(&map("a", "b"))).await;
    assert_eq!(status, 400, "{refusal}");
    assert!(refusal["message"].as_str().unwrap().contains("CustomResourceDefinition"), "{refusal}");
    // Their delete options are the same as for all others.
    let options = json!({"apiVersion": "example.com/v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
    let (status, refusal) = send(&server, "DELETE", &format!("{things}/a"), message(&options)).await;
    assert_eq!((status, &refusal["reason"]), (404, &json!("NotFound")), "{refusal}");
}
