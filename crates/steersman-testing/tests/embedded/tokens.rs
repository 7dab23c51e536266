//! Tokens of service accounts in process.

use std::time::Duration;

use http::Request;
use kube_client::Client;
use serde_json::{Value, json};
use steersman_testing::{Embedded, World};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/sa/token";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Sends a request and returns the status and the body.
async fn send(client: &Client, method: &str, path: &str, token: Option<&str>, body: Value) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let response = client.send(request.body(body.into()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect_bytes().await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

/// The user of a token, if it is valid.
async fn user_of(client: &Client, token: &str) -> Result<Value, u16> {
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (status, review) = send(client, "POST", path, Some(token), json!({})).await;
    if status == 201 { Ok(review["status"]["userInfo"].clone()) } else { Err(status) }
}

/// A server in a world of its own, with the service account `sa`.
async fn server() -> (World, Client) {
    let world = World::seeded(7, "2026-01-31T10:00:00Z".parse().unwrap());
    let client = Embedded::with_world(world.clone()).kube_client();
    let (status, _) = send(&client, "POST", ACCOUNTS, None, json!({"metadata": {"name": "sa"}})).await;
    assert_eq!(status, 201);
    (world, client)
}

async fn token(client: &Client, spec: Value) -> String {
    let (status, answer) = send(client, "POST", TOKEN, None, json!({"spec": spec})).await;
    assert_eq!(status, 201, "{answer}");
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// Lets this many seconds go by.
fn pass(world: &World, seconds: u64) {
    world.set_now(world.now() + Duration::from_secs(seconds));
}

#[tokio::test(start_paused = true)]
async fn a_token_is_valid_until_it_expires_by_the_clock_of_the_world() {
    let (world, client) = server().await;
    let (status, answer) = send(&client, "POST", TOKEN, None, json!({"spec": {"expirationSeconds": 600}})).await;
    assert_eq!((status, &answer["status"]["expirationTimestamp"]), (201, &"2026-01-31T10:10:00Z".into()));
    let token = answer["status"]["token"].as_str().unwrap();
    let user = user_of(&client, token).await.unwrap();
    assert_eq!(user["username"], "system:serviceaccount:default:sa");
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"];
    assert_eq!(user["groups"], json!(groups));
    // Clocks may differ by a minute.
    pass(&world, 660);
    assert!(user_of(&client, token).await.is_ok());
    pass(&world, 1);
    assert_eq!(user_of(&client, token).await, Err(401));
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_with_its_account_even_if_that_is_created_again() {
    let (_, client) = server().await;
    let token = token(&client, json!({})).await;
    assert!(user_of(&client, &token).await.is_ok());
    send(&client, "DELETE", &format!("{ACCOUNTS}/sa"), None, Value::Null).await;
    assert_eq!(user_of(&client, &token).await, Err(401));
    send(&client, "POST", ACCOUNTS, None, json!({"metadata": {"name": "sa"}})).await;
    assert_eq!(user_of(&client, &token).await, Err(401));
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_with_the_object_that_it_is_bound_to() {
    let (world, client) = server().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "serviceAccountName": "sa", "nodeName": "n", "containers": [{"name": "c", "image": "i"}],
    }});
    let (_, pod) = send(&client, "POST", PODS, None, pod).await;
    let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]});
    let of_pod = token(&client, json!({"boundObjectRef": reference})).await;
    let user = user_of(&client, &of_pod).await.unwrap();
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));
    assert_eq!(user["extra"]["authentication.kubernetes.io/node-name"], json!(["n"]));
    // A Pod on a node ends in its own time: it is deleted from the end of that on, and a minute.
    send(&client, "DELETE", &format!("{PODS}/p"), None, Value::Null).await;
    pass(&world, 30 + 60);
    assert!(user_of(&client, &of_pod).await.is_ok());
    pass(&world, 1);
    assert_eq!(user_of(&client, &of_pod).await, Err(401));

    let secrets = "/api/v1/namespaces/default/secrets";
    send(&client, "POST", secrets, None, json!({"metadata": {"name": "s"}})).await;
    let reference = json!({"apiVersion": "v1", "kind": "Secret", "name": "s"});
    let of_secret = token(&client, json!({"boundObjectRef": reference})).await;
    assert!(user_of(&client, &of_secret).await.is_ok());
    send(&client, "DELETE", &format!("{secrets}/s"), None, Value::Null).await;
    assert_eq!(user_of(&client, &of_secret).await, Err(401));
    send(&client, "POST", secrets, None, json!({"metadata": {"name": "s"}})).await;
    assert_eq!(user_of(&client, &of_secret).await, Err(401), "it is another one");
}

#[tokio::test(start_paused = true)]
async fn the_token_of_a_kubelet_lives_longer_than_it_states() {
    let (world, client) = server().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "serviceAccountName": "sa", "containers": [{"name": "c", "image": "i"}],
    }});
    send(&client, "POST", PODS, None, pod).await;
    let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": "p"});
    let extended = token(&client, json!({"expirationSeconds": 3607, "boundObjectRef": reference})).await;
    let plain = token(&client, json!({"expirationSeconds": 3607})).await;
    pass(&world, 24 * 3600);
    assert!(user_of(&client, &extended).await.is_ok());
    assert_eq!(user_of(&client, &plain).await, Err(401));
    pass(&world, 365 * 24 * 3600);
    assert_eq!(user_of(&client, &extended).await, Err(401));
}

#[tokio::test(start_paused = true)]
async fn a_token_is_for_its_server_and_its_audiences() {
    let ((_, one), (_, other)) = (server().await, server().await);
    let own = token(&one, json!({})).await;
    assert!(user_of(&one, &own).await.is_ok());
    assert_eq!(user_of(&other, &own).await, Err(401));
    let of_others = token(&one, json!({"audiences": ["others"]})).await;
    assert_eq!(user_of(&one, &of_others).await, Err(401));
    let review = async |audiences: Value| {
        let spec = json!({"token": of_others, "audiences": audiences});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        send(&one, "POST", path, None, json!({"spec": spec})).await.1["status"]["authenticated"] == true
    };
    assert!(review(json!(["others"])).await);
    assert!(!review(json!(["more"])).await);
    assert_eq!(user_of(&one, "made-up").await, Err(401));
}
