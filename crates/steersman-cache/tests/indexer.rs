//! The indexer: by key, by index, by selector, and as a whole.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};
use steersman_cache::{Cached, Error, Index, Indexer, ObjectKey, Storage, StorageMode, StorageOptions};
use steersman_wire::LabelSelector;

/// A pod named `namespace/name` at a version.
fn pod_json(key: &str, version: u64) -> Value {
    let key: ObjectKey = key.parse().unwrap();
    let metadata = json!({"name": key.name(), "namespace": key.namespace(), "uid": key.name(), "resourceVersion": version.to_string()});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
}

fn store(storage: &Storage<Pod>, object: &Value) -> Cached<Pod> {
    storage.store(object.to_string().as_bytes(), None).unwrap()
}

fn pod(key: &str, version: u64) -> Cached<Pod> {
    store(&Storage::default(), &pod_json(key, version))
}

fn pod_with_labels(key: &str, version: u64, labels: Value) -> Cached<Pod> {
    let mut object = pod_json(key, version);
    object["metadata"]["labels"] = labels;
    store(&Storage::default(), &object)
}

fn pod_on_node(key: &str, version: u64, node: &Value) -> Cached<Pod> {
    let mut object = pod_json(key, version);
    object["spec"] = json!({"nodeName": node, "containers": []});
    store(&Storage::default(), &object)
}

/// The sorted `key@version` of states.
fn states<'a>(objects: impl IntoIterator<Item = &'a Cached<Pod>>) -> Vec<String> {
    let mut states: Vec<String> = objects.into_iter().map(|object| format!("{object:?}")).collect();
    states.sort();
    states
}

fn found(indexer: &Indexer<Pod>, index: &str, value: &str) -> Vec<String> {
    states(&indexer.by_index(index, value).unwrap())
}

fn values(indexer: &Indexer<Pod>, index: &str) -> Vec<String> {
    let mut values = indexer.index_values(index).unwrap();
    values.sort();
    values
}

fn selector(text: &str) -> LabelSelector {
    LabelSelector::parse(text).unwrap()
}

fn app_indexer() -> Indexer<Pod> {
    let mut indexer = Indexer::new();
    indexer.add_index("app", Index::label("app")).unwrap();
    indexer
}

#[test]
fn an_object_is_found_by_its_namespace_and_name() {
    let mut indexer = Indexer::new();
    for key in ["a/one", "b/one", "one"] {
        assert!(indexer.upsert(pod(key, 1)).is_none());
    }
    assert_eq!(indexer.len(), 3);
    assert_eq!(states(indexer.get("a", "one")), ["a/one@1"]);
    assert_eq!(states(indexer.get("", "one")), ["one@1"]);
    assert!(indexer.get("c", "one").is_none());
    assert!(indexer.get("a", "two").is_none());
}

#[test]
fn an_object_is_found_by_its_key() {
    let mut indexer = Indexer::new();
    for key in ["a/one", "one"] {
        indexer.upsert(pod(key, 1));
        assert_eq!(states(indexer.get_by_key(&key.parse().unwrap())), [format!("{key}@1")]);
    }
    assert!(indexer.get_by_key(&ObjectKey::new("b", "one")).is_none());
}

#[test]
fn writes_give_the_old_state_back() {
    let mut indexer = Indexer::new();
    assert!(indexer.upsert(pod("a/one", 1)).is_none());
    assert_eq!(states(&indexer.upsert(pod("a/one", 2))), ["a/one@1"]);
    assert_eq!(indexer.len(), 1);
    assert_eq!(states(&indexer.delete("a", "one")), ["a/one@2"]);
    assert!(indexer.delete("a", "one").is_none());
    assert!(indexer.is_empty() && indexer.get("a", "one").is_none());
}

#[test]
fn list_gives_every_object_once() {
    let mut indexer = Indexer::new();
    let expected: Vec<String> = (100..300).map(|n| format!("a/p{n}@{n}")).collect();
    for n in 100..300 {
        indexer.upsert(pod(&format!("a/p{n}"), 1));
        indexer.upsert(pod(&format!("a/p{n}"), n));
    }
    let snapshot = indexer.list();
    assert_eq!(snapshot.len(), 200);
    assert_eq!(states(&snapshot), expected);
    assert_eq!(snapshot.iter().len(), 200);
    assert_eq!(states(&snapshot.into_iter().collect::<Vec<_>>()), expected);
}

#[test]
fn list_keys_gives_every_key_once() {
    let mut indexer = Indexer::new();
    for key in ["a/one", "b/one", "one", "a/one"] {
        indexer.upsert(pod(key, 1));
    }
    indexer.delete("b", "one");
    let keys: BTreeSet<ObjectKey> = indexer.keys().into_iter().collect();
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), [ObjectKey::new("a", "one"), ObjectKey::cluster("one")]);
    assert_eq!(indexer.keys().len(), 2);
}

#[test]
fn objects_that_come_after_others_have_gone_are_found() {
    let mut indexer = app_indexer();
    for round in 0..3 {
        for n in 0..200 {
            indexer.upsert(pod_with_labels(&format!("a/{round}-{n}"), 1, json!({"app": "web"})));
        }
        for n in 0..150 {
            assert!(indexer.delete("a", &format!("{round}-{n}")).is_some());
        }
        assert_eq!(indexer.by_index("app", "web").unwrap().len(), indexer.len());
    }
    assert_eq!((indexer.len(), indexer.list().iter().count()), (150, 150));
}

#[test]
fn replace_returns_what_was_added_updated_and_deleted() {
    let mut indexer = app_indexer();
    for key in ["a/gone", "a/kept", "b/gone", "b/same"] {
        indexer.upsert(pod_with_labels(key, 1, json!({"app": "old"})));
    }
    let same = indexer.get("b", "same").unwrap().clone();
    let changed = pod_with_labels("a/kept", 2, json!({"app": "new"}));
    let replaced = indexer.replace(vec![pod("a/new", 3), changed, same.clone()]);

    assert_eq!(states(&replaced.added), ["a/new@3"]);
    let updated: Vec<_> = replaced.updated.iter().map(|(old, new)| format!("{old:?} {new:?}")).collect();
    assert_eq!(updated, ["a/kept@1 a/kept@2", "b/same@1 b/same@1"]);
    assert!(replaced.updated[1].0.is_same_state(&same));
    assert_eq!(states(&replaced.deleted), ["a/gone@1", "b/gone@1"]);
    assert_eq!(states(&indexer.list()), ["a/kept@2", "a/new@3", "b/same@1"]);
    assert_eq!(found(&indexer, "app", "old"), ["b/same@1"]);
    assert_eq!(found(&indexer, "app", "new"), ["a/kept@2"]);
}

#[test]
fn replace_by_nothing_empties_the_store() {
    let mut indexer = app_indexer();
    indexer.upsert(pod_with_labels("a/one", 1, json!({"app": "web"})));
    assert_eq!(states(&indexer.replace(Vec::new()).deleted), ["a/one@1"]);
    assert!(indexer.is_empty() && indexer.list().is_empty() && indexer.keys().is_empty());
    assert!(values(&indexer, "app").is_empty() && values(&indexer, "namespace").is_empty());
    indexer.upsert(pod_with_labels("a/one", 2, json!({"app": "web"})));
    assert_eq!(found(&indexer, "app", "web"), ["a/one@2"]);
}

#[test]
fn replace_takes_the_last_of_several_with_the_same_key() {
    let mut indexer = Indexer::new();
    indexer.upsert(pod("a/old", 1));
    let replaced = indexer.replace(vec![pod("a/old", 2), pod("a/new", 2), pod("a/new", 3), pod("a/old", 4)]);
    assert_eq!(states(&replaced.added), ["a/new@3"]);
    assert_eq!(states(replaced.updated.iter().flat_map(|(old, new)| [old, new])), ["a/old@1", "a/old@4"]);
    assert!(replaced.deleted.is_empty());
    assert_eq!(states(&indexer.list()), ["a/new@3", "a/old@4"]);
}

#[test]
fn replace_in_a_namespace_leaves_the_others_alone() {
    let mut indexer = Indexer::new();
    for key in ["a/gone", "a/kept", "b/other", "cluster"] {
        indexer.upsert(pod(key, 1));
    }
    let replaced =
        indexer.replace_in(Some("a"), vec![pod("a/kept", 2), pod("a/new", 2), pod("b/other", 2), pod("c/x", 2)]);
    assert_eq!(states(&replaced.added), ["a/new@2"]);
    assert_eq!(states(replaced.updated.iter().map(|(_, new)| new)), ["a/kept@2"]);
    assert_eq!(states(&replaced.deleted), ["a/gone@1"]);
    assert_eq!(states(&indexer.list()), ["a/kept@2", "a/new@2", "b/other@1", "cluster@1"]);
    assert_eq!(states(&indexer.replace_in(Some(""), Vec::new()).deleted), ["cluster@1"]);
}

#[test]
fn by_index_finds_the_objects_that_have_a_value() {
    let mut indexer = app_indexer();
    indexer.upsert(pod_with_labels("a/one", 1, json!({"app": "web"})));
    indexer.upsert(pod_with_labels("b/two", 1, json!({"app": "web"})));
    indexer.upsert(pod_with_labels("a/three", 1, json!({"app": "db"})));
    indexer.upsert(pod_with_labels("a/four", 1, json!({"tier": "web"})));
    assert_eq!(found(&indexer, "app", "web"), ["a/one@1", "b/two@1"]);
    assert!(found(&indexer, "app", "nothing").is_empty());
}

#[test]
fn index_keys_gives_the_keys_of_the_objects_that_have_a_value() {
    let mut indexer = app_indexer();
    indexer.upsert(pod_with_labels("a/one", 1, json!({"app": "web"})));
    indexer.upsert(pod_with_labels("a/two", 1, json!({"app": "db"})));
    assert_eq!(indexer.index_keys("app", "web").unwrap(), [ObjectKey::new("a", "one")]);
}

#[test]
fn index_finds_the_objects_that_share_a_value() {
    let mut indexer = Indexer::new();
    indexer.add_index("owner", Index::owner_uid()).unwrap();
    indexer
        .add_index("labels", Index::metadata(|meta| meta.labels().map(|(key, _)| key.to_owned()).collect()))
        .unwrap();
    for (key, labels) in [("a/x", json!({"x": ""})), ("a/y", json!({"y": ""})), ("a/xy", json!({"x": "", "y": ""}))] {
        indexer.upsert(pod_with_labels(key, 1, labels));
    }
    let absent = pod_with_labels("b/absent", 1, json!({"x": "", "y": "", "z": ""}));
    assert_eq!(states(&indexer.index("labels", &absent).unwrap()), ["a/x@1", "a/xy@1", "a/y@1"]);
    let y = indexer.get("a", "y").unwrap();
    assert_eq!(states(&indexer.index("labels", y).unwrap()), ["a/xy@1", "a/y@1"]);
    assert!(indexer.index("owner", &absent).unwrap().is_empty());
}

#[test]
fn index_values_gives_each_value_once() {
    let mut indexer = app_indexer();
    for (key, app) in [("a/one", "web"), ("a/two", "web"), ("a/three", "db")] {
        indexer.upsert(pod_with_labels(key, 1, json!({"app": app})));
    }
    assert_eq!(values(&indexer, "app"), ["db", "web"]);
}

#[test]
fn an_index_added_to_a_filled_store_works_at_once() {
    let mut indexer = Indexer::new();
    indexer.upsert(pod_with_labels("a/gone", 1, json!({"app": "web"})));
    indexer.upsert(pod_with_labels("a/one", 1, json!({"app": "web"})));
    indexer.delete("a", "gone");
    indexer.add_index("app", Index::label("app")).unwrap();
    assert_eq!(found(&indexer, "app", "web"), ["a/one@1"]);
    indexer.upsert(pod_with_labels("a/one", 2, json!({"app": "db"})));
    assert_eq!(values(&indexer, "app"), ["db"]);
}

#[test]
fn an_index_name_that_is_taken_is_refused() {
    let mut indexer = app_indexer();
    indexer.upsert(pod_with_labels("a/one", 1, json!({"app": "web", "tier": "front"})));
    for name in ["app", "namespace"] {
        let error = indexer.add_index(name, Index::label("tier")).unwrap_err();
        assert!(matches!(&error, Error::IndexExists { name: taken } if taken == name), "{error}");
    }
    assert_eq!(indexer.index_names().collect::<Vec<_>>(), ["namespace", "app"]);
    assert_eq!(values(&indexer, "app"), ["web"]);
}

#[test]
fn asking_an_index_that_does_not_exist_names_those_that_do() {
    let indexer = app_indexer();
    let object = pod("a/one", 1);
    for error in [
        indexer.by_index("ap", "web").unwrap_err(),
        indexer.index_keys("ap", "web").unwrap_err(),
        indexer.index_values("ap").unwrap_err(),
        indexer.index("ap", &object).unwrap_err(),
        indexer.select_by_index("ap", "web", &LabelSelector::everything()).unwrap_err(),
    ] {
        assert!(matches!(&error, Error::NoSuchIndex { name, known } if name == "ap" && known == &["namespace", "app"]));
    }
}

#[test]
fn an_object_can_have_several_values() {
    let mut indexer = Indexer::new();
    indexer.add_index("label", Index::metadata(|meta| meta.labels().map(|(key, _)| key.to_owned()).collect())).unwrap();
    indexer.upsert(pod_with_labels("a/one", 1, json!({"x": "", "y": ""})));
    indexer.upsert(pod_with_labels("a/two", 1, json!({"y": "", "z": ""})));
    assert_eq!(found(&indexer, "label", "y"), ["a/one@1", "a/two@1"]);
    indexer.upsert(pod_with_labels("a/one", 2, json!({"y": "", "z": ""})));
    assert_eq!(values(&indexer, "label"), ["y", "z"]);
    assert_eq!(found(&indexer, "label", "z"), ["a/one@2", "a/two@1"]);
    indexer.delete("a", "two");
    assert_eq!(found(&indexer, "label", "y"), ["a/one@2"]);
}

#[test]
fn a_value_that_an_object_has_twice_counts_once() {
    let mut indexer = Indexer::new();
    let twice = |text: &str| ["x", text, "x", text].map(str::to_owned).to_vec();
    indexer.add_index("twice", Index::metadata(move |meta| twice(meta.label("app").unwrap_or("x")))).unwrap();
    for version in [1, 2] {
        indexer.upsert(pod_with_labels("a/one", version, json!({"app": "web"})));
        indexer.upsert(pod("a/two", version));
        assert_eq!(found(&indexer, "twice", "x"), [format!("a/one@{version}"), format!("a/two@{version}")]);
        assert_eq!(found(&indexer, "twice", "web"), [format!("a/one@{version}")]);
    }
    indexer.delete("a", "one");
    assert_eq!(values(&indexer, "twice"), ["x"]);
    indexer.delete("a", "two");
    assert!(values(&indexer, "twice").is_empty());
}

#[test]
fn empty_index_sets_are_removed() {
    let mut indexer = app_indexer();
    indexer.upsert(pod("a/other", 1));
    indexer.upsert(pod_with_labels("a/one", 1, json!({"app": "web"})));
    indexer.upsert(pod_with_labels("a/one", 2, json!({"app": "db"})));
    assert_eq!(values(&indexer, "app"), ["db"]);
    indexer.delete("a", "one");
    assert!(values(&indexer, "app").is_empty());
}

#[test]
fn an_updated_object_moves_between_index_entries() {
    let mut indexer = app_indexer();
    for key in ["a/one", "a/two", "a/three"] {
        indexer.upsert(pod_with_labels(key, 1, json!({"app": "web"})));
    }
    indexer.upsert(pod_with_labels("a/one", 2, json!({"app": "db"})));
    assert_eq!(found(&indexer, "app", "web"), ["a/three@1", "a/two@1"]);
    assert_eq!(found(&indexer, "app", "db"), ["a/one@2"]);
    indexer.upsert(pod("a/one", 3));
    indexer.upsert(pod_with_labels("a/three", 3, json!({"app": "web"})));
    assert!(found(&indexer, "app", "db").is_empty());
    assert_eq!(found(&indexer, "app", "web"), ["a/three@3", "a/two@1"]);
}

#[test]
fn the_version_reached_is_what_was_last_set() {
    let mut indexer = app_indexer();
    assert_eq!(indexer.resource_version(), "");
    indexer.set_resource_version("12");
    indexer.upsert(pod("a/one", 99));
    indexer.replace(vec![pod("a/two", 100)]);
    assert_eq!(indexer.resource_version(), "12");
    indexer.set_resource_version("7");
    assert_eq!(indexer.resource_version(), "7");
}

#[test]
fn the_namespace_index_is_built_in() {
    let mut indexer = Indexer::new();
    for key in ["a/one", "a/two", "b/one", "cluster"] {
        indexer.upsert(pod(key, 1));
    }
    assert_eq!(states(&indexer.namespace("a")), ["a/one@1", "a/two@1"]);
    assert_eq!(states(&indexer.namespace("")), ["cluster@1"]);
    assert_eq!(found(&indexer, "namespace", "b"), ["b/one@1"]);
    assert_eq!(values(&indexer, "namespace"), ["", "a", "b"]);
}

#[test]
fn labels_select_among_all_within_a_namespace_and_within_an_index() {
    let mut indexer = app_indexer();
    for (key, app, tier) in [("a/one", "web", "x"), ("a/two", "web", "y"), ("b/one", "web", "x"), ("a/db", "db", "x")] {
        indexer.upsert(pod_with_labels(key, 1, json!({"app": app, "tier": tier})));
    }
    indexer.upsert(pod("a/bare", 1));
    assert_eq!(states(&indexer.select(None, &selector("tier=x"))), ["a/db@1", "a/one@1", "b/one@1"]);
    assert_eq!(states(&indexer.select(Some("a"), &selector("tier in (x,y),app!=db"))), ["a/one@1", "a/two@1"]);
    assert_eq!(states(&indexer.select(Some("a"), &selector("!tier"))), ["a/bare@1"]);
    assert_eq!(states(&indexer.select_by_index("app", "web", &selector("tier=x")).unwrap()), ["a/one@1", "b/one@1"]);
    assert_eq!(indexer.select(None, &LabelSelector::everything()).len(), 5);
    assert!(indexer.select(None, &LabelSelector::nothing()).is_empty());
}

#[test]
fn a_path_index_holds_texts_numbers_and_truth_values_only() {
    let mut indexer = Indexer::new();
    indexer.add_index("node", Index::path("spec.nodeName".parse().unwrap())).unwrap();
    let all = [
        json!("n\u{e9}"),
        json!(12),
        json!(1.5),
        json!(true),
        json!(false),
        json!(""),
        json!(null),
        json!(["n"]),
        json!({"n": 1}),
    ];
    for (n, node) in all.iter().enumerate() {
        indexer.upsert(pod_on_node(&format!("a/{n}"), 1, node));
    }
    indexer.upsert(pod("a/none", 1));
    assert_eq!(values(&indexer, "node"), ["", "1.5", "12", "false", "n\u{e9}", "true"]);
    assert_eq!(found(&indexer, "node", "12"), ["a/1@1"]);
    assert_eq!(indexer.len(), 10);
}

#[test]
fn a_path_index_works_on_objects_that_are_kept_decoded() {
    let options = StorageOptions { mode: StorageMode::Decoded, ..StorageOptions::default() };
    let storage = Storage::new(options);
    let mut indexer = Indexer::new();
    indexer.add_index("node", Index::path("spec.nodeName".parse().unwrap())).unwrap();
    let mut object = pod_json("a/one", 1);
    object["spec"] = json!({"nodeName": "n1", "containers": []});
    indexer.upsert(store(&storage, &object));
    assert_eq!(found(&indexer, "node", "n1"), ["a/one@1"]);
}

#[test]
fn annotations_and_owners_are_found() {
    let mut indexer = Indexer::new();
    indexer.add_index("note", Index::annotation("note")).unwrap();
    indexer.add_index("owner", Index::owner_uid()).unwrap();
    let mut object = pod_json("a/one", 1);
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid});
    object["metadata"]["annotations"] = json!({"note": "hello"});
    object["metadata"]["ownerReferences"] = json!([owner("u1"), owner("u2")]);
    indexer.upsert(store(&Storage::default(), &object));
    assert_eq!(found(&indexer, "note", "hello"), ["a/one@1"]);
    assert_eq!(values(&indexer, "owner"), ["u1", "u2"]);
}

#[test]
fn an_object_that_does_not_decode_has_no_values_in_an_index_by_function_and_harms_nothing() {
    let mut indexer = app_indexer();
    let containers = |pod: &Pod| pod.spec.iter().flat_map(|spec| &spec.containers).map(|c| c.name.clone()).collect();
    indexer.add_index("container", Index::function(containers)).unwrap();
    let mut good = pod_with_containers("a/good", &["x", "y", "x"]);
    good["metadata"]["labels"] = json!({"app": "web"});
    let mut bad = good.clone();
    bad["metadata"]["name"] = json!("bad");
    bad["spec"]["containers"] = json!("none");
    for object in [&good, &bad] {
        indexer.upsert(store(&Storage::default(), object));
    }
    assert_eq!(values(&indexer, "container"), ["x", "y"]);
    assert_eq!(found(&indexer, "container", "x"), ["a/good@1"]);
    assert_eq!(found(&indexer, "app", "web"), ["a/bad@1", "a/good@1"]);
    assert!(indexer.delete("a", "bad").is_some());
}

fn pod_with_containers(key: &str, names: &[&str]) -> Value {
    let mut object = pod_json(key, 1);
    object["spec"]["containers"] = names.iter().map(|name| json!({"name": name})).collect();
    object
}

#[test]
fn a_function_that_panics_leaves_everything_as_it_was() {
    let mut indexer = app_indexer();
    let panics = |meta: &steersman_wire::Metadata| {
        meta.label("panic").map(|_| panic!("as the test asked")).into_iter().collect()
    };
    indexer.add_index("panics", Index::metadata(panics)).unwrap();
    indexer.upsert(pod_with_labels("a/one", 1, json!({"app": "web"})));
    for key in ["a/one", "a/two"] {
        let object = pod_with_labels(key, 2, json!({"app": "db", "panic": ""}));
        assert!(catch_unwind(AssertUnwindSafe(|| indexer.upsert(object))).is_err());
    }
    assert_eq!((states(&indexer.list()), indexer.len()), (vec!["a/one@1".to_owned()], 1));
    assert_eq!(values(&indexer, "app"), ["web"]);
}

#[test]
fn later_writes_are_not_seen_by_a_snapshot() {
    let mut indexer = Indexer::new();
    for n in 10..20 {
        indexer.upsert(pod(&format!("a/p{n}"), 1));
    }
    let before = indexer.list();
    indexer.upsert(pod("a/p10", 2));
    indexer.delete("a", "p11");
    indexer.upsert(pod("a/p20", 2));
    let between = indexer.list();
    indexer.replace(Vec::new());

    assert_eq!((before.len(), between.len(), indexer.list().len()), (10, 10, 0));
    assert_eq!(states(&before), (10..20).map(|n| format!("a/p{n}@1")).collect::<Vec<_>>());
    assert!(states(&between).contains(&"a/p10@2".to_owned()) && states(&between).contains(&"a/p20@2".to_owned()));
    assert!(!states(&between).contains(&"a/p11@1".to_owned()));
}

#[test]
fn nothing_is_decoded_for_indexes_and_selectors() {
    let options = StorageOptions { memo_bytes_max: 0, ..StorageOptions::default() };
    let storage: Storage<ConfigMap> = Storage::new(options);
    let mut indexer = Indexer::new();
    indexer.add_index("app", Index::label("app")).unwrap();
    indexer.add_index("note", Index::annotation("note")).unwrap();
    indexer.add_index("colour", Index::path("data.colour".parse().unwrap())).unwrap();
    indexer.add_index("owner", Index::owner_uid()).unwrap();
    let object = |n: usize, version: usize| {
        let metadata = json!({
            "name": format!("c{n}"), "namespace": format!("ns{}", n % 3), "resourceVersion": version.to_string(),
            "labels": {"app": format!("app{}", version % 2)}, "annotations": {"note": (n + version).to_string()},
        });
        let object = json!({"metadata": metadata, "data": {"colour": format!("{}", version % 5)}});
        storage.store(object.to_string().as_bytes(), None).unwrap()
    };
    for version in 0..20 {
        for n in 0..50 {
            indexer.upsert(object(n, version));
        }
    }
    indexer.add_index("late", Index::metadata(|meta| vec![meta.name().to_owned()])).unwrap();
    assert_eq!(indexer.by_index("colour", "4").unwrap().len(), 50);
    assert_eq!(indexer.by_index("app", "app1").unwrap().len(), 50);
    assert_eq!(indexer.by_index("late", "c7").unwrap().len(), 1);
    assert_eq!(indexer.select(Some("ns0"), &selector("app=app1")).len(), 17);
    assert_eq!(indexer.index("note", &object(9, 19)).unwrap().len(), 1);
    indexer.replace((0..25).map(|n| object(n, 30)).collect());
    for n in 0..25 {
        assert!(indexer.delete(&format!("ns{}", n % 3), &format!("c{n}")).is_some());
    }
    assert_eq!(storage.metrics().decodes_total, 0);

    indexer
        .add_index("function", Index::function(|map: &ConfigMap| map.metadata.name.clone().into_iter().collect()))
        .unwrap();
    indexer.upsert(object(1, 31));
    indexer.delete("ns1", "c1");
    assert_eq!(storage.metrics().decodes_total, 1, "once on arrival, and not when it goes");
}
