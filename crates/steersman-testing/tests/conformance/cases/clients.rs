//! Bodies and parameters that Go clients send, and the order of the checks of a create.

use serde_json::{Value, json};

use super::{CRDS, crs, defined, map, maps, pod, pods, widget, widgets, with};
use crate::conformance::case::{Case, case};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

pub(crate) fn cases() -> Vec<Case> {
    [versions(), fields(), media_types(), protobuf(), parameters()].into_iter().flatten().collect()
}

/// A create that carries a resource version.
fn versions() -> Vec<Case> {
    let of = |name: &str, version: &str| with(map(name), json!({"metadata": {"resourceVersion": version}}));
    let refused = "resourceVersion should not be set on objects to be created";
    vec![
        case("create-with-a-version").post(maps(""), of("m", "5")).expect(500).message_contains(refused),
        case("create-with-version-zero").post(maps(""), of("m", "0")).expect(201),
        case("create-with-a-version-that-is-no-number").post(maps(""), of("m", "abc")).expect(201),
        case("create-with-a-version-and-a-bad-name").post(maps(""), of("A_", "5")).expect(422),
        case("create-with-a-version-of-an-object-that-exists")
            .post(maps(""), map("m"))
            .post(maps(""), of("m", "5"))
            .expect(500)
            .message_contains(refused),
        case("create-with-a-version-where-there-is-no-namespace")
            .post("/api/v1/namespaces/${id}-none/configmaps", of("A_", "5"))
            .expect(404),
        case("create-with-a-version-as-a-dry-run")
            .post(maps("?dryRun=All"), of("m", "5"))
            .expect(201)
            .see("/metadata/resourceVersion", "5"),
        case("create-with-a-version-that-is-no-number-as-a-dry-run")
            .post(maps("?dryRun=All"), of("m", "abc"))
            .expect(201)
            .see("/metadata/resourceVersion", "abc"),
        case("create-with-a-version-as-a-dry-run-of-an-object-that-exists")
            .post(maps(""), map("m"))
            .post(maps("?dryRun=All"), of("m", "5"))
            .expect(409),
        case("create-with-a-uid-of-its-own")
            .post(maps(""), with(map("m"), json!({"metadata": {"uid": "mine", "selfLink": "x", "generation": 7}})))
            .expect(201)
            .absent("/metadata/selfLink"),
        case("create-a-service-with-a-version")
            .post(
                "/api/v1/namespaces/${ns}/services",
                json!({"metadata": {"name": "s", "resourceVersion": "5"}, "spec": {"ports": [{"port": 80}]}}),
            )
            .expect(500),
        defined("create-a-custom-resource-with-a-version", widgets())
            .post(crs(""), with(widget("w", json!({})), json!({"metadata": {"resourceVersion": "5"}})))
            .expect(500)
            .post(crs("?dryRun=All"), with(widget("w", json!({})), json!({"metadata": {"resourceVersion": "5"}})))
            .expect(201),
    ]
}

/// Field selectors on values that are not set.
fn fields() -> Vec<Case> {
    let workload = json!({
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    });
    let controllers = |rest: &str| format!("/api/v1/namespaces/${{ns}}/replicationcontrollers{rest}");
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    let nodes =
        |selector: &str| format!("/api/v1/nodes?fieldSelector=metadata.name%3D${{id}},spec.unschedulable{selector}");
    let jobs = "/apis/batch/v1/namespaces/${ns}/jobs";
    vec![
        case("field-selector-of-an-unset-boolean")
            .post("/api/v1/nodes", json!({"metadata": {"name": "${id}"}}))
            .expect(201)
            .get(nodes("%3Dfalse"))
            .see("/items/0/metadata/name", "${id}")
            .get(nodes("%3D%3Dfalse"))
            .see("/items/0/metadata/name", "${id}")
            .get(nodes("%3Dtrue"))
            .absent("/items/0")
            .get(nodes("!%3Dtrue"))
            .see("/items/0/metadata/name", "${id}")
            .get(nodes("%3D"))
            .absent("/items/0")
            .merge("/api/v1/nodes/${id}", json!({"spec": {"unschedulable": true}}))
            .expect(200)
            .get(nodes("%3Dtrue"))
            .see("/items/0/metadata/name", "${id}"),
        case("field-selector-of-the-network-of-a-pod")
            .post(pods(""), pod("p"))
            .expect(201)
            .get(pods("?fieldSelector=spec.hostNetwork%3Dfalse"))
            .see("/items/0/metadata/name", "p")
            .get(pods("?fieldSelector=spec.hostNetwork%3Dtrue"))
            .absent("/items/0"),
        case("field-selector-of-the-address-of-a-pod")
            .post(pods(""), pod("p"))
            .merge(pods("/p/status"), json!({"status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}}))
            .expect(200)
            .get(pods("?fieldSelector=status.podIP%3D10.1.2.3"))
            .see("/items/0/metadata/name", "p"),
        case("field-selector-of-an-unset-number")
            .post(
                controllers(""),
                json!({"metadata": {"name": "r"}, "spec": {
                "selector": {"a": "b"}, "template": workload["template"]}}),
            )
            .expect(201)
            .get(controllers("?fieldSelector=status.replicas%3D0"))
            .see("/items/0/metadata/name", "r")
            .merge(controllers("/r/status"), json!({"status": {"replicas": 2}}))
            .get(controllers("?fieldSelector=status.replicas%3D2"))
            .see("/items/0/metadata/name", "r"),
        case("field-selector-of-a-replica-set-has-no-number")
            .get("/apis/apps/v1/namespaces/${ns}/replicasets?fieldSelector=status.replicas%3D0")
            .expect(400),
        case("field-selector-of-a-signer")
            .get("/apis/certificates.k8s.io/v1/certificatesigningrequests?fieldSelector=spec.signerName%3D${id}")
            .expect(200)
            .get("/apis/certificates.k8s.io/v1/certificatesigningrequests?fieldSelector=spec.other%3Dx")
            .expect(400),
        case("field-selector-of-a-resource-slice")
            .get("/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.driver%3D${id}")
            .expect(200)
            .get("/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.other%3Dx")
            .expect(400),
        case("field-selector-of-the-success-of-a-job")
            .post(jobs, job)
            .expect(201)
            .get(format!("{jobs}?fieldSelector=status.successful%3D0"))
            .see("/items/0/metadata/name", "j")
            .get(format!("{jobs}?fieldSelector=status.succeeded%3D0"))
            .expect(400),
        case("field-selector-of-a-watch-follows-a-boolean")
            .post("/api/v1/nodes", json!({"metadata": {"name": "${id}"}}))
            .named("node")
            .watch("free", format!("{}&watch=true&resourceVersion=${{rv:node}}", nodes("%3Dfalse")))
            .merge("/api/v1/nodes/${id}", json!({"spec": {"unschedulable": true}}))
            .events("free", "DELETED ${id}")
            .merge("/api/v1/nodes/${id}", json!({"spec": {"unschedulable": null}}))
            .events("free", "ADDED ${id}"),
    ]
}

fn media_types() -> Vec<Case> {
    vec![
        case("deprecated-kinds-warn")
            .get("/api/v1/namespaces/${ns}/endpoints")
            .expect(200)
            .warns("Endpoints is deprecated")
            .post("/api/v1/namespaces/${ns}/endpoints", json!({"metadata": {"name": "e"}}))
            .expect(201)
            .warns("Endpoints is deprecated")
            .delete("/api/v1/namespaces/${ns}/endpoints/e")
            .warns("Endpoints is deprecated")
            .get("/api/v1/namespaces/${ns}/endpoints/e")
            .expect(404)
            .warns("Endpoints is deprecated")
            .watch("ends", "/api/v1/namespaces/${ns}/endpoints?watch=true&timeoutSeconds=1")
            .end("ends", ""),
        case("media-type-of-a-definition-is-unknown")
            .send("POST", CRDS)
            .text("text/plain", widgets().to_string())
            .expect(415),
        defined("media-type-of-a-custom-resource-is-unknown", widgets())
            .send("POST", crs(""))
            .text("text/plain", widget("w", json!({})).to_string())
            .expect(415),
        defined("media-type-of-a-custom-resource-in-an-update-is-unknown", widgets())
            .post(crs(""), widget("w", json!({})))
            .send("PUT", crs("/w"))
            .text("application/cbor", "x")
            .expect(415),
        case("media-type-of-an-update-is-unknown")
            .post(maps(""), map("m"))
            .send("PUT", maps("/m"))
            .text("text/plain", map("m").to_string())
            .expect(415),
    ]
}

fn protobuf() -> Vec<Case> {
    let typed = |version: &str, kind: &str, object: Value| with(object, json!({"apiVersion": version, "kind": kind}));
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "additionalProperties": {"type": "integer", "minimum": 1, "maximum": 9},
            },
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "list": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        },
    });
    let mut definition = widgets();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    definition["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{"name": "Mode", "type": "string", "jsonPath": ".mode", "priority": 1}]);
    vec![
        case("protobuf-definition")
            .send("POST", CRDS)
            .protobuf(definition.clone())
            .expect(201)
            .see("/spec/versions/0/schema/openAPIV3Schema/properties/mode/default", "a")
            .until(crs(""))
            .expect(200)
            .post(crs(""), json!({"apiVersion": "${id}.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}))
            .expect(201)
            .see("/mode", "a")
            .post(crs(""), with(widget("x", json!({})), json!({"mode": "c"})))
            .expect(422),
        case("protobuf-definition-that-is-refused")
            .send("POST", CRDS)
            .protobuf(with(definition.clone(), json!({"spec": {"scope": "Nowhere"}})))
            .expect(422),
        defined("protobuf-definition-is-updated", widgets())
            .get(format!("{CRDS}/widgets.${{id}}.example.com"))
            .named("crd")
            .ignore("")
            .send("PUT", format!("{CRDS}/widgets.${{id}}.example.com"))
            .protobuf(with(definition, json!({"metadata": {"resourceVersion": "${rv:crd}"}})))
            .expect(200)
            .see("/metadata/generation", 2)
            .ignore("/metadata/resourceVersion")
            .ignore("/status"),
        case("protobuf-delete-options")
            .post(maps(""), map("m"))
            .named("m")
            .send("DELETE", maps("/m"))
            .protobuf(json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "other"}}))
            .expect(409)
            .send("DELETE", maps("/m"))
            .protobuf(json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground",
                "preconditions": {"uid": "${uid:m}"}}))
            .expect(200),
        case("protobuf-delete-options-of-a-collection")
            .post(maps(""), map("m"))
            .send("DELETE", maps(""))
            .protobuf(json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}))
            .expect(200)
            .get(maps("/m"))
            .expect(200),
        case("protobuf-create-with-a-list-of-accepted-types")
            .send("POST", maps(""))
            .protobuf(typed("v1", "ConfigMap", map("m")))
            .header("accept", format!("{PROTOBUF};q=0.5,application/json"))
            .expect(201),
        case("protobuf-that-is-none").send("POST", maps("")).text(PROTOBUF, "k8s").expect(400).ignore("/message"),
    ]
}

fn parameters() -> Vec<Case> {
    let metadata = |kind: &str| format!("application/json;as={kind};g=meta.k8s.io;v=v1,application/json");
    vec![
        case("parameters-of-a-reflector")
            .post(maps(""), map("m"))
            .watch(
                "all",
                maps(
                    "?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true\
                     &timeoutSeconds=300&watch=true",
                ),
            )
            .events("all", "ADDED m"),
        case("parameters-of-a-list-that-a-cache-may-answer")
            .post(maps(""), map("m"))
            .get(maps("?limit=500&resourceVersion=0"))
            .see("/items/0/metadata/name", "m"),
        case("parameters-of-a-metadata-informer")
            .post(maps(""), map("m"))
            .get(maps("?limit=500&resourceVersion=0"))
            .header("accept", metadata("PartialObjectMetadataList"))
            .see("/kind", "PartialObjectMetadataList")
            .see("/items/0/metadata/name", "m"),
        case("parameters-of-a-typed-write")
            .post(maps("?fieldManager=manager&fieldValidation=Strict"), map("m"))
            .expect(201)
            .post(maps("?fieldManager=&fieldValidation=Warn"), map("n"))
            .expect(201),
    ]
}
