//! ClusterRoles, Roles and their bindings.

use serde_json::{Value, json};

use super::access::{Access, Rule, RuleResource, Verb, rules};
use super::model::{Operator, WatchScope};
use super::objects::Manifest;

const GROUP: &str = "rbac.authorization.k8s.io";
const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// The roles of the operator itself, with their bindings.
pub(super) fn of_operator(operator: &Operator) -> Vec<Manifest> {
    let mut manifests = Vec::new();
    let reviews = reviews(operator);
    let all = || operator.access.iter().chain(&reviews);
    let (cluster, namespaces): (Vec<&Access>, &[String]) = match &operator.scope {
        WatchScope::Cluster => (all().collect(), &[]),
        WatchScope::Namespaces(names) => (all().filter(|access| !access.resource.is_namespaced).collect(), names),
    };
    role(&mut manifests, operator, "rbac/cluster-role", "ClusterRole", &operator.cluster_metadata(""), &rules(cluster));
    let in_namespaces = rules(operator.access.iter().filter(|access| access.resource.is_namespaced));
    for namespace in namespaces {
        let mut metadata = operator.metadata("");
        metadata["namespace"] = namespace.as_str().into();
        role(&mut manifests, operator, &format!("rbac/role-{namespace}"), "Role", &metadata, &in_namespaces);
    }
    let lease = lease(operator);
    let own = rules(lease.iter().chain(&operator.own_access));
    role(&mut manifests, operator, "rbac/own-role", "Role", &operator.metadata("own"), &own);
    manifests
}

/// What leader election does with its Lease. RBAC cannot limit `create` by name.
fn lease(operator: &Operator) -> Vec<Access> {
    let Some(name) = &operator.lease else { return Vec::new() };
    let leases = || RuleResource::namespaced("coordination.k8s.io", "leases");
    let events = RuleResource::namespaced("events.k8s.io", "events");
    vec![
        Access::new(leases(), [Verb::Get, Verb::Watch, Verb::Update], "leader election holds and renews it")
            .named([name]),
        Access::new(leases(), [Verb::Create], "leader election creates it once; a rule for create has no names"),
        Access::new(events, [Verb::Create, Verb::Patch], "leader election reports a new leader"),
    ]
}

/// What secure metrics ask the API server about a scraper.
fn reviews(operator: &Operator) -> Vec<Access> {
    if !operator.metrics.as_ref().is_some_and(|metrics| metrics.is_secure) {
        return Vec::new();
    }
    let token = RuleResource::cluster("authentication.k8s.io", "tokenreviews");
    let access = RuleResource::cluster("authorization.k8s.io", "subjectaccessreviews");
    vec![
        Access::new(token, [Verb::Create], "the metrics ask who a scraper is"),
        Access::new(access, [Verb::Create], "the metrics ask whether a scraper may read"),
    ]
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
