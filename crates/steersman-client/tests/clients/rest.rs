//! Requests with any path and verb, and invalid requests that are not sent.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube_client::client::Body;
use steersman_client::{
    Api, ApiResource, Client, DeleteParams, DynamicObject, Error, GetParams, ListParams, NamespaceScope, Patch,
    PatchParams, PostParams, RestRequest, WatchParams,
};

use super::{MAP, answer, builder, server};

/// A client of a server that must not receive anything.
fn mute() -> Client {
    let service = tower::service_fn(|request: Request<Body>| async move {
        panic!("{} {} was sent", request.method(), request.uri());
        #[allow(unreachable_code)]
        Ok::<Response<Full<Bytes>>, tower::BoxError>(Response::default())
    });
    builder().build_over(service).unwrap()
}

async fn refused(request: RestRequest) -> String {
    match request.send().await {
        Err(Error::InvalidRequest(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn paths_are_made_of_their_parts() {
    let (service, seen) = server(|_, _| answer(200, MAP));
    let client = builder().build_over(service).unwrap();
    let (core, apps, any) = (client.rest_of("", "v1"), client.rest_of("apps", "v1"), client.rest());
    let cases = [
        (core.get().resource("pods"), "GET /api/v1/pods"),
        (core.get().namespace("").resource("pods"), "GET /api/v1/pods"),
        (core.get().namespace("a").resource("pods"), "GET /api/v1/namespaces/a/pods"),
        (core.post().namespace("a").resource("pods"), "POST /api/v1/namespaces/a/pods"),
        (core.put().namespace("a").resource("pods").name("b"), "PUT /api/v1/namespaces/a/pods/b"),
        (core.delete().resource("nodes").name("b"), "DELETE /api/v1/nodes/b"),
        (
            apps.patch().namespace("a").resource("deployments").name("b").subresource("status"),
            "PATCH /apis/apps/v1/namespaces/a/deployments/b/status",
        ),
        (
            core.get().namespace("a").resource("services").name("b:80").subresource("proxy").subresource("c"),
            "GET /api/v1/namespaces/a/services/b:80/proxy/c",
        ),
        (core.get().resource("nodes").name("ä b"), "GET /api/v1/nodes/%C3%A4%20b"),
        (
            core.get().resource("pods").param("labelSelector", "a=b,c in (d)").param("limit", "5"),
            "GET /api/v1/pods?labelSelector=a%3Db%2Cc%20in%20%28d%29&limit=5",
        ),
        (any.get().abs_path("/openapi/v3?x=1").param("y", "2"), "GET /openapi/v3?x=1&y=2"),
        (any.verb(Method::OPTIONS), "OPTIONS /"),
    ];
    let mut wanted = Vec::new();
    for (request, path) in cases {
        request.send().await.unwrap();
        wanted.push(path);
    }
    let sent: Vec<_> = seen.all().iter().map(|request| format!("{} {}", request.method(), request.uri())).collect();
    assert_eq!(sent, wanted);
}

#[tokio::test]
async fn headers_bodies_and_answers_come_through() {
    let (service, seen) = server(|_, _| answer(201, MAP));
    let client = builder().build_over(service).unwrap();
    let request = client.rest_of("", "v1").post().namespace("default").resource("configmaps");
    let request = request.header(http::header::IF_MATCH, HeaderValue::from_static("x")).json(&ConfigMap::default());
    let answer = request.send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.content_type()), (201, Some("application/json")));
    assert_eq!(answer.body(), MAP);
    assert_eq!(answer.decode::<ConfigMap>().unwrap().metadata.name.as_deref(), Some("a"));
    let headers = seen.all()[0].headers().clone();
    assert_eq!(
        (&headers["content-type"], &headers["if-match"]),
        (&"application/json".parse().unwrap(), &"x".parse().unwrap())
    );
    let map: ConfigMap = client.rest_of("", "v1").get().resource("configmaps").send_for().await.unwrap();
    assert_eq!(map.metadata.namespace.as_deref(), Some("default"));
}

#[tokio::test]
async fn an_empty_namespace_is_refused_before_anything_is_sent() {
    let client = mute();
    let rest = client.rest_of("", "v1");
    let create = refused(rest.post().namespace("").resource("configmaps")).await;
    assert!(create.contains("empty namespace") && create.contains("a create needs one"), "{create}");
    for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE] {
        let named = refused(rest.verb(method).namespace("").resource("configmaps").name("a")).await;
        assert!(named.contains("empty namespace") && named.contains("by name"), "{named}");
    }
}

#[tokio::test]
async fn objects_in_no_namespace_are_refused_before_anything_is_sent() {
    let client = mute();
    let dynamic = |scope| client.dynamic(&ApiResource::erase::<ConfigMap>(&()), scope);
    for maps in [client.namespaced::<ConfigMap>(""), client.all_namespaces::<ConfigMap>()] {
        all_refused(&maps, &ConfigMap::default()).await;
    }
    let object = DynamicObject::new("a", &ApiResource::erase::<ConfigMap>(&()));
    for maps in [dynamic(NamespaceScope::Namespace(String::new())), dynamic(NamespaceScope::AllNamespaces)] {
        all_refused(&maps, &object).await;
    }
}

async fn all_refused<K>(maps: &Api<K>, object: &K)
where
    K: kube_core::Resource + serde::de::DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
    K::DynamicType: Clone,
{
    let patch = Patch::Merge(serde_json::json!({}));
    let (post, delete, patching) = (PostParams::default(), DeleteParams::default(), PatchParams::default());
    let results = [
        maps.get("a").await.map(drop),
        maps.get_opt("a").await.map(drop),
        maps.metadata().get("a").await.map(drop),
        maps.create(&post, object).await.map(drop),
        maps.update("a", &post, object).await.map(drop),
        maps.patch("a", &patching, &patch).await.map(drop),
        maps.apply("a", "me", false, object).await.map(drop),
        maps.delete("a", &delete).await.map(drop),
        maps.delete_collection(&delete, &ListParams::default()).await,
        maps.get_status("a").await.map(drop),
        maps.update_status("a", &post, object).await.map(drop),
        maps.patch_status("a", &patching, &patch).await.map(drop),
        maps.apply_status("a", "me", false, object).await.map(drop),
        maps.status().get::<serde_json::Value>("a").await.map(drop),
        maps.status().create::<_, serde_json::Value>("a", &post, object).await.map(drop),
        maps.status().update::<_, serde_json::Value>("a", &post, object).await.map(drop),
        maps.status().patch::<_, serde_json::Value>("a", &patching, &patch).await.map(drop),
    ];
    for (at, result) in results.into_iter().enumerate() {
        let Err(Error::InvalidRequest(problem)) = result else { panic!("{at}: {result:?}") };
        assert!(problem.contains("a ConfigMap without a namespace"), "{at}: {problem}");
    }
}

#[tokio::test]
async fn bad_names_are_refused_before_anything_is_sent() {
    let client = mute();
    let rest = client.rest_of("", "v1");
    for bad in ["a/b", "..", ".", "a%2Fb", ""] {
        let named = refused(rest.get().namespace("default").resource("configmaps").name(bad)).await;
        assert!(named.contains("name"), "{bad:?}: {named}");
        refused(rest.get().namespace("default").resource("configmaps").name("a").subresource(bad)).await;
        refused(rest.get().namespace("default").resource(bad)).await;
        if !bad.is_empty() {
            let placed = refused(rest.get().namespace(bad).resource("configmaps")).await;
            assert!(placed.contains("namespace"), "{bad:?}: {placed}");
        }
    }
    let part = refused(rest.get().resource("configmaps").subresource("status")).await;
    assert!(part.contains("needs the name"), "{part}");
    let path = refused(client.rest().get().abs_path("version")).await;
    assert!(path.contains("\"version\""), "{path}");
    refused(client.rest().get().abs_path("/a b")).await;
}

#[tokio::test]
async fn empty_names_are_refused_before_anything_is_sent() {
    let client = mute();
    let maps = client.namespaced::<ConfigMap>("default");
    let patch = Patch::Merge(serde_json::json!({}));
    let results = [
        maps.get("").await.map(drop),
        maps.update("", &PostParams::default(), &ConfigMap::default()).await.map(drop),
        maps.patch("", &PatchParams::default(), &patch).await.map(drop),
        maps.delete("", &DeleteParams::default()).await.map(drop),
        client.cluster::<Namespace>().get("").await.map(drop),
    ];
    for (at, result) in results.into_iter().enumerate() {
        assert!(matches!(result, Err(Error::InvalidRequest(_))), "{at}: {result:?}");
    }
}

/// A map whose keys JSON cannot have.
#[tokio::test]
async fn what_is_no_json_is_refused_before_anything_is_sent() {
    let strange = std::collections::BTreeMap::from([((1, 2), 3)]);
    let problem = refused(mute().rest().post().abs_path("/api").json(&strange)).await;
    assert!(problem.contains("cannot be encoded as JSON"), "{problem}");
}

#[tokio::test]
async fn names_that_would_lead_elsewhere_are_refused() {
    let client = mute();
    let maps = client.namespaced::<ConfigMap>("default");
    for name in ["a/status", "..", ".", "a%2fb"] {
        for error in [maps.get(name).await.unwrap_err(), maps.status().get::<ConfigMap>(name).await.unwrap_err()] {
            assert!(error.to_string().contains("invalid name"), "{error}");
        }
        let error = maps.delete(name, &DeleteParams::default()).await.unwrap_err();
        assert!(matches!(&error, Error::InvalidRequest(_)), "{error}");
    }
    let error = client.namespaced::<ConfigMap>("../secrets").get("a").await.unwrap_err();
    assert!(error.to_string().contains("invalid namespace"), "{error}");
}

#[tokio::test]
async fn a_query_has_no_empty_parameter_and_no_bare_question_mark() {
    let (service, seen) = server(|_, _| answer(404, "{}"));
    let maps = builder().build_over(service).unwrap().namespaced::<ConfigMap>("default");
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let patch = Patch::Merge(serde_json::json!({}));
    let labels = ListParams { label_selector: Some("a=b&c".to_owned()), ..ListParams::default() };
    let _ = maps.get("a").await;
    let _ = maps.get_with("a", &GetParams::any()).await;
    let _ = maps.list(&labels).await;
    let _ = maps.create(&PostParams::default(), &ConfigMap::default()).await;
    let _ = maps.create(&dry, &ConfigMap::default()).await;
    let _ = maps.update("a", &PostParams::default(), &ConfigMap::default()).await;
    let _ = maps.patch("a", &PatchParams::default(), &patch).await;
    let _ = maps.delete("a", &DeleteParams::default()).await;
    let _ = maps.delete_collection(&DeleteParams::default(), &labels).await;
    let _ = maps.metadata().get("a").await;
    let _ = maps.status().patch::<_, ConfigMap>("a", &PatchParams::default(), &patch).await;
    let _ = maps.watch_raw(&WatchParams::default(), "5").await;
    assert_eq!(seen.len(), 12);
    let uris: Vec<_> = seen.all().iter().map(|request| request.uri().to_string()).collect();
    let path = "/api/v1/namespaces/default/configmaps";
    assert_eq!(uris[0], format!("{path}/a"));
    assert_eq!(uris[2], format!("{path}?labelSelector=a%3Db%26c"));
    assert_eq!(uris[4], format!("{path}?dryRun=All"));
    for uri in uris {
        let is_whole = !uri.ends_with(['?', '&']) && !uri.contains("?&") && !uri.contains("&&");
        assert!(is_whole, "{uri}");
    }
}
