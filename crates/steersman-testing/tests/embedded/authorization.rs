//! RBAC and the record of requests, as a controller's test uses them.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube_client::api::{Patch, PatchParams, PostParams, WatchParams};
use kube_client::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman_apiserver::Identity;
use steersman_testing::Embedded;

use super::{code, config_map, maps};

/// An object of a built-in kind.
fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A role for ConfigMaps in `default`, bound to a service account.
async fn grant(server: &Embedded, account: &str, verbs: &[&str]) {
    let roles: Api<Role> = Api::default_namespaced(server.kube_client());
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
    let role = object(json!({"metadata": {"name": account}, "rules": rules}));
    roles.create(&PostParams::default(), &role).await.unwrap();
    let bindings: Api<RoleBinding> = Api::default_namespaced(server.kube_client());
    let binding = object(json!({
        "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account}],
    }));
    bindings.create(&PostParams::default(), &binding).await.unwrap();
}

fn client_of(server: &Embedded, user: &str) -> Client {
    let groups = ["system:serviceaccounts", "system:serviceaccounts:default"];
    Client::new(server.server().acting_as(Identity::new(user, groups)), "default")
}

/// A controller as small as can be: it marks each ConfigMap that it sees.
async fn mark_one(client: Client) -> Result<(), kube_client::Error> {
    let maps = maps(client);
    let version = maps.list(&Default::default()).await?.metadata.resource_version.unwrap();
    let mut events = maps.watch(&WatchParams::default(), &version).await?.boxed();
    let name = loop {
        match events.try_next().await? {
            Some(kube_client::api::WatchEvent::Added(map)) => break map.metadata.name.unwrap(),
            Some(_) => {}
            None => panic!("the watch ended"),
        }
    };
    let patch = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
    maps.patch(&name, &PatchParams::default(), &patch).await.map(drop)
}

#[tokio::test]
async fn a_controller_whose_role_lacks_a_verb_is_refused() {
    let server = Embedded::start().with_rbac().with_request_record();
    grant(&server, "whole", &["list", "watch", "patch"]).await;
    grant(&server, "lacking", &["list", "watch"]).await;
    let mut results = Vec::new();
    for account in ["whole", "lacking"] {
        let client = client_of(&server, &format!("system:serviceaccount:default:{account}"));
        let controller = mark_one(client);
        let create = async {
            // After the controller has begun to watch.
            tokio::task::yield_now().await;
            maps(server.kube_client()).create(&PostParams::default(), &config_map(account, "")).await.unwrap();
        };
        results.push(tokio::join!(controller, create).0);
    }
    assert!(results[0].is_ok(), "{:?}", results[0]);
    let refused = results.remove(1).unwrap_err();
    let message = refused.to_string();
    let why = "configmaps \"lacking\" is forbidden: User \"system:serviceaccount:default:lacking\" cannot patch resource \
               \"configmaps\" in API group \"\" in the namespace \"default\"";
    assert!(message.contains(why), "{message}");
    assert_eq!(code(refused), 403);

    let record = server.requests();
    let seen: Vec<_> = record
        .requests
        .iter()
        .filter(|seen| seen.user.ends_with(":lacking"))
        .map(|seen| (seen.verb.as_str(), seen.resource.as_str(), seen.name.as_str(), seen.allowed))
        .collect();
    assert_eq!(
        seen,
        [
            ("list", "configmaps", "", true),
            ("watch", "configmaps", "", true),
            ("patch", "configmaps", "lacking", false),
        ]
    );
    assert!(record.requests.iter().all(|seen| seen.namespace == "default" && seen.path.is_empty()));
    assert_eq!(record.unrecorded, 0);
}

#[tokio::test]
async fn an_apply_that_creates_needs_the_right_to_create() {
    let server = Embedded::start().with_rbac().with_request_record();
    grant(&server, "patcher", &["patch"]).await;
    let maps_of_patcher = maps(client_of(&server, "system:serviceaccount:default:patcher"));
    let wanted = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
    let refused = maps_of_patcher.patch("a", &PatchParams::apply("m"), &wanted).await.unwrap_err();
    assert!(refused.to_string().contains("cannot create resource"), "{refused}");
    let seen: Vec<_> = server.requests().requests.into_iter().map(|seen| (seen.verb, seen.allowed)).collect();
    let expected = [("patch".to_owned(), true), ("create".to_owned(), false)];
    assert_eq!(seen[seen.len() - 2..], expected, "a rule for `create` has to be found missing");
    maps(server.kube_client()).create(&PostParams::default(), &config_map("a", "")).await.unwrap();
    maps_of_patcher.patch("a", &PatchParams::apply("m"), &wanted).await.unwrap();
}

#[tokio::test]
async fn without_rbac_everything_is_permitted_and_recorded() {
    let server = Embedded::start().with_request_record();
    let jane = Client::new(server.server().acting_as(Identity::new("jane", [""; 0])), "default");
    maps(jane.clone()).list(&Default::default()).await.unwrap();
    maps(jane.clone()).list(&Default::default()).await.unwrap();
    jane.request_text(http::Request::get("/healthz").body(Vec::new()).unwrap()).await.unwrap();
    let record = server.requests();
    let seen: Vec<_> = record
        .requests
        .iter()
        .map(|seen| (seen.user.as_str(), seen.verb.as_str(), seen.resource.as_str(), seen.path.as_str(), seen.count))
        .collect();
    assert_eq!(seen, [("jane", "list", "configmaps", "", 2), ("jane", "get", "", "/healthz", 1)]);
    assert!(Embedded::start().requests().requests.is_empty());
}

/// The status of the answer to a question about rights.
async fn ask(client: &Client, plural: &str, spec: Value) -> Value {
    let path = format!("/apis/authorization.k8s.io/v1/{plural}");
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(json!({"spec": spec}).to_string().into_bytes()).unwrap();
    client.request::<Value>(request).await.unwrap()["status"].take()
}

#[tokio::test]
async fn without_rbac_reviews_permit_everything() {
    let client = client_of(&Embedded::start(), "jane");
    let pods = json!({"verb": "delete", "resource": "pods"});
    let allowed = json!({"allowed": true});
    assert_eq!(ask(&client, "selfsubjectaccessreviews", json!({"resourceAttributes": pods})).await, allowed);
    let other = json!({"user": "x", "resourceAttributes": pods});
    assert_eq!(ask(&client, "subjectaccessreviews", other.clone()).await, allowed);
    let here = json!({"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}});
    assert_eq!(ask(&client, "namespaces/default/localsubjectaccessreviews", here).await, allowed);
    let rules = ask(&client, "selfsubjectrulesreviews", json!({"namespace": "default"})).await;
    let all = json!({
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": false,
    });
    assert_eq!(rules, all);
}

#[tokio::test]
async fn rights_can_be_passed_on_and_not_raised() {
    let server = Embedded::start().with_rbac();
    let roles: Api<ClusterRole> = Api::all(server.kube_client());
    let rbac = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["*"]});
    // `*` would contain `escalate` and `bind`.
    let writer = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]});
    let own = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]});
    for (name, rules) in [("writer", json!([writer, own])), ("owner", json!([rbac]))] {
        let role = object(json!({"metadata": {"name": name}, "rules": rules}));
        roles.create(&PostParams::default(), &role).await.unwrap();
        let bindings: Api<ClusterRoleBinding> = Api::all(server.kube_client());
        let binding = object(json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}],
        }));
        bindings.create(&PostParams::default(), &binding).await.unwrap();
    }
    let create = async |user: &str, name: &str, verbs: &[&str]| {
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
        let roles: Api<Role> = Api::default_namespaced(client_of(&server, user));
        let role = object(json!({"metadata": {"name": name}, "rules": rules}));
        roles.create(&PostParams::default(), &role).await.map_or_else(code, |_| 201)
    };
    assert_eq!(create("writer", "a", &["get"]).await, 201);
    assert_eq!(create("writer", "b", &["get", "list"]).await, 403);
    assert_eq!(create("owner", "b", &["get", "list"]).await, 201);
    assert_eq!(create("stranger", "c", &["get"]).await, 403);
}

#[tokio::test]
async fn a_refused_user_does_not_learn_what_exists() {
    let server = Embedded::start().with_rbac();
    maps(server.kube_client()).create(&PostParams::default(), &config_map("there", "")).await.unwrap();
    let jane = client_of(&server, "jane");
    for name in ["there", "not-there"] {
        let refused = maps(jane.clone()).get(name).await.unwrap_err().to_string();
        assert!(refused.contains(&format!("configmaps \"{name}\" is forbidden")), "{refused}");
    }
    let all: Api<ConfigMap> = Api::all(jane);
    assert_eq!(code(all.list(&Default::default()).await.unwrap_err()), 403);
}
