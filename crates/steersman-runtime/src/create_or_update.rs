//! Makes an object as it should be, whether it exists or not.

use kube_core::Resource;
use serde_json::{Map, Value, json};
use steersman_cache::{Cached, Object, ObjectKey};
use steersman_client::Patch;
use steersman_wire::protobuf;

use crate::client::Objects;
use crate::{CachedClient, Error};

/// What [`CachedClient::create_or_update`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationResult {
    /// It is as it should be: nothing was written.
    Unchanged,
    /// It did not exist.
    Created,
    /// It was different.
    Updated,
}

/// What the function that changes an object returns: nothing, or an error, which is passed on and leaves the object as it is.
pub trait Mutated {
    /// As a result.
    fn into_result(self) -> Result<(), Error>;
}

impl Mutated for () {
    fn into_result(self) -> Result<(), Error> {
        Ok(())
    }
}

impl Mutated for Result<(), Error> {
    fn into_result(self) -> Result<(), Error> {
        self
    }
}

impl CachedClient {
    /// Makes an object of a Rust type as `mutate` wants it: see [`Objects::create_or_update`].
    ///
    /// ```
    /// # use k8s_openapi::ByteString;
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use steersman_runtime::{CachedClient, Error, OperationResult, set_controller_reference};
    /// # async fn example(client: &CachedClient, owner: &ConfigMap, new: Secret) -> Result<(), Error> {
    /// let (secret, result) = client
    ///     .create_or_update(new, |secret| {
    ///         // Not `string_data`, which the server never shows: it would be written each time.
    ///         secret.data = Some([("a".to_owned(), ByteString(b"1".to_vec()))].into());
    ///         set_controller_reference(owner, secret)?;
    ///         Ok(())
    ///     })
    ///     .await?;
    /// # let _: (Secret, OperationResult) = (secret, result);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_or_update<K, R: Mutated>(
        &self,
        new: K,
        mutate: impl FnOnce(&mut K) -> R,
    ) -> Result<(K, OperationResult), Error>
    where
        K: Object + Clone + Resource<DynamicType = (), Scope: 'static>,
    {
        self.objects().create_or_update(new, mutate).await
    }

    /// Makes an object of a Rust type as `mutate` wants it: see [`Objects::create_or_patch`].
    pub async fn create_or_patch<K, R: Mutated>(
        &self,
        new: K,
        mutate: impl FnOnce(&mut K) -> R,
    ) -> Result<(K, OperationResult), Error>
    where
        K: Object + Clone + Resource<DynamicType = (), Scope: 'static>,
    {
        self.objects().create_or_patch(new, mutate).await
    }
}

/// An object that exists, and what it should be.
struct Change<K> {
    before: Value,
    after: Value,
    object: K,
}

impl<K: Object + Clone + Resource> Objects<K> {
    /// Makes an object as `mutate` wants it: reads it from the cache, or begins with `new` if it does not exist, has it changed, and
    /// writes it if that changed anything. `new` must have a name. The status is not written. It is a conflict if somebody else has
    /// changed the object meanwhile, and nothing is written then.
    ///
    /// Objects of built-in kinds are compared as the server compares them: `1000m` is `1` where a quantity is, an empty list or map is none,
    /// and so is `false` or an empty text where Kubernetes knows no difference (test `built_in_kinds_are_compared_as_the_server_does`). Of other kinds that is
    /// not known. There an empty list is nothing that changed where there was none, and neither is `null`; nor is an empty map where a map is all that
    /// can be: labels, annotations, `data` and `binaryData`, `matchLabels` and a Pod's `nodeSelector`. An empty object elsewhere, such
    /// as `emptyDir` or `podSelector`, says something (test `what_says_the_same_is_no_change`).
    ///
    /// A cache that drops fields of its objects is not for this: what is not in it would be taken away.
    ///
    /// The object must be one that the cache keeps, before and after the change. Outside the declared namespaces, labels or
    /// fields it is [`Error::NotCached`], and nothing is written: each later call would find no object in the cache, and the
    /// server would refuse to create it (tests `create_or_update_outside_the_cache_is_refused_before_anything_is_sent`,
    /// `an_object_that_exists_outside_the_selection_is_not_a_conflict_for_ever`).
    pub async fn create_or_update<R: Mutated>(
        &self,
        new: K,
        mutate: impl FnOnce(&mut K) -> R,
    ) -> Result<(K, OperationResult), Error> {
        let key = key_of(&new)?;
        let Some(existing) = self.get_opt(&key).await? else { return self.create_mutated(new, &key, mutate).await };
        let change = Change::new(&existing, &key, mutate)?;
        if difference(&change.before, &change.after).is_none() {
            return Ok((change.object, OperationResult::Unchanged));
        }
        self.check_selected(&key, &change.object)?;
        Ok((self.update(&change.object).await?, OperationResult::Updated))
    }

    /// As [`create_or_update`](Self::create_or_update), but sends only what changed, as a merge patch: what others change at the same
    /// time stays, but for lists, which are written whole. What changed in the status is sent to the status.
    pub async fn create_or_patch<R: Mutated>(
        &self,
        new: K,
        mutate: impl FnOnce(&mut K) -> R,
    ) -> Result<(K, OperationResult), Error> {
        let key = key_of(&new)?;
        let Some(existing) = self.get_opt(&key).await? else { return self.create_mutated(new, &key, mutate).await };
        let change = Change::new(&existing, &key, mutate)?;
        let Some(Value::Object(mut difference)) = difference(&change.before, &change.after) else {
            return Ok((change.object, OperationResult::Unchanged));
        };
        self.check_selected(&key, &change.object)?;
        let status = difference.remove("status");
        let mut patched = change.object;
        if !difference.is_empty() {
            patched = self.patch(&key, &Patch::Merge(Value::Object(difference))).await?;
        }
        if let Some(status) = status {
            patched = self.patch_status(&key, &Patch::Merge(json!({ "status": status }))).await?;
        }
        Ok((patched, OperationResult::Updated))
    }

    async fn create_mutated<R: Mutated>(
        &self,
        mut object: K,
        key: &ObjectKey,
        mutate: impl FnOnce(&mut K) -> R,
    ) -> Result<(K, OperationResult), Error> {
        mutate(&mut object).into_result()?;
        same_key(&object, key)?;
        self.check_selected(key, &object)?;
        match self.create(&object).await {
            Ok(created) => Ok((created, OperationResult::Created)),
            Err(error) if error.is_already_exists() => Err(self.already_exists(key, error).await),
            Err(error) => Err(error),
        }
    }
}

impl<K: Object + Clone + Resource> Change<K> {
    fn new<R: Mutated>(existing: &Cached<K>, key: &ObjectKey, mutate: impl FnOnce(&mut K) -> R) -> Result<Self, Error> {
        let existing = existing.get()?;
        let mut object = K::clone(&existing);
        mutate(&mut object).into_result()?;
        same_key(&object, key)?;
        let (mut before, mut after) = (json_of(&*existing)?, json_of(&object)?);
        if let (Some(canonical_before), Some(canonical_after)) = (canonical(&before), canonical(&after)) {
            (before, after) = (canonical_before, canonical_after);
        }
        Ok(Self { before, after, object })
    }
}

fn key_of<K: Resource>(object: &K) -> Result<ObjectKey, Error> {
    let meta = object.meta();
    let name = meta.name.as_deref().filter(|name| !name.is_empty());
    let name =
        name.ok_or_else(|| Error::InvalidObject("an object to create or update needs metadata.name".to_owned()))?;
    Ok(ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), name))
}

fn same_key<K: Resource>(object: &K, key: &ObjectKey) -> Result<(), Error> {
    if key_of(object).is_ok_and(|now| now == *key) {
        return Ok(());
    }
    Err(Error::InvalidObject(format!("the function that changes {key} must not change its name or namespace")))
}

fn json_of<K: Object>(object: &K) -> Result<Value, Error> {
    serde_json::to_value(object).map_err(|error| Error::InvalidObject(format!("it cannot be written as JSON: {error}")))
}

/// An object of a built-in kind as a server would write it.
fn canonical(object: &Value) -> Option<Value> {
    let canonical = protobuf::canonical(object.to_string().as_bytes())?;
    serde_json::from_slice(&canonical).ok()
}

/// The merge patch that makes `after` of `before`; none if they say the same.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    member_difference(None, before, after)
}

/// The difference of two values of the member with this name; of no name for the whole object.
fn member_difference(name: Option<&str>, before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return (!is_same(name, before, after)).then(|| after.clone());
    };
    let mut patch = Map::new();
    for (member, value) in after {
        // What is not there is null to a merge patch.
        let was = before.get(member).unwrap_or(&Value::Null);
        if is_absent((name, after), member, value) && is_absent((name, before), member, was) {
            continue;
        }
        patch.extend(member_difference(Some(member), was, value).map(|value| (member.clone(), value)));
    }
    for (member, was) in before {
        if !after.contains_key(member) && !is_absent((name, before), member, was) {
            patch.insert(member.clone(), Value::Null);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Whether two values of a member say the same, however deep.
fn is_same(name: Option<&str>, before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(_), Value::Object(_)) => member_difference(name, before, after).is_none(),
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len() && before.iter().zip(after).all(|(before, after)| is_same(name, before, after))
        }
        (before, after) => before == after,
    }
}

/// Whether a member of an object says no more than if it were not there. The object comes with the name that it has itself.
fn is_absent((name, object): (Option<&str>, &Map<String, Value>), member: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        // Only where nothing but a map can be: an empty object may well say something.
        Value::Object(members) if members.is_empty() => match member {
            "labels" | "annotations" => name == Some("metadata"),
            "data" | "binaryData" => name.is_none(),
            "nodeSelector" => object.contains_key("containers"),
            "matchLabels" => true,
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_the_merge_patch_between_two_states() {
        let before = json!({"a": 1, "b": {"c": 2, "d": 3}, "list": [1], "same": {"x": 1}});
        let after = json!({"a": 1, "b": {"c": 4}, "list": [1, 2], "same": {"x": 1}, "new": true});
        let patch = json!({"b": {"c": 4, "d": null}, "list": [1, 2], "new": true});
        assert_eq!(difference(&before, &after), Some(patch));
        assert_eq!(difference(&before, &before), None);
        assert_eq!(difference(&json!({"a": [1]}), &json!({"a": []})), Some(json!({"a": []})), "a list may be required");
        assert_eq!(difference(&json!({"a": {"b": 1}}), &json!({"a": {}})), Some(json!({"a": {"b": null}})));
        assert_eq!(difference(&json!({"a": {"b": 1}}), &json!({})), Some(json!({"a": null})));
    }

    #[test]
    fn built_in_kinds_are_compared_as_the_server_does() {
        let pod = |spec: Value| {
            let spec = json!({"containers": [{"name": "a", "resources": spec["resources"]}], "volumes": spec["volumes"],
                "hostNetwork": spec["hostNetwork"], "serviceAccountName": spec["account"], "dnsConfig": spec["dns"],
                "terminationGracePeriodSeconds": spec["grace"], "nodeSelector": spec["nodes"]});
            canonical(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})).unwrap()
        };
        let same = |one: Value, other: Value| difference(&pod(one), &pod(other)).is_none();
        assert!(same(
            json!({"resources": {"limits": {"cpu": "1000m"}}}),
            json!({"resources": {"limits": {"cpu": "1"}}})
        ));
        assert!(same(json!({"hostNetwork": false, "account": "", "nodes": {}, "volumes": []}), json!({})));
        assert!(same(json!({"resources": {}}), json!({})));
        // Those may be absent, which is not the same as empty.
        assert!(!same(json!({"grace": 0}), json!({})));
        assert!(!same(json!({"dns": {}}), json!({})));
        assert!(!same(json!({"volumes": [{"name": "a", "emptyDir": {}}]}), json!({"volumes": [{"name": "a"}]})));
        assert!(!same(json!({"hostNetwork": true}), json!({})));
        // What is not built in is compared as it is.
        assert_eq!(canonical(&json!({"apiVersion": "example.com/v1", "kind": "Thing"})), None);
    }

    #[test]
    fn what_says_the_same_is_no_change() {
        let pod = |selector: Value| json!({"spec": {"containers": [{"name": "a"}], "nodeSelector": selector}});
        let none = json!({});
        for same in [
            json!({"a": null}),
            json!({"a": []}),
            json!({"metadata": {"labels": {}, "annotations": {}, "finalizers": []}}),
            json!({"data": {}, "binaryData": {}}),
        ] {
            let mut without = none.clone();
            if same.get("metadata").is_some() {
                without = json!({"metadata": {}});
            }
            assert_eq!(difference(&without, &same), None, "{same}");
            assert_eq!(difference(&same, &without), None, "{same}");
        }
        for (one, other) in [
            (pod(json!({})), pod(json!(null))),
            (json!({"selector": {"matchLabels": {}}}), json!({"selector": {}})),
            // Within lists, too.
            (json!({"list": [{"name": "a", "args": []}]}), json!({"list": [{"name": "a"}]})),
            (json!({"list": [{"metadata": {"labels": {}}}]}), json!({"list": [{"metadata": {}}]})),
        ] {
            assert_eq!(difference(&one, &other), None, "{one} {other}");
            assert_eq!(difference(&other, &one), None, "{one} {other}");
        }
    }

    #[test]
    fn an_empty_object_that_may_say_something_is_a_change() {
        for (one, other) in [
            (json!({"volumes": [{"name": "a", "emptyDir": {}}]}), json!({"volumes": [{"name": "a"}]})),
            (json!({"spec": {"podSelector": {}}}), json!({"spec": {}})),
            // No Pod's, but a label selector of somebody's.
            (json!({"spec": {"nodeSelector": {}}}), json!({"spec": {}})),
            (json!({"spec": {"data": {}}}), json!({"spec": {}})),
            (json!({"spec": {"labels": {}}}), json!({"spec": {}})),
            (json!({"list": [null]}), json!({"list": []})),
            (json!({"text": ""}), json!({})),
        ] {
            assert!(difference(&one, &other).is_some(), "{one} {other}");
            assert!(difference(&other, &one).is_some(), "{one} {other}");
        }
    }
}
