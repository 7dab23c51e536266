use serde_json::{Value, json};

use super::{CRDS, MAPS, crs, defined, definition, map, widget, widgets, with};
use crate::conformance::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    [wrong(), changes(), life(), versions()].into_iter().flatten().collect()
}

const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.${id}.example.com";

/// The definition of Widgets with another first version.
fn version(change: Value) -> Value {
    let mut crd = widgets();
    let first = crd["spec"]["versions"][0].take();
    crd["spec"]["versions"][0] = with(first, change);
    crd
}

/// The definition of Widgets with the versions v1, stored, and v2.
fn two_versions() -> Value {
    let mut crd = widgets();
    let second = with(crd["spec"]["versions"][0].clone(), json!({"name": "v2", "storage": false}));
    crd["spec"]["versions"].as_array_mut().expect("versions are a list").push(second);
    crd
}

/// Definitions that are refused.
fn wrong() -> Vec<Case> {
    let bad = |name, crd: Value| case(name).post(CRDS, crd).expect(422);
    let schema = |schema: Value| version(json!({"schema": {"openAPIV3Schema": schema}}));
    vec![
        bad(
            "crd-name-that-is-not-plural-and-group",
            with(widgets(), json!({"metadata": {"name": "gadgets.example.com"}})),
        ),
        bad("crd-without-a-schema", version(json!({"schema": null}))),
        bad("crd-without-versions", with(widgets(), json!({"spec": {"versions": []}}))),
        bad("crd-without-a-stored-version", version(json!({"storage": false}))),
        bad("crd-with-two-stored-versions", {
            let mut crd = two_versions();
            crd["spec"]["versions"][1]["storage"] = true.into();
            crd
        }),
        bad("crd-with-the-same-version-twice", {
            let mut crd = two_versions();
            crd["spec"]["versions"][1]["name"] = "v1".into();
            crd
        }),
        bad("crd-version-with-a-bad-name", version(json!({"name": "V1"}))),
        bad("crd-with-an-unknown-scope", with(widgets(), json!({"spec": {"scope": "Galaxy"}}))),
        bad("crd-without-names", with(widgets(), json!({"spec": {"names": {"plural": null, "kind": null}}}))),
        bad(
            "crd-plural-in-upper-case",
            with(
                widgets(),
                json!({
                    "metadata": {"name": "Widgets.${id}.example.com"}, "spec": {"names": {"plural": "Widgets"}},
                }),
            ),
        ),
        bad("crd-schema-without-a-type", definition(json!({"spec": {"properties": {"a": {"type": "string"}}}}))),
        bad("crd-schema-with-an-unknown-type", definition(json!({"spec": {"type": "shoe"}}))),
        bad("crd-schema-whose-root-is-no-object", schema(json!({"type": "string"}))),
        bad(
            "crd-schema-with-a-type-below-any-of",
            definition(json!({"spec": {"type": "object", "anyOf": [{"type": "object"}]}})),
        ),
        bad(
            "crd-schema-with-forbidden-metadata",
            definition(json!({"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}})),
        ),
        bad(
            "crd-default-that-does-not-fit",
            definition(json!({"spec": {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}})),
        ),
        bad(
            "crd-properties-beside-additional-properties",
            definition(json!({"spec": {"type": "object",
            "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}})),
        ),
        bad("crd-with-a-bad-pattern", definition(json!({"spec": {"type": "string", "pattern": "("}}))),
        bad(
            "crd-unique-items-are-forbidden",
            definition(json!({"spec": {"type": "array", "uniqueItems": true, "items": {"type": "string"}}})),
        ),
        bad(
            "crd-list-map-without-keys",
            definition(json!({"spec": {"type": "array", "x-kubernetes-list-type": "map",
            "items": {"type": "object", "properties": {"k": {"type": "string"}}}}})),
        ),
        bad(
            "crd-of-a-protected-group",
            with(
                widgets(),
                json!({
                    "metadata": {"name": "widgets.${id}.k8s.io"}, "spec": {"group": "${id}.k8s.io"},
                }),
            ),
        ),
        bad(
            "crd-preserve-unknown-fields-at-the-top",
            with(widgets(), json!({"spec": {"preserveUnknownFields": true}})),
        ),
        bad(
            "crd-selectable-field-that-does-not-exist",
            version(json!({"selectableFields": [{"jsonPath": ".spec.none"}]})),
        ),
        bad(
            "crd-scale-with-a-bad-path",
            version(json!({"subresources": {"scale": {"specReplicasPath": "replicas",
                    "statusReplicasPath": ".status.replicas"}}})),
        ),
    ]
}

fn changes() -> Vec<Case> {
    vec![
        defined("crd-scope-cannot-change", widgets()).merge(CRD, json!({"spec": {"scope": "Cluster"}})).expect(422),
        defined("crd-group-and-plural-cannot-change", widgets())
            .merge(CRD, json!({"spec": {"group": "other.com", "names": {"plural": "others"}}}))
            .expect(422),
        defined("crd-kind-cannot-change", widgets())
            .merge(CRD, json!({"spec": {"names": {"kind": "Gadget"}}}))
            .expect(422),
        defined("crd-short-names-can-change", widgets())
            .merge(CRD, json!({"spec": {"names": {"shortNames": ["wg"]}}}))
            .expect(200)
            .see("/metadata/generation", 2),
        defined("crd-stored-version-cannot-be-taken-away", two_versions())
            .json_patch(
                CRD,
                json!([
                    {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
                    {"op": "remove", "path": "/spec/versions/0"},
                ]),
            )
            .expect(422),
        defined("crd-stored-versions-are-remembered", two_versions())
            .json_patch(
                CRD,
                json!([
                    {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
                    {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
                ]),
            )
            .expect(200)
            .see("/status/storedVersions", json!(["v1", "v2"])),
        defined("crd-labels-do-not-count-as-a-generation", widgets())
            .merge(CRD, json!({"metadata": {"labels": {"a": "b"}}}))
            .see("/metadata/generation", 1),
        defined("crd-update-needs-a-version", widgets()).put(CRD, widgets()).expect(422),
        case("crd-twice").post(CRDS, widgets()).post(CRDS, widgets()).expect(409),
    ]
}

fn life() -> Vec<Case> {
    vec![
        case("crd-is-established")
            .post(CRDS, widgets())
            .expect(201)
            .see("/status/storedVersions", json!(["v1"]))
            .until(CRD)
            .see("/status/conditions/0/type", "NamesAccepted")
            .see("/status/conditions/1/type", "Established")
            .see("/status/conditions/1/status", "True")
            .see("/status/acceptedNames/listKind", "WidgetList"),
        case("crd-names-are-filled-in")
            .post(CRDS, with(widgets(), json!({"spec": {"names": {"singular": null, "shortNames": null}}})))
            .see("/spec/names/singular", "widget")
            .see("/spec/names/listKind", "WidgetList"),
        defined("crd-with-the-kind-of-another", widgets())
            .post(
                CRDS,
                with(
                    widgets(),
                    json!({
                        "metadata": {"name": "gadgets.${id}.example.com"}, "spec": {"names": {"plural": "gadgets",
                            "singular": "gadget"}},
                    }),
                ),
            )
            .expect(201)
            .until("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.${id}.example.com")
            .see("/status/conditions/0/type", "NamesAccepted")
            .see("/status/conditions/0/status", "False")
            .see("/status/conditions/1/type", "Established"),
        defined("crd-is-in-discovery", widgets())
            .until("/apis/${id}.example.com")
            .expect(200)
            .until("/apis/${id}.example.com/v1")
            .expect(200)
            .see("/resources/0/name", "widgets")
            .see("/resources/1/name", "widgets/status")
            // A hash of the kind's name, which has the case's own group in it.
            .ignore("/resources/0/storageVersionHash"),
        defined("crd-that-is-deleted-is-gone", widgets())
            .delete(CRD)
            .expect(200)
            .until(CRD)
            .expect(404)
            .until(crs(""))
            .expect(404),
        defined("crd-deletion-takes-the-objects-along", widgets())
            .post(crs(""), widget("one", json!({})))
            .named("one")
            .watch("w", crs("?watch=true&resourceVersion=${rv:one}"))
            .delete(CRD)
            .events("w", "DELETED one")
            .until(CRD)
            .expect(404),
        defined("crd-deletion-waits-for-finalizers", widgets())
            .post(crs(""), with(widget("one", json!({})), json!({"metadata": {"finalizers": ["example.com/f"]}})))
            .expect(201)
            .delete(CRD)
            .expect(200)
            .until(crs("/one"))
            .expect(200)
            .see("/metadata/finalizers", json!(["example.com/f"]))
            .see("/metadata/deletionGracePeriodSeconds", 0)
            .until(CRD)
            .see("/status/conditions/2/type", "Terminating")
            .post(crs(""), widget("two", json!({})))
            .expect(403)
            .merge(crs("/one"), json!({"metadata": {"finalizers": null}}))
            .expect(200)
            .until(CRD)
            .expect(404),
        defined("crd-created-again-begins-empty", widgets())
            .post(crs(""), widget("one", json!({})))
            .expect(201)
            .delete(CRD)
            .until(CRD)
            .expect(404)
            .post(CRDS, widgets())
            .expect(201)
            .until(crs(""))
            .expect(200)
            .see("/items", json!([])),
        case("crd-of-the-old-version-is-not-served")
            .post("/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions", widgets())
            .expect(404),
        case("crd-is-cluster-wide")
            .post(MAPS, map("one"))
            .get("/apis/apiextensions.k8s.io/v1/namespaces/${ns}/customresourcedefinitions")
            .expect(404),
    ]
}

fn versions() -> Vec<Case> {
    let v2 = "/apis/${id}.example.com/v2/namespaces/${ns}/widgets";
    vec![
        defined("crd-versions-show-the-same-object", two_versions())
            .post(crs(""), widget("one", json!({"a": 1})))
            .expect(201)
            .get(format!("{v2}/one"))
            .see("/apiVersion", "${id}.example.com/v2")
            .see("/spec/a", 1)
            .get(v2)
            .see("/items/0/apiVersion", "${id}.example.com/v2"),
        defined("crd-version-that-is-not-served", {
            let mut crd = two_versions();
            crd["spec"]["versions"][1]["served"] = false.into();
            crd
        })
        .get(v2)
        .expect(404),
        defined("crd-version-that-does-not-exist", widgets()).get(v2).expect(404),
        defined("crd-version-that-is-deprecated", version(json!({"deprecated": true})))
            .get(crs(""))
            .expect(200)
            .warns("deprecated"),
        defined(
            "crd-version-with-its-own-deprecation-warning",
            version(json!({"deprecated": true, "deprecationWarning": "use shoes"})),
        )
        .post(crs(""), widget("one", json!({})))
        .expect(201)
        .warns("use shoes"),
        defined("crd-object-of-another-version-than-the-path", two_versions())
            .post(v2, widget("one", json!({})))
            .expect(400),
    ]
}
