//! Strategic merge patches: merge keys, directives, and what is no patch.

use serde_json::{Value, json};

use super::{MAPS, crs, defined, map, maps, pod, pods, widget, widgets, with};
use crate::conformance::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    [maps_and_scalars(), merged_lists(), orders(), directives(), malformed(), validation(), elsewhere()]
        .into_iter()
        .flatten()
        .collect()
}

const TYPE: &str = "application/strategic-merge-patch+json";

fn deployments(rest: &str) -> String {
    format!("/apis/apps/v1/namespaces/${{ns}}/deployments{rest}")
}

/// A Deployment `web` with two containers, the first of which has lists of its own.
fn web(name: &'static str) -> Case {
    let ports = json!([{"containerPort": 80, "name": "http"}, {"containerPort": 443, "name": "https"}]);
    let env = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}]);
    let containers = json!([
        {"name": "one", "image": "one:1", "args": ["a", "b"], "ports": ports, "env": env},
        {"name": "two", "image": "two:1"},
    ]);
    let deployment = json!({
        "metadata": {"name": "web", "labels": {"a": "1", "b": "2"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": containers,
                    "volumes": [{"name": "data", "emptyDir": {}}, {"name": "more", "configMap": {"name": "m"}}],
                    "nodeSelector": {"disk": "ssd"},
                },
            },
        },
    });
    case(name).post(deployments(""), deployment).named("web").expect(201)
}

/// A patch of the Deployment.
fn patch(name: &'static str, body: Value) -> Case {
    web(name).strategic(deployments("/web"), body)
}

/// A patch of its Pod template.
fn template(name: &'static str, spec: Value) -> Case {
    patch(name, json!({"spec": {"template": {"spec": spec}}}))
}

/// A patch of its first container.
fn container(name: &'static str, fields: Value) -> Case {
    template(name, json!({"containers": [with(json!({"name": "one"}), fields)]}))
}

/// A ConfigMap `one` with finalizers, which are a merged list of scalars.
fn held(name: &'static str) -> Case {
    let finalizers = json!({"metadata": {"finalizers": ["example.com/a", "example.com/b", "example.com/c"]}});
    case(name).post(MAPS, with(map("one"), finalizers)).named("one").expect(201)
}

fn finalizers(name: &'static str, metadata: Value) -> Case {
    held(name).strategic(maps("/one"), json!({"metadata": metadata}))
}

fn maps_and_scalars() -> Vec<Case> {
    vec![
        patch("strategic-merges-maps", json!({"metadata": {"labels": {"b": "3", "c": "4"}}, "spec": {"replicas": 5}}))
            .expect(200)
            .see("/metadata/labels", json!({"a": "1", "b": "3", "c": "4"})),
        patch("strategic-null-removes", json!({"metadata": {"labels": {"a": null, "none": null}}}))
            .expect(200)
            .see("/metadata/labels", json!({"b": "2"})),
        patch("strategic-that-is-empty-changes-nothing", json!({}))
            .expect(200)
            .see("/metadata/resourceVersion", "${rv:web}"),
        patch("strategic-that-is-null-changes-nothing", json!(null)).see("/metadata/resourceVersion", "${rv:web}"),
        patch("strategic-nulls-in-new-values-are-dropped", json!({"metadata": {"annotations": {"a": "1", "b": null}}}))
            .expect(200)
            .see("/metadata/annotations", json!({"a": "1"})),
        patch("strategic-of-the-kind-is-ignored", json!({"kind": "Secret", "apiVersion": "v9"}))
            .expect(200)
            .see("/kind", "Deployment"),
        patch("strategic-of-the-name", json!({"metadata": {"name": "other"}})).expect(400),
        patch("strategic-with-an-old-version", json!({"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 3}}))
            .expect(409),
        patch("strategic-that-makes-it-invalid", json!({"spec": {"replicas": -1}})).expect(422),
        case("strategic-of-nothing").strategic(deployments("/none"), json!({})).expect(404),
        case("strategic-malformed-of-nothing").strategic(deployments("/none"), json!([])).expect(404),
        patch("strategic-dry-run", json!({"spec": {"replicas": 7}}))
            .strategic(deployments("/web?dryRun=All"), json!({"spec": {"replicas": 8}}))
            .see("/spec/replicas", 8)
            .get(deployments("/web"))
            .see("/spec/replicas", 7),
        web("strategic-with-force").strategic(deployments("/web?force=true"), json!({})).expect(422),
    ]
}

fn merged_lists() -> Vec<Case> {
    const NAMES: &str = "/spec/template/spec/containers";
    vec![
        template("strategic-merges-containers-by-name", json!({"containers": [{"name": "two", "image": "two:2"}]}))
            .expect(200)
            .see("/spec/template/spec/containers/0/image", "one:1")
            .see("/spec/template/spec/containers/1/image", "two:2"),
        template("strategic-adds-a-container", json!({"containers": [{"name": "three", "image": "three:1"}]}))
            .expect(200)
            .see("/spec/template/spec/containers/0/name", "three"),
        template(
            "strategic-order-of-the-patch",
            json!({"containers": [
                {"name": "two", "tty": true}, {"name": "three", "image": "i"}, {"name": "one", "tty": true},
            ]}),
        )
        .expect(200)
        .see("/spec/template/spec/containers/2/name", "one"),
        container(
            "strategic-merges-nested-lists",
            json!({"ports": [{"containerPort": 443, "name": "tls"}], "env": [{"name": "B", "value": "9"}]}),
        )
        .expect(200)
        .see("/spec/template/spec/containers/0/ports/1/name", "tls"),
        container("strategic-replaces-atomic-lists", json!({"args": ["c"]}))
            .expect(200)
            .see("/spec/template/spec/containers/0/args", json!(["c"])),
        container("strategic-null-removes-a-list", json!({"env": null}))
            .expect(200)
            .absent("/spec/template/spec/containers/0/env"),
        template("strategic-empty-list-changes-nothing", json!({"containers": []}))
            .see("/metadata/resourceVersion", "${rv:web}"),
        template("strategic-merges-volumes", json!({"volumes": [{"name": "data", "secret": {"secretName": "s"}}]}))
            .expect(422),
        template(
            "strategic-the-same-key-twice",
            json!({"containers": [{"name": "new", "image": "a"}, {"name": "new", "image": "b", "tty": true}]}),
        )
        .expect(200)
        .see("/spec/template/spec/containers/0/image", "b"),
        template("strategic-adds-a-list", json!({"tolerations": [{"key": "a", "operator": "Exists"}]})).expect(200),
        finalizers("strategic-merges-scalars", json!({"finalizers": ["example.com/d", "example.com/b"]})).expect(200),
        template("strategic-without-a-merge-key", json!({"containers": [{"image": "i"}]}))
            .expect(500)
            .message_contains("does not contain declared merge key: name"),
        template("strategic-merge-key-of-another-type", json!({"containers": [{"name": 5, "image": "i"}]})).expect(422),
        template("strategic-scalars-for-maps", json!({"containers": ["one"]})).expect(500),
        template("strategic-nulls-for-maps", json!({"containers": [null]})).expect(500),
        template("strategic-lists-in-a-list", json!({"containers": [[]]})).expect(500),
        finalizers("strategic-lists-in-a-list-of-scalars", json!({"finalizers": [["a"]]})).expect(500),
        finalizers("strategic-other-scalars-in-a-list", json!({"finalizers": [1, null, 1.5]})).expect(500),
        template("strategic-a-map-for-a-list", json!({"containers": {"name": "one"}})).expect(422),
        template("strategic-a-list-for-a-map", json!({"nodeSelector": ["a"]}))
            .expect(422)
            .see("/details/causes/0/field", "patch"),
        web("strategic-deep-merge-keeps-order")
            .strategic(
                deployments("/web"),
                json!({"spec": {"template": {"spec": {"containers": [
                    {"name": "one", "env": [{"name": "D", "value": "4"}, {"name": "A", "value": "5"}]},
                ]}}}}),
            )
            .expect(200)
            .see("/spec/template/spec/containers/0/env/0/name", "D")
            .get(deployments("/web"))
            .ignore(NAMES),
    ]
}

fn orders() -> Vec<Case> {
    let order = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
    vec![
        template("strategic-set-order", json!({"$setElementOrder/containers": order(&["two", "one"])}))
            .expect(200)
            .see("/spec/template/spec/containers/0/name", "two"),
        template(
            "strategic-set-order-with-changes",
            json!({
                "$setElementOrder/containers": order(&["three", "one"]),
                "containers": [{"name": "three", "image": "i"}],
            }),
        )
        .expect(200),
        template(
            "strategic-set-order-as-kubectl-sends-it",
            json!({
                "$setElementOrder/containers": order(&["one", "three"]),
                "containers": [
                    {"name": "one", "$setElementOrder/env": order(&["C", "A"]), "env": [{"$patch": "delete", "name": "B"}]},
                    {"name": "three", "image": "i"},
                    {"$patch": "delete", "name": "two"},
                ],
            }),
        )
        .expect(200)
        .see("/spec/template/spec/containers/0/env/0/name", "C"),
        template(
            "strategic-set-order-does-not-fit-the-patch",
            json!({
                "$setElementOrder/containers": order(&["one", "two"]),
                "containers": [{"name": "two", "tty": true}, {"name": "one", "tty": true}],
            }),
        )
        .expect(500)
        .message_contains("doesn't match $setElementOrder list"),
        template(
            "strategic-set-order-lacks-an-item",
            json!({
                "$setElementOrder/containers": order(&["one"]),
                "containers": [{"name": "two", "tty": true}],
            }),
        )
        .expect(500),
        template(
            "strategic-set-order-that-is-empty",
            json!({
                "$setElementOrder/containers": [],
                "containers": [{"name": "x", "image": "i"}, {"name": "y", "image": "i"}, {"name": "z", "image": "i"}],
            }),
        )
        .expect(200),
        template("strategic-set-order-of-nothing", json!({"$setElementOrder/tolerations": []})).expect(200),
        template("strategic-set-order-of-no-field", json!({"$setElementOrder/shoes": []})).expect(500),
        template("strategic-set-order-of-a-map", json!({"$setElementOrder/nodeSelector": []})).expect(500),
        template("strategic-set-order-that-is-no-list", json!({"$setElementOrder/containers": {}})).expect(500),
        template("strategic-set-order-without-a-field", json!({"$setElementOrder": []})).expect(400),
        template("strategic-set-order-of-scalars-for-maps", json!({"$setElementOrder/containers": ["two"]})).expect(500),
        template("strategic-set-order-without-keys", json!({"$setElementOrder/containers": [{"image": "i"}]}))
            .expect(500),
        finalizers(
            "strategic-set-order-of-scalars",
            json!({"$setElementOrder/finalizers": ["example.com/c", "example.com/a"]}),
        )
        .expect(200),
    ]
}

fn directives() -> Vec<Case> {
    vec![
        patch("strategic-patch-replaces-a-map", json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}}))
            .expect(200)
            .see("/metadata/labels", json!({"c": "3"})),
        patch("strategic-patch-deletes-a-map", json!({"metadata": {"labels": {"$patch": "delete", "c": "3"}}}))
            .expect(200)
            .absent("/metadata/labels"),
        patch(
            "strategic-patch-deletes-a-new-map",
            json!({"metadata": {"annotations": {"$patch": "delete", "c": "3"}}}),
        )
        .expect(200)
        .absent("/metadata/annotations"),
        patch("strategic-patch-merges-a-map", json!({"metadata": {"labels": {"$patch": "merge"}}})).expect(500),
        patch("strategic-patch-of-a-number", json!({"metadata": {"labels": {"$patch": 5, "x": "y"}}})).expect(500),
        patch("strategic-patch-deletes-all", json!({"$patch": "delete"})).expect(400),
        patch("strategic-patch-replaces-all", json!({"$patch": "replace", "metadata": {"name": "web"}})).expect(422),
        template("strategic-patch-deletes-an-item", json!({"containers": [{"$patch": "delete", "name": "two"}]}))
            .expect(200)
            .absent("/spec/template/spec/containers/1"),
        template(
            "strategic-patch-deletes-what-is-not-there",
            json!({"containers": [{"$patch": "delete", "name": "x"}]}),
        )
        .see("/metadata/resourceVersion", "${rv:web}"),
        template("strategic-patch-deletes-without-a-key", json!({"containers": [{"$patch": "delete"}]})).expect(500),
        template(
            "strategic-patch-replaces-a-list",
            json!({"containers": [{"$patch": "replace"}, {"name": "new", "image": "i"}]}),
        )
        .expect(200)
        .absent("/spec/template/spec/containers/1"),
        template("strategic-patch-merges-an-item", json!({"containers": [{"$patch": "merge", "name": "one"}]}))
            .expect(500),
        template("strategic-patch-unknown-in-a-list", json!({"containers": [{"$patch": "swap", "name": "one"}]}))
            .expect(500),
        template(
            "strategic-patch-in-a-new-item",
            json!({"containers": [{"name": "new", "image": "i", "env": [{"$patch": "delete", "name": "x"}]}]}),
        )
        .expect(200),
        template(
            "strategic-patch-in-a-new-list",
            json!({"initContainers": [{"name": "new", "image": "i"}, {"$patch": "delete", "name": "x"}]}),
        )
        .expect(200),
        patch("strategic-retain-keys", json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}))
            .expect(200)
            .absent("/spec/strategy/rollingUpdate"),
        template(
            "strategic-retain-keys-of-an-item",
            json!({"volumes": [{"name": "data", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}),
        )
        .expect(200)
        .absent("/spec/template/spec/volumes/0/emptyDir"),
        patch(
            "strategic-retain-keys-that-lack-a-field",
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {"maxSurge": 2}}}}),
        )
        .expect(400),
        patch("strategic-retain-keys-that-is-no-list", json!({"spec": {"strategy": {"$retainKeys": "type"}}}))
            .expect(400),
        finalizers(
            "strategic-deletes-from-a-primitive-list",
            json!({"$deleteFromPrimitiveList/finalizers": ["example.com/b", "example.com/x"]}),
        )
        .expect(200)
        .see("/metadata/finalizers", json!(["example.com/a", "example.com/c"])),
        container("strategic-deletes-from-an-atomic-list", json!({"$deleteFromPrimitiveList/args": ["a"]}))
            .expect(200)
            .see("/spec/template/spec/containers/0/args", json!(["b"])),
        container("strategic-deletes-from-an-absent-list", json!({"$deleteFromPrimitiveList/command": ["a"]}))
            .expect(200),
        container("strategic-deletes-without-a-field", json!({"$deleteFromPrimitiveList": ["a"]})).expect(400),
        container("strategic-deletes-no-list", json!({"$deleteFromPrimitiveList/args": "a"})).expect(200),
        template("strategic-deletes-from-a-list-of-maps", json!({"$deleteFromPrimitiveList/containers": ["one"]}))
            .expect(500),
        patch("strategic-directive-that-is-unknown", json!({"spec": {"$frobnicate": 1}})).warns("unknown field"),
    ]
}

fn malformed() -> Vec<Case> {
    let text = |name, body: &str| web(name).send("PATCH", deployments("/web")).text(TYPE, body);
    vec![
        text("strategic-that-is-a-list", "[]").expect(400),
        text("strategic-that-is-a-text", "\"a\"").expect(400),
        text("strategic-that-is-no-json", "{").expect(400),
        text("strategic-that-is-no-body", "").expect(400),
        patch("strategic-a-text-for-a-number", json!({"spec": {"replicas": "three"}})).expect(422),
        patch("strategic-a-number-for-a-text", json!({"spec": {"paused": "x"}, "metadata": {"labels": {"a": 5}}}))
            .expect(422),
        patch("strategic-a-fraction-for-a-number", json!({"spec": {"replicas": 1.5}})).expect(422),
        patch("strategic-a-whole-fraction-for-a-number", json!({"spec": {"replicas": 4.0}})).see("/spec/replicas", 4),
        patch("strategic-a-number-that-is-too-large", json!({"spec": {"replicas": 4_294_967_299_u64}}))
            .see("/spec/replicas", 3),
        patch("strategic-a-text-for-a-map", json!({"spec": "x"})).expect(422),
        patch("strategic-a-number-for-a-time", json!({"metadata": {"creationTimestamp": 5}})).expect(422),
        patch("strategic-a-text-that-is-no-time", json!({"metadata": {"creationTimestamp": "now"}})).expect(422),
        container("strategic-no-quantity", json!({"resources": {"limits": {"cpu": "a lot"}}})).expect(422),
        container("strategic-quantity-as-a-number", json!({"resources": {"limits": {"cpu": 2}}})).expect(200),
    ]
}

fn validation() -> Vec<Case> {
    let unknown =
        json!({"spec": {"shoe": "lace", "template": {"spec": {"containers": [{"name": "one", "colour": 1}]}}}});
    let double = r#"{"metadata":{"labels":{"a":"1","a":"2"}},"spec":{"paused":true,"paused":true}}"#;
    let typed =
        |name, query: &str, body: &str| web(name).send("PATCH", deployments(&format!("/web{query}"))).text(TYPE, body);
    vec![
        patch("strategic-unknown-fields-warn", unknown.clone()).expect(200).warns("unknown field"),
        web("strategic-unknown-fields-strict")
            .strategic(deployments("/web?fieldValidation=Strict"), unknown.clone())
            .expect(422),
        web("strategic-unknown-fields-ignored")
            .strategic(deployments("/web?fieldValidation=Ignore"), unknown)
            .expect(200),
        typed("strategic-double-fields-warn", "", double).expect(200).warns("duplicate field"),
        typed("strategic-double-fields-strict", "?fieldValidation=Strict", double).expect(422),
        typed("strategic-double-fields-ignored", "?fieldValidation=Ignore", double).expect(200),
    ]
}

fn elsewhere() -> Vec<Case> {
    let conditions = |kind: &str, status: &str| {
        json!({"status": {"conditions": [{"type": kind, "status": status, "lastProbeTime": null,
            "lastTransitionTime": "2026-01-02T03:04:05Z"}]}})
    };
    vec![
        case("strategic-of-the-status")
            .post(pods(""), pod("one"))
            .expect(201)
            .strategic(pods("/one/status"), conditions("Ready", "False"))
            .expect(200)
            .strategic(pods("/one/status"), conditions("Initialized", "True"))
            .expect(200)
            .strategic(pods("/one/status"), conditions("Ready", "True"))
            .expect(200)
            .see("/status/conditions/0/type", "Initialized"),
        case("strategic-of-the-whole-keeps-the-status")
            .post(pods(""), pod("one"))
            .strategic(pods("/one"), json!({"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Failed"}}))
            .expect(200),
        web("strategic-of-the-scale")
            .strategic(deployments("/web/scale"), json!({"spec": {"replicas": 4}}))
            .expect(200),
        case("strategic-of-a-service")
            .post(
                "/api/v1/namespaces/${ns}/services",
                json!({"metadata": {"name": "s"}, "spec": {"ports": [
                    {"name": "a", "port": 80}, {"name": "b", "port": 443},
                ]}}),
            )
            .expect(201)
            .strategic(
                "/api/v1/namespaces/${ns}/services/s",
                json!({"spec": {"ports": [{"port": 443, "targetPort": "tls"}]}}),
            )
            .expect(200)
            .see("/spec/ports/1/targetPort", "tls"),
        case("strategic-of-secrets")
            .post("/api/v1/namespaces/${ns}/secrets", json!({"metadata": {"name": "s"}, "data": {"a": "YQ=="}}))
            .strategic("/api/v1/namespaces/${ns}/secrets/s", json!({"data": {"b": "Yg=="}}))
            .expect(200)
            .strategic("/api/v1/namespaces/${ns}/secrets/s", json!({"data": {"b": "???"}}))
            .expect(422),
        defined("strategic-of-custom-resources", widgets())
            .post(crs(""), widget("one", json!({})))
            .expect(201)
            .strategic(crs("/one"), json!({"spec": {"a": 1}}))
            .expect(415)
            .strategic(crs("/one/status"), json!({"status": {"a": 1}}))
            .expect(415),
        case("strategic-of-a-revision")
            .post(
                "/apis/apps/v1/namespaces/${ns}/controllerrevisions",
                json!({"metadata": {"name": "r"}, "revision": 1, "data": {"a": {"b": 1}, "l": [1]}}),
            )
            .expect(201)
            .strategic("/apis/apps/v1/namespaces/${ns}/controllerrevisions/r", json!({"data": {"a": {"c": 2}}}))
            .expect(500),
    ]
}
