//! ClusterRoles, Roles and their bindings.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::access::{Access, Rule, rules};
use super::model::{Operator, WatchScope};
use super::objects::Manifest;

const GROUP: &str = "rbac.authorization.k8s.io";
const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// The roles of the operator itself, with their bindings, as objects: what a test grants to an
/// operator that it runs.
pub fn roles(operator: &Operator) -> Vec<Value> {
    of_operator(operator).into_iter().map(|manifest| manifest.object).collect()
}

/// The roles of the operator itself, with their bindings.
pub(super) fn of_operator(operator: &Operator) -> Vec<Manifest> {
    let mut manifests = Vec::new();
    let reviews = reviews(operator);
    let lease = operator.lease.as_deref().map(Access::of_lease).unwrap_or_default();
    let (mut own, mut elsewhere) = (lease, Vec::new());
    if let Some(namespace) = operator.lease_namespace.as_ref().filter(|name| **name != operator.namespace) {
        let scope = WatchScope::Namespaces(vec![namespace.clone()]);
        elsewhere = own.drain(..).map(|access| access.within(scope.clone())).collect();
    }
    own.extend(operator.own_access.iter().cloned());
    let mut cluster: Vec<&Access> = Vec::new();
    let mut by_namespace: BTreeMap<&str, Vec<&Access>> = BTreeMap::new();
    for access in operator.access.iter().chain(&reviews).chain(&elsewhere) {
        match access.scope.as_ref().unwrap_or(&operator.scope) {
            WatchScope::Namespaces(names) if access.resource.is_namespaced => {
                names.iter().for_each(|name| by_namespace.entry(name).or_default().push(access));
            }
            _ => cluster.push(access),
        }
    }
    role(&mut manifests, operator, "rbac/cluster-role", "ClusterRole", &operator.cluster_metadata(""), &rules(cluster));
    for (namespace, accesses) in by_namespace {
        let mut metadata = operator.metadata("");
        metadata["namespace"] = namespace.into();
        role(&mut manifests, operator, &format!("rbac/role-{namespace}"), "Role", &metadata, &rules(accesses));
    }
    role(&mut manifests, operator, "rbac/own-role", "Role", &operator.metadata("own"), &rules(&own));
    manifests
}

/// What secure metrics ask the API server about a scraper.
fn reviews(operator: &Operator) -> Vec<Access> {
    let is_secure = operator.metrics.as_ref().is_some_and(|metrics| metrics.is_secure);
    if is_secure { Access::of_metrics_reviews() } else { Vec::new() }
}

/// A role and its binding, unless it has no rules.
fn role(manifests: &mut Vec<Manifest>, operator: &Operator, file: &str, kind: &str, metadata: &Value, rules: &[Rule]) {
    if rules.is_empty() {
        return;
    }
    let values: Vec<&Value> = rules.iter().map(|rule| &rule.value).collect();
    let role = json!({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "rules": values});
    let comments = rules.iter().flat_map(|rule| rule.reasons.clone()).collect();
    manifests.push(Manifest { comments, ..Manifest::new(file, role) });
    let binding = json!({
        "apiVersion": API_VERSION,
        "kind": format!("{kind}Binding"),
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": metadata["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": operator.name, "namespace": operator.namespace}],
    });
    manifests.push(Manifest::new(format!("{file}-binding"), binding));
}

/// For the users of each CRD: all verbs, what an editor needs, and reading.
pub(super) fn of_users(operator: &Operator) -> Vec<Manifest> {
    let mut manifests = Vec::new();
    for crd in &operator.crds {
        let (group, plural, kind) = (&crd.spec.group, &crd.spec.names.plural, &crd.spec.names.kind);
        for (who, verbs, what) in [
            ("admin", &["*"][..], "every right on"),
            ("editor", &["create", "delete", "get", "list", "patch", "update", "watch"][..], "to change"),
            ("viewer", &["get", "list", "watch"][..], "to read"),
        ] {
            let role = json!({
                "apiVersion": API_VERSION,
                "kind": "ClusterRole",
                "metadata": operator.cluster_metadata(&format!("{plural}-{who}")),
                "rules": [
                    {"apiGroups": [group], "resources": [plural], "verbs": verbs},
                    {"apiGroups": [group], "resources": [format!("{plural}/status")], "verbs": ["get"]},
                ],
            });
            let comments = vec![format!("For users: {what} objects of the kind {kind}. Bind it where it is needed.")];
            manifests.push(Manifest { comments, ..Manifest::new(format!("rbac/{plural}-{who}"), role) });
        }
    }
    if operator.metrics.as_ref().is_some_and(|metrics| metrics.is_secure) {
        let role = json!({
            "apiVersion": API_VERSION,
            "kind": "ClusterRole",
            "metadata": operator.cluster_metadata("metrics-reader"),
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        });
        let comments = vec!["For scrapers of the metrics. Bind it to their ServiceAccount.".to_owned()];
        manifests.push(Manifest { comments, ..Manifest::new("rbac/metrics-reader", role) });
    }
    manifests
}
