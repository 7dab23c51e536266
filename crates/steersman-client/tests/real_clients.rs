//! The clients on a real server.

#[path = "clients/interop.rs"]
mod interop;
#[path = "clients/mounted.rs"]
mod mounted;
#[path = "clients/objects.rs"]
mod objects;

use http::HeaderValue;
use http::header::ACCEPT;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use serde_json::{Value, json};
use steersman_client::{
    Client, Config, DeleteParams, Error, ListParams, Patch, PatchParams, PostParams, RequestMetrics, RequestSample,
    Warning, WarningHandler, config_from_service_account,
};
use steersman_testing::{RealServer, eventually};
use steersman_wire::{Encoding, Limits, protobuf};

use mounted::ServiceAccount;
use objects::{map, value};

async fn config() -> Config {
    RealServer::shared().await.unwrap().config().await.unwrap()
}

/// A client with all rights, and a namespace of its own.
async fn client_and_namespace(prefix: &str) -> (Client, String) {
    let namespace = RealServer::shared().await.unwrap().namespace(prefix).await.unwrap();
    (Client::builder(config().await).build().unwrap(), namespace)
}

/// A client whose user has no permissions.
async fn jane() -> Client {
    let mut config = config().await;
    config.auth_info.impersonate = Some("jane".to_owned());
    Client::builder(config).build().unwrap()
}

/// Each once as protobuf, which is the client's default, and once as JSON.
macro_rules! on_the_real_server {
    ($($name:ident),*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let (client, namespace) = client_and_namespace("objects").await;
                objects::$name(&client, &namespace).await;
            }
        )*

        mod as_json {
            use super::*;

            $(
                #[tokio::test]
                async fn $name() {
                    let (_, namespace) = client_and_namespace("objects").await;
                    let client = Client::builder(config().await).protobuf(false).build().unwrap();
                    objects::$name(&client, &namespace).await;
                }
            )*
        }
    };
}

on_the_real_server!(typed, dynamic, merge_patches, metadata_only, status, scale, eviction, two_writers, watch);

/// Server-side apply: each field manager sends its fields, and a conflict is an error.
#[tokio::test]
async fn apply() {
    let (client, namespace) = client_and_namespace("apply").await;
    let maps = client.namespaced::<ConfigMap>(&namespace);
    let wanted = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": value}});
    let made = maps.apply("a", "one", false, &wanted("first")).await.unwrap();
    assert_eq!(value(&made), "first");
    let fields = made.metadata.managed_fields.unwrap();
    assert_eq!((fields[0].manager.as_deref(), fields[0].operation.as_deref()), (Some("one"), Some("Apply")));
    let conflict = maps.apply("a", "two", false, &wanted("second")).await.unwrap_err();
    assert!(conflict.is_conflict() && conflict.to_string().contains("\"one\""), "{conflict}");
    assert_eq!(value(&maps.apply("a", "two", true, &wanted("second")).await.unwrap()), "second");
    let status = |ready| {
        let types = ("apps/v1", "Deployment");
        json!({"apiVersion": types.0, "kind": types.1, "metadata": {"name": "b"}, "status": {"readyReplicas": ready, "replicas": 2}})
    };
    let deployments = objects::deployment(&client, &namespace, "b").await;
    let applied = deployments.apply_status("b", "one", false, &status(1)).await.unwrap();
    assert_eq!(applied.status.unwrap().ready_replicas, Some(1));
    assert!(deployments.apply_status("b", "two", false, &status(2)).await.unwrap_err().is_conflict());
    let strategic = Patch::Strategic(json!({"metadata": {"labels": {"a": "b"}}}));
    let patched = maps.patch("a", &PatchParams::default(), &strategic).await.unwrap();
    assert_eq!(patched.metadata.labels.unwrap()["a"], "b");
}

/// The error of a request without permission names the verb, the resource and the user.
#[tokio::test]
async fn a_refusal_for_lack_of_rights_names_verb_resource_and_user() {
    let (_, namespace) = client_and_namespace("rights").await;
    let jane = jane().await;
    let secrets = jane.namespaced::<Secret>(&namespace);
    let post = PostParams::default();
    let errors = [
        ("list", "secrets", secrets.list(&ListParams::default()).await.map(drop)),
        ("get", "secrets", secrets.get("a").await.map(drop)),
        ("create", "configmaps", jane.namespaced(&namespace).create(&post, &map("a", "")).await.map(drop)),
        ("delete", "nodes", jane.cluster::<Node>().delete("a", &DeleteParams::default()).await.map(drop)),
    ];
    for (verb, resource, result) in errors {
        let error = result.unwrap_err();
        assert!(error.is_forbidden(), "{error}");
        let wanted = format!("User \"jane\" cannot {verb} resource \"{resource}\" in API group \"\"");
        let text = error.to_string();
        assert!(text.contains(&wanted) && text.contains("403 Forbidden"), "{text}");
        assert!(text.contains(RealServer::shared().await.unwrap().url()), "{text}");
    }
}

/// The server does not know that certificate.
#[tokio::test]
async fn a_client_without_a_name_is_refused() {
    let mut config = config().await;
    config.auth_info = Default::default();
    let client = Client::builder(config.clone()).build().unwrap();
    let error = client.namespaced::<ConfigMap>("default").get("a").await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 401, "{error}");
    // A client that does not know the server's certificate sends no request.
    config.root_cert = None;
    let client = Client::builder(config).build().unwrap();
    let error = client.namespaced::<ConfigMap>("default").get("a").await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }) && error.to_string().contains("certificate"), "{error}");
}

/// A list that is long enough to come compressed, which the real server does from 128 KiB on.
#[tokio::test]
async fn a_long_list_comes_compressed() {
    let (client, namespace) = client_and_namespace("gzip").await;
    let maps = client.namespaced::<ConfigMap>(&namespace);
    maps.create(&PostParams::default(), &map("long", &"x".repeat(60))).await.unwrap();
    let merge = Patch::Merge(json!({"data": {"key": "long ".repeat(60_000)}}));
    maps.patch("long", &PatchParams::default(), &merge).await.unwrap();
    let list = maps.list(&ListParams::default()).await.unwrap();
    assert!(list.items.iter().any(|map| value(map).len() == 300_000));
    // So it was, indeed.
    let request = client.rest_of("", "v1").get().namespace(namespace).resource("configmaps");
    let packed = request.header(http::header::ACCEPT_ENCODING, http::HeaderValue::from_static("gzip"));
    let answer = packed.send().await.unwrap();
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    assert!(answer.body().len() < 100_000, "{answer:?}");
}

struct Told(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

impl WarningHandler for Told {
    fn warn(&self, warning: &Warning) {
        self.0.lock().unwrap().push(warning.text.clone());
    }
}

impl RequestMetrics for Told {
    fn request(&self, sample: RequestSample<'_>) {
        self.0.lock().unwrap().push(format!("{} {:?} {}", sample.method, sample.code, sample.host));
    }
}

#[tokio::test]
async fn warnings_and_metrics_come_from_the_real_thing() {
    let (_, namespace) = client_and_namespace("told").await;
    let (warnings, requests) = <(std::sync::Arc<_>, std::sync::Arc<_>)>::default();
    let client = Client::builder(config().await).warnings(Told(std::sync::Arc::clone(&warnings)));
    let client = client.metrics(Told(std::sync::Arc::clone(&requests))).build().unwrap();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "strange": 1});
    let create = client.rest_of("", "v1").post().namespace(namespace).resource("configmaps");
    let answer = create.param("fieldValidation", "Warn").json(&object).send().await.unwrap();
    assert_eq!(*warnings.lock().unwrap(), ["unknown field \"strange\""]);
    assert_eq!(answer.warnings().len(), 1);
    let host = RealServer::shared().await.unwrap().url().trim_start_matches("https://");
    assert_eq!(*requests.lock().unwrap(), [format!("POST Some(201) {host}")]);
}

#[tokio::test]
async fn into_kube() {
    let (client, namespace) = client_and_namespace("interop").await;
    interop::into_kube(&client, &namespace).await;
}

#[tokio::test]
async fn from_kube() {
    let (_, namespace) = client_and_namespace("interop").await;
    let kube = RealServer::shared().await.unwrap().kube_client().await.unwrap();
    interop::from_kube(kube, &namespace).await;
}

/// The objects that the server creates itself, of every kind, are the same in both encodings.
#[tokio::test]
async fn protobuf_and_json_agree_on_every_object() {
    let (client, namespace) = client_and_namespace("protobuf").await;
    let kinds = [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "finalizers": ["example.com/f"]},
            "data": {"k": "AP8i", "empty": ""}, "type": "Opaque", "immutable": false}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "annotations": {"a": "\"é\\n"}},
            "spec": {"selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": "http"}]}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "a"}}, "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
                "env": [{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k", "optional": true}}}]}],
            "volumes": [{"name": "v", "projected": {"sources": [{"downwardAPI": {}}]}}],
            "hostNetwork": false, "terminationGracePeriodSeconds": 0}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
            "selector": {"matchLabels": {"app": "b"}}, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            "template": {"metadata": {"labels": {"app": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"},
            "spec": {"holderIdentity": "", "renewTime": "2026-01-02T03:04:05.000006Z", "leaseDurationSeconds": 15}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a"},
            "spec": {"podSelector": {}, "ingress": [{}]}}),
        json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "a"}, "revision": 1,
            "data": {"any": [1, null, {"thing": 1.5}]}}),
    ];
    let mut compared = 0;
    let discovery = client.discovery();
    let snapshot = discovery.get().await.unwrap();
    let served: Vec<_> = snapshot.preferred_resources().collect();
    for object in kinds {
        let kind = served.iter().find(|served| served.resource.kind == object["kind"].as_str().unwrap()).unwrap();
        let resource = &kind.resource;
        let rest = client.rest_of(&resource.group, &resource.version);
        let path = |request: steersman_client::RestRequest| request.namespace(&namespace).resource(&resource.plural);
        // Sent as protobuf, it is what it would be if it were sent as JSON.
        let message = protobuf::from_json(object.to_string().as_bytes()).unwrap();
        let dry_run = |request: steersman_client::RestRequest| path(request).param("dryRun", "All");
        let sent = dry_run(rest.post()).body(protobuf::MEDIA_TYPE, message).send_for::<Value>().await.unwrap();
        let expected = dry_run(rest.post()).json(&object).send_for::<Value>().await.unwrap();
        assert_eq!(without_circumstances(sent), without_circumstances(expected));
        path(rest.post()).json(&object).send().await.unwrap();
        compared += 1;
    }
    for kind in served.iter().filter(|kind| kind.verbs.iter().any(|verb| verb == "list")) {
        let resource = &kind.resource;
        // The server generates these for each request, in any order.
        if resource.kind == "ComponentStatus" || !protobuf::has_kind(&resource.api_version, &resource.kind) {
            continue;
        }
        let rest = client.rest_of(&resource.group, &resource.version);
        let media_type = HeaderValue::from_static(protobuf::MEDIA_TYPE);
        // Leases and the like change all the time: until nothing has changed in between.
        let mut same = None;
        for _ in 0..100 {
            let list = || rest.get().resource(&resource.plural);
            let before = list().send_for::<Value>().await.unwrap();
            let answer = list().header(ACCEPT, media_type.clone()).send().await.unwrap();
            let after = list().send_for::<Value>().await.unwrap();
            assert_eq!(answer.content_type(), Some(protobuf::MEDIA_TYPE), "{}", resource.kind);
            same = Some((before, answer)).filter(|(before, _)| before["items"] == after["items"]);
            if same.is_some() {
                break;
            }
        }
        let (expected, found) = same.unwrap_or_else(|| panic!("{}s never stay the same", resource.kind));
        let mut list = Encoding::Protobuf.split_list(Limits::default());
        list.push(found.body().clone());
        for item in expected["items"].as_array().into_iter().flatten() {
            let found = list.next_item().unwrap().expect("as many items").unwrap().json().unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&found).unwrap(), *item, "{}", resource.kind);
            compared += 1;
        }
        assert!(list.next_item().unwrap().is_none(), "{}", resource.kind);
        list.finish().unwrap();
    }
    assert!(compared > 100, "{compared}");
}

/// Makes a service account that may list ConfigMaps in its namespace, and returns a token of it.
async fn service_account(client: &Client, namespace: &str) -> String {
    let post = |group: &str, version: &str, resource: &str, object: Value| {
        let request = client.rest_of(group, version).post().namespace(namespace).resource(resource).json(&object);
        async move { request.send_for::<Value>().await.unwrap() }
    };
    post("", "v1", "serviceaccounts", json!({"metadata": {"name": "operator"}})).await;
    let rbac = "rbac.authorization.k8s.io";
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    post(rbac, "v1", "roles", json!({"metadata": {"name": "operator"}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": "operator"},
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "operator"},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": namespace}],
    });
    post(rbac, "v1", "rolebindings", binding).await;
    let accounts = client.rest_of("", "v1").post().namespace(namespace).resource("serviceaccounts");
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer: Value = accounts.name("operator").subresource("token").json(&asked).send_for().await.unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_service_account_is_known_to_the_server_and_its_token_can_rotate() {
    let (client, namespace) = client_and_namespace("in-cluster").await;
    let token = service_account(&client, &namespace).await;
    let server = RealServer::shared().await.unwrap();
    let url: http::Uri = server.url().parse().unwrap();
    let authority = std::fs::read_to_string(server.folder().join("ca.crt")).unwrap();
    let mut account = ServiceAccount::new("expired", &authority, &namespace);
    let (host, port) = (url.host().unwrap(), url.port_u16().unwrap().to_string());
    let in_cluster = config_from_service_account(account.folder(), host, &port).unwrap();
    let in_cluster = Client::builder(in_cluster).build().unwrap();
    assert_eq!(in_cluster.default_namespace(), namespace);

    let who = || async {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let reviews = in_cluster.rest_of("authentication.k8s.io", "v1").post().resource("selfsubjectreviews");
        reviews.json(&review).send_for::<Value>().await
    };
    let error = who().await.unwrap_err();
    assert_eq!(error.status().unwrap().code, 401, "{error}");
    account.rotate(&token);
    let answer = who().await.unwrap();
    let user = format!("system:serviceaccount:{namespace}:operator");
    assert_eq!(answer["status"]["userInfo"]["username"], user);

    let list = |namespace: &str| {
        let maps = in_cluster.namespaced::<ConfigMap>(namespace);
        async move { maps.list(&ListParams::default()).await }
    };
    // The server learns of a new role a moment later.
    eventually("the role takes effect", || async {
        let listed = list(in_cluster.default_namespace()).await;
        listed.inspect_err(|error| assert!(error.is_forbidden(), "{error}"))
    })
    .await;
    assert!(list("kube-system").await.unwrap_err().is_forbidden());
}

/// An object without what differs between two that are made one after the other.
fn without_circumstances(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "creationTimestamp", "managedFields", "resourceVersion"] {
        metadata.remove(field);
    }
    for field in ["clusterIP", "clusterIPs"] {
        object["spec"].as_object_mut().map(|spec| spec.remove(field));
    }
    object
}
