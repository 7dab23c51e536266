use serde_json::{Value, json};

use super::{MAPS, map, maps, pod, pods, with};
use crate::conformance::case::{Case, Needs, case};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
pub(super) const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";
/// A user that no other case has.
pub(super) const JANE: &str = "jane-${id}";

/// Who may do what, with RBAC.
pub(crate) fn cases() -> Vec<Case> {
    let groups = [refusals(), applies(), rules(), subjects(), missing(), escalation(), bindings(), impersonation()];
    groups.into_iter().flatten().map(|case| case.needs(Needs::Authorization)).collect()
}

/// A path below a resource of the RBAC group in the case's namespace.
pub(super) fn here(resource: &str) -> String {
    format!("{RBAC}/namespaces/${{ns}}/{resource}")
}

fn cluster(resource: &str) -> String {
    format!("{RBAC}/{resource}")
}

/// A role with one rule. The name is that of the case.
pub(super) fn role(rule: Value) -> Value {
    json!({"metadata": {"name": "${id}"}, "rules": [rule]})
}

pub(super) fn resources(verbs: &[&str], resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [""], "resources": resources})
}

fn urls(verbs: &[&str], urls: &[&str]) -> Value {
    json!({"verbs": verbs, "nonResourceURLs": urls})
}

pub(super) fn binding(name: &str, kind: &str, role: &str, subjects: Value) -> Value {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role});
    json!({"metadata": {"name": name}, "roleRef": role, "subjects": subjects})
}

pub(super) fn user(name: &str) -> Value {
    json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name})
}

pub(super) fn group(name: &str) -> Value {
    json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": name})
}

/// A case whose user Jane has these rules in its namespace, once the server knows that.
pub(super) fn with_role(name: &'static str, rules: &[Value]) -> Case {
    let role = json!({"metadata": {"name": "own"}, "rules": rules});
    let case = case(name)
        .post(here("roles"), role)
        .expect(201)
        .post(here("rolebindings"), binding("own", "Role", "own", json!([user(JANE)])))
        .expect(201);
    until_known(case, "${ns}")
}

/// The same with a ClusterRole, for the whole cluster.
fn with_cluster_role(name: &'static str, rules: &[Value]) -> Case {
    let role = json!({"metadata": {"name": "own-${id}"}, "rules": rules});
    let case = case(name)
        .post(cluster("clusterroles"), role)
        .expect(201)
        .post(cluster("clusterrolebindings"), binding("own-${id}", "ClusterRole", "own-${id}", json!([user(JANE)])))
        .expect(201);
    until_known(case, "")
}

/// Waits until Jane may do what every user of these cases may: to list secrets.
fn until_known(case: Case, namespace: &str) -> Case {
    case.post(format!("{AUTHORIZATION}/subjectaccessreviews"), may(JANE, "list", "secrets", namespace))
        .again_until()
        .see("/status/allowed", true)
        .ignore("")
}

pub(super) fn known() -> Value {
    resources(&["list"], &["secrets"])
}

pub(super) fn may(user: &str, verb: &str, resource: &str, namespace: &str) -> Value {
    json!({"spec": {"user": user, "resourceAttributes": {"verb": verb, "resource": resource, "namespace": namespace}}})
}

pub(super) trait By {
    fn by_jane(self) -> Self;
    fn by(self, user: &str) -> Self;
}

impl By for Case {
    fn by_jane(self) -> Self {
        self.by(JANE)
    }

    fn by(self, user: &str) -> Self {
        self.header("impersonate-user", user)
    }
}

fn refusals() -> Vec<Case> {
    let jane =
        |name: &'static str, method: &'static str, path: &str| case(name).send(method, path).by("jane").expect(403);
    vec![
        jane("authorization-refuses-a-list", "GET", MAPS).message_contains(
            "User \"jane\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"${ns}\"",
        ),
        jane("authorization-refuses-a-list-of-all", "GET", "/api/v1/configmaps")
            .message_contains("at the cluster scope"),
        jane("authorization-refuses-a-watch", "GET", "/api/v1/configmaps?watch=true"),
        jane("authorization-refuses-an-old-watch", "GET", "/api/v1/watch/namespaces/${ns}/configmaps/a"),
        jane("authorization-refuses-a-list-of-one", "GET", "/api/v1/configmaps?fieldSelector=metadata.name%3Da"),
        jane("authorization-refuses-a-get", "GET", &maps("/a")),
        jane("authorization-refuses-a-create", "POST", MAPS),
        jane("authorization-refuses-an-update", "PUT", &maps("/a")),
        jane("authorization-refuses-a-patch", "PATCH", &maps("/a")),
        jane("authorization-refuses-a-delete", "DELETE", &maps("/a")),
        jane("authorization-refuses-a-delete-of-all", "DELETE", MAPS).message_contains("deletecollection"),
        jane("authorization-refuses-a-subresource", "PUT", "/apis/apps/v1/namespaces/${ns}/deployments/a/scale")
            .message_contains("deployments.apps \"a\" is forbidden"),
        jane("authorization-refuses-a-namespace", "GET", "/api/v1/namespaces/${ns}")
            .message_contains("in the namespace \"${ns}\""),
        jane("authorization-refuses-what-is-not-there", "GET", "/apis/nowhere.example.com/v1/things/a/b/c"),
        jane("authorization-refuses-a-path", "GET", "/metrics").message_contains("User \"jane\" cannot get path"),
        jane("authorization-refuses-a-path-like-a-tag", "GET", "/a%3Cb%3E&c"),
        jane("authorization-refuses-another-method", "POST", "/healthz").message_contains("cannot post path"),
        jane("authorization-refuses-head", "HEAD", MAPS),
        case("authorization-of-a-watch-of-nothing")
            .get("/api/v1/watch")
            .by("jane")
            .expect(500)
            .get("/api/v1/proxy/?a=%3Cb%3E")
            .expect(500)
            .get("/apis/apps/v1/watch?a=b&c=d")
            .by("jane")
            .expect(500),
        case("authorization-of-every-user")
            .get("/version")
            .by("jane")
            .ignore("")
            .expect(200)
            .get("/apis")
            .by("jane")
            .ignore("")
            .expect(200)
            .get("/healthz")
            .by("system:anonymous")
            .expect(200)
            .get("/apis")
            .by("system:anonymous")
            .expect(403),
    ]
}

/// An apply that creates an object needs the right to create it.
fn applies() -> Vec<Case> {
    let apply = |case: Case, name: &str, body: Value| case.apply(maps(&format!("/{name}")), "m", body).by_jane();
    vec![
        apply(
            with_role("authorization-of-an-apply-that-creates", &[resources(&["patch"], &["configmaps"]), known()]),
            "one",
            map("one"),
        )
        .expect(403)
        .message_contains("cannot create resource \"configmaps\""),
        apply(
            with_role(
                "authorization-of-an-apply-that-may-create",
                &[resources(&["patch", "create"], &["configmaps"]), known()],
            ),
            "one",
            map("one"),
        )
        .expect(201),
        apply(
            with_role("authorization-of-an-apply-to-an-object", &[resources(&["patch"], &["configmaps"]), known()])
                .post(MAPS, map("one"))
                .expect(201),
            "one",
            map("one"),
        )
        .expect(200),
        apply(
            with_role("authorization-of-an-invalid-apply", &[resources(&["patch"], &["configmaps"]), known()]),
            "one",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "labels": {"a": "b c"}}}),
        )
        .expect(422),
    ]
}

fn rules() -> Vec<Case> {
    vec![
        with_role("authorization-by-a-role", &[known(), resources(&["get", "list", "create"], &["configmaps"])])
            .post(MAPS, map("one"))
            .by_jane()
            .expect(201)
            .get(maps(""))
            .by_jane()
            .expect(200)
            .get(maps("/one"))
            .by_jane()
            .expect(200)
            .delete(maps("/one"))
            .by_jane()
            .expect(403)
            .get("/api/v1/namespaces/default/configmaps")
            .by_jane()
            .expect(403)
            .get("/api/v1/configmaps")
            .by_jane()
            .expect(403),
        with_role(
            "authorization-by-names",
            &[
                known(),
                json!({"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"]}),
            ],
        )
        .post(MAPS, map("one"))
        .by_jane()
        .expect(403)
        .post(MAPS, map("one"))
        .get(maps("/one"))
        .by_jane()
        .expect(200)
        .get(maps("/two"))
        .by_jane()
        .expect(403)
        .get(maps("?fieldSelector=metadata.name%3Done"))
        .by_jane()
        .expect(200)
        .get(maps(""))
        .by_jane()
        .expect(403),
        with_role("authorization-by-a-subresource", &[known(), resources(&["get"], &["*/status", "pods/eviction"])])
            .post(pods(""), pod("one"))
            .get(pods("/one/status"))
            .by_jane()
            .expect(200)
            .get(pods("/one"))
            .by_jane()
            .expect(403)
            .post(pods("/one/eviction"), json!({"metadata": {"name": "one"}}))
            .by_jane()
            .expect(403),
        with_role("authorization-by-wildcards", &[json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})])
            .delete("/apis/apps/v1/namespaces/${ns}/deployments")
            .by_jane()
            .expect(200)
            .get("/apis/apps/v1/deployments")
            .by_jane()
            .expect(403)
            .get("/api/v1/namespaces/${ns}")
            .by_jane()
            .expect(200),
        with_cluster_role("authorization-of-paths", &[known(), urls(&["get"], &["/openid/*"])])
            .get("/openid/v1/jwks")
            .by_jane()
            .ignore("/keys")
            .expect(200)
            .get("/openid")
            .by_jane()
            .expect(403)
            .send("POST", "/openid/v1/jwks")
            .by_jane()
            .expect(403)
            .get("/.well-known/openid-configuration")
            .by_jane()
            .expect(403),
        with_cluster_role(
            "authorization-of-the-cluster",
            &[known(), resources(&["get", "list"], &["nodes", "configmaps"])],
        )
        .get("/api/v1/nodes")
        .by_jane()
        .ignore("")
        .expect(200)
        .get(maps(""))
        .by_jane()
        .expect(200)
        .get("/api/v1/nodes/none")
        .by_jane()
        .expect(404),
    ]
}

fn subjects() -> Vec<Case> {
    let in_role = |name: &'static str, subjects: Value| {
        case(name)
            .post(here("roles"), role(resources(&["list"], &["configmaps"])))
            .post(here("rolebindings"), binding("b", "Role", "${id}", subjects))
            .expect(201)
    };
    let account = |namespace: &str| format!("system:serviceaccount:{namespace}:builder");
    vec![
        in_role("authorization-of-a-group", json!([group("team-${id}")]))
            .get(maps(""))
            .by("jane")
            .header("impersonate-group", "team-${id}")
            .again_until()
            .expect(200)
            .get(maps(""))
            .by("jane")
            .header("impersonate-group", "other")
            .expect(403),
        in_role(
            "authorization-of-a-service-account",
            json!([{"kind": "ServiceAccount", "name": "builder", "namespace": "${ns}"}]),
        )
        .get(maps(""))
        .by(&account("${ns}"))
        .again_until()
        .expect(200)
        .get(maps(""))
        .by(&account("default"))
        .expect(403),
        in_role("authorization-of-all-service-accounts", json!([group("system:serviceaccounts:${ns}")]))
            .get(maps(""))
            .by(&account("${ns}"))
            .again_until()
            .expect(200)
            .get(maps(""))
            .by(&account("default"))
            .expect(403),
        in_role("authorization-of-anybody", json!([group("system:unauthenticated")]))
            .get(maps(""))
            .by("system:anonymous")
            .again_until()
            .expect(200)
            .get(maps(""))
            .by("jane")
            .expect(403),
        in_role("authorization-ends-with-the-binding", json!([user(JANE)]))
            .get(maps(""))
            .by_jane()
            .again_until()
            .expect(200)
            .delete(here("rolebindings/b"))
            .get(maps(""))
            .by_jane()
            .again_until()
            .expect(403),
    ]
}

fn missing() -> Vec<Case> {
    vec![
        case("authorization-without-the-role")
            .post(here("rolebindings"), binding("b", "Role", "none", json!([user(JANE)])))
            .get(maps(""))
            .by_jane()
            .again_until()
            .expect(403)
            .message_contains("RBAC: role.rbac.authorization.k8s.io \"none\" not found"),
        case("authorization-without-the-cluster-role")
            .post(here("rolebindings"), binding("b", "ClusterRole", "none-${id}", json!([user(JANE)])))
            .post(here("rolebindings"), binding("c", "ClusterRole", "none-${id}", json!([user(JANE)])))
            .get(maps("/a"))
            .by_jane()
            .again_until()
            .expect(403)
            .message_contains("RBAC: clusterrole.rbac.authorization.k8s.io \"none-${id}\" not found"),
    ]
}

fn escalation() -> Vec<Case> {
    let writer = |verbs: &[&str]| json!({"verbs": verbs, "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "clusterroles"]});
    let wanted = json!({"metadata": {"name": "new"}, "rules": [
        resources(&["get", "watch", "list"], &["configmaps", "pods"]),
        json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a", "b"]}),
    ]});
    let own = [known(), resources(&["get"], &["configmaps"]), writer(&["create", "update", "patch", "get"])];
    vec![
        with_role("escalation-by-a-role", &own)
            .post(here("roles"), wanted.clone())
            .by_jane()
            .header("impersonate-group", "team")
            .expect(403)
            .message_contains("is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"watch\" \"list\"]}"),
        with_role("escalation-is-none-with-the-rights", &own)
            .post(here("roles"), json!({"metadata": {"name": "new"}, "rules": [resources(&["get"], &["configmaps"])]}))
            .by_jane()
            .expect(201)
            .merge(here("roles/new"), json!({"metadata": {"labels": {"a": "b"}}}))
            .by_jane()
            .expect(200)
            .merge(here("roles/new"), json!({"rules": [resources(&["*"], &["configmaps"])]}))
            .by_jane()
            .expect(403),
        with_role("escalation-by-an-update", &own)
            .post(here("roles"), wanted.clone())
            .expect(201)
            .put(here("roles/new"), wanted.clone())
            .by_jane()
            .expect(403)
            .merge(here("roles/new"), json!({"metadata": {"labels": {"a": "b"}}}))
            .by_jane()
            .expect(403)
            .merge(here("roles/new"), json!({"metadata": {"finalizers": ["example.com/f"]}}))
            .by_jane()
            .expect(200),
        with_role("escalation-that-is-permitted", &[known(), writer(&["create", "update", "escalate"])])
            .post(here("roles"), wanted.clone())
            .by_jane()
            .expect(201),
        with_cluster_role("escalation-by-a-cluster-role", &[known(), writer(&["create"])])
            .post(
                cluster("clusterroles"),
                json!({"metadata": {"name": "new-${id}"}, "rules": [urls(&["get", "post"], &["/metrics", "*"])]}),
            )
            .by_jane()
            .expect(403)
            .message_contains("NonResourceURLs"),
        with_cluster_role("escalation-by-aggregation", &[known(), writer(&["create"])])
            .post(
                cluster("clusterroles"),
                json!({"metadata": {"name": "new-${id}"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "${id}"}}]}}),
            )
            .by_jane()
            .expect(403)
            .message_contains("must have cluster-admin privileges to use the aggregationRule"),
        with_cluster_role("escalation-in-a-namespace-that-is-not-there", &own)
            .post(format!("{RBAC}/namespaces/none-${{id}}/roles"), wanted.clone())
            .by_jane()
            .expect(404)
            .message_contains("namespaces \"none-${id}\" not found"),
        with_role("escalation-by-an-apply", &own)
            .apply(here("roles/new"), "m", with(wanted.clone(), json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"})))
            .by_jane()
            .expect(403),
        with_role("escalation-beside-a-missing-role", &own)
            .post(here("rolebindings"), binding("lost", "Role", "none", json!([user(JANE)])))
            .get(maps("/x"))
            .by(JANE)
            .ignore("")
            .post(pods(""), json!({}))
            .by_jane()
            .again_until()
            .expect(403)
            .message_contains("none")
            .post(here("roles"), wanted)
            .by_jane()
            .expect(403)
            .message_contains("; resolution errors: ["),
    ]
}

fn bindings() -> Vec<Case> {
    let binder = |verbs: &[&str], resources: &[&str]| json!({"verbs": verbs, "apiGroups": ["rbac.authorization.k8s.io"], "resources": resources});
    let own = [known(), binder(&["create", "update", "patch", "get"], &["rolebindings", "clusterrolebindings"])];
    let more = || json!({"metadata": {"name": "more"}, "rules": [resources(&["get"], &["pods", "nodes"])]});
    let to = |role: &str| binding("b", "Role", role, json!([user(JANE)]));
    vec![
        with_role("escalation-by-a-binding", &own)
            .post(here("roles"), more())
            .post(here("rolebindings"), to("more"))
            .by_jane()
            .expect(403)
            .post(here("rolebindings"), to("own"))
            .by_jane()
            .expect(201),
        with_role("escalation-by-a-binding-to-nothing", &own)
            .post(here("rolebindings"), to("none"))
            .by_jane()
            .expect(404),
        with_role("escalation-by-a-binding-to-another-kind", &own)
            .post(here("rolebindings"), binding("b", "Foo", "own", json!([user(JANE)])))
            .by_jane()
            .expect(500),
        with_cluster_role("escalation-by-a-cluster-wide-binding-to-a-role", &own)
            .post(cluster("clusterrolebindings"), binding("b-${id}", "Role", "view", json!([user(JANE)])))
            .by_jane()
            .expect(400),
        with_role("escalation-by-a-binding-to-cluster-admin", &own)
            .post(here("rolebindings"), binding("b", "ClusterRole", "cluster-admin", json!([user(JANE)])))
            .by_jane()
            .expect(403),
        with_role("escalation-by-a-change-of-subjects", &own)
            .post(here("roles"), more())
            .post(here("rolebindings"), to("more"))
            .expect(201)
            .merge(here("rolebindings/b"), json!({"subjects": [user("other")]}))
            .by("mallory-${id}")
            .expect(403)
            .get(pods("/x"))
            .by_jane()
            .again_until()
            .expect(404)
            .merge(here("rolebindings/b"), json!({"subjects": [user("other")]}))
            .by_jane()
            .expect(200),
        with_role(
            "escalation-by-a-binding-that-is-permitted",
            &[
                own[0].clone(),
                own[1].clone(),
                json!({"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "resourceNames": ["more"]}),
            ],
        )
        .post(here("roles"), more())
        .post(here("rolebindings"), to("more"))
        .by_jane()
        .expect(201),
    ]
}

fn impersonation() -> Vec<Case> {
    // The requests are those of the account, by its token: there is one impersonation at a time.
    let impersonator = |name: &'static str, rule: Value| {
        let accounts = "/api/v1/namespaces/${ns}/serviceaccounts";
        let account = json!([{"kind": "ServiceAccount", "name": "sa", "namespace": "${ns}"}]);
        case(name)
            .post(accounts, json!({"metadata": {"name": "sa"}}))
            .post(format!("{accounts}/sa/token"), json!({}))
            .named("token")
            .ignore("")
            .post(cluster("clusterroles"), json!({"metadata": {"name": "own-${id}"}, "rules": [known(), rule]}))
            .expect(201)
            .post(cluster("clusterrolebindings"), binding("own-${id}", "ClusterRole", "own-${id}", account))
            .expect(201)
            .get("/api/v1/namespaces/${ns}/secrets")
            .header("authorization", "Bearer ${token:/status/token}")
            .again_until()
            .expect(200)
            .ignore("")
    };
    let review = |case: Case, user: &str| {
        case.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({}))
            .header("authorization", "Bearer ${token:/status/token}")
            .by(user)
    };
    let rule = |group: &str, resource: &str, names: &[&str]| json!({"verbs": ["impersonate"], "apiGroups": [group], "resources": [resource], "resourceNames": names});
    let named = impersonator("impersonation-of-a-user", rule("", "users", &["root"]));
    let named = review(review(named, "root").expect(201), "other").expect(403);
    let group_case = impersonator("impersonation-of-a-group", rule("", "users", &["root"]));
    let group_case = review(group_case, "root").header("impersonate-group", "team").expect(403);
    let account = impersonator("impersonation-of-a-service-account", rule("", "serviceaccounts", &["other"]));
    let account = review(account, "system:serviceaccount:${ns}:other").expect(201);
    let account = review(account, "system:serviceaccount:${ns}:third").expect(403);
    let extra = impersonator("impersonation-of-an-extra", rule("", "users", &["root"]));
    let extra = review(extra, "root").header("impersonate-extra-scopes", "view").expect(403);
    let uid = impersonator("impersonation-of-a-uid", rule("", "users", &["root"]));
    let uid = review(uid, "root").header("impersonate-uid", "17").expect(403);
    let constrained = impersonator(
        "impersonation-for-one-action",
        json!({"verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"], "resources": ["users"], "resourceNames": ["root"]}),
    );
    let constrained = review(constrained, "root").expect(403);
    vec![named, group_case, account, extra, uid, constrained]
}
