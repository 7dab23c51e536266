//! The embedded server, used as a controller's client would.

#[path = "embedded/authorization.rs"]
mod authorization;
#[path = "embedded/tokens.rs"]
mod tokens;

use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_client::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config, Error, ResourceExt};
use serde_json::json;
use steersman_apiserver::Identity;
use steersman_testing::Embedded;

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
        data: Some([("key".to_owned(), value.to_owned())].into()),
        ..Default::default()
    }
}

fn maps(client: Client) -> Api<ConfigMap> {
    Api::default_namespaced(client)
}

fn code(error: Error) -> u16 {
    match error {
        Error::Api(status) => status.code,
        other => panic!("no answer of the server: {other}"),
    }
}

#[tokio::test]
async fn an_object_lives_its_whole_life() {
    let maps = maps(Embedded::start().kube_client());
    let created = maps.create(&PostParams::default(), &config_map("one", "first")).await.unwrap();
    assert!(created.uid().is_some() && created.metadata.creation_timestamp.is_some());
    assert_eq!(maps.get("one").await.unwrap().data, created.data);
    let again = maps.create(&PostParams::default(), &config_map("one", "first")).await.unwrap_err();
    assert_eq!(code(again), 409);

    let version = created.resource_version().unwrap();
    let mut watch = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    let mut changed = created.clone();
    changed.data = config_map("one", "second").data;
    let changed = maps.replace("one", &PostParams::default(), &changed).await.unwrap();
    assert_eq!(code(maps.replace("one", &PostParams::default(), &created).await.unwrap_err()), 409);
    let unchanged = maps.replace("one", &PostParams::default(), &changed).await.unwrap();
    assert_eq!(unchanged.resource_version(), changed.resource_version(), "a write that changes nothing is none");
    maps.delete("one", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(maps.get("one").await.unwrap_err()), 404);

    match watch.try_next().await.unwrap() {
        Some(WatchEvent::Modified(seen)) => assert_eq!(seen.resource_version(), changed.resource_version()),
        other => panic!("expected the change, got {other:?}"),
    }
    match watch.try_next().await.unwrap() {
        Some(WatchEvent::Deleted(seen)) => {
            assert_eq!(seen.data, changed.data);
            assert_ne!(seen.resource_version(), changed.resource_version(), "it has the version of the deletion");
        }
        other => panic!("expected the deletion, got {other:?}"),
    }
}

/// The user that the server takes a client for.
async fn who(client: &Client) -> serde_json::Value {
    let review = SelfSubjectReview::default();
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews.create(&PostParams::default(), &review).await.unwrap();
    serde_json::to_value(review.status.unwrap().user_info).unwrap()
}

#[tokio::test]
async fn a_client_is_who_it_was_made_for() {
    let server = Embedded::start();
    let admin = json!({"username": "steersman-admin", "groups": ["system:masters", "system:authenticated"]});
    assert_eq!(who(&server.kube_client()).await, admin);
    let jane = json!({"username": "jane", "groups": ["developers", "testers", "system:authenticated"]});
    assert_eq!(who(&Client::from(server.user("jane", ["developers", "testers"]))).await, jane);

    // Over a socket too.
    let serving = server.server().serve().start().await.unwrap();
    let identity = Identity::new("jane", ["developers", "testers"]);
    let kubeconfig: Kubeconfig = serde_json::from_str(&serving.kubeconfig_as(&identity)).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    assert_eq!(who(&Client::try_from(config).unwrap()).await, jane);
}

#[tokio::test]
async fn with_rbac_a_client_that_is_no_master_cannot_impersonate() {
    let request = || http::Request::get("/api/v1/pods").header("impersonate-user", "root").body(Vec::new()).unwrap();
    let jane = Client::from(Embedded::start().user("jane", ["developers"]));
    assert!(jane.request_text(request()).await.is_ok(), "without RBAC everything is permitted");
    let jane = Client::from(Embedded::start().with_rbac().user("jane", ["developers"]));
    let error = jane.request_text(request()).await.unwrap_err();
    let words = "User \"jane\" cannot impersonate-on:user-info:list resource \"pods\" in API group \"\" at the cluster";
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(code(error), 403);
}

#[tokio::test]
async fn two_servers_share_nothing() {
    let (one, other) = (Embedded::start(), Embedded::start());
    maps(one.kube_client()).create(&PostParams::default(), &config_map("a", "")).await.unwrap();
    assert_eq!(code(maps(other.kube_client()).get("a").await.unwrap_err()), 404);
}

#[tokio::test]
async fn pages_stay_on_one_revision_and_expire_with_it() {
    let server = Embedded::empty();
    let maps = maps(server.kube_client());
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &config_map(name, "")).await.unwrap();
    }
    let page = maps.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!((page.items.len(), page.metadata.remaining_item_count), (2, Some(1)));
    let token = page.metadata.continue_.unwrap();
    maps.delete("c", &DeleteParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &config_map("d", "")).await.unwrap();
    let rest = maps.list(&ListParams::default().limit(2).continue_token(&token)).await.unwrap();
    let names: Vec<_> = rest.items.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["c"], "as it was when the list began");
    server.compact();
    let expired = maps.list(&ListParams::default().limit(2).continue_token(&token)).await.unwrap_err();
    assert_eq!(code(expired), 410);
}

#[tokio::test]
async fn a_watch_from_a_version_that_is_gone_ends_with_410() {
    let server = Embedded::start();
    let maps = maps(server.kube_client());
    let first = maps.create(&PostParams::default(), &config_map("a", "")).await.unwrap();
    maps.create(&PostParams::default(), &config_map("b", "")).await.unwrap();
    server.compact();
    let mut watch = maps.watch(&WatchParams::default(), &first.resource_version().unwrap()).await.unwrap().boxed();
    match watch.try_next().await.unwrap() {
        Some(WatchEvent::Error(status)) => assert_eq!((status.code, status.reason.as_str()), (410, "Expired")),
        other => panic!("expected an error, got {other:?}"),
    }
}

#[tokio::test]
async fn entering_and_leaving_a_selector_are_adds_and_deletes() {
    let maps = maps(Embedded::start().kube_client());
    let params = WatchParams::default().labels("app=web");
    let mut watch = maps.watch(&params, "0").await.unwrap().boxed();
    maps.create(&PostParams::default(), &config_map("a", "")).await.unwrap();
    for labels in [json!({"app": "web"}), json!({"app": "web", "x": "y"}), json!({"app": "db"})] {
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    }
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(match watch.try_next().await.unwrap() {
            Some(WatchEvent::Added(_)) => "ADDED",
            Some(WatchEvent::Modified(_)) => "MODIFIED",
            Some(WatchEvent::Deleted(_)) => "DELETED",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(events, ["ADDED", "MODIFIED", "DELETED"]);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_they_are_gone() {
    let maps = maps(Embedded::start().kube_client());
    let mut held = config_map("a", "");
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    maps.create(&PostParams::default(), &held).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps.get("a").await.unwrap().metadata.deletion_timestamp.is_some());
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(code(maps.get("a").await.unwrap_err()), 404);
}

#[tokio::test]
async fn objects_go_with_their_owners() {
    let maps = maps(Embedded::start().kube_client());
    let owned_by = |owner: &ConfigMap, name: &str| {
        let mut map = config_map(name, "");
        map.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: owner.name_any(),
            uid: owner.uid().unwrap(),
            ..Default::default()
        }]);
        map
    };
    let cases = [(DeleteParams::background(), 404), (DeleteParams::foreground(), 404), (DeleteParams::orphan(), 200)];
    for (params, expected) in cases {
        let owner = maps.create(&PostParams::default(), &config_map("owner", "")).await.unwrap();
        let child = maps.create(&PostParams::default(), &owned_by(&owner, "child")).await.unwrap();
        maps.create(&PostParams::default(), &owned_by(&child, "grandchild")).await.unwrap();
        maps.delete("owner", &params).await.unwrap();
        assert_eq!(code(maps.get("owner").await.unwrap_err()), 404);
        for name in ["child", "grandchild"] {
            let found = maps.get_opt(name).await.unwrap();
            assert_eq!(if found.is_some() { 200 } else { 404 }, expected, "{name}");
        }
        if expected == 200 {
            assert_eq!(maps.get("child").await.unwrap().owner_references(), []);
        }
    }
}

#[tokio::test]
async fn a_namespace_takes_its_content_along_and_waits_for_what_does_not_go() {
    let client = Embedded::start().kube_client();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let missing: Api<ConfigMap> = Api::namespaced(client.clone(), "team");
    assert_eq!(code(missing.create(&PostParams::default(), &config_map("a", "")).await.unwrap_err()), 404);
    let team = Namespace {
        metadata: ObjectMeta { name: Some("team".to_owned()), ..Default::default() },
        ..Default::default()
    };
    namespaces.create(&PostParams::default(), &team).await.unwrap();
    let maps = missing;
    maps.create(&PostParams::default(), &config_map("a", "")).await.unwrap();
    let mut held = config_map("held", "");
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    maps.create(&PostParams::default(), &held).await.unwrap();

    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(maps.get("a").await.unwrap_err()), 404);
    let status = namespaces.get("team").await.unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Terminating"));
    assert_eq!(code(maps.create(&PostParams::default(), &config_map("b", "")).await.unwrap_err()), 403);
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(code(namespaces.get("team").await.unwrap_err()), 404);
}

#[tokio::test]
async fn two_managers_apply_to_one_object() {
    let maps = maps(Embedded::start().kube_client());
    let wanted = |data: serde_json::Value| {
        Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}))
    };
    let (one, other) = (PatchParams::apply("one"), PatchParams::apply("other"));
    let created = maps.patch("a", &one, &wanted(json!({"a": "1", "b": "2"}))).await.unwrap();
    assert_eq!(created.managed_fields()[0].manager.as_deref(), Some("one"));
    let Error::Api(status) = maps.patch("a", &other, &wanted(json!({"a": "9"}))).await.unwrap_err() else { panic!() };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"one\": .data.a");
    maps.patch("a", &other.clone().force(), &wanted(json!({"a": "9"}))).await.unwrap();
    let after = maps.patch("a", &one, &wanted(json!({}))).await.unwrap();
    assert_eq!(serde_json::json!(after.data), json!({"a": "9"}));
    let again = maps.patch("a", &one, &wanted(json!({}))).await.unwrap();
    assert_eq!(again.resource_version(), after.resource_version(), "it changes nothing");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_while_nothing_happens() {
    let maps = maps(Embedded::start().kube_client());
    let first = maps.create(&PostParams::default(), &config_map("a", "")).await.unwrap();
    let params = WatchParams::default().timeout(200);
    let mut watch = maps.watch(&params, &first.resource_version().unwrap()).await.unwrap().boxed();
    let started = tokio::time::Instant::now();
    match watch.try_next().await.unwrap() {
        Some(WatchEvent::Bookmark(bookmark)) => {
            assert_eq!(Some(bookmark.metadata.resource_version), first.resource_version());
        }
        other => panic!("expected a bookmark, got {other:?}"),
    }
    assert_eq!(started.elapsed(), Duration::from_secs(60));
}
