use serde_json::{Value, json};

use super::authorization::{By, known, resources, with_role};
use super::{MAPS, map, maps, pod, pods, with};
use crate::conformance::case::{Case, Needs, case};

/// The admission plugin OwnerReferencesPermissionEnforcement.
pub(crate) fn cases() -> Vec<Case> {
    let groups = [creates(), changes()];
    groups.into_iter().flatten().map(|case| case.needs(Needs::Authorization)).collect()
}

/// A reference to the ConfigMap `owner`.
fn owner(blocks: bool) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "${uid:owner}", "blockOwnerDeletion": blocks})
}

fn owned(name: &str, owner: Value) -> Value {
    with(map(name), json!({"metadata": {"ownerReferences": [owner]}}))
}

/// A user with these verbs on ConfigMaps, and the ConfigMap `owner`.
fn with_owner(name: &'static str, verbs: &[&str], more: &[Value]) -> Case {
    let mut rules = vec![resources(verbs, &["configmaps"]), known()];
    rules.extend(more.iter().cloned());
    with_role(name, &rules).post(MAPS, map("owner")).expect(201).named("owner")
}

fn finalizers() -> Value {
    resources(&["update"], &["configmaps/finalizers"])
}

fn creates() -> Vec<Case> {
    const NEEDED: &str = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set \
                          finalizers on: , <nil>";
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "blockOwnerDeletion": true,
    });
    let node = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "blockOwnerDeletion": true});
    let unknown =
        json!({"apiVersion": "nowhere.io/v2", "kind": "Thing", "name": "x", "uid": "u", "blockOwnerDeletion": true});
    vec![
        with_owner("owners-that-block-need-a-right", &["create", "patch"], &[])
            .post(MAPS, owned("one", owner(true)))
            .by_jane()
            .expect(403)
            .message_contains(NEEDED)
            .post(MAPS, owned("one", owner(false)))
            .by_jane()
            .expect(201)
            .post(MAPS, with(owned("", owner(true)), json!({"metadata": {"generateName": "some-"}})))
            .by_jane()
            .expect(403)
            .ignore("/message")
            .ignore("/details/name")
            .apply(maps("/two"), "m", owned("two", owner(true)))
            .by_jane()
            .expect(403)
            .message_contains(NEEDED),
        with_owner("owners-that-block-with-the-right", &["create"], &[finalizers()])
            .post(MAPS, owned("one", owner(true)))
            .by_jane()
            .expect(201)
            .post(MAPS, owned("two", deployment.clone()))
            .by_jane()
            .expect(403),
        with_owner(
            "owners-that-block-by-name",
            &["create"],
            &[json!({
                "verbs": ["update"], "apiGroups": [""], "resources": ["configmaps/finalizers"],
                "resourceNames": ["other"],
            })],
        )
        .post(MAPS, owned("one", owner(true)))
        .by_jane()
        .expect(403),
        with_owner("owners-of-a-cluster-scoped-kind", &["create"], &[resources(&["update"], &["nodes/finalizers"])])
            .post(MAPS, owned("one", node))
            .by_jane()
            .expect(403),
        with_owner("owners-of-an-unknown-kind", &["create"], &[finalizers()])
            .post(MAPS, owned("one", unknown.clone()))
            .by_jane()
            .expect(403)
            .message_contains("cannot find RESTMapping for APIVersion nowhere.io/v2 Kind Thing")
            .post(MAPS, owned("two", unknown))
            .expect(201),
        with_owner(
            "owners-with-finalizers-of-everything",
            &["create"],
            &[json!({"verbs": ["update"], "apiGroups": ["*"], "resources": ["*/finalizers"]})],
        )
        .post(MAPS, owned("one", deployment))
        .by_jane()
        .expect(201),
        case("owners-of-an-object-that-is-not-valid")
            .post(MAPS, owned("A B", json!({"apiVersion": "v1", "kind": "Node", "blockOwnerDeletion": true})))
            .by("system:serviceaccount:default:jane")
            .expect(403),
    ]
}

fn changes() -> Vec<Case> {
    let merge = |owner: Value| json!({"metadata": {"ownerReferences": [owner]}});
    let verbs = &["create", "update", "patch"][..];
    vec![
        with_owner("owners-of-an-object-that-exists", verbs, &[finalizers()])
            .post(MAPS, map("one"))
            .expect(201)
            .merge(maps("/one"), merge(owner(false)))
            .by_jane()
            .expect(403)
            .message_contains("cannot set an ownerRef on a resource you can't delete: , <nil>")
            .merge(maps("/one"), json!({"data": {"a": "b"}}))
            .by_jane()
            .expect(200)
            .put(maps("/one"), owned("one", owner(true)))
            .by_jane()
            .expect(403),
        with_owner("owners-that-begin-to-block", &["patch", "delete"], &[])
            .post(MAPS, owned("one", owner(false)))
            .expect(201)
            .merge(maps("/one"), merge(owner(true)))
            .by_jane()
            .expect(403)
            .message_contains("you can't set finalizers on")
            .merge(maps("/one"), merge(owner(true)))
            .expect(200)
            // It blocks already.
            .merge(maps("/one"), merge(with(owner(true), json!({"controller": true}))))
            .by_jane()
            .expect(200)
            .merge(maps("/one"), json!({"metadata": {"ownerReferences": null}}))
            .by_jane()
            .expect(200),
        with_owner("owners-that-are-removed-need-a-right", &["patch"], &[])
            .post(MAPS, owned("one", owner(false)))
            .expect(201)
            .merge(maps("/one"), json!({"metadata": {"ownerReferences": null}}))
            .by_jane()
            .expect(403),
        with_role("owners-in-the-status-of-a-pod", &[known(), resources(&["patch"], &["pods/status"])])
            .post(pods(""), pod("one"))
            .expect(201)
            .merge(
                pods("/one/status"),
                json!({"metadata": {"ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "blockOwnerDeletion": true},
                ]}}),
            )
            .by_jane()
            .ignore("/status")
            .expect(200),
    ]
}
