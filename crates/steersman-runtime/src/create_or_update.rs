//! Makes an object as it should be, whether it exists or not.

use kube_core::Resource;
use serde_json::{Map, Value, json};
use steersman_cache::{Object, ObjectKey};
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

impl CachedClient {
    /// Makes an object as `mutate` wants it: reads it from the cache, or begins with `new` if it does not exist, has it changed, and
    /// writes it if that changed anything. `new` must have a name. The status is not written.
    pub async fn create_or_update<K>(&self, new: K, mutate: impl FnOnce(&mut K)) -> Result<(K, OperationResult), Error>
    where
        K: Object + Clone + Resource<DynamicType = (), Scope: 'static>,
    {
        let objects = self.objects::<K>();
        let key = key_of(&new)?;
        let Some(existing) = objects.get_opt(&key).await? else { return create(&objects, new, &key, mutate).await };
        let existing = existing.get()?;
        let mut object = K::clone(&existing);
        mutate(&mut object);
        same_key(&object, &key)?;
        if json_of(&object)? == json_of(&*existing)? {
            return Ok((object, OperationResult::Unchanged));
        }
        Ok((objects.update(&object).await?, OperationResult::Updated))
    }

    /// As [`create_or_update`](Self::create_or_update), but sends only what changed, as a merge patch: what others change at the same
    /// time stays. What changed in the status is sent to the status.
    pub async fn create_or_patch<K>(&self, new: K, mutate: impl FnOnce(&mut K)) -> Result<(K, OperationResult), Error>
    where
        K: Object + Clone + Resource<DynamicType = (), Scope: 'static>,
    {
        let objects = self.objects::<K>();
        let key = key_of(&new)?;
        let Some(existing) = objects.get_opt(&key).await? else { return create(&objects, new, &key, mutate).await };
        let existing = existing.get()?;
        let mut object = K::clone(&existing);
        mutate(&mut object);
        same_key(&object, &key)?;
        let (before, after) = (json_of(&*existing)?, json_of(&object)?);
        let Some(Value::Object(mut difference)) = difference(&before, &after) else {
            return Ok((object, OperationResult::Unchanged));
        };
        let status = difference.remove("status");
        let mut patched = object;
        if !difference.is_empty() {
            patched = objects.patch(&key, &Patch::Merge(Value::Object(difference))).await?;
        }
        if let Some(status) = status {
            patched = objects.patch_status(&key, &Patch::Merge(json!({ "status": status }))).await?;
        }
        Ok((patched, OperationResult::Updated))
    }
}

async fn create<K>(
    objects: &Objects<K>,
    mut object: K,
    key: &ObjectKey,
    mutate: impl FnOnce(&mut K),
) -> Result<(K, OperationResult), Error>
where
    K: Object + Resource<DynamicType = ()>,
{
    mutate(&mut object);
    same_key(&object, key)?;
    Ok((objects.create(&object).await?, OperationResult::Created))
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
                let changed = before.get(name).map_or_else(|| Some(value.clone()), |old| difference(old, value));
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
    }
}
