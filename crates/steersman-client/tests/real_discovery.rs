//! Discovery and the mapper on a real server and on the embedded one: the same assertions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;
use steersman_client::{
    Client, DynamicObject, Error, GroupVersionKind, ListParams, PostParams, RequestMetrics, RequestSample,
};
use steersman_testing::{Embedded, RealServer, eventually_within};

/// The deadline of what must happen.
const DEADLINE: Duration = Duration::from_secs(60);

/// A client of the real server with its own layers, and one of the embedded server.
async fn clients() -> [(&'static str, Client); 2] {
    let real = RealServer::shared().await.unwrap();
    let real = Client::builder(real.config().await.unwrap()).build().unwrap();
    [("real", real), ("embedded", Embedded::empty().client())]
}

#[tokio::test]
async fn groups_versions_and_resources_are_discovered() {
    for (server, client) in clients().await {
        let discovery = client.discovery();
        let version = discovery.version().await.unwrap();
        assert_eq!((&*version.major, &*version.minor), ("1", "36"), "{server}");

        let served = discovery.get().await.unwrap();
        // Another test in this file adds a group, which may not be known yet.
        assert_eq!(served.failures().filter(|failure| failure.group != "late.example.com").count(), 0, "{server}");
        assert_eq!(served.groups()[0].name, "", "{server}");
        assert_eq!(served.group("apps").unwrap().preferred, "v1", "{server}");
        assert!(served.group("example.org").is_none(), "{server}");
        let pods = discovery.resources_of("", "v1").await.unwrap().unwrap();
        let pods = pods.iter().find(|found| found.resource.plural == "pods").unwrap();
        assert_eq!(
            (&*pods.resource.kind, &*pods.resource.api_version, &*pods.singular),
            ("Pod", "v1", "pod"),
            "{server}"
        );
        assert!(pods.namespaced && pods.supports("deletecollection") && !pods.supports("fly"), "{server}");
        let eviction = &pods.subresource("eviction").unwrap().kind;
        assert_eq!(*eviction, GroupVersionKind::gvk("policy", "v1", "Eviction"), "{server}");
        assert_eq!(pods.subresource("status").unwrap().kind, pods.kind(), "{server}");

        let served = discovery.get().await.unwrap();
        let scalers = served.preferred_resources().filter(|found| found.resource.plural == "horizontalpodautoscalers");
        let scalers: Vec<_> = scalers.map(|found| &*found.resource.api_version).collect();
        assert_eq!(scalers, ["autoscaling/v2"], "{server}");
        let scalers = served.resources().filter(|found| found.resource.plural == "horizontalpodautoscalers").count();
        assert_eq!(scalers, 2, "{server}");
    }
}

/// The status codes of all responses.
#[derive(Clone, Default)]
struct Codes(Arc<Mutex<Vec<Option<u16>>>>);

impl RequestMetrics for Codes {
    fn request(&self, sample: RequestSample<'_>) {
        self.0.lock().unwrap().push(sample.code);
    }
}

#[tokio::test]
async fn a_real_server_does_not_send_unchanged_documents_again() {
    let codes = Codes::default();
    let config = RealServer::shared().await.unwrap().config().await.unwrap();
    let client = Client::builder(config).metrics(codes.clone()).build().unwrap();
    let before = client.discovery().get().await.unwrap().resources_of("", "v1").unwrap().to_vec();
    assert_eq!(std::mem::take(&mut *codes.0.lock().unwrap()), [Some(200); 2]);
    let after = client.discovery().refresh().await.unwrap();
    assert_eq!(after.resources_of("", "v1").unwrap(), before);
    // The core group never changes. Another test may have added a group to the others.
    let codes = codes.0.lock().unwrap();
    assert!(codes.len() == 2 && codes.contains(&Some(304)), "{codes:?}");
}

/// Both servers serve the same, each in its own form.
#[tokio::test]
async fn both_servers_serve_the_same_workloads() {
    let [(_, real), (_, embedded)] = clients().await;
    for (group, version) in
        [("apps", "v1"), ("batch", "v1"), ("rbac.authorization.k8s.io", "v1"), ("autoscaling", "v2")]
    {
        let served = async |client: &Client| {
            let mut resources = client.discovery().resources_of(group, version).await.unwrap().unwrap();
            resources.sort_by(|one, other| one.resource.plural.cmp(&other.resource.plural));
            for resource in &mut resources {
                resource.subresources.sort_by(|one, other| one.name.cmp(&other.name));
            }
            resources
        };
        assert_eq!(served(&embedded).await, served(&real).await, "{group}/{version}");
    }
}

#[tokio::test]
async fn names_lead_to_kinds() {
    for (server, client) in clients().await {
        let mapper = client.mapper();
        let cases = [
            ("po", "v1", "Pod"),
            ("svc", "v1", "Service"),
            ("ns", "v1", "Namespace"),
            ("deploy", "apps/v1", "Deployment"),
            ("deploy.apps", "apps/v1", "Deployment"),
            ("deploy.app", "apps/v1", "Deployment"),
            ("deployments.v1.apps", "apps/v1", "Deployment"),
            ("Deployment.v1.apps", "apps/v1", "Deployment"),
            ("cronjob", "batch/v1", "CronJob"),
            ("hpa", "autoscaling/v2", "HorizontalPodAutoscaler"),
            ("hpa.v1.autoscaling", "autoscaling/v1", "HorizontalPodAutoscaler"),
            ("events", "v1", "Event"),
            ("events.events.k8s.io", "events.k8s.io/v1", "Event"),
            ("crd", "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ];
        for (name, api_version, kind) in cases {
            let found = mapper.resource(name).await.unwrap_or_else(|error| panic!("{server}: {name}: {error}"));
            assert_eq!((&*found.resource.api_version, &*found.resource.kind), (api_version, kind), "{server}: {name}");
        }
        let all = mapper.category("all").await.unwrap();
        let mut all: Vec<_> = all.iter().map(|found| &*found.resource.plural).collect();
        all.sort_unstable();
        let expected = [
            "cronjobs",
            "daemonsets",
            "deployments",
            "horizontalpodautoscalers",
            "jobs",
            "pods",
            "replicasets",
            "replicationcontrollers",
            "services",
            "statefulsets",
        ];
        // Another test in this file may have added its own.
        all.retain(|name| *name != "latecomers");
        assert_eq!(all, expected, "{server}");
        let error = mapper.resource("deploymnet").await.unwrap_err();
        assert!(error.is_no_match() && error.to_string().contains("deployments.apps"), "{server}: {error}");
    }
}

#[tokio::test]
async fn a_kind_that_comes_later_is_found() {
    for (server, client) in clients().await {
        let kind = GroupVersionKind::gvk("late.example.com", "v1", "Latecomer");
        // Cached before the kind exists.
        assert!(client.dynamic_kind(&kind, None).await.unwrap_err().is_no_match(), "{server}");

        let definition: CustomResourceDefinition = serde_json::from_value(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "latecomers.late.example.com"},
            "spec": {
                "group": "late.example.com",
                "scope": "Namespaced",
                "names": {"plural": "latecomers", "singular": "latecomer", "kind": "Latecomer",
                    "shortNames": ["lc"], "categories": ["all", "lates"]},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        }))
        .unwrap();
        client.cluster().create(&PostParams::default(), &definition).await.unwrap();
        until_served(&client).await;

        let found = client.mapper().kind(&kind).await.unwrap();
        assert_eq!(
            (&*found.resource.plural, found.namespaced, &*found.singular),
            ("latecomers", true, "latecomer"),
            "{server}"
        );
        assert!(found.subresource("status").is_some(), "{server}");
        for name in ["lc", "latecomers", "latecomer", "Latecomer", "lc.late", "lc.v1.late.example.com"] {
            assert_eq!(client.mapper().resource(name).await.unwrap(), found, "{server}: {name}");
        }
        assert_eq!(client.mapper().category("lates").await.unwrap(), std::slice::from_ref(&found), "{server}");

        let objects = client.dynamic_kind(&kind, Some("default")).await.unwrap();
        let object = DynamicObject::new("one", &found.resource);
        objects.create(&PostParams::default(), &object).await.unwrap();
        let everywhere = client.dynamic_kind(&kind, None).await.unwrap().list(&ListParams::default()).await.unwrap();
        assert_eq!(everywhere.items.len(), 1, "{server}");
    }
}

/// Requests the document of the group version, which is not what the mapper caches, until both
/// forms have it: a real server takes a moment to serve a new definition.
async fn until_served(client: &Client) {
    let fresh = Client::from(kube_client::Client::from(client.clone())).discovery();
    let plain = client.rest_of("late.example.com", "v1");
    eventually_within(DEADLINE, "the new kind is served", || async {
        let served = fresh.refresh().await.unwrap();
        let aggregated = served.resources_of("late.example.com", "v1").is_some_and(|found| !found.is_empty());
        match plain.get().send().await {
            Ok(_) => aggregated,
            Err(error) if is_absent(&error) => false,
            Err(error) => panic!("{error}"),
        }
    })
    .await;
}

fn is_absent(error: &Error) -> bool {
    error.status().is_some_and(|status| matches!(status.code, 404 | 503))
}
