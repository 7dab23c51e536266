//! Discovery and the mapper on a scripted server.

use futures::future::join_all;
use kube_core::discovery::ApiResource;
use serde_json::{Value, json};
use steersman_client::{
    Discovery, DiscoveryCause, DiscoveryClient, Error, GroupVersionKind, GroupVersionResource, MappingError,
    NamespaceScope, ServedResource,
};

#[path = "discovery/scripted.rs"]
mod scripted;
use scripted::{PLAIN_PATHS, Scripted, aggregated, aggregated_resource, plain};

async fn all_resources(discovery: &DiscoveryClient) -> Vec<ServedResource> {
    discovery.get().await.unwrap().resources().cloned().collect()
}

fn named(resources: &[ServedResource]) -> Vec<String> {
    resources.iter().map(|found| format!("{}/{}", found.resource.api_version, found.resource.plural)).collect()
}

fn failed(served: &Discovery) -> Vec<String> {
    served.failures().map(|failure| failure.to_string()).collect()
}

fn problem(error: Error) -> MappingError {
    match error {
        Error::Mapping(problem) => *problem,
        other => panic!("no problem of the mapper: {other}"),
    }
}

#[tokio::test]
async fn the_aggregated_form_takes_two_requests() {
    for version in ["v2", "v2beta1"] {
        let server = Scripted::new();
        let mut scaled = aggregated_resource("deployments", "Deployment");
        scaled["subresources"] = json!([
            {"subresource": "scale", "verbs": ["get"],
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}},
            {"subresource": "status", "verbs": ["get"], "responseKind": {"group": "", "version": "", "kind": "Deployment"}},
            {"subresource": "odd", "verbs": ["get"]},
        ]);
        scaled["shortNames"] = json!(["deploy"]);
        scaled["categories"] = json!(["all"]);
        let unkinded = json!({"resource": "parts", "scope": "Cluster", "verbs": []});
        aggregated(&server, version, &[("apps", "Current", vec![scaled, unkinded])]);
        let discovery = server.client().discovery();

        let served = discovery.get().await.unwrap();
        assert!(
            server
                .accepted("/apis")
                .starts_with("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,")
        );
        assert_eq!(server.asked(), ["/api", "/apis"]);
        assert_eq!(named(&all_resources(&discovery).await), ["v1/pods", "apps/v1/deployments"]);
        let deployments = &served.resources_of("apps", "v1").unwrap()[0];
        let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
        assert_eq!(deployments.resource, ApiResource::from_gvk_with_plural(&kind, "deployments"));
        assert_eq!(deployments.kind(), kind);
        assert_eq!(deployments.subresource("scale").unwrap().kind, GroupVersionKind::gvk("autoscaling", "v1", "Scale"));
        assert_eq!(deployments.subresource("status").unwrap().kind, kind);
        assert_eq!(deployments.subresource("odd"), None);
        assert_eq!((deployments.namespaced, &*deployments.singular), (true, "deployment"));
        assert!(deployments.supports("watch") && !deployments.supports("create"));
        assert_eq!(
            (&*deployments.short_names, &*deployments.categories),
            (&["deploy".to_owned()][..], &["all".to_owned()][..])
        );
        assert_eq!(server.asked(), [""; 0]);
    }
}

#[tokio::test]
async fn the_old_documents_have_the_same_contents() {
    let both = [plain(Scripted::new()), plain(Scripted::new().refusing_aggregated())];
    for server in both {
        let discovery = server.client().discovery();
        let served = discovery.get().await.unwrap();
        let mut asked = server.asked();
        asked.dedup();
        assert_eq!(asked, PLAIN_PATHS);

        let groups = discovery.get().await.unwrap().groups().to_vec();
        let groups: Vec<_> = groups.iter().map(|group| (&*group.name, &*group.preferred)).collect();
        assert_eq!(groups, [("", "v1"), ("apps", "v1"), ("metrics.k8s.io", "v1")]);
        let all = [
            "v1/pods",
            "v1/nodes",
            "apps/v1/deployments",
            "apps/v1beta1/deployments",
            "apps/v1beta1/olds",
            "metrics.k8s.io/v1/pods",
        ];
        assert_eq!(named(&all_resources(&discovery).await), all);
        let preferred: Vec<ServedResource> = discovery.get().await.unwrap().preferred_resources().cloned().collect();
        assert_eq!(
            named(&preferred),
            ["v1/pods", "v1/nodes", "apps/v1/deployments", "apps/v1beta1/olds", "metrics.k8s.io/v1/pods"]
        );
        let deployments = &served.resources_of("apps", "v1").unwrap()[0];
        assert_eq!(deployments.singular, "deployment");
        assert_eq!(deployments.subresource("scale").unwrap().kind, GroupVersionKind::gvk("autoscaling", "v1", "Scale"));
        assert_eq!(discovery.resources_of("apps", "v2").await.unwrap(), None);
        assert_eq!(failed(&served), [""; 0]);
    }
}

#[tokio::test]
async fn a_server_may_lack_the_core_group_but_not_everything() {
    let server = plain(Scripted::new());
    server.answer("/api", 404, Value::Null);
    let served = server.client().discovery().get().await.unwrap();
    assert_eq!(served.groups().iter().map(|group| &*group.name).collect::<Vec<_>>(), ["apps", "metrics.k8s.io"]);

    let error = Scripted::new().client().discovery().get().await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let other = Scripted::new().with("/api", json!({"kind": "Surprise"})).with("/apis", json!({"kind": "Surprise"}));
    let error = other.client().discovery().get().await.unwrap_err();
    assert!(matches!(&error, Error::Discovery(cause) if matches!(**cause, Error::Decode { .. })), "{error}");
}

#[tokio::test]
async fn a_group_that_fails_is_named_and_the_others_are_there() {
    let server = plain(Scripted::new());
    server.answer("/apis/metrics.k8s.io/v1", 503, Value::Null);
    server.answer("/apis/apps/v1", 200, json!("no object"));
    let client = server.client();
    let served = client.discovery().get().await.unwrap();
    let named: Vec<_> = served.failures().map(|failure| (failure.group, failure.version)).collect();
    assert_eq!(named, [("apps", "v1"), ("metrics.k8s.io", "v1")]);
    let cause = served.failures().last().unwrap().cause;
    assert!(
        matches!(cause, DiscoveryCause::Failed(error) if error.status().is_some_and(|status| status.code == 503)),
        "{cause}"
    );
    let error = client.discovery().resources_of("metrics.k8s.io", "v1").await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 503);

    // The mapper finds what is there, and names what it could not search.
    let mapper = client.mapper();
    assert_eq!(mapper.resource("deploy").await.unwrap().resource.version, "v1beta1");
    let error = mapper.resource("podmetrics.metrics.k8s.io").await.unwrap_err();
    assert!(error.is_no_match());
    let text = error.to_string();
    assert!(text.contains("not searched because discovery failed: metrics.k8s.io/v1: GET "), "{text}");
    let kind = GroupVersionKind::gvk("metrics.k8s.io", "v1", "PodMetrics");
    let text = mapper.kind(&kind).await.unwrap_err().to_string();
    assert!(text.starts_with(r#"the server has no kind "PodMetrics" in metrics.k8s.io/v1; not searched"#), "{text}");
    assert!(!mapper.resource("widgets.apps").await.unwrap_err().to_string().contains("metrics"));
}

#[tokio::test]
async fn a_group_that_comes_back_is_there() {
    let server = plain(Scripted::new());
    server.answer("/apis/metrics.k8s.io/v1", 503, Value::Null);
    let client = server.client();
    assert_eq!(client.discovery().get().await.unwrap().failures().count(), 1);
    plain(server);
    let metrics = client.discovery().resources_of("metrics.k8s.io", "v1").await.unwrap().unwrap();
    assert_eq!(named(&metrics), ["metrics.k8s.io/v1/pods"]);
}

#[tokio::test]
async fn unchanged_documents_are_not_sent_again() {
    let server = Scripted::new().with_etags();
    aggregated(&server, "v2", &[]);
    let client = server.client();
    let discovery = client.discovery();
    discovery.get().await.unwrap();
    assert_eq!(server.unchanged(), 0);
    discovery.refresh().await.unwrap();
    assert_eq!(server.unchanged(), 2);
    assert_eq!(named(&all_resources(&discovery).await), ["v1/pods"]);

    aggregated(&server, "v2", &[("apps", "Current", vec![aggregated_resource("deployments", "Deployment")])]);
    discovery.invalidate();
    assert_eq!(named(&all_resources(&discovery).await), ["v1/pods", "apps/v1/deployments"]);
    assert_eq!(server.unchanged(), 3);
    discovery.refresh().await.unwrap();
    assert_eq!(server.unchanged(), 5);
    assert_eq!(named(&all_resources(&discovery).await), ["v1/pods", "apps/v1/deployments"]);

    // A missing document is not an unchanged one, and the etag of an old document means nothing.
    server.answer("/api", 404, Value::Null);
    discovery.refresh().await.unwrap();
    assert_eq!(named(&all_resources(&discovery).await), ["apps/v1/deployments"]);
    plain(server.clone());
    discovery.refresh().await.unwrap();
    let unchanged = server.unchanged();
    discovery.refresh().await.unwrap();
    assert_eq!(server.unchanged(), unchanged);
    assert_eq!(all_resources(&discovery).await.len(), 6);
}

#[tokio::test]
async fn a_stale_group_is_one_that_fails() {
    let server = Scripted::new();
    let metrics = vec![aggregated_resource("pods", "PodMetrics")];
    let apps = vec![aggregated_resource("deployments", "Deployment")];
    aggregated(&server, "v2", &[("metrics.k8s.io", "Stale", metrics), ("apps", "Current", apps)]);
    let discovery = server.client().discovery();
    let served = discovery.get().await.unwrap();
    assert_eq!(failed(&served), ["metrics.k8s.io/v1: the API server cannot reach the server behind it"]);
    assert_eq!(named(&all_resources(&discovery).await), ["v1/pods", "apps/v1/deployments"]);
    assert_eq!(served.resources_of("metrics.k8s.io", "v1"), None);
    let stale = MappingError::Stale { group: "metrics.k8s.io".to_owned(), version: "v1".to_owned() };
    assert_eq!(problem(discovery.resources_of("metrics.k8s.io", "v1").await.unwrap_err()), stale);
}

#[tokio::test]
async fn concurrent_calls_share_one_request() {
    let server = Scripted::with_turns(0);
    aggregated(&server, "v2", &[]);
    let client = server.client();
    let all = join_all((0..100).map(|_| {
        let client = client.clone();
        async move { client.discovery().get().await.unwrap() }
    }));
    let (served, ()) = futures::future::join(all, async { server.allow(2) }).await;
    assert_eq!(served.len(), 100);
    assert_eq!(server.asked(), ["/api", "/apis"]);

    // The callers share an error, too, and it is not cached.
    server.answer("/apis", 503, Value::Null);
    client.discovery().invalidate();
    let all = join_all((0..100).map(|_| async { client.discovery().get().await.unwrap_err() }));
    let (errors, ()) = futures::future::join(all, async { server.allow(2) }).await;
    assert!(errors.iter().all(|error| error.status().unwrap().code == 503));
    assert_eq!(server.asked(), ["/api", "/apis"]);
    aggregated(&server, "v2", &[]);
    server.allow(2);
    client.discovery().get().await.unwrap();
    assert_eq!(server.asked(), ["/api", "/apis"]);

    // Callers that want a newer result wait for the request in flight, and then for one more.
    let all = join_all((0..100).map(|_| async { client.discovery().refresh().await.unwrap() }));
    let (_, ()) = futures::future::join(all, async { server.allow(100) }).await;
    assert_eq!(server.asked(), ["/api", "/api", "/apis", "/apis"]);
}

#[tokio::test]
async fn a_dropped_call_does_not_affect_the_others() {
    let server = Scripted::with_turns(0);
    aggregated(&server, "v2", &[]);
    let discovery = server.client().discovery();
    let (mut first, mut second) = (Box::pin(discovery.get()), Box::pin(discovery.get()));
    assert!(poll_now(&mut first).is_none());
    assert!(poll_now(&mut second).is_none());
    drop(first);
    server.allow(2);
    second.await.unwrap();
    assert_eq!(server.asked(), ["/api", "/apis"]);
}

#[tokio::test]
async fn a_response_from_before_the_invalidation_is_not_cached() {
    let server = Scripted::with_turns(0);
    aggregated(&server, "v2", &[]);
    let discovery = server.client().discovery();
    let mut early = Box::pin(discovery.get());
    assert!(poll_now(&mut early).is_none());
    discovery.invalidate();
    server.allow(2);
    early.await.unwrap();
    assert_eq!(server.asked(), ["/api", "/apis"]);
    server.allow(2);
    discovery.get().await.unwrap();
    assert_eq!(server.asked(), ["/api", "/apis"]);
}

#[tokio::test]
async fn a_late_answer_does_not_take_the_place_of_a_newer_one() {
    let server = Scripted::with_turns(0);
    aggregated(&server, "v2", &[]);
    let discovery = server.client().discovery();
    let mut early = Box::pin(discovery.get());
    assert!(poll_now(&mut early).is_none());
    discovery.invalidate();
    let mut later = Box::pin(discovery.get());
    assert!(poll_now(&mut later).is_none());
    server.allow(2);
    assert_eq!(early.await.unwrap().groups().len(), 1);

    aggregated(&server, "v2", &[("apps", "Current", vec![])]);
    assert!(poll_now(&mut Box::pin(discovery.get())).is_none());
    server.allow(2);
    assert_eq!(later.await.unwrap().groups().len(), 2);
    assert_eq!(discovery.get().await.unwrap().groups().to_vec().len(), 2);
    assert_eq!(server.asked(), ["/api", "/api", "/apis", "/apis"]);
}

#[tokio::test]
async fn the_exact_name_of_a_group_wins_over_a_prefix() {
    let server = Scripted::new();
    let deployments = vec![aggregated_resource("deployments", "Deployment")];
    let groups = [("apps.example.com", "Current", deployments.clone()), ("apps", "Current", deployments)];
    aggregated(&server, "v2", &groups);
    let mapper = server.client().mapper();
    let cases = [
        ("deployments", "apps.example.com/v1/deployments"),
        ("deployments.app", "apps.example.com/v1/deployments"),
        ("deployments.apps", "apps/v1/deployments"),
        ("Deployment.apps", "apps/v1/deployments"),
    ];
    for (name, expected) in cases {
        assert_eq!(named(&[mapper.resource(name).await.unwrap()]), [expected], "{name}");
    }
}

#[tokio::test]
async fn names_are_found_as_kubectl_finds_them() {
    let mapper = plain(Scripted::new()).client().mapper();
    let cases = [
        ("pods", "v1/pods"),
        ("pod", "v1/pods"),
        ("PODS", "v1/pods"),
        ("po", "v1/pods"),
        ("Pod", "v1/pods"),
        ("pods.metrics.k8s.io", "metrics.k8s.io/v1/pods"),
        ("pods.v1.metrics.k8s.io", "metrics.k8s.io/v1/pods"),
        ("pods.metrics", "metrics.k8s.io/v1/pods"),
        ("PodMetrics", "metrics.k8s.io/v1/pods"),
        ("deploy", "apps/v1/deployments"),
        ("deploy.apps", "apps/v1/deployments"),
        ("deploy.app", "apps/v1/deployments"),
        ("deployments.v1beta1.apps", "apps/v1beta1/deployments"),
        ("deploy.v1beta1.apps", "apps/v1beta1/deployments"),
        ("Deployment.v1beta1.apps", "apps/v1beta1/deployments"),
        ("olds", "apps/v1beta1/olds"),
        ("pods.v1.", "v1/pods"),
    ];
    for (name, expected) in cases {
        let found = mapper.resource(name).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(named(&[found]), [expected], "{name}");
    }
    for name in ["", ".", "PO", "deployments.v2.apps", "deployments.v1.app", "deployments.batch", "all"] {
        let error = mapper.resource(name).await.unwrap_err();
        assert!(error.is_no_match(), "{name}: {error}");
    }
    let partial = GroupVersionResource::gvr("", "v1beta1", "deployments");
    let found = mapper.group_version_resource(&partial).await.unwrap();
    assert_eq!(named(&[found]), ["apps/v1beta1/deployments"]);
    assert_eq!(
        named(&mapper.category("all").await.unwrap()),
        ["v1/pods", "apps/v1/deployments", "apps/v1beta1/olds", "metrics.k8s.io/v1/pods"]
    );
    let unknown = problem(mapper.category("some").await.unwrap_err());
    assert_eq!(unknown, MappingError::NoCategory { name: "some".to_owned(), known: vec!["all".to_owned()] });
}

#[tokio::test]
async fn kinds_are_found_in_the_version_that_is_wanted() {
    let client = plain(Scripted::new()).client();
    let mapper = client.mapper();
    let cases: [(&str, &str, &[&str], &str); 5] = [
        ("apps", "Deployment", &[], "apps/v1/deployments"),
        ("apps", "Deployment", &["v1beta1", "v1"], "apps/v1beta1/deployments"),
        ("apps", "Deployment", &["v2", "v1"], "apps/v1/deployments"),
        ("apps", "Old", &[], "apps/v1beta1/olds"),
        ("", "Pod", &["v1"], "v1/pods"),
    ];
    for (group, kind, versions, expected) in cases {
        let found = mapper.kind_in_versions(group, kind, versions).await.unwrap();
        assert_eq!(named(&[found]), [expected]);
    }
    let error = mapper.kind(&GroupVersionKind::gvk("apps", "v2", "Deployment")).await.unwrap_err();
    let text = "the server has no kind \"Deployment\" in apps/v2; \
        similar: Deployment in apps/v1, Deployment in apps/v1beta1";
    assert_eq!(error.to_string(), text);
    let error = mapper.kind_in_versions("", "Pdo", &[]).await.unwrap_err();
    assert_eq!(error.to_string(), r#"the server has no kind "Pdo" in the core group"#);
    let error = mapper.resource("deploymnets").await.unwrap_err();
    assert_eq!(error.to_string(), r#"the server has no resource "deploymnets"; similar: deployments.apps"#);

    let deployments = GroupVersionKind::gvk("apps", "", "Deployment");
    let path = async |kind: &GroupVersionKind, namespace| client.dynamic_kind(kind, namespace).await.unwrap().path();
    assert_eq!(path(&deployments, Some("web")).await, "/apis/apps/v1/namespaces/web/deployments");
    assert_eq!(path(&deployments, None).await, "/apis/apps/v1/deployments");
    let nodes = GroupVersionKind::gvk("", "v1", "Node");
    assert_eq!(path(&nodes, Some("web")).await, "/api/v1/nodes");
    assert_eq!(mapper.kind(&nodes).await.unwrap().scope(Some("web")), NamespaceScope::Cluster);
}

#[tokio::test]
async fn two_of_a_kind_are_an_ambiguity() {
    let server = Scripted::new();
    let twins = vec![aggregated_resource("ones", "Twin"), aggregated_resource("others", "Twin")];
    aggregated(&server, "v2", &[("example.com", "Current", twins)]);
    let mapper = server.client().mapper();
    let error = mapper.kind(&GroupVersionKind::gvk("example.com", "v1", "Twin")).await.unwrap_err();
    assert!(!error.is_no_match());
    let text = r#""Twin" matches several resources: ones in example.com/v1, others in example.com/v1"#;
    assert_eq!(error.to_string(), text);
    let candidates = ["ones", "others"].map(|name| GroupVersionResource::gvr("example.com", "v1", name));
    let expected = MappingError::Ambiguous { name: "twin".to_owned(), candidates: candidates.into() };
    assert_eq!(problem(mapper.resource("twin").await.unwrap_err()), expected);
    assert_eq!(mapper.resource("ones").await.unwrap().resource.plural, "ones");
    assert_eq!(server.asked(), ["/api", "/apis"]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_refreshes_discovery_within_a_limit() {
    let server = Scripted::new();
    aggregated(&server, "v2", &[]);
    let mapper = server.client().mapper();
    // A result from after the call began is not requested again.
    mapper.resource("widgets").await.unwrap_err();
    assert_eq!(server.asked(), ["/api", "/apis"]);

    let found = async |name: &str| mapper.resource(name).await.is_ok();
    aggregated(&server, "v2", &[("example.com", "Current", vec![aggregated_resource("widgets", "Widget")])]);
    assert!(found("widgets").await);
    assert_eq!(server.asked(), ["/api", "/apis"]);
    assert!(found("widgets").await);
    assert_eq!(server.asked(), [""; 0]);

    for _ in 0..100 {
        assert!(!found("gadgets").await);
    }
    assert_eq!(server.asked().len(), 2 * 4);
    tokio::time::advance(std::time::Duration::from_secs(10)).await;
    for _ in 0..100 {
        assert!(!found("gadgets").await);
    }
    assert_eq!(server.asked(), ["/api", "/apis"]);

    // If the server does not respond, the cached discovery stays.
    tokio::time::advance(std::time::Duration::from_secs(10)).await;
    server.answer("/apis", 500, Value::Null);
    let error = mapper.resource("gadgets").await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 500);
    assert!(found("widgets").await);
}

#[tokio::test]
async fn concurrent_misses_share_one_refresh() {
    let server = Scripted::with_turns(2);
    aggregated(&server, "v2", &[]);
    let client = server.client();
    client.discovery().get().await.unwrap();
    server.asked();
    aggregated(&server, "v2", &[("example.com", "Current", vec![aggregated_resource("widgets", "Widget")])]);
    let all = join_all((0..100).map(|_| async { client.mapper().resource("widgets").await.unwrap() }));
    let (_, ()) = futures::future::join(all, async { server.allow(100) }).await;
    // Another caller has begun a request that has what this one looks for.
    assert_eq!(server.asked(), ["/api", "/apis"]);
}

/// Polls once.
fn poll_now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    futures::FutureExt::now_or_never(future)
}
