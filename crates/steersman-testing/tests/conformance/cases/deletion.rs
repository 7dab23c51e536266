use serde_json::{Value, json};

use super::{MAPS, labelled, map, maps, pod, pods, with};
use crate::conformance::case::{Case, Needs, case};

pub(crate) fn cases() -> Vec<Case> {
    [objects(), options(), finalizers(), grace(), collections(), namespaces()].into_iter().flatten().collect()
}

fn one(name: &'static str) -> Case {
    case(name).post(MAPS, map("one")).named("one").expect(201)
}

/// A ConfigMap `one` with a finalizer.
fn held(name: &'static str) -> Case {
    case(name)
        .post(MAPS, with(map("one"), json!({"metadata": {"finalizers": ["example.com/f"]}})))
        .named("one")
        .expect(201)
}

fn objects() -> Vec<Case> {
    vec![
        one("delete-answers-with-a-status")
            .delete(maps("/one"))
            .expect(200)
            .see("/status", "Success")
            .see("/details/uid", "${uid:one}"),
        case("delete-of-nothing").delete(maps("/one")).expect(404),
        one("delete-twice").delete(maps("/one")).delete(maps("/one")).expect(404),
        one("delete-then-create-is-another-object").delete(maps("/one")).post(MAPS, map("one")).expect(201),
        case("delete-of-a-pod-answers-with-the-pod")
            .post(pods(""), pod("p"))
            .delete(pods("/p"))
            .expect(200)
            .see("/kind", "Pod"),
        case("delete-of-a-service-answers-with-the-service")
            .post(
                "/api/v1/namespaces/${ns}/services",
                json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
            )
            .delete("/api/v1/namespaces/${ns}/services/s")
            .expect(200)
            .see("/kind", "Service"),
        case("delete-answers-with-the-group")
            .post("/apis/coordination.k8s.io/v1/namespaces/${ns}/leases", json!({"metadata": {"name": "l"}}))
            .delete("/apis/coordination.k8s.io/v1/namespaces/${ns}/leases/l")
            .expect(200)
            .see("/details/group", "coordination.k8s.io"),
        case("delete-of-a-storage-class-answers-with-the-class")
            .post(
                "/apis/storage.k8s.io/v1/storageclasses",
                json!({"metadata": {"name": "${id}"}, "provisioner": "x/y"}),
            )
            .expect(201)
            .delete("/apis/storage.k8s.io/v1/storageclasses/${id}")
            .see("/kind", "StorageClass"),
        case("delete-of-a-replication-controller-lets-its-pods-go")
            .post(
                "/api/v1/namespaces/${ns}/replicationcontrollers",
                with(owning_pods("r"), json!({"spec": {"selector": {"a": "b"}}})),
            )
            .expect(201)
            .delete("/api/v1/namespaces/${ns}/replicationcontrollers/r")
            .see("/metadata/finalizers", json!(["orphan"])),
        case("delete-of-a-replication-controller-with-its-pods")
            .post("/api/v1/namespaces/${ns}/replicationcontrollers", owning_pods("r"))
            .delete("/api/v1/namespaces/${ns}/replicationcontrollers/r?propagationPolicy=Background")
            .see("/status", "Success"),
        case("delete-of-a-job-lets-its-pods-go")
            .post("/apis/batch/v1/namespaces/${ns}/jobs", job("j"))
            .expect(201)
            .delete("/apis/batch/v1/namespaces/${ns}/jobs/j")
            .warns("child pods are preserved by default")
            .see("/metadata/finalizers", json!(["orphan"])),
        case("delete-of-a-job-with-its-pods")
            .post("/apis/batch/v1/namespaces/${ns}/jobs", job("j"))
            .delete("/apis/batch/v1/namespaces/${ns}/jobs/j")
            .json(json!({"propagationPolicy": "Background"}))
            .see("/status", "Success"),
        case("delete-of-all-jobs-warns")
            .post("/apis/batch/v1/namespaces/${ns}/jobs", job("j"))
            .delete("/apis/batch/v1/namespaces/${ns}/jobs")
            .warns("child pods are preserved by default"),
        one("delete-as-partial-metadata")
            .delete(maps("/one"))
            .header("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
            .expect(200),
    ]
}

/// What makes Pods of a template.
fn owning_pods(name: &str) -> Value {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod("p")["spec"]});
    json!({"metadata": {"name": name}, "spec": {"template": template}})
}

fn job(name: &str) -> Value {
    let template = json!({"spec": with(pod("p")["spec"].clone(), json!({"restartPolicy": "Never"}))});
    json!({"metadata": {"name": name}, "spec": {"template": template}})
}

fn options() -> Vec<Case> {
    let delete = |name, options: Value| one(name).delete(maps("/one")).json(options);
    vec![
        delete("delete-with-the-right-uid", json!({"preconditions": {"uid": "${uid:one}"}})).expect(200),
        delete("delete-with-another-uid", json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000001"}}))
            .expect(409),
        delete("delete-with-the-current-version", json!({"preconditions": {"resourceVersion": "${rv:one}"}}))
            .expect(200),
        delete("delete-with-an-old-version", json!({"preconditions": {"resourceVersion": "1"}})).expect(409),
        delete("delete-with-an-unknown-propagation", json!({"propagationPolicy": "Sideways"})).expect(422),
        delete(
            "delete-with-two-kinds-of-propagation",
            json!({"propagationPolicy": "Background", "orphanDependents": true}),
        )
        .expect(422),
        delete("delete-with-an-unknown-field", json!({"shoe": 1})).expect(200),
        delete(
            "delete-with-typed-options",
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}),
        )
        .expect(200),
        delete(
            "delete-with-options-of-the-meta-group",
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions"}),
        )
        .expect(200),
        delete("delete-with-a-negative-grace-period", json!({"gracePeriodSeconds": -1})).expect(200),
        delete("delete-with-a-grace-period-of-another-type", json!({"gracePeriodSeconds": "soon"})).expect(400),
        delete("delete-with-a-policy-of-another-type", json!({"propagationPolicy": 1})).expect(400),
        delete("delete-with-options-of-another-kind", json!({"apiVersion": "v1", "kind": "Shoe"})).expect(400),
        delete("delete-with-options-that-are-a-config-map", map("one")).expect(400),
        delete("delete-with-an-unknown-dry-run", json!({"dryRun": ["Some"]})).expect(422),
        delete(
            "delete-with-several-wrong-options",
            json!({"dryRun": ["Some"], "propagationPolicy": "Sideways",
            "orphanDependents": true}),
        )
        .expect(422),
        delete("delete-dry-run-in-the-body", json!({"dryRun": ["All"]})).expect(200).get(maps("/one")).expect(200),
        delete("delete-dry-run-in-the-foreground", json!({"dryRun": ["All"], "propagationPolicy": "Foreground"}))
            .see("/metadata/finalizers", json!(["foregroundDeletion"]))
            .get(maps("/one"))
            .absent("/metadata/finalizers"),
        one("delete-with-text-for-options").delete(maps("/one")).text("application/json", "soon").expect(400),
        one("delete-with-a-wrong-dry-run-in-the-query").delete(maps("/one?dryRun=Some")).expect(422),
        one("delete-with-another-uid-in-the-query").delete(maps("/one?uid=another")).expect(409),
        one("delete-with-an-old-version-in-the-query").delete(maps("/one?resourceVersion=1")).expect(409),
        one("delete-with-an-empty-version-in-the-query").delete(maps("/one?resourceVersion=&uid=")).expect(200),
        one("delete-orphans-by-the-query")
            .delete(maps("/one?orphanDependents=1"))
            .see("/metadata/finalizers", json!(["orphan"])),
        held("delete-without-orphans-is-accepted")
            .delete(maps("/one"))
            .json(json!({"orphanDependents": false}))
            .expect(202),
        one("delete-with-options-in-the-query")
            .delete(maps("/one?propagationPolicy=Background&gracePeriodSeconds=0"))
            .expect(200),
        one("delete-with-a-wrong-option-in-the-query").delete(maps("/one?propagationPolicy=Sideways")).expect(422),
        one("delete-with-a-grace-period-that-is-no-number").delete(maps("/one?gracePeriodSeconds=soon")).expect(400),
        one("delete-body-wins-over-the-query")
            .delete(maps("/one?dryRun=All"))
            .json(json!({"gracePeriodSeconds": 0}))
            .expect(200)
            .get(maps("/one"))
            .expect(404),
    ]
}

fn finalizers() -> Vec<Case> {
    vec![
        held("finalizer-holds-the-object")
            .delete(maps("/one"))
            .expect(200)
            .see("/metadata/deletionGracePeriodSeconds", 0)
            .get(maps("/one"))
            .expect(200),
        held("finalizer-second-delete-changes-nothing")
            .delete(maps("/one"))
            .named("first")
            .delete(maps("/one"))
            .expect(200)
            .see("/metadata/resourceVersion", "${rv:first}"),
        held("finalizer-that-goes-last-takes-the-object-along")
            .delete(maps("/one"))
            .merge(maps("/one"), json!({"metadata": {"finalizers": []}}))
            .expect(200)
            .get(maps("/one"))
            .expect(404),
        held("finalizer-that-goes-first-leaves-the-object")
            .merge(maps("/one"), json!({"metadata": {"finalizers": []}}))
            .expect(200)
            .delete(maps("/one"))
            .see("/status", "Success"),
        held("finalizer-cannot-be-added-while-deleting")
            .delete(maps("/one"))
            .merge(maps("/one"), json!({"metadata": {"finalizers": ["example.com/f", "example.com/g"]}}))
            .expect(422),
        held("finalizer-object-can-change-while-deleting")
            .delete(maps("/one"))
            .merge(maps("/one"), json!({"data": {"k": "new"}, "metadata": {"labels": {"a": "b"}}}))
            .expect(200)
            .see("/data/k", "new"),
        held("finalizer-name-is-taken-while-deleting").delete(maps("/one")).post(MAPS, map("one")).expect(409),
        held("finalizer-deletion-cannot-be-taken-back")
            .delete(maps("/one"))
            .merge(maps("/one"), json!({"metadata": {"deletionTimestamp": null}}))
            .expect(200)
            .see("/metadata/deletionGracePeriodSeconds", 0),
        held("finalizer-update-that-removes-it-while-deleting")
            .delete(maps("/one"))
            .put(maps("/one"), map("one"))
            .expect(200)
            .get(maps("/one"))
            .expect(404),
        held("finalizer-dry-run-removal-leaves-it")
            .delete(maps("/one"))
            .merge(maps("/one?dryRun=All"), json!({"metadata": {"finalizers": []}}))
            .expect(200)
            .get(maps("/one"))
            .expect(200),
        held("finalizer-deletion-with-another-uid")
            .delete(maps("/one"))
            .json(json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000001"}}))
            .expect(409)
            .get(maps("/one"))
            .absent("/metadata/deletionTimestamp"),
        case("finalizer-that-excludes-another")
            .post(MAPS, with(map("one"), json!({"metadata": {"finalizers": ["orphan", "foregroundDeletion"]}})))
            .expect(422),
        held("finalizer-deletion-counts-no-generation").delete(maps("/one")).absent("/metadata/generation"),
        case("finalizer-deletion-of-a-spec-counts-a-generation")
            .post("/apis/apps/v1/namespaces/${ns}/replicasets", json!({"metadata": {"name": "r",
                "finalizers": ["example.com/f"]}, "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            }}))
            .delete("/apis/apps/v1/namespaces/${ns}/replicasets/r")
            .see("/metadata/generation", 2),
    ]
}

/// Pods go gracefully.
fn grace() -> Vec<Case> {
    let bound = |name| case(name).post(pods(""), with(pod("p"), json!({"spec": {"nodeName": "n"}}))).expect(201);
    let delete = |case: Case, seconds: i64| case.delete(pods("/p")).json(json!({"gracePeriodSeconds": seconds}));
    vec![
        case("grace-pod-without-a-node-goes-at-once")
            .post(pods(""), pod("p"))
            .delete(pods("/p"))
            .expect(200)
            .get(pods("/p"))
            .expect(404),
        bound("grace-pod-on-a-node-waits")
            .delete(pods("/p"))
            .expect(200)
            .see("/metadata/deletionGracePeriodSeconds", 30)
            .get(pods("/p"))
            .expect(200),
        delete(bound("grace-of-the-request"), 5).see("/metadata/deletionGracePeriodSeconds", 5),
        delete(bound("grace-of-zero-takes-the-pod-at-once"), 0).expect(200).get(pods("/p")).expect(404),
        delete(delete(bound("grace-can-be-shortened"), 20), 5).see("/metadata/deletionGracePeriodSeconds", 5),
        delete(delete(bound("grace-cannot-be-lengthened"), 5), 20).see("/metadata/deletionGracePeriodSeconds", 5),
        delete(bound("grace-that-is-negative"), -1).see("/metadata/deletionGracePeriodSeconds", 1),
        bound("grace-that-ended-takes-the-pod")
            .delete(pods("/p"))
            .delete(pods("/p?gracePeriodSeconds=0"))
            .expect(200)
            .get(pods("/p"))
            .expect(404),
        delete(bound("grace-is-given-once"), 20).delete(pods("/p")).see("/metadata/deletionGracePeriodSeconds", 20),
        bound("grace-dry-run")
            .delete(pods("/p?dryRun=All"))
            .see("/metadata/deletionGracePeriodSeconds", 30)
            .get(pods("/p")),
        bound("grace-pod-can-change-meanwhile")
            .delete(pods("/p"))
            .merge(pods("/p"), json!({"metadata": {"labels": {"a": "b"}}}))
            .expect(200)
            .see("/metadata/deletionGracePeriodSeconds", 30),
        delete(
            case("grace-of-a-pod-that-is-held")
                .post(
                    pods(""),
                    with(
                        pod("p"),
                        json!({"metadata": {"finalizers": ["example.com/f"]},
                    "spec": {"nodeName": "n"}}),
                    ),
                )
                .delete(pods("/p"))
                .see("/metadata/deletionGracePeriodSeconds", 30),
            0,
        )
        .see("/metadata/deletionGracePeriodSeconds", 0)
        .merge(pods("/p"), json!({"metadata": {"finalizers": null}}))
        .get(pods("/p"))
        .expect(404),
        case("grace-of-a-held-pod-whose-finalizer-goes-first")
            .post(
                pods(""),
                with(
                    pod("p"),
                    json!({"metadata": {"finalizers": ["example.com/f"]},
                "spec": {"nodeName": "n"}}),
                ),
            )
            .delete(pods("/p"))
            .merge(pods("/p"), json!({"metadata": {"finalizers": null}}))
            .expect(200)
            .get(pods("/p"))
            .expect(200),
        bound("grace-watch-sees-the-pod-go")
            .named("p")
            .watch("w", pods("?watch=true&resourceVersion=${rv:p}"))
            .delete(pods("/p"))
            .delete(pods("/p?gracePeriodSeconds=0"))
            .events("w", "MODIFIED p, MODIFIED p, DELETED p"),
        case("grace-watch-sees-a-pod-without-a-node-go")
            .post(pods(""), pod("p"))
            .named("p")
            .watch("w", pods("?watch=true&resourceVersion=${rv:p}"))
            .delete(pods("/p"))
            .events("w", "MODIFIED p, DELETED p"),
        bound("grace-of-a-collection").delete(pods("")).expect(200).get(pods("/p")).expect(200),
        case("grace-finished-pod-goes-at-once")
            .post(pods(""), with(pod("p"), json!({"spec": {"nodeName": "n"}})))
            .merge(pods("/p/status"), json!({"status": {"phase": "Succeeded"}}))
            .delete(pods("/p"))
            .get(pods("/p"))
            .expect(404),
    ]
}

fn collections() -> Vec<Case> {
    let three = |name| {
        case(name)
            .post(MAPS, labelled("blue", &["color=blue"]))
            .post(MAPS, map("plain"))
            .post(MAPS, labelled("red", &["color=red"]))
    };
    vec![
        three("delete-collection-answers-with-what-it-deleted")
            .delete(MAPS)
            .expect(200)
            .see("/kind", "ConfigMapList")
            .see("/items/2/metadata/name", "red")
            .get(MAPS)
            .see("/items", json!([])),
        three("delete-collection-by-label")
            .delete(maps("?labelSelector=color%3Dred"))
            .expect(200)
            .get(MAPS)
            .see("/items/1/metadata/name", "plain"),
        three("delete-collection-by-field")
            .delete(maps("?fieldSelector=metadata.name%3Dplain"))
            .expect(200)
            .get(MAPS)
            .absent("/items/2"),
        three("delete-collection-with-a-bad-selector").delete(maps("?labelSelector=a%20b")).expect(400),
        three("delete-collection-with-a-limit").delete(maps("?limit=1")).expect(200).get(MAPS),
        case("delete-collection-of-nothing").delete(MAPS).expect(200).see("/items", json!([])),
        three("delete-collection-leaves-what-has-finalizers")
            .merge(maps("/plain"), json!({"metadata": {"finalizers": ["example.com/f"]}}))
            .delete(MAPS)
            .expect(200)
            .get(MAPS)
            .see("/items/0/metadata/name", "plain")
            .absent("/items/1"),
        three("delete-collection-of-the-cache-asks-for-version-zero")
            .delete(maps("?resourceVersion=0"))
            .expect(409)
            .get(MAPS),
        three("delete-collection-goes-on")
            .delete(maps("?limit=1"))
            .named("page")
            .delete(maps("?limit=1&continue=${continue:page}"))
            .expect(200)
            .get(MAPS),
        three("delete-collection-with-a-wrong-option").delete(maps("?propagationPolicy=Sideways")).expect(422),
        three("delete-collection-dry-run")
            .delete(maps("?dryRun=All"))
            .expect(200)
            .get(MAPS)
            .see("/items/2/metadata/name", "red"),
        three("delete-collection-of-a-version").delete(maps("?resourceVersion=1")).expect(200),
        case("delete-collection-across-namespaces-is-refused").delete("/api/v1/configmaps").expect(405),
        case("delete-collection-of-services")
            .post(
                "/api/v1/namespaces/${ns}/services",
                json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
            )
            .delete("/api/v1/namespaces/${ns}/services")
            .expect(200),
    ]
}

fn namespaces() -> Vec<Case> {
    // Something that stays keeps the namespace in the state of being deleted. Once it is marked,
    // nothing more happens.
    let terminating = |name| {
        held(name)
            .needs(Needs::Controllers)
            .delete("/api/v1/namespaces/${ns}")
            .expect(200)
            .see("/status/phase", "Terminating")
            .until(maps("/one"))
            .see("/metadata/deletionGracePeriodSeconds", 0)
    };
    vec![
        terminating("namespace-that-is-deleted-terminates"),
        terminating("namespace-that-terminates-takes-nothing-new")
            .post(MAPS, map("two"))
            .expect(403)
            .message_contains("because it is being terminated")
            .post(MAPS, json!({"metadata": {"generateName": "two-"}}))
            .expect(403)
            .message_contains("configmaps \"two-\" is forbidden")
            .post(MAPS, json!({}))
            .expect(403),
        terminating("namespace-that-terminates-takes-changes")
            .merge(maps("/one"), json!({"data": {"k": "new"}}))
            .expect(200),
        terminating("namespace-that-terminates-is-not-created-again")
            .post("/api/v1/namespaces", json!({"metadata": {"name": "${ns}"}}))
            .expect(409),
        terminating("namespace-that-terminates-is-deleted-again")
            .delete("/api/v1/namespaces/${ns}")
            .expect(200)
            .ignore("/status/conditions")
            .ignore("/metadata/managedFields")
            .ignore("/metadata/resourceVersion"),
        case("namespace-that-terminates-evicts-no-pods")
            .needs(Needs::Controllers)
            .post(pods(""), with(pod("p"), json!({"metadata": {"finalizers": ["example.com/f"]}})))
            .expect(201)
            .delete("/api/v1/namespaces/${ns}")
            .until(pods("/p"))
            .see("/metadata/deletionGracePeriodSeconds", 0)
            .post(
                pods("/p/eviction"),
                json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}),
            )
            .expect(403)
            .post(
                pods("/p/binding"),
                json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}}),
            )
            .expect(403)
            .merge(pods("/p"), json!({"metadata": {"finalizers": null}}))
            .expect(200),
        case("eviction-in-no-namespace")
            .post(
                "/api/v1/namespaces/${id}-none/pods/p/eviction",
                json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}),
            )
            .expect(404),
        case("binding-in-no-namespace")
            .post(
                "/api/v1/namespaces/${id}-none/pods/p/binding",
                json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "n"}}),
            )
            .expect(404),
        held("namespace-deletion-of-another-uid")
            .delete("/api/v1/namespaces/${ns}")
            .json(json!({"preconditions": {"uid": "another"}}))
            .expect(409),
        held("namespace-deletion-of-an-old-version")
            .delete("/api/v1/namespaces/${ns}")
            .json(json!({"preconditions": {"resourceVersion": "1"}}))
            .expect(409),
        held("namespace-finalize-with-a-bad-name")
            .put(
                "/api/v1/namespaces/${ns}/finalize",
                json!({"metadata": {"name": "${ns}"}, "spec": {"finalizers": ["plain", "a b/c"]}}),
            )
            .expect(422),
        held("namespace-finalize-while-active")
            .put(
                "/api/v1/namespaces/${ns}/finalize",
                json!({"metadata": {"name": "${ns}"}, "spec": {"finalizers": ["example.com/f"]}}),
            )
            .expect(200)
            .see("/spec/finalizers", json!(["example.com/f"])),
        held("namespace-dry-run-deletion")
            .delete("/api/v1/namespaces/${ns}?dryRun=All")
            .expect(200)
            .get("/api/v1/namespaces/${ns}")
            .see("/status/phase", "Active"),
    ]
}
