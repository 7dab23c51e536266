//! Protobuf for built-in kinds, JSON for all others.

use std::borrow::Cow;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::Resource;
use serde_json::{Value, json};
use steersman_client::{
    ApiResource, Client, ListParams, NamespaceScope, ObjectMeta, Patch, PatchParams, PostParams, WatchParams,
};
use steersman_testing::Log;
use steersman_wire::protobuf;

use super::objects::map;
use super::{MAP, answer, builder, server};

const JSON: &str = "application/json";
const PROTOBUF: &str = protobuf::MEDIA_TYPE;

fn in_protobuf(code: u16, object: &Value) -> Response<Full<Bytes>> {
    let body = protobuf::from_json(object.to_string().as_bytes()).expect("a built-in kind");
    let response = Response::builder().status(code).header("content-type", PROTOBUF);
    response.body(Full::from(body)).unwrap()
}

fn named() -> Value {
    serde_json::from_str(MAP).unwrap()
}

fn header(request: &Request<()>, name: &str) -> String {
    request.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

/// The method, the `Accept` header and the content type.
fn spoken(seen: &Log<Request<()>>) -> Vec<(String, String, String)> {
    let words = |request: &Request<()>| {
        (request.method().to_string(), header(request, "accept"), header(request, "content-type"))
    };
    seen.all().iter().map(words).collect()
}

#[tokio::test]
async fn built_in_kinds_are_asked_for_as_protobuf_and_others_as_json() {
    let (service, seen) = server(|_, _| answer(200, MAP));
    let client = builder().build_over(service).unwrap();
    let both = format!("{PROTOBUF},{JSON}");
    let accepted = |seen: &Log<Request<()>>| header(seen.all().last().unwrap(), "accept");

    let maps = client.namespaced::<ConfigMap>("default");
    maps.get("a").await.unwrap();
    assert_eq!(accepted(&seen), both);
    maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({}))).await.unwrap();
    assert_eq!(accepted(&seen), both);
    maps.status().get::<ConfigMap>("a").await.unwrap();
    assert_eq!(accepted(&seen), both);
    // Another kind, and an untyped object.
    let _ = maps.subresource("scale").get::<Scale>("a").await;
    assert_eq!(accepted(&seen), JSON);
    maps.subresource("scale").get::<Value>("a").await.unwrap();
    assert_eq!(accepted(&seen), JSON);
    // This server has no lists.
    let _ = maps.list(&ListParams::default()).await;
    assert_eq!(accepted(&seen), both);
    drop(maps.watch(&WatchParams::default(), "1").await.unwrap());
    assert_eq!(accepted(&seen), both);
    maps.metadata().get("a").await.unwrap();
    let as_metadata = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    assert_eq!(accepted(&seen), format!("{PROTOBUF}{as_metadata},{JSON}{as_metadata}"));
    // The subresource is a whole object of any type.
    maps.metadata().status().get::<Value>("a").await.unwrap();
    assert_eq!(accepted(&seen), JSON);

    let resource = ApiResource::erase::<ConfigMap>(&());
    client.dynamic(&resource, NamespaceScope::Namespace("default".to_owned())).get("a").await.unwrap();
    assert_eq!(accepted(&seen), JSON);
    let _ = client.cluster::<CustomResourceDefinition>().get("a").await;
    assert_eq!(accepted(&seen), JSON);
    client.rest_of("", "v1").get().resource("configmaps").send().await.unwrap();
    assert_eq!(accepted(&seen), JSON);

    let (service, seen) = server(|_, _| answer(200, MAP));
    let client = builder().protobuf(false).build_over(service).unwrap();
    client.namespaced::<ConfigMap>("default").get("a").await.unwrap();
    assert_eq!(accepted(&seen), JSON);
}

/// A type of a built-in kind with a field of a future release.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
struct MapOfTomorrow {
    metadata: ObjectMeta,
    mood: Option<String>,
}

impl Resource for MapOfTomorrow {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        ConfigMap::kind(&())
    }

    fn group(_: &()) -> Cow<'_, str> {
        ConfigMap::group(&())
    }

    fn version(_: &()) -> Cow<'_, str> {
        ConfigMap::version(&())
    }

    fn plural(_: &()) -> Cow<'_, str> {
        ConfigMap::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[tokio::test]
async fn a_type_that_reads_more_than_there_is_in_messages_is_asked_for_as_json() {
    let (service, seen) = server(|_, _| answer(200, r#"{"metadata":{"name":"a"},"mood":"good"}"#));
    let client = builder().build_over(service).unwrap();
    let map = client.namespaced::<MapOfTomorrow>("default").get("a").await.unwrap();
    assert_eq!(map.mood.as_deref(), Some("good"));
    assert_eq!(header(&seen.all()[0], "accept"), JSON);
}

#[tokio::test]
async fn protobuf_is_sent_after_the_server_has_responded_with_it() {
    let (service, seen) = server(|_, _| in_protobuf(200, &named()));
    let client: Client = builder().build_over(service).unwrap();
    let maps = client.namespaced::<ConfigMap>("default");
    let post = PostParams::default();
    let created = maps.create(&post, &map("a", "b")).await.unwrap();
    assert_eq!(created.metadata.name.as_deref(), Some("a"));
    maps.create(&post, &map("a", "b")).await.unwrap();
    maps.update("a", &post, &created).await.unwrap();
    maps.status().update::<_, ConfigMap>("a", &post, &created).await.unwrap();
    // A field that no message has must not be lost.
    let newer = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "mood": "good"});
    maps.status().update::<_, ConfigMap>("a", &post, &newer).await.unwrap();
    let resource = ApiResource::erase::<ConfigMap>(&());
    let dynamic = client.dynamic(&resource, NamespaceScope::Namespace("default".to_owned()));
    dynamic.update("a", &post, &serde_json::from_value(named()).unwrap()).await.unwrap();
    let sent: Vec<String> = spoken(&seen).into_iter().map(|(_, _, sent)| sent).collect();
    assert_eq!(sent, [JSON, PROTOBUF, PROTOBUF, PROTOBUF, JSON, JSON]);
}

#[tokio::test]
async fn a_server_that_does_not_read_protobuf_is_sent_json_again() {
    let (service, seen) = server(|_, request| {
        if header(request, "content-type") == PROTOBUF {
            return answer(415, r#"{"kind":"Status","status":"Failure","reason":"UnsupportedMediaType","code":415}"#);
        }
        in_protobuf(200, &named())
    });
    let client = builder().build_over(service).unwrap();
    let maps = client.namespaced::<ConfigMap>("default");
    for _ in 0..3 {
        maps.create(&PostParams::default(), &map("a", "b")).await.unwrap();
    }
    let sent: Vec<String> = spoken(&seen).into_iter().map(|(_, _, sent)| sent).collect();
    assert_eq!(sent, [JSON, PROTOBUF, JSON, JSON]);
}

#[tokio::test]
async fn a_refusal_in_protobuf_is_read() {
    let refusal = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "no such thing",
        "reason": "NotFound", "code": 404, "details": {"name": "a", "kind": "configmaps"}});
    let (service, _) = server(move |_, _| in_protobuf(404, &refusal));
    let client = builder().build_over(service).unwrap();
    let error = client.namespaced::<ConfigMap>("default").get("a").await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let status = error.status().unwrap();
    assert_eq!((status.message.as_str(), status.reason.as_str()), ("no such thing", "NotFound"));
    assert_eq!(status.details.as_ref().unwrap().name, "a");
}

#[tokio::test]
async fn protobuf_that_cannot_be_read_is_an_error_without_its_contents() {
    for (body, expected) in [
        (&b"k8s\0\x0a\x10\x0a\x02v1\x12\x0aConfigMap!\x12\x08HIDDEN!!"[..], "arrived as protobuf"),
        (b"HIDDEN", "expected the envelope of an object"),
        (b"", "expected the envelope of an object"),
    ] {
        let (service, _) =
            server(move |_, _| Response::builder().header("content-type", PROTOBUF).body(Full::from(body)).unwrap());
        let client = builder().build_over(service).unwrap();
        let error = client.cluster::<Namespace>().get("a").await.unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("HIDDEN"), "{error}");
    }
}
