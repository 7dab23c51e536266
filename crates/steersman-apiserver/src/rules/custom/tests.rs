//! Deleted definitions leave nothing in memory.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::Service;

use crate::ApiServer;
use crate::response::Body;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

async fn send(server: &ApiServer, method: &str, path: &str, body: &Value) -> http::Response<Body> {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let Ok(response) = server.clone().call(request.body(Full::new(body)).unwrap()).await;
    response
}

async fn call(server: &ApiServer, method: &str, path: &str, body: &Value) -> u16 {
    send(server, method, path, body).await.status().as_u16()
}

fn definition(plural: &str) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "string", "pattern": "^[a-z]+$"}},
            }}}],
        },
    })
}

fn thing(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": "x"})
}

#[tokio::test]
async fn nothing_is_kept_of_a_definition_that_is_deleted() {
    let server = ApiServer::new();
    let resources = server.shared.store.resources().len();
    for round in 0..3 {
        assert_eq!(call(&server, "POST", DEFINITIONS, &definition("things")).await, 201);
        assert_eq!(call(&server, "POST", THINGS, &thing("a")).await, 201);
        assert_eq!(call(&server, "POST", THINGS, &thing("b")).await, 201);
        let (custom, kind, objects) = {
            let custom = server.shared.customs.find("example.com", "things").unwrap();
            let objects = server.shared.store.list(&custom.kinds[0].id(), None).objects;
            let objects: Vec<_> = objects.iter().map(Arc::downgrade).collect();
            (Arc::downgrade(&custom), Arc::downgrade(&custom.kinds[0]), objects)
        };
        let watch = send(&server, "GET", &format!("{THINGS}?watch=1&resourceVersion=0"), &Value::Null).await;
        assert_eq!(call(&server, "DELETE", &format!("{DEFINITIONS}/things.example.com"), &Value::Null).await, 200);
        assert_eq!(server.shared.store.resources().len() - resources, 1, "round {round}: the definitions' own log");
        assert!(custom.upgrade().is_none(), "round {round}: the schema is kept");

        // The watch sends all events up to the deletion.
        let events = watch.into_body().collect().await.unwrap().to_bytes();
        let events = serde_json::Deserializer::from_slice(&events).into_iter::<Value>();
        let events: Vec<String> = events.map(|event| event.unwrap()["type"].as_str().unwrap().to_owned()).collect();
        assert_eq!(events, ["ADDED", "ADDED", "DELETED", "DELETED"]);
        assert_eq!(kind.strong_count(), 0, "round {round}: the kind is kept");
        assert_eq!(objects.iter().filter(|object| Weak::strong_count(object) > 0).count(), 0, "round {round}");
    }
}

/// A definition that is deleted while another thread establishes it is not served afterwards.
#[test]
fn a_definition_that_is_deleted_while_it_is_established_is_not_served() {
    const ROUNDS: usize = 300;
    let server = ApiServer::new();
    let call = |method: &str, path: &str, body: &Value| {
        futures::FutureExt::now_or_never(call(&server, method, path, body)).expect("the response waits for something")
    };
    let path = format!("{DEFINITIONS}/things.example.com");
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            scope.spawn(|| call("POST", DEFINITIONS, &definition("things")));
            scope.spawn(|| while call("DELETE", &path, &Value::Null) == 404 {});
        });
        assert_eq!(call("GET", &path, &Value::Null), 404, "round {round}");
        assert_eq!(call("GET", THINGS, &Value::Null), 404, "round {round}: served without a definition");
    }
}
