//! Makes an object as it should be, whether it exists or not.

use kube_core::Resource;
use serde_json::{Map, Value, json};
use steersman_cache::{Cached, Object, ObjectKey};
use steersman_client::Patch;

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
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use steersman_runtime::{CachedClient, Error, OperationResult, set_controller_reference};
    /// # async fn example(client: &CachedClient, owner: &ConfigMap, new: Secret) -> Result<(), Error> {
    /// let (secret, result) = client
    ///     .create_or_update(new, |secret| {
    ///         secret.string_data = Some([("a".to_owned(), "1".to_owned())].into());
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
    /// A cache that drops fields of its objects is not for this: what is not in it would be taken away.
    pub async fn create_or_update<R: Mutated>(
        &self,
        new: K,
        mutate: impl FnOnce(&mut K) -> R,
    ) -> Result<(K, OperationResult), Error> {
        let key = key_of(&new)?;
        let Some(existing) = self.get_opt(&key).await? else { return self.create_mutated(new, &key, mutate).await };
        let change = Change::new(&existing, &key, mutate)?;
        if change.before == change.after {
            return Ok((change.object, OperationResult::Unchanged));
        }
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
        Ok((self.create(&object).await?, OperationResult::Created))
    }
}

impl<K: Object + Clone + Resource> Change<K> {
    fn new<R: Mutated>(existing: &Cached<K>, key: &ObjectKey, mutate: impl FnOnce(&mut K) -> R) -> Result<Self, Error> {
        let existing = existing.get()?;
        let mut object = K::clone(&existing);
        mutate(&mut object).into_result()?;
        same_key(&object, key)?;
        Ok(Self { before: json_of(&*existing)?, after: json_of(&object)?, object })
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

/// The merge patch that makes `after` of `before`; none if they are the same.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let mut patch = Map::new();
            for (name, value) in after {
                // What is not there is null to a merge patch.
                let changed = difference(before.get(name).unwrap_or(&Value::Null), value);
                patch.extend(changed.map(|value| (name.clone(), value)));
            }
            let removed = before.keys().filter(|name| !after.contains_key(*name));
            patch.extend(removed.map(|name| (name.clone(), Value::Null)));
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (before, after) => (before != after).then(|| after.clone()),
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
        assert_eq!(difference(&json!({"a": null}), &json!({"b": null})), Some(json!({"a": null})));
    }
}
