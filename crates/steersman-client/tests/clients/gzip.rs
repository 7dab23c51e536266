//! Compressed responses.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::channel::mpsc;
use futures::{StreamExt, TryStreamExt};
use http::Response;
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::{Client, Error, ListParams, PostParams};

use super::{MAP, answer, builder, server};

fn packed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn list(name: &str) -> String {
    format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{}},"items":[{{"metadata":{{"name":"{name}"}}}}]}}"#
    )
}

fn zipped(body: Vec<u8>) -> Response<Full<Bytes>> {
    let response = Response::builder().header("content-encoding", "gzip").header("content-type", "application/json");
    response.header("content-length", body.len()).body(Full::from(body)).unwrap()
}

fn over(body: Vec<u8>) -> Client {
    builder().build_over(server(move |_, _| zipped(body.clone())).0).unwrap()
}

async fn first_name(client: &Client) -> Result<String, Error> {
    let list = client.all_namespaces::<ConfigMap>().list(&ListParams::default()).await?;
    Ok(list.items[0].metadata.name.clone().unwrap())
}

#[tokio::test]
async fn reads_ask_for_gzip_and_everything_else_for_none() {
    let (service, seen) = server(|_, _| answer(200, MAP));
    let client = builder().build_over(service.clone()).unwrap();
    let maps = client.namespaced::<ConfigMap>("default");
    maps.get("a").await.unwrap();
    maps.create(&PostParams::default(), &ConfigMap::default()).await.unwrap();
    client.rest().get().abs_path("/api/v1/configmaps?watch=true").send().await.unwrap();
    client.rest().get().abs_path("/api/v1/namespaces/a/pods/b/log?follow=true").send().await.unwrap();
    let without = builder().gzip(false).build_over(service.clone()).unwrap();
    without.namespaced::<ConfigMap>("default").get("a").await.unwrap();
    let mut config = steersman_client::Config::new(super::SERVER.parse().unwrap());
    config.disable_compression = true;
    let forbidden = Client::builder(config).build_over(service).unwrap();
    forbidden.namespaced::<ConfigMap>("default").get("a").await.unwrap();
    let asked: Vec<_> = seen.all().iter().map(|request| request.headers()["accept-encoding"].clone()).collect();
    assert_eq!(asked, ["gzip", "identity", "identity", "identity", "identity", "identity"]);
}

#[tokio::test]
async fn a_list_is_decompressed() {
    assert_eq!(first_name(&over(packed(&list("one")))).await.unwrap(), "one");
    let answer = over(packed("text")).rest().get().abs_path("/version").send().await.unwrap();
    assert_eq!(answer.body(), "text");
    let headers = answer.headers();
    assert!(!headers.contains_key("content-encoding") && !headers.contains_key("content-length"), "of the packed form");
}

#[tokio::test]
async fn several_members_are_one_answer() {
    let text = list("several");
    let (one, other) = text.split_at(20);
    assert_eq!(first_name(&over([packed(one), packed(""), packed(other)].concat())).await.unwrap(), "several");
}

#[tokio::test]
async fn data_is_decompressed_as_it_arrives() {
    let (send, parts) = mpsc::unbounded::<Result<Frame<Bytes>, std::io::Error>>();
    let parts = std::sync::Arc::new(std::sync::Mutex::new(Some(parts)));
    let service = tower::service_fn(move |_| {
        let body = StreamBody::new(parts.lock().unwrap().take().unwrap());
        async move { Ok::<_, tower::BoxError>(Response::builder().header("content-encoding", "gzip").body(body).unwrap()) }
    });
    let client = builder().build_over(service).unwrap();
    let mut body = client.rest().get().abs_path("/api/v1/configmaps").stream().await.unwrap().boxed();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    for part in ["first", "second"] {
        encoder.write_all(part.as_bytes()).unwrap();
        encoder.flush().unwrap();
        let bytes = std::mem::take(encoder.get_mut());
        send.unbounded_send(Ok(Frame::data(bytes.into()))).unwrap();
        assert_eq!(body.try_next().await.unwrap().unwrap(), part, "before the rest is there");
    }
    send.unbounded_send(Ok(Frame::data(encoder.finish().unwrap().into()))).unwrap();
    drop(send);
    assert_eq!(body.try_next().await.unwrap(), None);
}

/// One byte at a time: the decoder must handle every part of the format in pieces.
#[tokio::test]
async fn parts_of_any_size_are_decompressed() {
    let bytes = [packed("one"), packed("two")].concat();
    let service = tower::service_fn(move |_| {
        let parts: Vec<_> =
            bytes.iter().map(|byte| Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![*byte])))).collect();
        let body = StreamBody::new(futures::stream::iter(parts));
        async move { Ok::<_, tower::BoxError>(Response::builder().header("content-encoding", "gzip").body(body).unwrap()) }
    });
    let client = builder().build_over(service).unwrap();
    assert_eq!(client.rest().get().abs_path("/version").send().await.unwrap().body(), "onetwo");
}

#[tokio::test]
async fn a_broken_body_is_an_error() {
    let whole = packed(&list("broken"));
    let mut flipped = whole.clone();
    let middle = whole.len() / 2;
    flipped[middle] ^= 0xff;
    let mut wrong_sum = whole.clone();
    let sum = whole.len() - 8;
    wrong_sum[sum] ^= 0xff;
    let cases = [
        ("cut in the middle", whole[..middle].to_vec()),
        ("cut before the sum", whole[..sum].to_vec()),
        ("cut in the header", whole[..5].to_vec()),
        ("changed", flipped),
        ("with a wrong sum", wrong_sum),
        ("no gzip at all", list("plain").into_bytes()),
    ];
    for (what, body) in cases {
        let error = first_name(&over(body)).await.expect_err(what);
        // A list is decoded as it is decompressed: a change may break it before the checksum comes.
        let decoded = what == "changed" && matches!(error, Error::Decode { .. });
        assert!(decoded || matches!(error, Error::Transport { .. }), "{what}: {error}");
    }
}

#[tokio::test]
async fn a_caller_who_asks_for_an_encoding_gets_the_answer_as_it_is() {
    let bytes = packed("as it is");
    let client = over(bytes.clone());
    let request = client.rest().get().abs_path("/version");
    let request = request.header(http::header::ACCEPT_ENCODING, http::HeaderValue::from_static("gzip"));
    assert_eq!(request.send().await.unwrap().body(), &bytes);
}

#[tokio::test]
async fn an_error_may_come_compressed_as_well() {
    let body = packed(r#"{"kind":"Status","status":"Failure","reason":"NotFound","message":"not there","code":404}"#);
    let (service, _) = server(move |_, _| {
        let mut response = zipped(body.clone());
        *response.status_mut() = http::StatusCode::NOT_FOUND;
        response
    });
    let error = first_name(&builder().build_over(service).unwrap()).await.unwrap_err();
    assert!(error.is_not_found() && error.to_string().ends_with("not there"), "{error}");
}
