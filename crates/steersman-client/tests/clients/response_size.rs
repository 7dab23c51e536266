//! Endless responses: the client stops reading and names the limit.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::client::Body;
use steersman_client::{ClientBuilder, Error, ListParams};
use tower::BoxError;

use super::{MAP, answer, builder, server};

const MEBIBYTE: usize = 1 << 20;
/// Longer than every limit here. A client that reads all of it ends with an error.
const CHUNKS_MAX: usize = 600;

/// A client of a server whose response begins with `head` and repeats `chunk`, and the number of
/// chunks that were read.
fn endless(
    builder: ClientBuilder,
    code: u16,
    head: &'static str,
    chunk: Bytes,
    encoding: &'static str,
) -> (steersman_client::Client, Arc<AtomicUsize>) {
    let read = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&read);
    let service = tower::service_fn(move |_: Request<Body>| {
        let (counter, chunk) = (Arc::clone(&counter), chunk.clone());
        let chunks = std::iter::once(Ok(Frame::data(Bytes::from_static(head.as_bytes())))).chain(std::iter::from_fn(
            move || match counter.fetch_add(1, Ordering::SeqCst) {
                CHUNKS_MAX.. => Some(Err(std::io::Error::other("the client reads on"))),
                _ => Some(Ok(Frame::data(chunk.clone()))),
            },
        ));
        let mut response = Response::builder().status(code).header("content-type", "application/json");
        if !encoding.is_empty() {
            response = response.header("content-encoding", encoding);
        }
        let response = response.body(StreamBody::new(futures::stream::iter(chunks))).unwrap();
        std::future::ready(Ok::<_, BoxError>(response))
    });
    (builder.retries(0).build_over(service).unwrap(), read)
}

fn spaces() -> Bytes {
    Bytes::from(vec![b' '; MEBIBYTE])
}

#[tokio::test]
async fn an_object_without_end_is_given_up_at_the_default_limit() {
    let (client, read) = endless(builder(), 200, "{", spaces(), "");
    let error = client.namespaced::<ConfigMap>("default").get("a").await.unwrap_err();
    assert!(read.load(Ordering::SeqCst) <= 513, "{read:?} MiB were read: {error}");
    let text = error.to_string();
    assert!(text.contains("longer than 536870912 bytes") && text.contains("response_bytes_max"), "{text}");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn each_way_to_collect_an_answer_has_the_limit() {
    let limited = || builder().response_bytes_max(4 * MEBIBYTE);
    let too_large = |error: Error, read: &AtomicUsize| {
        assert!(matches!(error, Error::TooLarge { limit, .. } if limit == 4 * MEBIBYTE), "{error}");
        // Discovery sends two requests at the same time.
        assert!(read.load(Ordering::SeqCst) <= 10, "{read:?} MiB were read");
    };
    let (client, read) = endless(limited(), 200, "{", spaces(), "");
    too_large(client.rest().get().abs_path("/version").send().await.unwrap_err(), &read);
    let (client, read) = endless(limited(), 200, "{", spaces(), "");
    let Error::Discovery(error) = client.discovery().refresh().await.unwrap_err() else { panic!("no reason") };
    too_large(std::sync::Arc::into_inner(error).unwrap(), &read);
    let (client, read) = endless(limited(), 200, r#"{"items":["#, spaces(), "");
    let list = client.all_namespaces::<ConfigMap>().list(&ListParams::default()).await;
    too_large(list.unwrap_err(), &read);
}

/// A stream is not kept, so its length has no limit.
#[tokio::test]
async fn what_is_streamed_has_no_limit() {
    use futures::TryStreamExt;
    let body = format!(r#"{{"metadata":{{}},"items":[{MAP}{}]}}"#, " ".repeat(MEBIBYTE));
    let (service, _) = server(move |_, _| Response::new(body.clone().into()));
    let client = builder().response_bytes_max(1000).build_over(service).unwrap();
    let stream = client.rest().get().abs_path("/api/v1/configmaps").stream().await.unwrap();
    let length = stream.try_fold(0, |sum, part| std::future::ready(Ok(sum + part.len()))).await.unwrap();
    assert!(length > MEBIBYTE);
    let mut list = client.all_namespaces::<ConfigMap>().list_raw(&ListParams::default()).await.unwrap();
    assert!(list.next().await.unwrap().is_some() && list.next().await.unwrap().is_none());
}

#[tokio::test]
async fn an_answer_of_just_that_length_is_read() {
    for (limit, fits) in [(MAP.len(), true), (MAP.len() - 1, false)] {
        let client = builder().response_bytes_max(limit);
        let client = client.build_over(server(|_, _| answer(200, MAP)).0).unwrap();
        let map = client.namespaced::<ConfigMap>("default").get("a").await;
        assert_eq!(map.is_ok(), fits, "{limit}: {map:?}");
    }
}

/// The text of an error needs the beginning of the body only.
#[tokio::test]
async fn a_refusal_without_end_is_known_by_its_code() {
    let (client, read) = endless(builder(), 403, "{", spaces(), "");
    let error = client.namespaced::<ConfigMap>("default").get("a").await.unwrap_err();
    assert!(error.is_forbidden(), "{error}");
    assert!(read.load(Ordering::SeqCst) <= 2, "{read:?} MiB were read");
}

/// A chunk of gzip grows a thousandfold: the client decompresses no further than the limit.
#[tokio::test]
async fn the_limit_counts_decompressed_bytes() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    for _ in 0..64 {
        encoder.write_all(&spaces()).unwrap();
    }
    let bomb = Bytes::from(encoder.finish().unwrap());
    assert!(bomb.len() < MEBIBYTE / 8, "{}", bomb.len());
    let (client, read) = endless(builder().response_bytes_max(8 * MEBIBYTE), 200, "", bomb, "gzip");
    let error = client.rest().get().abs_path("/version").send().await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert_eq!(read.load(Ordering::SeqCst), 1);
}
