//! The objects of a new server, and what it adds to namespaces, without a client that asks for it.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_world::World;
use tower::Service;

async fn send(server: &ApiServer, method: Method, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let media_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", media_type);
    let Ok(response) = server.clone().call(request.body(Full::new(body)).unwrap()).await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn get(server: &ApiServer, path: &str) -> (u16, Value) {
    send(server, Method::GET, path, Value::Null).await
}

const SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";

#[tokio::test(start_paused = true)]
async fn uids_and_times_are_those_of_the_world() {
    let world = |seed| World::seeded(seed, "2026-01-31T10:00:00Z".parse().unwrap());
    let (one, again, other) =
        (ApiServer::with_world(world(7)), ApiServer::with_world(world(7)), ApiServer::with_world(world(8)));
    let (_, service) = get(&one, SERVICE).await;
    assert_eq!(service["metadata"]["creationTimestamp"], "2026-01-31T10:00:00Z");
    assert_eq!(service["metadata"]["managedFields"][0]["time"], "2026-01-31T10:00:00Z");
    assert_eq!(get(&again, SERVICE).await.1, service);
    let (_, of_other) = get(&other, SERVICE).await;
    assert_ne!(of_other["metadata"]["uid"], service["metadata"]["uid"]);
    let tracking = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
    assert_eq!(get(&one, tracking).await.1["data"]["since"], "2026-01-31");
}

#[tokio::test]
async fn a_watch_from_the_first_version_shows_the_first_objects() {
    let server = ApiServer::new();
    let (_, list) = get(&server, "/apis/rbac.authorization.k8s.io/v1/clusterroles?limit=1&resourceVersion=1").await;
    assert_eq!(list["items"], json!([]), "nothing is there at the beginning");
    let request = Request::get("/api/v1/namespaces?watch=true&resourceVersion=1&timeoutSeconds=1");
    let Ok(response) = server.clone().call(request.body(Full::<Bytes>::default()).unwrap()).await;
    let frame = response.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(frame.starts_with(br#"{"type":"ADDED","object":{"kind":"Namespace""#), "{frame:?}");
}

#[tokio::test]
async fn a_namespace_has_an_account_and_the_certificate_until_it_is_deleted() {
    let server = ApiServer::new();
    let namespaces = "/api/v1/namespaces";
    let (status, _) = send(&server, Method::POST, namespaces, json!({"metadata": {"name": "n"}})).await;
    assert_eq!(status, 201);
    for path in ["/api/v1/namespaces/n/serviceaccounts/default", "/api/v1/namespaces/n/configmaps/kube-root-ca.crt"] {
        let (status, first) = get(&server, path).await;
        assert_eq!(status, 200, "{first}");
        assert_eq!(send(&server, Method::DELETE, path, Value::Null).await.0, 200);
        let (status, second) = get(&server, path).await;
        assert_eq!(status, 200, "{second}");
        assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    }
    let root = "/api/v1/namespaces/n/configmaps/kube-root-ca.crt";
    let changed = json!({"data": {"ca.crt": "mine"}});
    assert_eq!(send(&server, Method::PATCH, root, changed).await.0, 200);
    assert_eq!(get(&server, root).await.1["data"]["ca.crt"], "");
    assert_eq!(send(&server, Method::DELETE, "/api/v1/namespaces/n", Value::Null).await.0, 200);
    assert_eq!(get(&server, "/api/v1/namespaces/n").await.0, 404);
    assert_eq!(get(&server, root).await.0, 404);
}

#[tokio::test]
async fn without_controllers_consequences_are_left_to_others() {
    let server = ApiServer::builder().controllers(false).build();
    assert_eq!(get(&server, "/api/v1/configmaps").await.1["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(get(&server, "/api/v1/serviceaccounts").await.1["items"], json!([]));
    let admin = "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin";
    assert_eq!(get(&server, admin).await.1["rules"], Value::Null);
    send(&server, Method::POST, "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    let (_, deleted) = send(&server, Method::DELETE, "/api/v1/namespaces/n", Value::Null).await;
    assert_eq!(deleted["status"]["phase"], "Terminating");
    assert_eq!(get(&server, "/api/v1/namespaces/n").await.0, 200);
    // A definition is emptied and removed by kube-apiserver itself.
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}],
    }});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&server, Method::POST, definitions, definition).await.0, 201);
    let path = format!("{definitions}/things.example.com");
    assert_eq!(send(&server, Method::DELETE, &path, Value::Null).await.0, 200);
    assert_eq!(get(&server, &path).await.0, 404);
}

/// Each takes the other's rules: neither is ever the whole of the other.
#[tokio::test]
async fn roles_that_aggregate_each_other_settle() {
    let server = ApiServer::new();
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = |name: &str, verb: &str, aggregates: bool| {
        let selector = json!({"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]});
        json!({
            "metadata": {"name": name, "labels": {"x": "y"}},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}],
            "aggregationRule": if aggregates { selector } else { Value::Null },
        })
    };
    for (name, verb, aggregates) in [("a", "get", false), ("b", "list", true), ("c", "watch", true)] {
        assert_eq!(send(&server, Method::POST, roles, role(name, verb, aggregates)).await.0, 201);
    }
    for name in ["b", "c"] {
        let (_, role) = get(&server, &format!("{roles}/{name}")).await;
        assert_eq!(role["rules"][0]["verbs"], json!(["get"]), "{role}");
    }
}
