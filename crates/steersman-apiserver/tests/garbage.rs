//! The garbage collector with many objects: the comparison with a real server would take too long.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use tower::Service;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Without the one that each namespace has.
const OWN_MAPS: &str = "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name!=kube-root-ca.crt";

async fn send(server: &ApiServer, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let answer = server.clone().call(request.body(Full::new(body)).unwrap()).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

/// Creates a ConfigMap that belongs to `owner`, a name and a uid, and returns its uid.
async fn create(server: &ApiServer, name: &str, owner: Option<(&str, &str)>) -> String {
    let mut map = json!({"metadata": {"name": name}});
    if let Some((name, uid)) = owner {
        map["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid,
            "blockOwnerDeletion": true}]);
    }
    let (status, created) = send(server, Method::POST, MAPS, map).await;
    assert_eq!(status, StatusCode::CREATED, "{created}");
    created["metadata"]["uid"].as_str().unwrap().to_owned()
}

async fn names(server: &ApiServer) -> Vec<String> {
    let (_, list) = send(server, Method::GET, OWN_MAPS, Value::Null).await;
    list["items"].as_array().unwrap().iter().map(|map| map["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn delete(server: &ApiServer, path: &str, policy: &str) {
    let (status, answer) = send(server, Method::DELETE, path, json!({ "propagationPolicy": policy })).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
}

/// A chain of owners, each of which belongs to the one before.
async fn chain(server: &ApiServer, length: usize) {
    let mut last = ("0".to_owned(), create(server, "0", None).await);
    for link in 1..length {
        let name = link.to_string();
        let uid = create(server, &name, Some((&last.0, &last.1))).await;
        last = (name, uid);
    }
}

#[tokio::test]
async fn the_length_of_a_chain_does_not_matter() {
    for policy in ["Background", "Foreground"] {
        let server = ApiServer::new();
        create(&server, "bystander", None).await;
        chain(&server, 1_000).await;
        delete(&server, &format!("{MAPS}/0"), policy).await;
        assert_eq!(names(&server).await, ["bystander"], "{policy}");
    }
}

#[tokio::test]
async fn a_family_goes_with_its_owner() {
    for policy in ["Background", "Foreground", "Orphan"] {
        let server = ApiServer::new();
        let uid = create(&server, "owner", None).await;
        for child in 0..500 {
            create(&server, &format!("child-{child}"), Some(("owner", &uid))).await;
        }
        delete(&server, &format!("{MAPS}/owner"), policy).await;
        let (_, left) = send(&server, Method::GET, OWN_MAPS, Value::Null).await;
        let left = left["items"].as_array().unwrap();
        let owned = left.iter().filter(|child| child["metadata"].get("ownerReferences").is_some()).count();
        assert_eq!((left.len(), owned), (if policy == "Orphan" { 500 } else { 0 }, 0), "{policy}");
    }
}

#[tokio::test]
async fn a_namespace_takes_everything_along() {
    let server = ApiServer::new();
    let (status, _) = send(&server, Method::POST, "/api/v1/namespaces", json!({"metadata": {"name": "full"}})).await;
    assert_eq!(status, StatusCode::CREATED);
    for resource in ["configmaps", "secrets", "serviceaccounts"] {
        for number in 0..200 {
            let object = json!({"metadata": {"name": format!("o-{number}")}});
            let path = format!("/api/v1/namespaces/full/{resource}");
            assert_eq!(send(&server, Method::POST, &path, object).await.0, StatusCode::CREATED);
        }
    }
    create(&server, "bystander", None).await;
    delete(&server, "/api/v1/namespaces/full", "Background").await;
    assert_eq!(send(&server, Method::GET, "/api/v1/namespaces/full", Value::Null).await.0, StatusCode::NOT_FOUND);
    for resource in ["configmaps", "secrets", "serviceaccounts"] {
        let (_, left) = send(&server, Method::GET, &format!("/api/v1/namespaces/full/{resource}"), Value::Null).await;
        assert_eq!(left["items"], json!([]), "{resource}");
    }
    assert_eq!(names(&server).await, ["bystander"]);
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

async fn define_widgets(server: &ApiServer) {
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
    }});
    let (status, answer) = send(server, Method::POST, DEFINITIONS, definition).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
}

async fn create_widget(server: &ApiServer, metadata: Value) -> String {
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata});
    let (status, created) = send(server, Method::POST, WIDGETS, widget).await;
    assert_eq!(status, StatusCode::CREATED, "{created}");
    created["metadata"]["uid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_belongs_to_the_objects_of_a_definition_goes_with_it() {
    let server = ApiServer::new();
    define_widgets(&server).await;
    let first = create_widget(&server, json!({"name": "first"})).await;
    let owner =
        |uid: &str, name: &str| json!([{"apiVersion": "example.com/v1", "kind": "Widget", "name": name, "uid": uid}]);
    let second = create_widget(&server, json!({"name": "second", "ownerReferences": owner(&first, "first")})).await;
    let maps = [("of-first", owner(&first, "first")), ("of-second", owner(&second, "second"))];
    for (name, owners) in maps {
        let map = json!({"metadata": {"name": name, "ownerReferences": owners}});
        assert_eq!(send(&server, Method::POST, MAPS, map).await.0, StatusCode::CREATED);
    }
    create(&server, "bystander", None).await;
    delete(&server, &format!("{DEFINITIONS}/widgets.example.com"), "Background").await;
    assert_eq!(send(&server, Method::GET, DEFINITIONS, Value::Null).await.1["items"], json!([]));
    assert_eq!(names(&server).await, ["bystander"]);
}

#[tokio::test]
async fn a_definition_waits_for_its_last_object() {
    let server = ApiServer::new();
    define_widgets(&server).await;
    let uid = create_widget(&server, json!({"name": "held", "finalizers": ["example.com/held"]})).await;
    let owners = json!([{"apiVersion": "example.com/v1", "kind": "Widget", "name": "held", "uid": uid}]);
    let map = json!({"metadata": {"name": "child", "ownerReferences": owners}});
    assert_eq!(send(&server, Method::POST, MAPS, map).await.0, StatusCode::CREATED);
    delete(&server, &format!("{DEFINITIONS}/widgets.example.com"), "Background").await;
    let (_, mut held) = send(&server, Method::GET, &format!("{WIDGETS}/held"), Value::Null).await;
    assert_eq!(names(&server).await, ["child"]);
    held["metadata"]["finalizers"] = json!([]);
    let (status, answer) = send(&server, Method::PUT, &format!("{WIDGETS}/held"), held).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert_eq!(names(&server).await, Vec::<String>::new());
    assert_eq!(send(&server, Method::GET, DEFINITIONS, Value::Null).await.1["items"], json!([]));
}

#[tokio::test]
async fn a_definition_that_is_forced_to_go_leaves_hidden_objects() {
    let server = ApiServer::new();
    define_widgets(&server).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    create_widget(&server, json!({"name": "held", "finalizers": ["example.com/held"]})).await;
    delete(&server, &path, "Background").await;
    let (_, mut definition) = send(&server, Method::GET, &path, Value::Null).await;
    definition["metadata"]["finalizers"] = json!([]);
    assert_eq!(send(&server, Method::PUT, &path, definition).await.0, StatusCode::OK);
    assert_eq!(send(&server, Method::GET, &path, Value::Null).await.0, StatusCode::NOT_FOUND);
    define_widgets(&server).await;
    let (_, widgets) = send(&server, Method::GET, WIDGETS, Value::Null).await;
    assert_eq!(widgets["items"].as_array().map(Vec::len), Some(1));
}
