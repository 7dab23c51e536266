//! The dependents of an owner: the objects that name it, by the owner's uid.

use std::collections::{BTreeSet, HashMap};

use crate::store::object::Object;
use crate::store::{Key, ResourceId};

/// The objects that name each owner, also if that owner does not exist. An object without owners
/// takes no memory.
#[derive(Default)]
pub(crate) struct Dependents(HashMap<Box<str>, OfOwner>);

#[derive(Default)]
struct OfOwner {
    objects: BTreeSet<(ResourceId, Key)>,
    /// How many of them the owner waits for in foreground deletion.
    blocking: usize,
}

impl Dependents {
    /// Records that an object changed from one state to another.
    pub(crate) fn change(&mut self, resource: &ResourceId, before: Option<&Object>, after: Option<&Object>) {
        let owners = |object: Option<&Object>| object.map_or(0, |object| object.owners().len());
        if owners(before) + owners(after) == 0 || !is_collected(resource) {
            return;
        }
        for (object, owner, blocks) in before.into_iter().flat_map(owners_of) {
            if let Some(of_owner) = self.0.get_mut(owner) {
                of_owner.objects.remove(&(resource.clone(), object.key().clone()));
                of_owner.blocking -= usize::from(blocks);
                if of_owner.objects.is_empty() {
                    self.0.remove(owner);
                }
            }
        }
        for (object, owner, blocks) in after.into_iter().flat_map(owners_of) {
            let of_owner = self.0.entry(owner.into()).or_default();
            of_owner.objects.insert((resource.clone(), object.key().clone()));
            of_owner.blocking += usize::from(blocks);
        }
    }

    /// The objects that name this owner, by resource, namespace and name.
    pub(crate) fn of(&self, owner: &str) -> impl Iterator<Item = &(ResourceId, Key)> {
        self.0.get(owner).into_iter().flat_map(|of_owner| &of_owner.objects)
    }

    /// Whether this owner waits for one of them in foreground deletion.
    pub(crate) fn is_blocked(&self, owner: &str) -> bool {
        self.0.get(owner).is_some_and(|of_owner| of_owner.blocking > 0)
    }
}

/// The owners of an object, each once, and whether they wait for the object.
fn owners_of(object: &Object) -> impl Iterator<Item = (&Object, &str, bool)> {
    let mut owners = HashMap::new();
    for owner in object.owners() {
        *owners.entry(&*owner.uid).or_insert(false) |= owner.blocks;
    }
    owners.into_iter().map(move |(owner, blocks)| (object, owner, blocks))
}

/// The garbage collector ignores the owners of Events.
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
    fn an_owner_is_blocked_until_the_last_dependent_lets_it_go() {
        let maps = ResourceId { group: "".into(), plural: "configmaps".into() };
        let object = |name: &str, blocks: &[bool]| {
            let owner = |blocks: &bool| json!({"uid": "a", "blockOwnerDeletion": blocks});
            let owners: Vec<Value> = blocks.iter().map(owner).collect();
            Object::new(&json!({"metadata": {"name": name, "ownerReferences": owners}}), 1, Vec::new())
        };
        let mut dependents = Dependents::default();
        let (one, twice, free) = (object("one", &[true]), object("two", &[false, true]), object("two", &[false]));
        dependents.change(&maps, None, Some(&free));
        assert!(!dependents.is_blocked("a"));
        dependents.change(&maps, None, Some(&one));
        dependents.change(&maps, Some(&free), Some(&twice));
        assert!(dependents.is_blocked("a") && !dependents.is_blocked("b"));
        dependents.change(&maps, Some(&one), None);
        assert!(dependents.is_blocked("a"));
        dependents.change(&maps, Some(&twice), Some(&free));
        assert!(!dependents.is_blocked("a"));
        dependents.change(&maps, Some(&free), None);
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
