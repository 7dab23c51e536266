//! Requests by hand: what no client would send.

use ::http::{Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// Sends a request and gives the status and the body: JSON, or else a text.
pub(crate) async fn exchange(request: Request<String>) -> (u16, Value) {
    let (status, body) = send(request).await;
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

async fn send(request: Request<String>) -> (u16, String) {
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let shown = format!("{} {}", request.method(), request.uri());
    let response: Response<_> = client
        .request(request.map(|body| Full::new(body.into())))
        .await
        .unwrap_or_else(|error| panic!("{shown}: {error:?}"));
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap_or_else(|error| panic!("{shown}: {error:?}")).to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}
