//! The memory of the store, checked by weak references.

use std::sync::Weak;

use serde_json::json;

use super::*;

const SIZE: usize = 1000;

fn resource(plural: &str) -> ResourceId {
    ResourceId { group: "example.com".into(), plural: plural.into() }
}

fn key(name: &str) -> Key {
    Key { namespace: "n".into(), name: name.into() }
}

fn object(name: &str, revision: Revision) -> Object {
    let value = json!({"metadata": {"name": name, "namespace": "n"}, "data": "x".repeat(SIZE)});
    Object::new(&value, revision, Vec::new())
}

fn create(store: &Store, resource: &ResourceId, name: &str) -> Weak<Object> {
    let object = store.put(resource, &key(name), None, |revision| object(name, revision)).unwrap();
    Arc::downgrade(&object)
}

fn update(store: &Store, resource: &ResourceId, name: &str) -> Weak<Object> {
    let before = store.get(resource, &key(name)).unwrap();
    let after = store.put(resource, &key(name), Some(&before), |revision| object(name, revision)).unwrap();
    Arc::downgrade(&after)
}

fn alive(objects: &[Weak<Object>]) -> usize {
    objects.iter().filter(|object| object.strong_count() > 0).count()
}

fn store(states: usize) -> Store {
    Store::new(Retention { changes: 1000, bytes: states * (SIZE + 200) })
}

#[test]
fn the_log_keeps_no_more_past_states_than_its_bytes_allow() {
    let (store, things) = (store(10), resource("things"));
    store.begin(&things);
    // Each object is written twice, far apart: the log begins with changes whose previous states
    // were written earlier still.
    let names: Vec<String> = (0..50).map(|index| format!("o-{index}")).collect();
    let mut states: Vec<_> = names.iter().map(|name| create(&store, &things, name)).collect();
    states.extend(names.iter().map(|name| update(&store, &things, name)));
    let past = alive(&states) - names.len();
    assert!((9..=11).contains(&past), "{past} past states are kept");
}

#[test]
fn followers_keep_nothing_of_the_log() {
    let (store, things) = (store(10), resource("things"));
    store.begin(&things);
    let mut follower = store.follow(&things, store.revision()).unwrap();
    let mut states = vec![create(&store, &things, "a")];
    states.extend((0..99).map(|_| update(&store, &things, "a")));
    assert!(alive(&states) <= 12, "{} states are kept", alive(&states));
    let expired = store.next_changes(&mut follower, 10, usize::MAX).map(|changes| changes.len());
    assert!(expired.is_err(), "{expired:?}");
}

#[test]
fn changes_are_handed_out_by_number_and_by_bytes() {
    let (store, things) = (store(1000), resource("things"));
    store.begin(&things);
    let mut follower = store.follow(&things, store.revision()).unwrap();
    create(&store, &things, "a");
    (0..19).for_each(|_| drop(update(&store, &things, "a")));
    let mut next = |limit, bytes| store.next_changes(&mut follower, limit, bytes).unwrap().len();
    // The first one is returned at any size.
    assert_eq!((next(5, usize::MAX), next(5, 3 * (SIZE + 200)), next(5, 0)), (5, 3, 1));
    assert_eq!((next(100, usize::MAX), next(100, usize::MAX)), (11, 0));
    assert_eq!(follower.reached(), store.revision());
}

#[test]
fn a_removed_resource_lives_on_in_its_followers_only() {
    let (store, things) = (store(100), resource("things"));
    store.begin(&things);
    let mut follower = store.follow(&things, store.revision()).unwrap();
    let states = [create(&store, &things, "a"), create(&store, &things, "b")];
    for name in ["a", "b"] {
        let current = store.get(&things, &key(name)).unwrap();
        store.delete(&things, &key(name), &current).unwrap();
    }
    store.remove(&things);
    assert!(!store.resources().contains(&things));
    // A late writer and a late watch find nothing, and restore nothing.
    assert!(store.put(&things, &key("c"), None, |revision| object("c", revision)).is_err());
    assert!(store.follow(&things, store.revision()).is_err());
    assert!(!store.resources().contains(&things));

    // The earlier one continues to read, whatever is stored under this name now.
    store.begin(&things);
    create(&store, &things, "of-another-definition");
    let changes = store.next_changes(&mut follower, 100, usize::MAX).unwrap();
    let seen: Vec<_> = changes.iter().map(|change| (&*change.key.name, change.after.is_some())).collect();
    assert_eq!(seen, [("a", true), ("b", true), ("a", false), ("b", false)]);
    drop(changes);
    assert_eq!(alive(&states), 2);
    drop(follower);
    assert_eq!(alive(&states), 0);
    // The second one does not have the past of the first.
    assert!(store.list_at(&things, None, 2).is_err());
}

#[test]
fn all_removed_resources_together_keep_no_more_than_one_that_is_there() {
    let store = store(10);
    let (mut followers, mut states) = (Vec::new(), Vec::new());
    for index in 0..20 {
        let things = resource(&format!("things-{index}"));
        store.begin(&things);
        followers.push(store.follow(&things, store.revision()).unwrap());
        states.push(create(&store, &things, "a"));
        states.extend((0..4).map(|_| update(&store, &things, "a")));
        let current = store.get(&things, &key("a")).unwrap();
        store.delete(&things, &key("a"), &current).unwrap();
        store.remove(&things);
    }
    assert!(alive(&states) <= 11, "{} states are kept", alive(&states));
    let mut read =
        |index: usize| store.next_changes(&mut followers[index], 100, usize::MAX).map(|changes| changes.len());
    assert!(read(0).is_err());
    assert_eq!(read(19), Ok(6));
}

#[test]
fn compaction_reaches_what_is_left_of_removed_resources() {
    let (store, things) = (store(100), resource("things"));
    store.begin(&things);
    let mut follower = store.follow(&things, store.revision()).unwrap();
    let states = [create(&store, &things, "a"), update(&store, &things, "a")];
    store.remove(&things);
    assert_eq!(alive(&states), 2);
    store.compact(store.revision());
    // The present state exists for when the resource begins again.
    assert_eq!(alive(&states), 1);
    assert!(store.next_changes(&mut follower, 100, usize::MAX).is_err());
}
