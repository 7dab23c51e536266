//! What the controllers do: garbage collection by owner references.

use serde_json::{Value, json};

use super::{MAPS, map, maps, pod, pods, with};
use crate::conformance::case::{Case, Needs, case};

pub(crate) fn cases() -> Vec<Case> {
    [background(), orphan(), foreground(), waiting(), odd_references()].into_iter().flatten().collect()
}

/// A case with the ConfigMap `owner`.
fn owner(name: &'static str) -> Case {
    case(name).needs(Needs::Controllers).post(MAPS, map("owner")).named("owner").expect(201)
}

/// An owner reference to the answer of the step `owner`, which is a ConfigMap of that name.
fn reference(owner: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": format!("${{uid:{owner}}}")})
}

/// A ConfigMap with these owners.
fn owned(name: &str, references: &[Value]) -> Value {
    with(map(name), json!({"metadata": {"ownerReferences": references}}))
}

fn delete_owner(case: Case, policy: &str) -> Case {
    case.delete(maps("/owner")).json(json!({ "propagationPolicy": policy })).expect(200)
}

/// Waits until the collector has handled everything before: a ConfigMap whose owner is not there
/// goes.
fn collected(case: Case) -> Case {
    let nobody = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody",
        "uid": "00000000-0000-0000-0000-00000000dead"});
    case.post(MAPS, owned("mark", &[nobody])).expect(201).until(maps("/mark")).expect(404)
}

fn background() -> Vec<Case> {
    let held = json!({"metadata": {"finalizers": ["example.com/f"]}});
    vec![
        owner("gc-background-is-the-default")
            .post(MAPS, owned("child", &[reference("owner")]))
            .expect(201)
            .delete(maps("/owner"))
            .see("/status", "Success")
            .get(maps("/owner"))
            .expect(404)
            .until(maps("/child"))
            .expect(404),
        delete_owner(owner("gc-background").post(MAPS, owned("child", &[reference("owner")])), "Background")
            .until(maps("/child"))
            .expect(404),
        owner("gc-grandchildren-go-too")
            .post(MAPS, owned("child", &[reference("owner")]))
            .named("child")
            .post(MAPS, owned("grandchild", &[reference("child")]))
            .delete(maps("/owner"))
            .until(maps("/grandchild"))
            .expect(404)
            .until(maps("/child"))
            .expect(404),
        owner("gc-another-owner-keeps-the-child")
            .post(MAPS, map("second"))
            .named("second")
            .post(MAPS, owned("child", &[reference("owner"), reference("second")]))
            .delete(maps("/owner"))
            .until(maps("/child"))
            .see("/metadata/ownerReferences/0/name", "second")
            .absent("/metadata/ownerReferences/1")
            .delete(maps("/second"))
            .until(maps("/child"))
            .expect(404),
        owner("gc-child-with-a-finalizer-waits-for-it")
            .post(MAPS, with(owned("child", &[reference("owner")]), held.clone()))
            .delete(maps("/owner"))
            .until(maps("/child"))
            .see("/metadata/deletionGracePeriodSeconds", 0)
            .merge(maps("/child"), json!({"metadata": {"finalizers": null}}))
            .expect(200)
            .get(maps("/child"))
            .expect(404),
        with_deleted_owner("gc-owner-that-is-being-deleted-keeps-its-child", held),
        owner("gc-child-that-was-let-go-stays")
            .post(MAPS, owned("child", &[reference("owner")]))
            .merge(maps("/child"), json!({"metadata": {"ownerReferences": null}}))
            .expect(200)
            .delete(maps("/owner"))
            .post(MAPS, owned("mark", &[reference("owner")]))
            .until(maps("/mark"))
            .expect(404)
            .get(maps("/child"))
            .expect(200),
        owner("gc-owner-that-comes-back-is-another")
            .post(MAPS, owned("child", &[reference("owner")]))
            .delete(maps("/owner"))
            .post(MAPS, map("owner"))
            .expect(201)
            .until(maps("/child"))
            .expect(404)
            .get(maps("/owner"))
            .expect(200),
        owner("gc-child-created-after-its-owner-went")
            .delete(maps("/owner"))
            .post(MAPS, owned("child", &[reference("owner")]))
            .expect(201)
            .until(maps("/child"))
            .expect(404),
        owner("gc-watch-sees-the-child-go")
            .post(MAPS, owned("child", &[reference("owner")]))
            .named("child")
            .watch("w", maps("?watch=true&resourceVersion=${rv:child}&fieldSelector=metadata.name%3Dchild"))
            .delete(maps("/owner"))
            .events("w", "DELETED child"),
        owner("gc-delete-collection-is-background")
            .merge(maps("/owner"), json!({"metadata": {"labels": {"a": "b"}}}))
            .post(MAPS, owned("child", &[reference("owner")]))
            .delete(maps("?labelSelector=a%3Db"))
            .until(maps("/child"))
            .expect(404),
    ]
}

fn with_deleted_owner(name: &'static str, held: Value) -> Case {
    let case = case(name).needs(Needs::Controllers).post(MAPS, with(map("owner"), held)).named("owner");
    collected(case.post(MAPS, owned("child", &[reference("owner")])).delete(maps("/owner")).expect(200))
        .get(maps("/child"))
        .expect(200)
        .merge(maps("/owner"), json!({"metadata": {"finalizers": null}}))
        .until(maps("/child"))
        .expect(404)
}

fn orphan() -> Vec<Case> {
    vec![
        delete_owner(
            owner("gc-orphan-lets-the-children-go").post(MAPS, owned("child", &[reference("owner")])),
            "Orphan",
        )
        .see("/metadata/finalizers", json!(["orphan"]))
        .until(maps("/owner"))
        .expect(404)
        .get(maps("/child"))
        .expect(200)
        .absent("/metadata/ownerReferences"),
        delete_owner(owner("gc-orphan-without-children"), "Orphan").until(maps("/owner")).expect(404),
        owner("gc-orphan-by-the-old-option")
            .post(MAPS, owned("child", &[reference("owner")]))
            .delete(maps("/owner"))
            .json(json!({"orphanDependents": true}))
            .expect(200)
            .until(maps("/owner"))
            .expect(404)
            .get(maps("/child"))
            .absent("/metadata/ownerReferences"),
        owner("gc-no-orphans-by-the-old-option")
            .post(MAPS, owned("child", &[reference("owner")]))
            .delete(maps("/owner"))
            .json(json!({"orphanDependents": false}))
            .expect(200)
            .until(maps("/child"))
            .expect(404),
        owner("gc-orphan-by-the-finalizer-of-the-owner")
            .merge(maps("/owner"), json!({"metadata": {"finalizers": ["orphan"]}}))
            .expect(200)
            .post(MAPS, owned("child", &[reference("owner")]))
            .delete(maps("/owner"))
            .until(maps("/owner"))
            .expect(404)
            .get(maps("/child"))
            .expect(200)
            .absent("/metadata/ownerReferences"),
        delete_owner(
            owner("gc-background-takes-the-orphan-finalizer-away")
                .merge(maps("/owner"), json!({"metadata": {"finalizers": ["orphan"]}}))
                .post(MAPS, owned("child", &[reference("owner")])),
            "Background",
        )
        .until(maps("/child"))
        .expect(404),
        delete_owner(
            owner("gc-orphan-leaves-other-owners")
                .post(MAPS, map("second"))
                .named("second")
                .post(MAPS, owned("child", &[reference("owner"), reference("second")])),
            "Orphan",
        )
        .until(maps("/owner"))
        .expect(404)
        .get(maps("/child"))
        .see("/metadata/ownerReferences/0/name", "second"),
    ]
}

fn foreground() -> Vec<Case> {
    let held = json!({"metadata": {"finalizers": ["example.com/f"]}});
    let blocking = || with(reference("owner"), json!({"blockOwnerDeletion": true}));
    vec![
        delete_owner(owner("gc-foreground-without-children"), "Foreground")
            .see("/metadata/finalizers", json!(["foregroundDeletion"]))
            .until(maps("/owner"))
            .expect(404),
        delete_owner(
            owner("gc-foreground-takes-the-children-first")
                .post(MAPS, with(owned("child", &[blocking()]), held.clone())),
            "Foreground",
        )
        .until(maps("/child"))
        .see("/metadata/deletionGracePeriodSeconds", 0)
        .get(maps("/owner"))
        .expect(200)
        .see("/metadata/finalizers", json!(["foregroundDeletion"]))
        .merge(maps("/child"), json!({"metadata": {"finalizers": null}}))
        .until(maps("/owner"))
        .expect(404),
        delete_owner(
            owner("gc-foreground-waits-only-for-children-that-block")
                .post(MAPS, with(owned("child", &[reference("owner")]), held.clone())),
            "Foreground",
        )
        .until(maps("/owner"))
        .expect(404)
        .until(maps("/child"))
        .see("/metadata/deletionGracePeriodSeconds", 0)
        .merge(maps("/child"), json!({"metadata": {"finalizers": null}}))
        .get(maps("/child"))
        .expect(404),
        delete_owner(
            owner("gc-foreground-of-grandchildren")
                .post(MAPS, owned("child", &[blocking()]))
                .named("child")
                .post(MAPS, owned("grandchild", &[with(reference("child"), json!({"blockOwnerDeletion": true}))])),
            "Foreground",
        )
        .until(maps("/owner"))
        .expect(404)
        .get(maps("/child"))
        .expect(404)
        .get(maps("/grandchild"))
        .expect(404),
        delete_owner(
            owner("gc-foreground-child-with-another-owner-stays")
                .post(MAPS, map("second"))
                .named("second")
                .post(MAPS, owned("child", &[blocking(), reference("second")])),
            "Foreground",
        )
        .until(maps("/owner"))
        .expect(404)
        .get(maps("/child"))
        .expect(200)
        .see("/metadata/ownerReferences/0/name", "second")
        .absent("/metadata/ownerReferences/1"),
        delete_owner(
            delete_owner(
                owner("gc-background-after-foreground").post(MAPS, with(owned("child", &[blocking()]), held.clone())),
                "Foreground",
            )
            .until(maps("/child"))
            .see("/metadata/deletionGracePeriodSeconds", 0),
            "Background",
        )
        .until(maps("/owner"))
        .expect(404)
        .get(maps("/child"))
        .expect(200),
        delete_owner(
            delete_owner(
                owner("gc-orphan-after-foreground").post(MAPS, with(owned("child", &[blocking()]), held)),
                "Foreground",
            )
            .until(maps("/child"))
            .see("/metadata/deletionGracePeriodSeconds", 0),
            "Orphan",
        ),
    ]
}

/// What happens while an owner waits for its children.
fn waiting() -> Vec<Case> {
    let held = json!({"metadata": {"finalizers": ["example.com/f"]}});
    let blocking = |name: &str| with(reference(name), json!({"blockOwnerDeletion": true}));
    let waits = |name| {
        delete_owner(
            owner(name).post(MAPS, with(owned("child", &[blocking("owner")]), held.clone())).expect(201),
            "Foreground",
        )
        .until(maps("/child"))
        .see("/metadata/deletionGracePeriodSeconds", 0)
    };
    vec![
        waits("gc-foreground-child-that-no-longer-blocks")
            .merge(maps("/child"), json!({"metadata": {"ownerReferences": [reference("owner")]}}))
            .expect(200)
            .until(maps("/owner"))
            .expect(404)
            .get(maps("/child"))
            .expect(200),
        waits("gc-foreground-child-that-is-let-go")
            .merge(maps("/child"), json!({"metadata": {"ownerReferences": null}}))
            .expect(200)
            .until(maps("/owner"))
            .expect(404)
            .get(maps("/child"))
            .expect(200),
        waits("gc-foreground-child-that-comes-late")
            .post(MAPS, owned("late", &[blocking("owner")]))
            .expect(201)
            .merge(maps("/child"), json!({"metadata": {"finalizers": null}}))
            .until(maps("/owner"))
            .expect(404)
            .get(maps("/late"))
            .expect(404),
        delete_owner(
            owner("gc-foreground-circle")
                .post(MAPS, owned("child", &[blocking("owner")]))
                .named("child")
                .merge(maps("/owner"), json!({"metadata": {"ownerReferences": [blocking("child")]}}))
                .expect(200),
            "Foreground",
        )
        .until(maps("/child"))
        .expect(404)
        .until(maps("/owner"))
        .expect(404),
        owner("gc-background-circle")
            .post(MAPS, owned("child", &[reference("owner")]))
            .named("child")
            .merge(maps("/owner"), json!({"metadata": {"ownerReferences": [reference("child")]}}))
            .delete(maps("/owner"))
            .see("/status", "Success")
            .until(maps("/child"))
            .expect(404),
        owner("gc-child-with-the-orphan-finalizer-leaves-its-own")
            .post(MAPS, with(owned("child", &[reference("owner")]), json!({"metadata": {"finalizers": ["orphan"]}})))
            .named("child")
            .post(MAPS, owned("grandchild", &[reference("child")]))
            .delete(maps("/owner"))
            .until(maps("/child"))
            .expect(404)
            .until(maps("/grandchild"))
            .absent("/metadata/ownerReferences"),
        owner("gc-pod-is-given-grace")
            .post(
                pods(""),
                with(
                    pod("p"),
                    json!({"metadata": {"ownerReferences": [reference("owner")]}, "spec": {"nodeName": "n"}}),
                ),
            )
            .expect(201)
            .delete(maps("/owner"))
            .until(pods("/p"))
            .see("/metadata/deletionGracePeriodSeconds", 30),
        owner("gc-event-stays")
            .post(
                "/api/v1/namespaces/${ns}/events",
                json!({"metadata": {"name": "e", "ownerReferences": [reference("owner")]},
                    "involvedObject": {"namespace": "${ns}"}}),
            )
            .expect(201)
            .delete(maps("/owner"))
            .post(MAPS, owned("mark", &[reference("owner")]))
            .until(maps("/mark"))
            .expect(404)
            .get("/api/v1/namespaces/${ns}/events/e")
            .expect(200),
    ]
}

/// References that lead nowhere.
fn odd_references() -> Vec<Case> {
    let child = |name, reference: Value| {
        case(name).needs(Needs::Controllers).post(MAPS, owned("child", &[reference])).named("child").expect(201)
    };
    let uid = "00000000-0000-0000-0000-000000000001";
    vec![
        child("gc-owner-that-never-was", json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": uid}))
            .until(maps("/child"))
            .expect(404),
        owner("gc-owner-with-another-uid")
            .post(MAPS, owned("child", &[with(reference("owner"), json!({"uid": uid}))]))
            .until(maps("/child"))
            .expect(404),
        owner("gc-owner-in-another-namespace")
            .post("/api/v1/namespaces", json!({"metadata": {"name": "${ns}-b"}}))
            .expect(201)
            .post("/api/v1/namespaces/${ns}-b/configmaps", owned("child", &[reference("owner")]))
            .until("/api/v1/namespaces/${ns}-b/configmaps/child")
            .expect(404),
        collected(child(
            "gc-owner-of-an-unknown-kind",
            json!({"apiVersion": "shoes.example.com/v1", "kind": "Shoe", "name": "x", "uid": uid}),
        ))
        .get(maps("/child"))
        .expect(200),
        owner("gc-owner-of-another-kind")
            .post(MAPS, owned("child", &[with(reference("owner"), json!({"kind": "Secret"}))]))
            .until(maps("/child"))
            .expect(404),
        owner("gc-owner-of-another-name")
            .post(MAPS, owned("child", &[with(reference("owner"), json!({"name": "other"}))]))
            .until(maps("/child"))
            .expect(404),
        owner("gc-owner-that-never-was-beside-one-that-is")
            .post(
                MAPS,
                owned(
                    "child",
                    &[reference("owner"), json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": uid})],
                ),
            )
            .until(maps("/child"))
            .absent("/metadata/ownerReferences/1"),
        collected(
            owner("gc-owner-of-an-unknown-kind-keeps-the-child")
                .post(
                    MAPS,
                    owned(
                        "child",
                        &[
                            reference("owner"),
                            json!({"apiVersion": "shoes.example.com/v1", "kind": "Shoe", "name": "x", "uid": uid}),
                        ],
                    ),
                )
                .delete(maps("/owner")),
        )
        .get(maps("/child"))
        .expect(200),
        collected(
            owner("gc-cluster-wide-child-of-an-owner-in-a-namespace")
                .post(
                    "/apis/storage.k8s.io/v1/storageclasses",
                    json!({"metadata": {"name": "${id}", "ownerReferences": [reference("owner")]}, "provisioner": "x/y"}),
                )
                .expect(201)
                .delete(maps("/owner")),
        )
        .get("/apis/storage.k8s.io/v1/storageclasses/${id}")
        .expect(200),
        case("gc-owner-that-is-cluster-wide")
            .needs(Needs::Controllers)
            .post("/api/v1/nodes", json!({"metadata": {"name": "${id}"}}))
            .named("node")
            .expect(201)
            .post(
                MAPS,
                owned("child", &[json!({"apiVersion": "v1", "kind": "Node", "name": "${id}", "uid": "${uid:node}"})]),
            )
            .expect(201)
            .delete("/api/v1/nodes/${id}")
            .until(maps("/child"))
            .expect(404),
        child(
            "gc-owner-that-is-the-object-itself",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "child", "uid": uid}),
        )
        .until(maps("/child"))
        .expect(404),
        owner("gc-reference-added-later")
            .post(MAPS, map("child"))
            .delete(maps("/owner"))
            .merge(maps("/child"), json!({"metadata": {"ownerReferences": [reference("owner")]}}))
            .expect(200)
            .until(maps("/child"))
            .expect(404),
        owner("gc-owner-and-child-of-different-kinds")
            .post(
                "/api/v1/namespaces/${ns}/secrets",
                json!({"metadata": {"name": "child", "ownerReferences": [reference("owner")]}}),
            )
            .expect(201)
            .delete(maps("/owner"))
            .until("/api/v1/namespaces/${ns}/secrets/child")
            .expect(404),
    ]
}
