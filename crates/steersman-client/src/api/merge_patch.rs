//! Merge patches made from two states of an object.

use kube_core::params::Patch;
use serde::Serialize;
use serde_json::{Map, Value};

use super::requests::to_json_value;
use crate::Error;

/// The JSON merge patch (RFC 7386) that turns `old` into `new`: controller-runtime's
/// `client.MergeFrom`.
///
/// The patch holds the changed fields alone. The server keeps fields that the type `K` does not
/// know, and changes that other clients make to other fields. A field that `new` no longer has is
/// `null` in the patch. A list is sent as a whole: an entry that another client has added to it is
/// lost, so use [`merge_from_with_optimistic_lock`] to change a list.
///
/// The patch holds no `metadata.resourceVersion`, even if the two states have different ones.
///
/// ```no_run
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use steersman_client::{Client, Error, PatchParams, merge_from};
/// # async fn example(client: Client) -> Result<(), Error> {
/// let deployments = client.namespaced::<Deployment>("default");
/// let old = deployments.get("web").await?;
/// let mut new = old.clone();
/// new.spec.get_or_insert_default().replicas = Some(3);
/// deployments.patch("web", &PatchParams::default(), &merge_from(&old, &new)?).await?;
/// # Ok(())
/// # }
/// ```
pub fn merge_from<K: Serialize>(old: &K, new: &K) -> Result<Patch<Value>, Error> {
    let (mut old, mut new) = (to_json_value(old)?, to_json_value(new)?);
    take_resource_version(&mut old);
    take_resource_version(&mut new);
    Ok(Patch::Merge(difference(&old, &new)))
}

/// As [`merge_from`], with the `resourceVersion` of `old` as a precondition: controller-runtime's
/// `client.MergeFromWithOptimisticLock`. If the object has changed since `old` was read, the server
/// answers with a [conflict](Error::is_conflict), and
/// [`retry_on_conflict`](crate::retry_on_conflict) reads and patches again.
///
/// Fails with [`Error::InvalidRequest`] if `old` has no `resourceVersion`: it was never read from a
/// server.
pub fn merge_from_with_optimistic_lock<K: Serialize>(old: &K, new: &K) -> Result<Patch<Value>, Error> {
    let (mut old, mut new) = (to_json_value(old)?, to_json_value(new)?);
    take_resource_version(&mut new);
    let Some(version) = take_resource_version(&mut old) else {
        let problem = "a merge patch with an optimistic lock needs metadata.resourceVersion in the old object: \
                       read the object from the server first";
        return Err(Error::InvalidRequest(problem.to_owned()));
    };
    let mut patch = difference(&old, &new);
    patch["metadata"]["resourceVersion"] = version;
    Ok(Patch::Merge(patch))
}

fn take_resource_version(object: &mut Value) -> Option<Value> {
    let version = object.get_mut("metadata")?.as_object_mut()?.remove("resourceVersion")?;
    Some(version).filter(|version| version.as_str().is_some_and(|version| !version.is_empty()))
}

/// The merge patch from one value to another. What is `null` in `new` is absent: a merge patch
/// cannot set `null`.
fn difference(old: &Value, new: &Value) -> Value {
    let Value::Object(new) = new else { return new.clone() };
    let none = Map::new();
    let old = old.as_object().unwrap_or(&none);
    let is_set = |value: &&Value| !value.is_null();
    let mut patch = Map::new();
    for (name, value) in new.iter().filter(|(_, value)| is_set(value)) {
        match old.get(name).filter(is_set) {
            Some(known) if known == value => {}
            Some(known) => {
                let change = difference(known, value);
                // An empty change of an object changes nothing. In place of another value it sets
                // an empty object.
                if change != Value::Object(Map::new()) || !known.is_object() {
                    patch.insert(name.clone(), change);
                }
            }
            None => {
                patch.insert(name.clone(), difference(&Value::Null, value));
            }
        }
    }
    for (name, _) in old.iter().filter(|(name, value)| is_set(value) && new.get(*name).is_none_or(Value::is_null)) {
        patch.insert(name.clone(), Value::Null);
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn merged(patch: Result<Patch<Value>, Error>) -> Value {
        let Patch::Merge(patch) = patch.unwrap() else { panic!("another kind of patch") };
        patch
    }

    #[test]
    fn a_patch_holds_what_changed() {
        let old = json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}, "spec": {"n": 1, "list": [1, 2]}});
        let cases = [
            (old.clone(), json!({})),
            (
                json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"n": 2, "list": [1, 2]}}),
                json!({"metadata": {"labels": {"y": null}}, "spec": {"n": 2}}),
            ),
            (
                json!({"metadata": {"name": "a"}, "spec": {"n": {"deep": null}, "list": [2]}, "status": {}}),
                json!({"metadata": {"labels": null}, "spec": {"n": {}, "list": [2]}, "status": {}}),
            ),
            (json!({"metadata": {"name": "a"}, "spec": null}), json!({"metadata": {"labels": null}, "spec": null})),
        ];
        for (new, patch) in cases {
            assert_eq!(merged(merge_from(&old, &new)), patch, "{new}");
        }
    }

    #[test]
    fn the_resource_version_is_sent_with_the_lock_alone() {
        let old = json!({"metadata": {"name": "a", "resourceVersion": "5"}, "data": {"key": "old"}});
        let new = json!({"metadata": {"name": "a", "resourceVersion": "7"}, "data": {"key": "new"}});
        assert_eq!(merged(merge_from(&old, &new)), json!({"data": {"key": "new"}}));
        let locked = json!({"metadata": {"resourceVersion": "5"}, "data": {"key": "new"}});
        assert_eq!(merged(merge_from_with_optimistic_lock(&old, &new)), locked);
        for unread in [json!({}), json!({"metadata": {"name": "a"}}), json!({"metadata": {"resourceVersion": ""}})] {
            let error = merge_from_with_optimistic_lock(&unread, &new).unwrap_err();
            assert!(matches!(&error, Error::InvalidRequest(_)), "{error}");
        }
    }

    /// Values without nulls, which no merge patch can set.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..3).prop_map(Value::from)];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_patch_makes_the_new_state_of_the_old_one(old in value(), new in value()) {
            let (old, new) = (json!({"spec": old}), json!({"spec": new}));
            let patch = merged(merge_from(&old, &new));
            let mut patched = old.clone();
            json_patch::merge(&mut patched, &patch);
            prop_assert_eq!(&patched, &new, "{}", patch);
            prop_assert_eq!(merged(merge_from(&new, &patched)), json!({}));
        }
    }
}
