//! Derived roles on a real kube-apiserver.

#[path = "rbac/sites.rs"]
mod sites;

use std::time::Duration;

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde_json::json;
use steersman_client::{Client, DeleteParams, NamespaceScope, Patch, PatchParams, PostParams};
use steersman_manifests::operator::{AccessReason, Operator, roles};
use steersman_runtime::Manager;
use steersman_testing::{RealServer, RealServerBuilder, eventually_within};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server with the custom resource.
async fn server(flag: Option<&str>) -> RealServer {
    let builder = RealServer::builder().audit_log();
    let server = flag.into_iter().fold(builder, RealServerBuilder::apiserver_flag).start().await.unwrap();
    server.install_crds(sites::crds()).await.unwrap();
    // There is no controller that creates it.
    let account = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
    let accounts = server.client().await.unwrap().namespaced::<ServiceAccount>("default");
    accounts.create(&PostParams::default(), &account).await.unwrap();
    server
}

/// An operator under its derived roles.
struct Run<'a> {
    server: &'a RealServer,
    name: &'static str,
}

impl Run<'_> {
    fn account(&self) -> String {
        format!("system:serviceaccount:default:{}", self.name)
    }

    /// Runs it without the rules of a reason, until a Site was created, changed and deleted, or a
    /// request was forbidden. Returns what was.
    async fn play(&self, without: Option<&AccessReason>) -> Vec<String> {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:default"];
        let client = self.server.user(&self.account(), groups).await.unwrap();
        self.grant(&client, without).await;
        let manager = Manager::builder(client).only_declared_writes().build();
        sites::setup(&manager).unwrap();
        let admin = self.server.client().await.unwrap();
        manager.start(self.scenario(admin)).await.unwrap();
        self.forbidden()
    }

    /// Grants the roles, and waits until the server knows that.
    async fn grant(&self, client: &Client, without: Option<&AccessReason>) {
        let offline = Manager::new(Client::offline());
        sites::setup(&offline).unwrap();
        let mut operator = Operator::new(self.name, "operator:test");
        operator.namespace = "default".to_owned();
        offline.describe(&mut operator);
        operator.access.retain(|access| Some(&access.reason) != without);
        let (admin, params) = (self.server.client().await.unwrap(), PostParams::default());
        for object in roles(&operator) {
            if object["kind"] == "ClusterRole" {
                let role: ClusterRole = serde_json::from_value(object).unwrap();
                admin.cluster().create(&params, &role).await.unwrap();
            } else {
                let binding: ClusterRoleBinding = serde_json::from_value(object).unwrap();
                admin.cluster().create(&params, &binding).await.unwrap();
            }
        }
        let access = &operator.access[0];
        let attributes = json!({
            "group": access.resource.group, "resource": access.resource.name, "namespace": "default",
            "verb": access.verbs.first().unwrap().as_str(),
        });
        let review: SelfSubjectAccessReview =
            serde_json::from_value(json!({"spec": {"resourceAttributes": attributes}})).unwrap();
        let is_known = || async {
            let review = client.cluster::<SelfSubjectAccessReview>().create(&params, &review).await.unwrap();
            review.status.unwrap().allowed
        };
        eventually_within(PATIENCE, "the server knows the role", is_known).await;
    }

    async fn scenario(&self, admin: Client) {
        let sites = admin.dynamic(&sites::sites(), NamespaceScope::Namespace("default".to_owned()));
        let maps = admin.namespaced::<ConfigMap>("default");
        let has_size = |size: &'static str| {
            let (maps, sites) = (maps.clone(), sites.clone());
            async move {
                let reached = || async {
                    let map = maps.get_opt(self.name).await.unwrap().and_then(|map| map.data);
                    let site = sites.get(self.name).await.unwrap();
                    map.is_some_and(|data| data["size"] == size) && site.data["status"]["size"] == size
                };
                eventually_within(PATIENCE, "the size is reached", || async {
                    reached().await || !self.forbidden().is_empty()
                })
                .await;
            }
        };
        let site = json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": self.name}, "spec": {"size": 1}});
        sites.create(&PostParams::default(), &serde_json::from_value(site).unwrap()).await.unwrap();
        has_size("1").await;
        let patch = Patch::Merge(json!({"spec": {"size": 2}}));
        sites.patch(self.name, &PatchParams::default(), &patch).await.unwrap();
        has_size("2").await;
        sites.delete(self.name, &DeleteParams::default()).await.unwrap();
        let is_deleted = || async { sites.get_opt(self.name).await.unwrap().is_none() || !self.forbidden().is_empty() };
        eventually_within(PATIENCE, "the Site is deleted", is_deleted).await;
    }

    /// Its requests that were refused.
    fn forbidden(&self) -> Vec<String> {
        let (all, account) = (self.server.audit_log().unwrap(), self.account());
        let own = all.into_iter().filter(|event| event.impersonated_user.username == account);
        let refused = own.filter(|event| event.response_status.code == 403);
        refused.map(|event| format!("{} {}", event.verb, event.object_ref.resource)).collect()
    }
}

/// All roles are enough. Without those of a reason, the named request is forbidden.
async fn check(flag: Option<&str>, reasons: &[(&'static str, AccessReason, Option<&str>)]) {
    let server = server(flag).await;
    let none: [String; 0] = [];
    assert_eq!(Run { server: &server, name: "whole" }.play(None).await, none, "{flag:?}");
    for (name, reason, expected) in reasons {
        let refused = Run { server: &server, name }.play(Some(reason)).await;
        match expected {
            None => assert_eq!(refused, none, "{reason:?}"),
            Some(expected) => assert!(refused.iter().any(|request| request == expected), "{reason:?}: {refused:?}"),
        }
    }
}

#[tokio::test]
async fn derived_roles_are_enough_on_the_real_server_and_each_reason_is_one() {
    let reasons = [
        ("no-watch", AccessReason::Watch, Some("watch sites")),
        ("no-write", AccessReason::Write, Some("create configmaps")),
        ("no-finalizer", AccessReason::Finalizer, Some("patch sites")),
        ("no-status", AccessReason::Status, Some("patch sites")),
        ("no-live", AccessReason::Live, Some("get serviceaccounts")),
        // These are for other servers.
        ("no-list", AccessReason::ListFallback, None),
        ("no-owners", AccessReason::OwnerReferences, None),
    ];
    check(None, &reasons).await;
}

#[tokio::test]
async fn without_streaming_lists_the_real_server_wants_the_right_to_list() {
    let reasons = [("no-list", AccessReason::ListFallback, Some("list sites"))];
    check(Some("--feature-gates=WatchList=false"), &reasons).await;
}

#[tokio::test]
async fn the_real_admission_plugin_wants_the_right_to_finalize_owners() {
    let reasons = [("no-owners", AccessReason::OwnerReferences, Some("create configmaps"))];
    check(Some("--enable-admission-plugins=OwnerReferencesPermissionEnforcement"), &reasons).await;
}
