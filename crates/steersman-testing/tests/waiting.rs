//! The helpers that wait: `eventually`, and definitions that are served.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use kube_client::Client;
use serde_json::{Value, json};
use steersman_testing::{Embedded, Error, eventually, eventually_within};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn the_first_value_is_returned() {
    let started = Instant::now();
    let mut looks = 0;
    let found = eventually("three looks", || {
        looks += 1;
        std::future::ready((looks == 3).then_some(looks))
    });
    assert_eq!(found.await, 3);
    assert_eq!(started.elapsed(), Duration::from_millis(20));
}

#[tokio::test(start_paused = true)]
async fn an_hour_takes_few_looks() {
    let (started, hour) = (Instant::now(), Duration::from_secs(3600));
    let mut looks = 0;
    let an_hour_has_passed = || {
        looks += 1;
        std::future::ready((started.elapsed() >= hour).then_some(()))
    };
    eventually_within(2 * hour, "an hour passes", an_hour_has_passed).await;
    assert!(started.elapsed() <= hour + Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(looks < 4000, "{looks}");
}

#[tokio::test(start_paused = true)]
async fn what_did_not_happen_is_named_with_the_place_of_the_call() {
    let started = Instant::now();
    let line = line!() + 1;
    let waiting = eventually_within(Duration::from_secs(5), "the sun rises", || async { None::<()> });
    let panic = AssertUnwindSafe(waiting).catch_unwind().await.unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.ends_with("did not happen within 5s: the sun rises"), "{message}");
    assert!(message.contains(&format!("waiting.rs:{line}:")), "{message}");
    assert_eq!(started.elapsed(), Duration::from_secs(5));
}

#[tokio::test]
async fn waiting_can_be_spawned() {
    let client = Embedded::start().kube_client();
    let waiting = async move { eventually("version", || async { client.apiserver_version().await.ok() }).await };
    assert_eq!(tokio::spawn(waiting).await.unwrap().major, "1");
}

fn networks() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |name: &str| json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "networks.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Network", "plural": "networks"},
            "scope": "Namespaced",
            "versions": [version("v1"), version("v2")],
        },
    })
}

async fn get(client: &Client, path: &str) -> Result<Value, kube_client::Error> {
    client.request(http::Request::get(path).body(Vec::new()).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn installed_definitions_are_served_in_every_version() {
    let server = Embedded::start();
    server.install_crds([networks()]).await.unwrap();
    for version in ["v1", "v2"] {
        let list = get(&server.kube_client(), &format!("/apis/example.com/{version}/networks")).await.unwrap();
        assert_eq!(list["kind"], "NetworkList");
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_exists_is_replaced() {
    let server = Embedded::start();
    server.install_crds([networks()]).await.unwrap();
    let mut changed = networks();
    changed["spec"]["names"]["shortNames"] = json!(["net"]);
    server.install_crds([changed]).await.unwrap();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/networks.example.com";
    let found = get(&server.kube_client(), path).await.unwrap();
    assert_eq!(found["spec"]["names"]["shortNames"], json!(["net"]));
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_refused_is_named() {
    let mut wrong = networks();
    wrong["spec"]["scope"] = json!("Everywhere");
    let error = Embedded::start().install_crds([wrong]).await.unwrap_err();
    assert!(matches!(&error, Error::Definition { name, .. } if name == "networks.example.com"));
    let message = error.to_string();
    assert!(message.starts_with("cannot install the CustomResourceDefinition networks.example.com: "), "{message}");
    assert!(message.contains("spec.scope"), "{message}");
}

/// Its names are taken, so it is stored and never established.
#[tokio::test(start_paused = true)]
async fn a_definition_that_is_never_served_is_an_error_with_the_reason() {
    let server = Embedded::start();
    server.install_crds([networks()]).await.unwrap();
    let mut other = networks();
    other["metadata"]["name"] = json!("nets.example.com");
    other["spec"]["names"]["plural"] = json!("nets");
    let error = server.install_crds([other]).await.unwrap_err().to_string();
    assert!(error.contains("nets.example.com: it is not served after 30 s: "), "{error}");
    assert!(error.contains("is already in use"), "{error}");
}
