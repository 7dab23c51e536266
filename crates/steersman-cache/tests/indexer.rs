//! The store of objects: by key, by index, by selector, and as a whole.

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

fn pod_on_node(key: &str, version: u64, node: Value) -> Cached<Pod> {
    let mut object = pod_json(key, version);
    object["spec"] = json!({"nodeName": node, "containers": []});
    store(&Storage::default(), &object)
}

/// Which states these are: `key@version`, in order.
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
