use serde_json::{Value, json};

use super::apply::{DEPLOYMENTS, applied, containers, data, deployment, deployments, services};
use super::{CRDS, MAPS, defined, map, maps, widgets, with};
use crate::conformance::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    [managers(), resets(), items(), migration()].into_iter().flatten().collect()
}

fn managers() -> Vec<Case> {
    let mut many = applied("updates-by-many-managers", json!({}));
    for manager in 0..12 {
        many = many
            .merge(maps(&format!("/one?fieldManager=m{manager:02}")), json!({"data": {format!("k{manager:02}"): "v"}}));
    }
    vec![
        many.get(maps("/one")),
        case("manager-of-a-user-agent")
            .post(MAPS, map("one"))
            .header("user-agent", "kubectl/v1.36.3 (linux/amd64) kubernetes/abc")
            .see("/metadata/managedFields/0/manager", "kubectl"),
        case("manager-of-no-user-agent").post(MAPS, map("one")).see("/metadata/managedFields/0/manager", "unknown"),
        case("manager-of-a-long-user-agent").post(MAPS, map("one")).header("user-agent", "a".repeat(200)),
        // An unprintable character takes no room, also where there is little left.
        case("manager-of-a-long-user-agent-that-is-not-printable")
            .post(MAPS, map("one"))
            .header("user-agent", format!("{}\u{85}bc", "a".repeat(127))),
        case("manager-of-a-user-agent-with-a-space").post(MAPS, map("one")).header("user-agent", "my agent"),
        case("create-by-a-manager-with-a-long-name")
            .post(format!("{MAPS}?fieldManager={}", "m".repeat(129)), map("one"))
            .expect(422),
        case("update-by-a-manager-with-an-invisible-name")
            .post(MAPS, map("one"))
            .put(maps("/one?fieldManager=a%0Ab"), map("one"))
            .expect(422),
        case("update-by-the-same-manager")
            .post(format!("{MAPS}?fieldManager=u"), data("one", json!({"a": "1"})))
            .put(maps("/one?fieldManager=u"), data("one", json!({"b": "1"})))
            .expect(200),
        case("update-by-another-manager")
            .post(format!("{MAPS}?fieldManager=u"), data("one", json!({"a": "1", "b": "2"})))
            .put(maps("/one?fieldManager=v"), data("one", json!({"a": "1", "b": "3"})))
            .expect(200)
            .put(maps("/one?fieldManager=v"), data("one", json!({"b": "3"})))
            .expect(200)
            .put(maps("/one?fieldManager=w"), data("one", json!({"b": "3"})))
            .expect(200),
        case("update-of-an-atomic-list")
            .post(
                format!("{DEPLOYMENTS}?fieldManager=u"),
                containers(json!([{"name": "c", "image": "i", "args": ["a", "b"]}])),
            )
            .json_patch(
                deployments("/d?fieldManager=v"),
                json!([{"op": "replace", "path": "/spec/template/spec/containers/0/args/1", "value": "c"}]),
            )
            .expect(200),
        case("events-of-an-apply")
            .watch("w", format!("{MAPS}?watch=true"))
            .apply(maps("/one"), "a", data("one", json!({"a": "1"})))
            .apply(maps("/one"), "a", data("one", json!({"a": "1"})))
            .apply(maps("/one"), "b", data("one", json!({"a": "1"})))
            .apply(maps("/one"), "a", data("one", json!({"a": "2"})))
            .apply(maps("/one?force=true"), "a", data("one", json!({"a": "2"})))
            .events("w", "ADDED one, MODIFIED one, MODIFIED one"),
        case("metadata-of-an-applied-object")
            .apply(maps("/one"), "a", data("one", json!({"a": "1"})))
            .get(maps("/one"))
            .header("accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
    ]
}

fn resets() -> Vec<Case> {
    let entry = |set: Value| {
        json!([{
            "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": set,
        }])
    };
    let patched = |name, managed: Value| {
        applied(name, json!({"a": "1"}))
            .merge(maps("/one?fieldManager=u"), json!({"metadata": {"managedFields": managed}}))
    };
    vec![
        patched("managed-fields-reset-by-an-empty-list", json!([])).expect(200).absent("/metadata/managedFields"),
        patched("managed-fields-reset-by-an-empty-entry", json!([{}])).expect(200).absent("/metadata/managedFields"),
        patched("managed-fields-not-reset-by-null", json!(null)).expect(200),
        patched("managed-fields-set", entry(json!({"f:data": {"f:a": {}, ".": {}}}))).expect(200),
        patched("managed-fields-set-with-changes", entry(json!({"f:data": {"f:a": {}}})))
            .merge(maps("/one?fieldManager=v"), json!({"data": {"a": "2"}}))
            .expect(200),
        patched("managed-fields-that-are-empty", entry(json!({}))).expect(200),
        patched("managed-fields-that-cannot-be-read", entry(json!({"x": {}}))).expect(200),
        patched("managed-fields-of-an-unknown-kind-of-element", entry(json!({"f:data": {"x:a": {}}}))).expect(200),
        patched(
            "managed-fields-without-a-type",
            json!([{
                "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsV1": {},
            }]),
        ),
        patched(
            "managed-fields-of-an-unknown-operation",
            json!([{
                "manager": "m", "operation": "Other", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {},
            }]),
        ),
        patched(
            "managed-fields-of-an-unknown-version",
            json!([{
                "manager": "m", "operation": "Update", "apiVersion": "v9", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:data": {"f:a": {}}},
            }]),
        )
        .merge(maps("/one?fieldManager=v"), json!({"data": {"a": "2"}})),
        patched(
            "managed-fields-of-a-long-manager",
            json!([{
                "manager": "m".repeat(129), "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:data": {"f:a": {}}},
            }]),
        ),
        case("managed-fields-of-a-created-object").post(
            format!("{MAPS}?fieldManager=u"),
            with(map("one"), json!({"metadata": {"managedFields": entry(json!({"f:data": {"f:k": {}}}))}})),
        ),
        patched("update-after-a-reset", json!([]))
            .merge(maps("/one?fieldManager=u"), json!({"data": {"b": "2"}}))
            .absent("/metadata/managedFields")
            .apply(maps("/one"), "b", data("one", json!({"a": "1"})))
            .expect(200)
            .apply(maps("/one"), "b", data("one", json!({"b": "3"})))
            .expect(409)
            .message_contains("before-first-apply"),
        applied("managed-fields-removed-by-a-json-patch", json!({"a": "1"}))
            .json_patch(maps("/one"), json!([{"op": "remove", "path": "/metadata/managedFields"}]))
            .expect(200)
            .json_patch(maps("/one"), json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]))
            .expect(200)
            .absent("/metadata/managedFields"),
        applied("update-without-managed-fields", json!({"a": "1"}))
            .put(maps("/one?fieldManager=u"), data("one", json!({"a": "1", "b": "2"})))
            .expect(200),
        case("managed-fields-are-not-set-at-a-status")
            .apply(deployments("/d"), "a", deployment())
            .merge(
                deployments("/d/status?fieldManager=u"),
                json!({"metadata": {"managedFields": []}, "status": {"replicas": 1}}),
            )
            .expect(200),
    ]
}

/// Items of lists, and sets of fields, as the schema of their kind has them.
fn items() -> Vec<Case> {
    let secrets =
        |secrets: Value| with(deployment(), json!({"spec": {"template": {"spec": {"imagePullSecrets": secrets}}}}));
    let entry = |manager: &str, version: &str, set: Value| {
        json!({
            "manager": manager, "operation": "Apply", "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": set,
        })
    };
    let below_atomic = json!({"f:spec": {"f:selector": {"f:app": {}}, "f:ports": {"k:{\"port\":80}": {"f:name": {}}}}});
    let service = |app: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"selector": {"app": app}, "ports": [{"port": 80}]},
        })
    };
    let accounts = |rest: &str| format!("/api/v1/namespaces/${{ns}}/serviceaccounts{rest}");
    let account = |secrets: Value| json!({"metadata": {"name": "a"}, "secrets": secrets});
    vec![
        case("managed-fields-of-an-item-with-an-empty-key")
            .post(format!("{DEPLOYMENTS}?fieldManager=u"), secrets(json!([{"name": ""}])))
            .without_warnings()
            .expect(201)
            .merge(deployments("/d?fieldManager=v"), json!({"metadata": {"labels": {"a": "b"}}}))
            .expect(200)
            .apply(deployments("/d?force=true"), "a", secrets(json!([{"name": ""}])))
            .without_warnings()
            .expect(200)
            .apply(deployments("/d?force=true"), "a", secrets(json!([{"name": "one"}])))
            .expect(200),
        case("apply-of-an-item-with-an-empty-key")
            .apply(deployments("/d"), "a", secrets(json!([{"name": ""}])))
            .without_warnings()
            .expect(201)
            .apply(deployments("/d"), "a", secrets(json!([{"name": ""}])))
            .without_warnings()
            .expect(200)
            .apply(deployments("/d"), "a", secrets(json!([{}])))
            .without_warnings()
            .expect(200),
        case("managed-fields-of-an-item-without-a-key")
            .post(accounts("?fieldManager=u"), account(json!([{}])))
            .expect(201)
            .absent("/metadata/managedFields")
            .merge(accounts("/a?fieldManager=v"), json!({"metadata": {"labels": {"a": "b"}}}))
            .expect(200)
            .absent("/metadata/managedFields"),
        case("managed-fields-after-an-update-to-an-item-without-a-key")
            .post(accounts("?fieldManager=u"), account(json!([{"name": "x"}])))
            .expect(201)
            .put(accounts("/a?fieldManager=v"), account(json!([{"namespace": "x"}])))
            .expect(200),
        case("managed-fields-below-an-atomic-value-of-a-built-in-kind")
            .post(services(""), service("one"))
            .expect(201)
            .merge(
                services("/s?fieldManager=u"),
                json!({"metadata": {"managedFields": [entry("m", "v1", below_atomic.clone())]}}),
            )
            .expect(200)
            .apply(services("/s"), "b", service("two"))
            .expect(409),
        case("managed-fields-below-an-atomic-value-of-a-created-object")
            .post(
                services("?fieldManager=u"),
                with(service("one"), json!({"metadata": {"managedFields": [entry("m", "v1", below_atomic.clone())]}})),
            )
            .expect(201)
            .apply(services("/s"), "b", service("two")),
        case("managed-fields-below-an-atomic-value-of-an-unknown-version")
            .post(services(""), service("one"))
            .merge(
                services("/s?fieldManager=u"),
                json!({"metadata": {"managedFields": [entry("m", "v9", below_atomic.clone()), entry("n", "v1", below_atomic)]}}),
            )
            .expect(200),
        defined("managed-fields-of-the-status-of-a-definition", widgets())
            .merge(
                format!("{CRDS}/widgets.${{id}}.example.com/status?fieldManager=u"),
                json!({"metadata": {"labels": {"a": "b"}}, "spec": {"preserveUnknownFields": true}}),
            )
            .expect(200)
            .only("/metadata/labels")
            .only("/metadata/managedFields"),
    ]
}

fn migration() -> Vec<Case> {
    const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let with_last = |name, last: Value| {
        let annotations = json!({LAST: last.to_string()});
        case(name)
            .post(
                format!("{MAPS}?fieldManager=kubectl-client-side-apply"),
                with(data("one", json!({"a": "1", "b": "2"})), json!({"metadata": {"annotations": annotations}})),
            )
            .expect(201)
    };
    let last = |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "one"}, "data": {"a": "1", "b": "2"}});
    let client_side = |name| with_last(name, last("ConfigMap"));
    vec![
        client_side("apply-by-kubectl-after-a-client-side-one")
            .apply(maps("/one"), "kubectl", data("one", json!({"a": "9", "b": "2"})))
            .expect(200)
            .apply(maps("/one"), "kubectl", data("one", json!({"a": "<9>"})))
            .expect(200),
        client_side("apply-by-another-after-a-client-side-one")
            .apply(maps("/one"), "a", data("one", json!({"a": "9"})))
            .expect(409),
        client_side("apply-by-kubectl-of-what-was-changed-since")
            .merge(maps("/one?fieldManager=u"), json!({"data": {"a": "5"}}))
            .apply(maps("/one"), "kubectl", data("one", json!({"a": "9", "b": "9"})))
            .expect(409)
            .message_contains(".data.a"),
        with_last("apply-by-kubectl-after-a-client-side-one-of-another-kind", last("Secret"))
            .apply(maps("/one"), "kubectl", data("one", json!({"a": "9", "b": "2"})))
            .expect(409),
        with_last(
            "apply-by-kubectl-after-a-client-side-one-of-no-kind",
            json!({"apiVersion": "v1", "data": {"a": "1"}}),
        )
        .apply(maps("/one"), "kubectl", data("one", json!({"a": "9", "b": "2"})))
        .expect(409),
        client_side("apply-by-kubectl-of-characters-that-are-escaped")
            .apply(maps("/one"), "kubectl", data("one", json!({"a": "<\u{2028}&\u{2029}>"})))
            .expect(200),
        applied("apply-by-kubectl-without-an-annotation", json!({"a": "1"}))
            .apply(maps("/one"), "kubectl", data("one", json!({"b": "2"})))
            .expect(200),
    ]
}
