use serde_json::{Value, json};

use super::{MAPS, map, maps, pods, with};
use crate::conformance::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    let all = [creates(), changes(), conflicts(), lists(), refusals(), bodies(), subresources()];
    all.into_iter().flatten().collect()
}

pub(super) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/${ns}/deployments";

pub(super) fn deployments(rest: &str) -> String {
    format!("{DEPLOYMENTS}{rest}")
}

pub(super) fn services(rest: &str) -> String {
    format!("/api/v1/namespaces/${{ns}}/services{rest}")
}

/// A ConfigMap with this data.
pub(super) fn data(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// A ConfigMap `one` that the manager `a` has applied.
pub(super) fn applied(name: &'static str, values: Value) -> Case {
    case(name).apply(maps("/one"), "a", data("one", values)).named("one").expect(201)
}

pub(super) fn containers(containers: Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers}},
        },
    })
}

/// A Deployment with one container.
pub(super) fn deployment() -> Value {
    containers(json!([{"name": "c", "image": "i"}]))
}

fn replicas(count: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": count}})
}

pub(super) fn scale(count: u32) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": count}})
}

/// The Deployment with these conditions.
fn conditions(conditions: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"conditions": conditions},
    })
}

fn creates() -> Vec<Case> {
    vec![
        applied("apply-creates", json!({"a": "1"}))
            .see("/metadata/managedFields/0/manager", "a")
            .see("/metadata/managedFields/0/operation", "Apply")
            .get(maps("/one"))
            .see("/data/a", "1"),
        case("apply-creates-a-deployment").apply(deployments("/d"), "a", deployment()).expect(201),
        case("apply-creates-a-pod")
            .apply(
                pods("/p"),
                "a",
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [
                    {"name": "c", "image": "i", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1000m"}}},
                ]}}),
            )
            .expect(201),
        case("apply-creates-nothing-in-a-dry-run")
            .apply(maps("/one?dryRun=All"), "a", data("one", json!({"a": "1"})))
            .expect(201)
            .get(maps("/one"))
            .expect(404),
        case("apply-creates-in-no-missing-namespace")
            .apply("/api/v1/namespaces/${id}-none/configmaps/one", "a", data("one", json!({})))
            .expect(404),
        case("apply-creates-no-object-with-a-uid")
            .apply(maps("/one"), "a", with(map("one"), json!({"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}})))
            .expect(409),
        case("apply-creates-with-a-version")
            .apply(maps("/one"), "a", with(map("one"), json!({"metadata": {"resourceVersion": "1"}})))
            .expect(201),
        case("apply-creates-with-another-namespace")
            .apply(maps("/one"), "a", with(map("one"), json!({"metadata": {"namespace": "other"}})))
            .expect(400),
        case("apply-creates-an-invalid-object")
            .apply(maps("/one"), "a", with(map("one"), json!({"metadata": {"labels": {"a": "b c"}}})))
            .expect(422),
        case("apply-creates-nothing-at-a-status")
            .apply(deployments("/d/status"), "a", deployment())
            .expect(404)
            .apply(deployments("/d/scale"), "a", scale(3))
            .expect(404),
        case("apply-creates-a-namespaced-role")
            .apply(
                "/apis/rbac.authorization.k8s.io/v1/namespaces/${ns}/roles/r",
                "a",
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": [
                    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
                ]}),
            )
            .expect(201),
    ]
}

fn changes() -> Vec<Case> {
    vec![
        applied("apply-changes-and-adds", json!({"a": "1", "b": "2"}))
            .apply(maps("/one"), "a", data("one", json!({"a": "9", "b": "2", "c": "3"})))
            .expect(200)
            .see("/data", json!({"a": "9", "b": "2", "c": "3"})),
        applied("apply-removes-what-it-no-longer-has", json!({"a": "1", "b": "2"}))
            .apply(maps("/one"), "a", data("one", json!({"a": "1"})))
            .expect(200)
            .see("/data", json!({"a": "1"})),
        applied("apply-removes-all-it-had", json!({"a": "1", "b": "2"}))
            .apply(maps("/one"), "a", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}))
            .expect(200)
            .absent("/data"),
        applied("apply-that-changes-nothing", json!({"a": "1"}))
            .apply(maps("/one"), "a", data("one", json!({"a": "1"})))
            .expect(200)
            .see("/metadata/resourceVersion", "${rv:one}"),
        applied("apply-keeps-what-others-have", json!({"a": "1"}))
            .merge(maps("/one?fieldManager=m"), json!({"data": {"b": "2"}}))
            .apply(maps("/one"), "a", data("one", json!({"c": "3"})))
            .expect(200)
            .see("/data", json!({"b": "2", "c": "3"})),
        applied("apply-of-the-same-values-by-two", json!({"a": "1"}))
            .apply(maps("/one"), "b", data("one", json!({"a": "1"})))
            .expect(200)
            .see("/metadata/managedFields/0/manager", "b")
            .apply(maps("/one"), "a", data("one", json!({})))
            .expect(200)
            .see("/data/a", "1")
            .apply(maps("/one"), "b", data("one", json!({})))
            .expect(200)
            .absent("/data/a"),
        applied("apply-does-not-remove-what-it-never-had", json!({"a": "1"}))
            .merge(maps("/one?fieldManager=m"), json!({"data": {"b": "2"}}))
            .apply(maps("/one"), "a", data("one", json!({"a": "1"})))
            .expect(200)
            .see("/data/b", "2"),
        applied("apply-in-a-dry-run", json!({"a": "1"}))
            .apply(maps("/one?dryRun=All"), "a", data("one", json!({"a": "2"})))
            .expect(200)
            .see("/data/a", "2")
            .get(maps("/one"))
            .see("/data/a", "1"),
        applied("apply-with-the-current-version", json!({"a": "1"}))
            .apply(
                maps("/one"),
                "a",
                with(data("one", json!({"a": "2"})), json!({"metadata": {"resourceVersion": "${rv:one}"}})),
            )
            .expect(200),
        applied("apply-with-an-old-version", json!({"a": "1"}))
            .apply(
                maps("/one"),
                "a",
                with(data("one", json!({"a": "2"})), json!({"metadata": {"resourceVersion": "1"}})),
            )
            .expect(409),
        applied("apply-with-the-uid", json!({"a": "1"}))
            .apply(maps("/one"), "a", with(data("one", json!({"a": "2"})), json!({"metadata": {"uid": "${uid:one}"}})))
            .expect(200),
        applied("apply-with-another-uid", json!({"a": "1"}))
            .apply(
                maps("/one"),
                "a",
                with(data("one", json!({})), json!({"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}})),
            )
            .expect(422),
        applied("apply-of-labels-annotations-and-finalizers", json!({}))
            .apply(
                maps("/one"),
                "a",
                with(
                    map("one"),
                    json!({"metadata": {
                        "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.com/a"],
                    }}),
                ),
            )
            .expect(200)
            .apply(maps("/one"), "b", with(map("one"), json!({"metadata": {"finalizers": ["example.com/b"]}})))
            .expect(200)
            .see("/metadata/finalizers", json!(["example.com/a", "example.com/b"]))
            .apply(maps("/one"), "a", map("one"))
            .expect(200)
            .see("/metadata/finalizers", json!(["example.com/b"]))
            .apply(maps("/one"), "b", map("one"))
            .expect(200),
        applied("apply-of-a-null", json!({"a": "1"}))
            .apply(
                maps("/one"),
                "a",
                json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "labels": null}, "data": null,
                }),
            )
            .expect(200),
        applied("apply-of-empty-maps", json!({}))
            .apply(
                maps("/one"),
                "b",
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "labels": {}}}),
            )
            .expect(200)
            .apply(maps("/one"), "b", map("one"))
            .expect(409)
            .message_contains("conflict with \"a\": .data"),
    ]
}

fn conflicts() -> Vec<Case> {
    let two = |name| applied(name, json!({"a": "1", "b": "2"}));
    vec![
        two("apply-conflicts-with-an-applier")
            .apply(maps("/one"), "b", data("one", json!({"a": "9"})))
            .expect(409)
            .message_contains("Apply failed with 1 conflict: conflict with \"a\": .data.a"),
        two("apply-conflicts-in-two-fields")
            .apply(maps("/one"), "b", data("one", json!({"a": "9", "b": "9"})))
            .expect(409),
        two("apply-forced")
            .apply(maps("/one?force=true"), "b", data("one", json!({"a": "9"})))
            .expect(200)
            .see("/data/a", "9"),
        two("apply-forced-takes-all")
            .apply(maps("/one?force=true"), "b", data("one", json!({"a": "9", "b": "9"})))
            .expect(200)
            .see("/metadata/managedFields/0/manager", "b"),
        case("apply-conflicts-with-an-updater")
            .post(format!("{MAPS}?fieldManager=u"), data("one", json!({"a": "1"})))
            .apply(maps("/one"), "a", data("one", json!({"a": "2"})))
            .expect(409)
            .message_contains("conflict with \"u\" using v1: .data.a"),
        case("apply-conflicts-with-a-user-agent")
            .post(MAPS, data("one", json!({"a": "1"})))
            .header("user-agent", "curl/8.5.0")
            .apply(maps("/one"), "a", data("one", json!({"a": "2"})))
            .expect(409)
            .message_contains("conflict with \"curl\" using v1"),
        two("apply-takes-the-value-of-an-updater")
            .merge(maps("/one?fieldManager=u"), json!({"data": {"a": "9"}}))
            .apply(maps("/one"), "a", data("one", json!({"a": "9", "b": "2"})))
            .expect(200),
        two("apply-after-an-update-took-a-field")
            .merge(maps("/one?fieldManager=u"), json!({"data": {"a": "9"}}))
            .see("/metadata/managedFields/1/manager", "u")
            .apply(maps("/one"), "a", data("one", json!({"a": "1", "b": "2"})))
            .expect(409)
            .apply(maps("/one?force=1"), "a", data("one", json!({"a": "1", "b": "2"})))
            .expect(200),
        case("apply-conflicts-in-a-deployment")
            .post(format!("{DEPLOYMENTS}?fieldManager=u"), deployment())
            .expect(201)
            .apply(deployments("/d"), "a", containers(json!([{"name": "c", "image": "j"}])))
            .expect(409)
            .message_contains(".spec.template.spec.containers[name=\"c\"].image")
            .apply(deployments("/d"), "a", replicas(3))
            .expect(409)
            .message_contains(".spec.replicas")
            .apply(deployments("/d?force=true"), "a", replicas(3))
            .expect(200),
        case("apply-conflicts-of-an-atomic-list")
            .apply(deployments("/d"), "a", containers(json!([{"name": "c", "image": "i", "args": ["x"]}])))
            .apply(deployments("/d"), "b", containers(json!([{"name": "c", "image": "i", "args": ["y"]}])))
            .expect(409),
        case("apply-conflicts-of-an-atomic-map")
            .apply(
                services("/s"),
                "a",
                json!({
                    "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
                    "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]},
                }),
            )
            .expect(201)
            .apply(
                services("/s"),
                "b",
                json!({
                    "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"c": "d"}},
                }),
            )
            .expect(409)
            .message_contains(".spec.selector"),
    ]
}

fn lists() -> Vec<Case> {
    let ports = |ports: Value| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports},
        })
    };
    vec![
        case("apply-of-containers-by-two")
            .apply(deployments("/d"), "a", deployment())
            .expect(201)
            .apply(deployments("/d"), "b", json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
                "spec": {"template": {"spec": {"containers": [
                    {"name": "side", "image": "s"}, {"name": "c", "env": [{"name": "E", "value": "1"}]},
                ]}}},
            }))
            .expect(200)
            .apply(deployments("/d"), "b", json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
                "spec": {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "F", "value": "2"}]}]}}},
            }))
            .expect(200)
            .apply(deployments("/d"), "b", replicas(1))
            .expect(200),
        case("apply-orders-list-items-as-it-has-them")
            .apply(deployments("/d"), "a", containers(json!([
                {"name": "c1", "image": "i"}, {"name": "c2", "image": "i"}, {"name": "c3", "image": "i"},
            ])))
            .expect(201)
            .apply(deployments("/d"), "a", containers(json!([
                {"name": "c3", "image": "i"}, {"name": "c4", "image": "i"}, {"name": "c1", "image": "i"},
            ])))
            .expect(200),
        case("apply-inserts-between-the-items-of-others")
            .post(format!("{DEPLOYMENTS}?fieldManager=u"), containers(json!([
                {"name": "c1", "image": "i"}, {"name": "c2", "image": "i"}, {"name": "c3", "image": "i"},
            ])))
            .apply(deployments("/d"), "a", containers(json!([
                {"name": "c3", "image": "i"}, {"name": "new", "image": "i"}, {"name": "c2", "image": "i"},
            ])))
            .expect(200),
        case("apply-of-ports-with-a-default-key")
            .apply(services("/s"), "a", ports(json!([{"port": 80}, {"port": 53, "protocol": "UDP", "name": "dns"}])))
            .apply(services("/s"), "a", ports(json!([{"port": 80, "name": "http"}, {"port": 53, "protocol": "UDP", "name": "dns"}])))
            .expect(201)
            .apply(services("/s"), "a", ports(json!([{"port": 80, "protocol": "TCP", "name": "http"}])))
            .expect(200),
        case("apply-of-the-same-key-twice")
            .apply(services("/s"), "a", ports(json!([{"port": 80, "name": "a"}, {"port": 80, "protocol": "TCP", "name": "b"}])))
            .expect(500)
            .message_contains("duplicate entries for key"),
        case("apply-of-an-item-without-a-key")
            .apply(deployments("/d"), "a", containers(json!([{"image": "i"}])))
            .expect(422),
        case("apply-of-the-same-finalizer-twice")
            .apply(maps("/one"), "a", with(map("one"), json!({"metadata": {"finalizers": ["example.com/a", "example.com/a"]}})))
            .expect(500),
        case("apply-to-a-list-with-the-same-key-twice")
            .post(format!("{DEPLOYMENTS}?fieldManager=u"), deployment())
            .merge(
                deployments("/d/status?fieldManager=u"),
                json!({"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "A", "status": "False"}]}}),
            )
            .expect(200)
            .apply(deployments("/d/status"), "a", conditions(json!([{"type": "B", "status": "True"}])))
            .expect(200)
            .apply(deployments("/d/status?force=true"), "a", conditions(json!([{"type": "A", "status": "Unknown"}])))
            .expect(200),
        case("apply-of-owner-references")
            .post(MAPS, map("owner"))
            .named("owner")
            .apply(maps("/one"), "a", with(map("one"), json!({"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "${uid:owner}"},
            ]}})))
            .expect(201)
            .apply(maps("/one"), "a", map("one"))
            .expect(200)
            .absent("/metadata/ownerReferences"),
    ]
}

fn refusals() -> Vec<Case> {
    let patch = |name, path: &str, body: Value| case(name).apply(maps(path), "a", body);
    vec![
        case("apply-without-a-manager")
            .send("PATCH", maps("/one"))
            .text("application/apply-patch+yaml", data("one", json!({})).to_string())
            .expect(422)
            .message_contains("fieldManager: Required value: is required for apply patch"),
        case("apply-by-a-manager-with-a-long-name").apply(maps("/one"), &"m".repeat(129), map("one")).expect(422),
        case("apply-by-a-manager-with-an-invisible-name").apply(maps("/one"), "a%07b", map("one")).expect(422),
        case("apply-without-a-manager-and-with-other-wrong-options")
            .send("PATCH", maps("/one?dryRun=maybe&fieldValidation=perhaps"))
            .text("application/apply-patch+yaml", map("one").to_string())
            .expect(422),
        patch(
            "apply-of-another-kind",
            "/one",
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}}),
        )
        .expect(400),
        patch(
            "apply-of-another-version",
            "/one",
            json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "one"}}),
        )
        .expect(400),
        patch("apply-of-no-kind", "/one", json!({"metadata": {"name": "one"}})).expect(400),
        patch("apply-of-another-name", "/one", map("two")).expect(400),
        patch("apply-of-no-name", "/one", json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {}})).expect(400),
        patch("apply-with-managed-fields", "/one", with(map("one"), json!({"metadata": {"managedFields": []}})))
            .expect(400),
        patch("apply-with-a-managed-field", "/one", with(map("one"), json!({"metadata": {"managedFields": [{}]}})))
            .expect(400),
        patch("apply-of-an-unknown-field", "/one", with(map("one"), json!({"nonsense": 1})))
            .expect(500)
            .message_contains(".nonsense: field not declared in schema"),
        case("apply-of-an-unknown-field-inside")
            .apply(deployments("/d"), "a", containers(json!([{"name": "c", "image": "i", "nonsense": 1}])))
            .expect(500),
        case("apply-of-a-wrong-type")
            .apply(deployments("/d"), "a", with(deployment(), json!({"spec": {"replicas": "three"}})))
            .expect(500),
        case("apply-of-a-number-for-a-text")
            .apply(maps("/one"), "a", with(map("one"), json!({"data": {"k": 5}})))
            .expect(500),
        case("apply-of-a-text-for-a-boolean")
            .apply(maps("/one"), "a", with(map("one"), json!({"immutable": "yes"})))
            .expect(500),
        case("apply-of-a-list-for-a-map")
            .apply(maps("/one"), "a", with(map("one"), json!({"data": ["k"]})))
            .expect(500),
        case("apply-of-a-map-for-a-list").apply(deployments("/d"), "a", containers(json!({"name": "c"}))).expect(500),
        case("merge-patch-with-force").post(MAPS, map("one")).merge(maps("/one?force=true"), json!({})).expect(422),
        case("apply-to-a-collection").apply(MAPS, "a", map("one")).expect(405),
        case("apply-of-cbor")
            .send("PATCH", maps("/one?fieldManager=a"))
            .text("application/apply-patch+cbor", "{}")
            .expect(415),
        case("apply-to-the-immutable-data-of-a-map")
            .post(MAPS, with(map("one"), json!({"immutable": true})))
            .apply(maps("/one?force=true"), "a", data("one", json!({"k": "w"})))
            .expect(422),
    ]
}

fn bodies() -> Vec<Case> {
    let yaml = |name, path: &str, text: &str| {
        case(name).send("PATCH", maps(path)).text("application/apply-patch+yaml", text.to_owned())
    };
    const TWICE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n  a: \"1\"\n  a: \"2\"\n";
    vec![
        yaml(
            "apply-of-yaml",
            "/one?fieldManager=a",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n  a: \"1\"\n",
        )
        .expect(201),
        yaml("apply-of-a-key-twice", "/one?fieldManager=a", TWICE).expect(201).see("/data/a", "2"),
        yaml("apply-of-a-key-twice-strictly", "/one?fieldManager=a&fieldValidation=Strict", TWICE).expect(400),
        yaml("apply-of-a-key-twice-without-validation", "/one?fieldManager=a&fieldValidation=Ignore", TWICE)
            .expect(201),
        yaml("apply-of-broken-yaml", "/one?fieldManager=a", "a: b: c").expect(400),
        yaml("apply-of-a-list", "/one?fieldManager=a", "- a\n").expect(400),
        yaml("apply-of-a-text", "/one?fieldManager=a", "text").expect(400),
        yaml("apply-of-nothing", "/one?fieldManager=a", "").expect(400),
    ]
}

fn subresources() -> Vec<Case> {
    let status = |text: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "status": {"conditions": [{"type": "Available", "status": text, "reason": "R"}], "replicas": 1},
        })
    };
    let created = |name| case(name).apply(deployments("/d"), "a", deployment()).expect(201);
    vec![
        created("apply-of-a-status")
            .apply(deployments("/d/status"), "s", status("True"))
            .expect(200)
            .see("/status/conditions/0/status", "True")
            .apply(deployments("/d/status"), "t", status("False"))
            .expect(409)
            .message_contains("conflict with \"s\" with subresource \"status\"")
            .apply(
                deployments("/d/status"),
                "s",
                json!({
                    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
                }),
            )
            .expect(200),
        created("apply-of-a-status-ignores-the-spec")
            .apply(deployments("/d/status"), "s", with(status("True"), json!({"spec": {"replicas": 9}})))
            .expect(200)
            .see("/spec/replicas", 1),
        created("apply-of-an-object-ignores-the-status")
            .apply(deployments("/d"), "b", status("True"))
            .expect(200)
            .absent("/status/replicas"),
        created("apply-of-a-scale")
            // The default number has no manager, and the Scale had none at all before.
            .apply(deployments("/d/scale"), "s", scale(3))
            .expect(409)
            .message_contains("conflict with \"before-first-apply\" with subresource \"scale\" using autoscaling/v1")
            .apply(deployments("/d/scale"), "s", scale(1))
            .expect(200)
            .get(deployments("/d"))
            .apply(deployments("/d/scale?force=true"), "s", scale(3))
            .expect(200)
            .see("/spec/replicas", 3)
            .get(deployments("/d"))
            .see("/spec/replicas", 3)
            .apply(deployments("/d/scale"), "s", scale(4))
            .expect(200)
            .get(deployments("/d")),
        case("apply-of-a-scale-conflicts")
            .apply(deployments("/d"), "a", with(deployment(), json!({"spec": {"replicas": 2}})))
            .expect(201)
            .apply(deployments("/d/scale"), "s", scale(3))
            .expect(409)
            .message_contains(".spec.replicas")
            .apply(deployments("/d/scale?force=true"), "s", scale(3))
            .expect(200)
            .get(deployments("/d"))
            .apply(deployments("/d"), "a", with(deployment(), json!({"spec": {"replicas": 2}})))
            .expect(409)
            .apply(deployments("/d"), "a", deployment())
            .expect(200)
            .see("/spec/replicas", 3),
        case("update-of-a-scale-takes-the-replicas")
            .apply(deployments("/d"), "a", with(deployment(), json!({"spec": {"replicas": 2}})))
            .merge(deployments("/d/scale?fieldManager=u"), json!({"spec": {"replicas": 5}}))
            .expect(200)
            .get(deployments("/d"))
            .merge(deployments("/d/scale?fieldManager=v"), json!({"spec": {"replicas": 6}}))
            .get(deployments("/d"))
            .apply(deployments("/d"), "a", with(deployment(), json!({"spec": {"replicas": 2}})))
            .expect(409)
            .message_contains("with subresource \"scale\""),
        case("update-of-a-scale-with-an-entry-of-a-former-version")
            .post(DEPLOYMENTS, with(deployment(), json!({"spec": {"replicas": 2}})))
            .expect(201)
            .merge(
                deployments("/d"),
                json!({"metadata": {"managedFields": [{
                    "manager": "m", "operation": "Apply", "apiVersion": "apps/v1beta2", "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {"f:replicas": {}, "f:paused": {}}},
                }]}}),
            )
            .expect(200)
            .merge(deployments("/d/scale?fieldManager=u"), json!({"spec": {"replicas": 5}}))
            .expect(200)
            .get(deployments("/d")),
        case("update-of-a-scale-that-changes-nothing")
            .post(format!("{DEPLOYMENTS}?fieldManager=u"), with(deployment(), json!({"spec": {"replicas": 2}})))
            .merge(deployments("/d/scale?fieldManager=u"), json!({"spec": {"replicas": 2}}))
            .get(deployments("/d"))
            .merge(deployments("/d/scale?fieldManager=u"), json!({"spec": {"replicas": 3}}))
            .get(deployments("/d")),
        created("update-of-a-status-by-two")
            .merge(deployments("/d/status?fieldManager=u"), json!({"status": {"replicas": 1}}))
            .expect(200)
            .merge(deployments("/d/status?fieldManager=v"), json!({"status": {"replicas": 2, "readyReplicas": 1}}))
            .expect(200),
        created("apply-of-a-scale-of-another-kind").apply(deployments("/d/scale"), "s", deployment()).expect(400),
    ]
}
