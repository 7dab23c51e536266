//! Raw requests that the client would not send.

use ::http::{Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// Sends a request and returns the status and the body: JSON, or else a text.
pub(crate) async fn exchange(request: Request<String>) -> (u16, Value) {
    let (parts, body) = send(request).await.into_parts();
    (parts.status.as_u16(), serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

/// Logs in to Keystone as a user of the project of the same name, and returns the token.
pub(crate) async fn log_in(keystone: &str, name: &str, password: &str) -> String {
    let domain = json!({"id": "default"});
    let user = json!({"name": name, "domain": domain, "password": password});
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": user}},
        "scope": {"project": {"name": name, "domain": domain}},
    }});
    let request = Request::post(format!("{keystone}/v3/auth/tokens")).header("Content-Type", "application/json");
    let answer = send(request.body(body.to_string()).unwrap()).await;
    let token =
        answer.headers().get("x-subject-token").unwrap_or_else(|| panic!("{} {}", answer.status(), answer.body()));
    token.to_str().unwrap().to_owned()
}

/// Sends a request with a token, and a body unless it is null.
pub(crate) async fn with_token(token: &str, method: &str, url: &str, body: &Value) -> (u16, Value) {
    let request = Request::builder().method(method).uri(url).header("X-Auth-Token", token);
    let text = if body.is_null() { String::new() } else { body.to_string() };
    exchange(request.header("Content-Type", "application/json").body(text).unwrap()).await
}

async fn send(request: Request<String>) -> Response<String> {
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let shown = format!("{} {}", request.method(), request.uri());
    let failed = |error: &dyn std::fmt::Debug| -> ! { panic!("{shown}: {error:?}") };
    let response = client.request(request.map(|body| Full::new(body.into()))).await;
    let (parts, body) = response.unwrap_or_else(|error| failed(&error)).into_parts();
    let body = body.collect().await.unwrap_or_else(|error| failed(&error)).to_bytes();
    Response::from_parts(parts, String::from_utf8_lossy(&body).into_owned())
}
