//! Creates an object, or changes it if it exists.

use kube_core::Resource;
use serde_json::{Map, Value, json};
use steersman_cache::{Cached, Object, ObjectKey};
use steersman_client::Patch;
use steersman_wire::protobuf;

use crate::client::Objects;
use crate::kind::StaticKind;
use crate::{CachedClient, Error};

/// What [`CachedClient::create_or_update`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationResult {
    /// The object needed no change, and nothing was written.
    Unchanged,
    /// The object did not exist and was created.
    Created,
    /// The object was changed.
    Updated,
}

/// The result of the function that changes an object: `()`, or a `Result`. After an error, nothing
/// is written, and the call returns that error.
#[diagnostic::on_unimplemented(
    message = "a function that changes an object cannot return `{Self}`",
    label = "expected `()` or `Result<(), Error>`",
    note = "end the function with `;` to return nothing, or with `Ok(())` after calls with `?`"
)]
pub trait Mutated {
    /// Converts into a `Result`.
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
    /// Creates an object of a Rust type, or changes it if it exists: see
    /// [`Objects::create_or_update`]. Returns the object and what was done.
    ///
    /// ```
    /// # use k8s_openapi::ByteString;
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use steersman_runtime::{CachedClient, Error, OperationResult, owner::set_controller_reference};
    /// # async fn example(client: &CachedClient, owner: &ConfigMap, new: Secret) -> Result<(), Error> {
    /// let (secret, result) = client
    ///     .create_or_update(new, |secret| {
    ///         // Not `string_data`: the server never returns it, so that each call would write it.
    ///         secret.data = Some([("a".to_owned(), ByteString(b"1".to_vec()))].into());
    ///         set_controller_reference(owner, secret)
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
        K: StaticKind + Clone,
    {
        self.objects().create_or_update(new, mutate).await
    }

    /// Creates an object of a Rust type, or patches it if it exists: see
    /// [`Objects::create_or_patch`].
    pub async fn create_or_patch<K, R: Mutated>(
        &self,
        new: K,
        mutate: impl FnOnce(&mut K) -> R,
    ) -> Result<(K, OperationResult), Error>
    where
        K: StaticKind + Clone,
    {
        self.objects().create_or_patch(new, mutate).await
    }
}

/// An existing object before and after the change.
struct Change<K> {
    before: Value,
    after: Value,
    object: K,
}

impl<K: Object + Clone + Resource> Objects<K> {
    /// Creates an object, or changes it if it exists. It reads the object from the cache, calls
    /// `mutate` on it, or on `new` if the object does not exist, and writes it only if it has
    /// changed. `new` must have a name. The status is not written. If another client has changed
    /// the object since it was read, the call fails with a conflict and writes nothing.
    ///
    /// Returns the object, as the server has returned it if it was written, and what was done. So a
    /// controller records an Event only if the result is not [`OperationResult::Unchanged`].
    ///
    /// Objects of built-in kinds are compared as the server compares them: the quantity `1000m`
    /// equals `1`, an empty list or map equals a missing one, and so does `false` or an empty text
    /// where Kubernetes knows no difference (test
    /// `built_in_kinds_are_compared_as_the_server_does`). For other kinds the schema is not known.
    /// There, an empty list or `null` equals a missing field. So does an empty map, but only where
    /// the field is always a map: labels, annotations, `data`, `binaryData`, `matchLabels` and the
    /// `nodeSelector` of a Pod. Any other empty object is a value, as in `emptyDir` or
    /// `podSelector` (test `an_equivalent_object_is_no_change`).
    ///
    /// Do not use it with a cache that drops fields of its objects: the update would delete these
    /// fields.
    ///
    /// The cache must select the object, before and after the change. Outside the declared
    /// namespaces, labels or fields it is [`Error::NotCached`], and nothing is written: later calls
    /// would not find the object in the cache, and the server would refuse to create it again
    /// (tests `create_or_update_outside_the_cache_is_refused_before_anything_is_sent`,
    /// `an_object_that_exists_outside_the_selection_is_not_an_endless_conflict`).
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

    /// As [`create_or_update`](Self::create_or_update), but sends only the changed fields, as a
    /// merge patch. Changes that other clients make at the same time to other fields are kept.
    /// Lists are written as a whole. A change of the status is sent to the status subresource.
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
        name.ok_or_else(|| Error::InvalidObject("create_or_update needs an object with metadata.name".to_owned()))?;
    Ok(ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), name))
}

fn same_key<K: Resource>(object: &K, key: &ObjectKey) -> Result<(), Error> {
    if key_of(object).is_ok_and(|now| now == *key) {
        return Ok(());
    }
    Err(Error::InvalidObject(format!("the function that changes {key} has changed its name or namespace")))
}

fn json_of<K: Object>(object: &K) -> Result<Value, Error> {
    serde_json::to_value(object)
        .map_err(|error| Error::InvalidObject(format!("the object cannot be written as JSON: {error}")))
}

/// The form in which the server writes an object of a built-in kind. `None` for other kinds.
fn canonical(object: &Value) -> Option<Value> {
    let canonical = protobuf::canonical(object.to_string().as_bytes())?;
    serde_json::from_slice(&canonical).ok()
}

/// The merge patch from `before` to `after`. `None` if they are equivalent.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    member_difference(None, before, after)
}

/// The difference between two values of the field `name`, or between two objects if `name` is
/// `None`.
fn member_difference(name: Option<&str>, before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return (!is_same(name, before, after)).then(|| after.clone());
    };
    let mut patch = Map::new();
    for (member, value) in after {
        // In a merge patch, a missing field is null.
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

/// Returns `true` if two values of a field are equivalent at every depth.
fn is_same(name: Option<&str>, before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(_), Value::Object(_)) => member_difference(name, before, after).is_none(),
        (Value::Array(before), Value::Array(after)) => {
            before.len() == after.len() && before.iter().zip(after).all(|(before, after)| is_same(name, before, after))
        }
        (before, after) => before == after,
    }
}

/// Returns `true` if a field of an object equals a missing one. `name` is the field that holds the
/// object.
fn is_absent((name, object): (Option<&str>, &Map<String, Value>), member: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        // Only fields that are always maps: any other empty object may be a value.
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
        // These differ if they are absent.
        assert!(!same(json!({"grace": 0}), json!({})));
        assert!(!same(json!({"dns": {}}), json!({})));
        assert!(!same(json!({"volumes": [{"name": "a", "emptyDir": {}}]}), json!({"volumes": [{"name": "a"}]})));
        assert!(!same(json!({"hostNetwork": true}), json!({})));
        // Objects of other kinds are compared unchanged.
        assert_eq!(canonical(&json!({"apiVersion": "example.com/v1", "kind": "Thing"})), None);
    }

    #[test]
    fn an_equivalent_object_is_no_change() {
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
            // Not of a Pod: this is a label selector of a custom resource.
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
