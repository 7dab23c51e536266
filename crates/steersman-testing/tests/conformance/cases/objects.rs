use serde_json::{Value, json};

use super::{MAPS, crs, defined, labelled, map, maps, pod, pods, widget, widgets, with};
use crate::conformance::case::{Case, case};

pub(crate) fn cases() -> Vec<Case> {
    [create(), names(), update(), metadata(), owners(), dry_run(), namespaces()].into_iter().flatten().collect()
}

fn one(name: &'static str) -> Case {
    case(name).post(MAPS, map("one")).named("one").expect(201)
}

fn create() -> Vec<Case> {
    vec![
        case("create-fills-in-the-metadata")
            .post(MAPS, map("one"))
            .expect(201)
            .see("/metadata/namespace", "${ns}")
            .absent("/metadata/generation"),
        one("create-twice").post(MAPS, map("one")).expect(409).see("/reason", "AlreadyExists"),
        case("create-without-kind-and-version").post(MAPS, json!({"metadata": {"name": "one"}})).expect(201),
        case("create-with-a-generated-name")
            .post(MAPS, json!({"metadata": {"generateName": "made-"}}))
            .named("a")
            .expect(201)
            .get(maps("/${name:a}"))
            .expect(200),
        case("create-with-a-name-and-a-prefix")
            .post(MAPS, json!({"metadata": {"name": "one", "generateName": "made-"}}))
            .expect(201)
            .see("/metadata/name", "one"),
        case("create-without-a-name").post(MAPS, json!({"data": {}})).expect(422),
        case("create-drops-what-the-server-owns")
            .post(MAPS, with(map("one"), json!({"metadata": {
                "uid": "00000000-0000-0000-0000-000000000001", "creationTimestamp": "2001-01-01T00:00:00Z",
                    "generation": 7,
                "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5, "selfLink": "/here",
            }})))
            .expect(201)
            .absent("/metadata/selfLink")
            .absent("/metadata/deletionTimestamp"),
        case("create-with-a-version-is-refused")
            .post(MAPS, with(map("one"), json!({"metadata": {"resourceVersion": "1"}})))
            .expect(500),
        case("create-in-the-namespace-of-the-path")
            .post(MAPS, with(map("one"), json!({"metadata": {"namespace": "${ns}"}})))
            .expect(201),
        case("create-in-another-namespace-than-the-path")
            .post(MAPS, with(map("one"), json!({"metadata": {"namespace": "default"}})))
            .expect(400),
        case("create-another-kind-than-the-path").post(MAPS, json!({"apiVersion": "v1", "kind": "Secret"})).expect(400),
        case("create-another-version-than-the-path")
            .post(MAPS, with(map("one"), json!({"apiVersion": "v2"})))
            .expect(400),
        case("create-another-group-than-the-path")
            .post(MAPS, with(map("one"), json!({"apiVersion": "apps/v1"})))
            .expect(400),
        case("create-keeps-owner-references-and-finalizers")
            .post(MAPS, with(map("one"), json!({"metadata": {
                "finalizers": ["example.com/f", "example.com/f"],
                "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x",
                    "uid": "00000000-0000-0000-0000-000000000001"}],
            }})))
            .expect(201),
        case("create-with-null-fields")
            .post(MAPS, with(map("one"), json!({"data": null, "metadata": {"labels": null, "annotations": {}}})))
            .expect(201),
    ]
}

/// What names, labels, annotations and the like may be.
fn names() -> Vec<Case> {
    let bad = |name, metadata| case(name).post(MAPS, with(map("one"), json!({ "metadata": metadata }))).expect(422);
    let long = "x".repeat(254);
    vec![
        bad("name-in-upper-case", json!({"name": "One"})),
        bad("name-with-an-underscore", json!({"name": "one_two"})),
        bad("name-too-long", json!({"name": long})),
        bad("name-generated-from-a-bad-prefix", json!({"name": null, "generateName": "Bad_"})),
        case("name-with-dots").post(MAPS, map("one.two.three")).expect(201),
        case("name-of-a-namespace-has-no-dots")
            .post("/api/v1/namespaces", json!({"metadata": {"name": "${id}.b"}}))
            .expect(422),
        case("name-of-a-service-may-begin-with-a-digit")
            .post(
                "/api/v1/namespaces/${ns}/services",
                json!({"metadata": {"name": "1x"}, "spec": {"ports": [{"port": 80}]}}),
            )
            .expect(201),
        case("name-that-is-long-shortens-the-prefix")
            .post(MAPS, json!({"metadata": {"generateName": "x".repeat(250)}}))
            .expect(201)
            .ignore("/metadata/name")
            .ignore("/metadata/generateName"),
        bad("label-with-a-bad-key", json!({"labels": {"-a": "b"}})),
        bad("label-with-a-bad-value", json!({"labels": {"a": "b c"}})),
        bad("label-too-long", json!({"labels": {"a": "x".repeat(64)}})),
        bad("annotation-with-a-bad-key", json!({"annotations": {"a b": "c"}})),
        bad("annotations-too-large", json!({"annotations": {"a": "x".repeat(256 * 1024)}})),
        bad("finalizer-without-a-domain", json!({"finalizers": ["plain"]})),
        bad("finalizer-with-a-bad-name", json!({"finalizers": ["example.com/a b"]})),
        bad("owner-reference-that-is-incomplete", json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod"}]})),
        bad(
            "owner-references-with-two-controllers",
            json!({"ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1", "controller": true},
                {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "2", "controller": true},
            ]}),
        ),
        case("label-that-is-not-a-string")
            .post(MAPS, with(map("one"), json!({"metadata": {"labels": {"a": 1}}})))
            .expect(400),
        bad("names-several-mistakes-are-all-told", json!({"name": "One", "labels": {"-a": "b c"}})),
    ]
}

fn update() -> Vec<Case> {
    vec![
        one("update-without-a-version-is-unconditional")
            .put(maps("/one"), with(map("one"), json!({"data": {"k": "new"}})))
            .expect(200)
            .see("/data/k", "new"),
        one("update-with-the-current-version")
            .put(maps("/one"), with(map("one"), json!({"metadata": {"resourceVersion": "${rv:one}"},
                "data": {"k": "new"}})))
            .expect(200),
        one("update-with-an-old-version-is-a-conflict")
            .put(maps("/one"), with(map("one"), json!({"data": {"k": "new"}})))
            .put(maps("/one"), with(map("one"), json!({"metadata": {"resourceVersion": "${rv:one}"},
                "data": {"k": "newer"}})))
            .expect(409)
            .see("/reason", "Conflict"),
        one("update-with-a-version-that-is-no-number")
            .put(maps("/one"), with(map("one"), json!({"metadata": {"resourceVersion": "abc"}})))
            .expect(500),
        one("update-with-version-0")
            .put(maps("/one"), with(map("one"), json!({"metadata": {"resourceVersion": "0"}, "data": {"k": "new"}})))
            .expect(200),
        case("update-of-nothing").put(maps("/one"), map("one")).expect(404),
        case("update-of-nothing-with-a-version")
            .put(maps("/one"), with(map("one"), json!({"metadata": {"resourceVersion": "5"}})))
            .expect(404),
        one("update-with-another-name").put(maps("/one"), map("two")).expect(400),
        one("update-without-a-name").put(maps("/one"), json!({"data": {"k": "new"}})).expect(400),
        one("update-with-another-uid")
            .put(maps("/one"), with(map("one"), json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000001"},
                "data": {"k": "new"}})))
            .expect(409),
        one("update-with-the-right-uid")
            .put(maps("/one"), with(map("one"), json!({"metadata": {"uid": "${uid:one}"}, "data": {"k": "new"}})))
            .expect(200),
        one("update-that-changes-nothing-keeps-the-version")
            .put(maps("/one"), map("one"))
            .expect(200)
            .see("/metadata/resourceVersion", "${rv:one}"),
        one("update-replaces-what-is-left-out").put(maps("/one"),
            json!({"metadata": {"name": "one"}})).expect(200).absent("/data"),
        one("update-without-labels-takes-them-away")
            .put(maps("/one"), labelled("one", &["a=b"]))
            .see("/metadata/labels/a", "b")
            .put(maps("/one"), map("one"))
            .absent("/metadata/labels"),
        one("update-in-another-namespace-than-the-path")
            .put(maps("/one"), with(map("one"), json!({"metadata": {"namespace": "default"}})))
            .expect(400),
        one("update-another-kind-than-the-path").put(maps("/one"), json!({"apiVersion": "v1",
            "kind": "Pod"})).expect(400),
        case("update-of-the-spec-counts-generations")
            .post("/apis/apps/v1/namespaces/${ns}/deployments", json!({"metadata": {"name": "d"}, "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            }}))
            .expect(201)
            .see("/metadata/generation", 1)
            .merge("/apis/apps/v1/namespaces/${ns}/deployments/d", json!({"metadata": {"labels": {"x": "y"}}}))
            .see("/metadata/generation", 1)
            .merge("/apis/apps/v1/namespaces/${ns}/deployments/d", json!({"spec": {"replicas": 3}}))
            .see("/metadata/generation", 2),
    ]
}

/// Metadata that a client cannot change.
fn metadata() -> Vec<Case> {
    vec![
        one("metadata-creation-time-stays")
            .put(maps("/one"), with(map("one"), json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}})))
            .expect(200)
            .see("/metadata/creationTimestamp", "${one:/metadata/creationTimestamp}"),
        one("metadata-generation-cannot-be-set")
            .merge(maps("/one"), json!({"metadata": {"generation": 9}}))
            .expect(200)
            .absent("/metadata/generation"),
        one("metadata-deletion-time-cannot-be-set")
            .merge(maps("/one"), json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}))
            .expect(422),
        one("metadata-generate-name-can-be-changed")
            .merge(maps("/one"), json!({"metadata": {"generateName": "other-"}}))
            .expect(200),
        one("metadata-name-cannot-be-patched").merge(maps("/one"), json!({"metadata": {"name": "two"}})).expect(400),
        one("metadata-namespace-cannot-be-patched")
            .merge(maps("/one"), json!({"metadata": {"namespace": "default"}}))
            .expect(400),
        one("metadata-uid-cannot-be-patched")
            .merge(maps("/one"), json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000001"}}))
            .expect(422),
        one("metadata-as-partial-object")
            .get(maps("/one"))
            .header("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
            .expect(200)
            .see("/kind", "PartialObjectMetadata")
            .see("/apiVersion", "meta.k8s.io/v1"),
        case("metadata-as-partial-object-of-a-write")
            .post(MAPS, map("one"))
            .header("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
            .expect(201)
            .see("/kind", "PartialObjectMetadata")
            .absent("/data"),
        one("metadata-as-a-list-of-one")
            .get(maps("/one"))
            .header("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
            .expect(406),
        case("metadata-as-partial-object-of-an-error")
            .get(maps("/none"))
            .header("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
            .expect(404)
            .see("/kind", "Status"),
    ]
}

fn owners() -> Vec<Case> {
    let reference = |uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid});
    let (a, b) = (|| reference("uid-a"), || reference("uid-b"));
    let other = || with(a(), json!({"name": "other"}));
    let owned = |owners: &[Value]| with(map("one"), json!({"metadata": {"ownerReferences": owners}}));
    vec![
        case("owners-that-come-twice")
            .post(MAPS, owned(&[a(), b(), a(), other(), b(), a(), other()]))
            .expect(201)
            .warns("duplicate UID(s) observed: uid-a, uid-b, uid-a, uid-a")
            .see("/metadata/ownerReferences/2/name", "other")
            .absent("/metadata/ownerReferences/3"),
        case("owners-that-differ-in-a-flag")
            .post(MAPS, owned(&[with(a(), json!({"controller": false})), a(), with(a(), json!({"controller": false}))]))
            .expect(201),
        case("owners-that-come-twice-in-an-update")
            .post(MAPS, map("one"))
            .put(maps("/one?fieldManager=u"), owned(&[a(), a()]))
            .expect(200)
            .warns("please fix your requests; duplicate UID(s) observed: uid-a")
            .put(maps("/one?fieldManager=u"), owned(&[a(), a()]))
            .expect(200),
        case("owners-that-come-twice-in-a-patch")
            .post(MAPS, owned(&[a()]))
            .merge(maps("/one?fieldManager=u"), json!({"metadata": {"ownerReferences": [a(), b(), b()]}}))
            .expect(200)
            .warns("after mutating admission happens; API server dedups")
            .json_patch(
                maps("/one?fieldManager=v"),
                json!([{"op": "add", "path": "/metadata/ownerReferences/-", "value": a()}]),
            )
            .expect(200),
        case("owners-that-come-twice-in-an-apply")
            .apply(maps("/one"), "a", owned(&[a(), a()]))
            .expect(500)
            .post(MAPS, owned(&[with(a(), json!({"uid": ""})), with(a(), json!({"uid": ""}))]))
            .expect(422),
        case("owners-that-come-twice-in-a-refused-update")
            .put(maps("/one"), owned(&[a(), a()]))
            .expect(404)
            .put(maps("/two"), owned(&[a(), a()]))
            .expect(400)
            .post(MAPS, with(owned(&[a(), a()]), json!({"metadata": {"labels": {"a": "b c"}}})))
            .expect(422)
            .post("/api/v1/namespaces/none-${id}/configmaps", owned(&[a(), a()]))
            .expect(404)
            .post(format!("{MAPS}?dryRun=All"), owned(&[a(), a()]))
            .expect(201),
        defined("owners-of-a-custom-resource-that-come-twice", widgets())
            .post(crs(""), with(widget("one", json!({})), json!({"metadata": {"ownerReferences": [a(), a()]}})))
            .expect(201)
            .merge(crs("/one"), json!({"metadata": {"ownerReferences": [b(), a(), b()]}}))
            .expect(200)
            .put(crs("/one"), with(widget("one", json!({})), json!({"metadata": {"ownerReferences": [a(), a()]}}))),
        case("owners-that-come-twice-in-a-status")
            .post(pods(""), pod("one"))
            .put(pods("/one/status"), with(pod("one"), json!({"metadata": {"ownerReferences": [a(), a()]}})))
            .expect(200)
            .merge(pods("/one/status"), json!({"metadata": {"ownerReferences": [b(), b()]}}))
            .expect(200),
    ]
}

fn dry_run() -> Vec<Case> {
    vec![
        case("dry-run-create")
            .post(maps("?dryRun=All"), map("one"))
            .expect(201)
            .absent("/metadata/resourceVersion")
            .get(maps("/one"))
            .expect(404),
        one("dry-run-create-of-what-exists").post(maps("?dryRun=All"), map("one")).expect(409),
        one("dry-run-update")
            .put(maps("/one?dryRun=All"), with(map("one"), json!({"data": {"k": "new"}})))
            .see("/data/k", "new")
            .see("/metadata/resourceVersion", "${rv:one}")
            .get(maps("/one"))
            .see("/data/k", "v"),
        one("dry-run-patch").merge(maps("/one?dryRun=All"), json!({"data": {"k": "new"}})).see("/data/k", "new"),
        one("dry-run-delete").delete(maps("/one?dryRun=All")).expect(200).get(maps("/one")).expect(200),
        one("dry-run-delete-in-the-body")
            .delete(maps("/one"))
            .json(json!({"dryRun": ["All"]}))
            .expect(200)
            .get(maps("/one"))
            .expect(200),
        one("dry-run-of-something-else").put(maps("/one?dryRun=Some"), map("one")).expect(422),
        one("dry-run-delete-collection").delete(maps("?dryRun=All")).expect(200).get(maps("/one")).expect(200),
        case("dry-run-with-a-generated-name")
            .post(maps("?dryRun=All"), json!({"metadata": {"generateName": "made-"}}))
            .expect(201),
    ]
}

fn namespaces() -> Vec<Case> {
    vec![
        case("namespace-that-does-not-exist").post("/api/v1/namespaces/${id}-none/configmaps", map("one")).expect(404),
        case("namespace-gets-its-label-finalizer-and-phase")
            .post("/api/v1/namespaces", json!({"metadata": {"name": "${id}"}}))
            .expect(201)
            .see("/spec/finalizers/0", "kubernetes")
            .see("/status/phase", "Active"),
        case("namespace-label-cannot-be-taken-away")
            .merge("/api/v1/namespaces/${ns}", json!({"metadata": {"labels": null}}))
            .expect(200)
            .see("/metadata/labels/kubernetes.io~1metadata.name", "${ns}"),
        case("namespace-label-of-another-name")
            .post(
                "/api/v1/namespaces",
                json!({"metadata": {"name": "${id}", "labels": {"kubernetes.io/metadata.name": "x"}}}),
            )
            .expect(201),
        case("namespace-finalizers-are-kept-apart")
            .merge("/api/v1/namespaces/${ns}", json!({"spec": {"finalizers": []}}))
            .expect(200)
            .see("/spec/finalizers/0", "kubernetes"),
        case("namespace-default-cannot-go").delete("/api/v1/namespaces/default").expect(403),
        case("namespace-collection-cannot-be-deleted").delete("/api/v1/namespaces").expect(405),
        case("namespace-get-in-one-that-does-not-exist")
            .get("/api/v1/namespaces/${id}-none/configmaps/one")
            .expect(404),
        case("namespaced-kind-without-a-namespace").post("/api/v1/configmaps", map("one")).expect(405),
        case("cluster-kind-in-a-namespace").get("/api/v1/namespaces/${ns}/nodes").expect(404),
        case("get-of-nothing").get(pods("/none")).expect(404).see("/details/kind", "pods"),
        case("pod-and-node-have-no-namespace-in-common")
            .post(pods(""), pod("p"))
            .expect(201)
            .see("/status/phase", "Pending"),
    ]
}
