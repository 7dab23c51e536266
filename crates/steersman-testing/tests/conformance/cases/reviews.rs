use serde_json::json;

use super::authorization::{AUTHORIZATION, By, JANE, binding, here, known, may, resources, role, user, with_role};
use crate::conformance::case::{Case, Needs, case};

/// Questions about what a user may do, with RBAC.
pub(crate) fn cases() -> Vec<Case> {
    let groups = [reviews(), review_errors(), rules_reviews()];
    groups.into_iter().flatten().map(|case| case.needs(Needs::Authorization)).collect()
}

fn reviews() -> Vec<Case> {
    let all = format!("{AUTHORIZATION}/subjectaccessreviews");
    let own = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let local = format!("{AUTHORIZATION}/namespaces/${{ns}}/localsubjectaccessreviews");
    let lists = || with_role("x", &[known()]);
    let renamed = |name: &'static str| Case { name, ..lists() };
    vec![
        renamed("review-of-what-is-permitted")
            .post(&*all, may(JANE, "list", "secrets", "${ns}"))
            .expect(201)
            .see("/status/allowed", true)
            .see(
                "/status/reason",
                "RBAC: allowed by RoleBinding \"own/${ns}\" of Role \"own\" to User \"jane-${id}\"",
            ),
        renamed("review-of-what-is-not").post(&*all, may(JANE, "get", "secrets", "${ns}")).expect(201).see("/status/allowed", false),
        case("review-without-the-role")
            .post(here("rolebindings"), binding("b", "Role", "none", json!([user(JANE)])))
            .post(&*all, may(JANE, "get", "secrets", "${ns}"))
            .again_until()
            .see("/status/reason", "RBAC: role.rbac.authorization.k8s.io \"none\" not found"),
        case("review-of-a-master")
            .post(&*all, json!({"spec": {"user": "x", "groups": ["system:masters"], "nonResourceAttributes": {"path": "/x", "verb": "get"}}}))
            .expect(201)
            .see("/status/allowed", true),
        case("review-of-a-group-and-a-path")
            .post(&*all, json!({"spec": {"groups": ["system:authenticated"], "uid": "17", "extra": {"a": ["b"]},
                "nonResourceAttributes": {"path": "/version", "verb": "get"}}}))
            .expect(201)
            .see("/status/allowed", true)
            .ignore("/status/reason"),
        case("review-of-a-service-account")
            .post(here("roles"), role(resources(&["get"], &["pods/log"])))
            .post(here("rolebindings"), binding("b", "Role", "${id}", json!([{"kind": "ServiceAccount", "name": "sa"}])))
            .post(&*all, json!({"spec": {"user": "system:serviceaccount:${ns}:sa", "resourceAttributes":
                {"verb": "get", "resource": "pods", "subresource": "log", "namespace": "${ns}", "name": "x", "version": "v1"}}}))
            .again_until()
            .see("/status/allowed", true),
        renamed("review-of-oneself")
            .post(&*own, json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "secrets", "namespace": "${ns}"}}}))
            .by_jane()
            .expect(201)
            .see("/status/allowed", true)
            .post(&*own, json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "secrets"}}}))
            .by_jane()
            .see("/status/allowed", false)
            .post(&*own, json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}}))
            .by_jane()
            .see("/status/allowed", false),
        renamed("review-in-a-namespace")
            .post(&*local, may(JANE, "list", "secrets", "${ns}"))
            .expect(201)
            .see("/metadata/namespace", "${ns}")
            .see("/status/allowed", true),
        case("review-is-not-for-everybody").post(&*all, may("x", "get", "y", "")).by("jane").expect(403),
        case("review-with-selectors")
            .post(&*own, json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods",
                "fieldSelector": {"rawSelector": "bad"},
                "labelSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "a", "operator": "Gt", "values": ["1"]}]}}}}))
            .expect(201)
            .see("/status/allowed", true),
        case("review-in-yaml")
            .send("POST", &*own)
            .text("application/yaml", "spec: {resourceAttributes: {verb: list, resource: pods}}")
            .expect(201),
        case("review-with-an-unknown-field").post(format!("{own}?fieldValidation=Strict"), json!({"shoes": 1})).expect(400),
    ]
}

fn review_errors() -> Vec<Case> {
    let all = format!("{AUTHORIZATION}/subjectaccessreviews");
    let own = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let local = format!("{AUTHORIZATION}/namespaces/${{ns}}/localsubjectaccessreviews");
    let path = || json!({"path": "/x", "verb": "get"});
    let pods = || json!({"verb": "get", "resource": "pods", "namespace": "${ns}"});
    vec![
        case("review-of-nothing").post(&*all, json!({})).expect(422),
        case("review-of-both")
            .post(&*own, json!({"spec": {"resourceAttributes": pods(), "nonResourceAttributes": path()}}))
            .expect(422),
        case("review-of-oneself-of-nothing").post(&*own, json!({"spec": {}})).expect(422),
        case("review-with-both-selectors")
            .post(
                &*own,
                json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods",
                "fieldSelector": {"rawSelector": "a=b", "requirements": [{"key": "", "operator": "In"}]},
                "labelSelector": {}}}}),
            )
            .expect(422),
        case("review-with-bad-labels")
            .post(
                &*own,
                json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods",
                "labelSelector": {"requirements": [{"key": "-", "operator": "Exists", "values": ["a b"]}]}}}}),
            )
            .expect(422),
        case("review-in-another-namespace").post(&*local, may("x", "get", "pods", "default")).expect(422),
        case("review-of-a-path-in-a-namespace")
            .post(&*local, json!({"spec": {"user": "x", "nonResourceAttributes": path()}}))
            .expect(422),
        case("review-of-another-namespace")
            .post(
                &*local,
                json!({"metadata": {"namespace": "default"}, "spec": {"user": "x", "resourceAttributes": pods()}}),
            )
            .expect(400),
        case("review-that-is-read").get(&*all).expect(405).get(format!("{all}/x")).expect(404),
    ]
}

fn rules_reviews() -> Vec<Case> {
    let reviews = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    vec![
        with_role(
            "rules-of-a-user",
            &[known(), json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["x"], "resourceNames": ["y"]})],
        )
        .post(&*reviews, json!({"spec": {"namespace": "${ns}"}}))
        .by_jane()
        .expect(201)
        .see("/status/incomplete", false),
        case("rules-without-the-role")
            .post(here("rolebindings"), binding("b", "Role", "none", json!([user(JANE)])))
            .post(&*reviews, json!({"spec": {"namespace": "${ns}"}}))
            .by_jane()
            .again_until()
            .see("/status/evaluationError", "role.rbac.authorization.k8s.io \"none\" not found"),
        case("rules-of-a-master").post(&*reviews, json!({"spec": {"namespace": "default"}})).expect(201),
        case("rules-of-no-namespace").post(&*reviews, json!({})).expect(400),
    ]
}
