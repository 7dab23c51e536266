//! Who belongs to whom: the objects that name an owner, by the owner's uid.

use std::collections::{BTreeSet, HashMap};

use crate::object::Object;
use crate::store::{Key, ResourceId};

/// The objects that name each owner, whether there is such an owner or not. An object without owners takes no room.
#[derive(Default)]
pub(crate) struct Dependents(HashMap<Box<str>, BTreeSet<(ResourceId, Key)>>);

impl Dependents {
    /// Notes that an object changed from one state to another.
    pub(crate) fn change(&mut self, resource: &ResourceId, before: Option<&Object>, after: Option<&Object>) {
        let owners = |object: Option<&Object>| object.map_or(0, |object| object.owners().len());
        if owners(before) + owners(after) == 0 || !is_collected(resource) {
            return;
        }
        for object in before.into_iter() {
            for owner in object.owners() {
                if let Some(of_owner) = self.0.get_mut(&owner.uid) {
                    of_owner.remove(&(resource.clone(), object.key().clone()));
                    if of_owner.is_empty() {
                        self.0.remove(&owner.uid);
                    }
                }
            }
        }
        for object in after.into_iter() {
            for owner in object.owners() {
                let of_owner = self.0.entry(owner.uid.clone()).or_default();
                of_owner.insert((resource.clone(), object.key().clone()));
            }
        }
    }

    /// The objects that name this owner, by resource, namespace and name.
    pub(crate) fn of(&self, owner: &str) -> impl Iterator<Item = &(ResourceId, Key)> {
        self.0.get(owner).into_iter().flatten()
    }
}

/// Events belong to nobody: the garbage collector does not look at them.
pub(crate) fn is_collected(resource: &ResourceId) -> bool {
    !(*resource.plural == *"events" && matches!(&*resource.group, "" | "events.k8s.io"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn owned(name: &str, owners: &[&str]) -> Object {
        let owners: Vec<Value> = owners.iter().map(|uid| json!({"uid": uid})).collect();
        Object::new(&json!({"metadata": {"name": name, "ownerReferences": owners}}), 1, Vec::new())
    }

    fn names(dependents: &Dependents, owner: &str) -> Vec<String> {
        dependents.of(owner).map(|(_, key)| key.name.to_string()).collect()
    }

    #[test]
    fn references_are_followed_through_changes() {
        let maps = ResourceId { group: "".into(), plural: "configmaps".into() };
        let mut dependents = Dependents::default();
        let (one, two, both) = (owned("one", &["a"]), owned("two", &["a"]), owned("two", &["a", "b"]));
        dependents.change(&maps, None, Some(&one));
        dependents.change(&maps, None, Some(&two));
        dependents.change(&maps, Some(&two), Some(&both));
        assert_eq!(
            (names(&dependents, "a"), names(&dependents, "b")),
            (vec!["one".into(), "two".into()], vec!["two".into()])
        );
        dependents.change(&maps, Some(&one), Some(&owned("one", &[])));
        dependents.change(&maps, Some(&both), None);
        assert!(dependents.0.is_empty());
    }

    #[test]
    fn what_has_no_owners_takes_no_room() {
        let maps = ResourceId { group: "".into(), plural: "configmaps".into() };
        let events = ResourceId { group: "".into(), plural: "events".into() };
        let mut dependents = Dependents::default();
        dependents.change(&maps, None, Some(&owned("one", &[])));
        dependents.change(&events, None, Some(&owned("one", &["a"])));
        assert!(dependents.0.is_empty());
    }
}
