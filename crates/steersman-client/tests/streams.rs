//! Lists and watches as they arrive.

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::StreamBody;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube_client::Config;
use kube_client::client::Body;
use steersman_client::{Client, Error, ListParams, PostParams, TypedEvent, WatchParams};
use steersman_testing::Embedded;

/// A client of a server that sends this response to every request, in pieces of `part` bytes.
fn responding(body: &str, part: usize) -> Client {
    let body = Bytes::from(body.to_owned());
    let service = tower::service_fn(move |_: Request<Body>| {
        let parts: Vec<_> = body.chunks(part).map(Bytes::copy_from_slice).map(http_body::Frame::data).collect();
        let parts = parts.into_iter().map(Ok::<_, std::convert::Infallible>);
        let body = StreamBody::new(futures::stream::iter(parts));
        async move { Ok::<_, std::convert::Infallible>(Response::new(body)) }
    });
    Client::builder(Config::new("http://server".parse().unwrap())).build_over(service).unwrap()
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.data = Some([("key".to_owned(), value.to_owned())].into());
    object
}

#[tokio::test]
async fn a_list_is_the_same_however_it_is_cut() {
    let body = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"more","remainingItemCount":3},
        "items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"},"data":{"key":"ä \"quoted\" }]"}}]}"#;
    for part in [1, 2, 3, 7, 64, 10_000] {
        let maps = responding(body, part).namespaced::<ConfigMap>("default");
        let list = maps.list(&ListParams::default()).await.unwrap();
        let names: Vec<_> = list.items.iter().map(|item| item.metadata.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(list.items[1].data.as_ref().unwrap()["key"], "ä \"quoted\" }]");
        assert_eq!(list.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(list.metadata.continue_.as_deref(), Some("more"));
        assert_eq!(list.metadata.remaining_item_count, Some(3));
        assert_eq!(list.types.kind, "ConfigMapList");
    }
}

#[tokio::test]
async fn an_object_that_cannot_be_read_does_not_affect_the_others() {
    let body = r#"{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"7"},
        "items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"},"data":"hunter2"},{"metadata":{"name":"c"}}]}"#;
    let secrets = responding(body, 16).namespaced::<Secret>("default");
    let error = secrets.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(error, Error::Object { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error} {error:?}");

    let mut raw = secrets.list_raw(&ListParams::default()).await.unwrap();
    let mut read = Vec::new();
    while let Some(item) = raw.next().await.unwrap() {
        read.push(
            serde_json::from_slice::<Secret>(&item.unwrap().json().unwrap())
                .map(|secret| secret.metadata.name.unwrap())
                .ok(),
        );
    }
    assert_eq!(read, [Some("a".to_owned()), None, Some("c".to_owned())]);
    assert_eq!(raw.meta().resource_version, "7");
}

#[tokio::test]
async fn a_list_that_is_cut_off_is_an_error() {
    let maps = responding(r#"{"kind":"ConfigMapList","items":[{"metadata":{"name":"a"}},{"meta"#, 8)
        .namespaced::<ConfigMap>("a");
    let error = maps.list(&ListParams::default()).await.unwrap_err();
    assert!(error.to_string().contains("cut off"), "{error}");
}

#[tokio::test]
async fn an_error_in_a_watch_is_its_last_item() {
    let body = concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#,
        "\n",
        r#"{"type":"ADDED","object":{"metadata":{"name":"b"},"data":5}}"#,
        "\n",
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        "\n",
        r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old"}}"#,
        "\n",
        r#"{"type":"ADDED","object":{"metadata":{"name":"never"}}}"#,
    );
    for part in [1, 5, 1_000] {
        let maps = responding(body, part).namespaced::<ConfigMap>("default");
        let events = maps.watch(&WatchParams::default(), "1").await.unwrap();
        let events: Vec<_> = events.collect().await;
        assert_eq!(events.len(), 4);
        assert!(matches!(&events[0], Ok(TypedEvent::Added(map)) if map.metadata.name.as_deref() == Some("a")));
        assert!(matches!(&events[1], Err(Error::Object { .. })), "{:?}", events[1]);
        let end = TypedEvent::Bookmark { resource_version: "9".to_owned(), initial_events_end: true };
        assert_eq!(events[2].as_ref().unwrap(), &end);
        assert!(events[3].as_ref().unwrap_err().is_expired(), "{:?}", events[3]);
    }
}

#[tokio::test]
async fn an_expired_version_is_reported() {
    let server = Embedded::empty();
    let maps = server.client().namespaced::<ConfigMap>("default");
    let first = maps.create(&PostParams::default(), &config_map("first", "0")).await.unwrap();
    maps.create(&PostParams::default(), &config_map("second", "0")).await.unwrap();
    server.compact();
    let version = first.metadata.resource_version.unwrap();
    // The refusal is the response, or its first event.
    let error = match maps.watch(&WatchParams::default(), &version).await {
        Ok(events) => Box::pin(events).next().await.unwrap().unwrap_err(),
        Err(error) => error,
    };
    assert!(error.is_expired(), "{error}");
}
