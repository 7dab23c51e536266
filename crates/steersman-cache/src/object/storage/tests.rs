//! Objects are stored in parts and read as a whole.

use serde_json::{Value, json};
use steersman_wire::FieldPath;

use super::*;

const MODES: [StorageMode; 3] = [StorageMode::Encoded, StorageMode::Decoded, StorageMode::Compressed];

fn path(text: &str) -> FieldPath {
    text.parse().expect("a path")
}

/// An object with every metadata field that bodies do not contain.
fn full(index: usize) -> Value {
    json!({
        "metadata": {
            "name": format!("full-{index}"), "namespace": "shop", "uid": format!("u-{index}"), "resourceVersion": "7",
            "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
            "labels": {"app.kubernetes.io/name": "full", "index": index.to_string(), "empty": ""},
            "annotations": {"example.com/json": "{\"a\":\"\\\\é\\n\"}", "index": index.to_string()},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "o", "controller": true}],
            "finalizers": ["example.com/stay"], "generateName": "full-",
        },
        "spec": {"index": index, "text": "the same in all of them, so that there is something to compress"},
    })
}

/// Checks that every way to read the object returns all of it.
#[track_caller]
fn assert_whole(cached: &Cached<Value>, expected: &Value) {
    assert_eq!(*cached.get().expect("it decodes"), *expected);
    assert_eq!(cached.with(Value::clone).expect("it decodes"), *expected);
    assert_eq!(cached.view::<Value>().expect("it decodes"), *expected);
    let json = cached.to_json().expect("JSON");
    assert_eq!(serde_json::from_slice::<Value>(&json).expect("JSON"), *expected);
    for field in ["kind", "apiVersion", "metadata.name", "metadata.annotations['example.com/json']", "spec.text"] {
        let value = path(field).names().fold(expected, |value, name| &value[name]).as_str().map(str::to_owned);
        assert_eq!(cached.read(&path(field)).expect("it reads"), value, "{field}");
    }
    for field in ["metadata", "metadata.labels", "metadata.ownerReferences", "metadata.generation", "spec"] {
        let json = cached.read(&path(field)).expect("it reads").expect("it is there");
        let expected = path(field).names().fold(expected, |value, name| &value[name]).clone();
        assert_eq!(serde_json::from_str::<Value>(&json).expect("JSON"), expected, "{field}");
    }
    assert_eq!(cached.read(&path("metadata.labels.missing")).expect("it reads"), None);
}

#[test]
fn metadata_is_stored_once_and_read_everywhere() {
    let types = TypeMeta { api_version: "example.com/v1".to_owned(), kind: "Full".to_owned() };
    let whole = |index| {
        let mut object = full(index);
        object["apiVersion"] = types.api_version.as_str().into();
        object["kind"] = types.kind.as_str().into();
        object
    };
    for mode in MODES {
        let storage = Storage::<Value>::new(StorageOptions { mode, ..StorageOptions::default() });
        let item = |index| RawItem::new(index, full(index).to_string().into_bytes().into());
        let store = |index| storage.store_item(&item(index), Some(&types)).expect("it is stored");
        let mut objects: Vec<_> = (0..10).map(store).collect();
        let check = |objects: &[Cached<Value>]| {
            (0..).zip(objects).for_each(|(index, cached)| assert_whole(cached, &whole(index)));
        };
        check(&objects);
        let sizes = (0..10).map(|index| whole(index).to_string().len());
        assert!(storage.metrics().body_bytes < sizes.sum::<usize>() / 2, "{mode:?}");
        objects.extend((10..400).map(store));
        check(&objects);
        storage.shared().compression.iter().for_each(Compression::wait_until_trained);
        objects.extend((400..450).map(store));
        check(&objects);
        assert_eq!(storage.metrics().dictionary_version, u64::from(mode == StorageMode::Compressed));
    }
}

#[test]
fn a_field_outside_of_the_metadata_is_read_without_restoring_the_object() {
    let storage = Storage::<Value>::default();
    let cached = storage.store(full(1).to_string().as_bytes(), None).expect("it is stored");
    let length = |field| cached.with_bytes_of(&path(field), <[u8]>::len).expect("JSON");
    assert!(length("spec.text") < storage.metrics().body_bytes);
    for field in ["metadata.generateName", "metadata", "kind", "apiVersion"] {
        assert_eq!(length(field), full(1).to_string().len(), "{field}");
    }
}

#[test]
fn a_transformed_object_is_read_as_a_whole_too() {
    for mode in MODES {
        let options = StorageOptions { mode, ..StorageOptions::default() };
        let storage = Storage::new(options.transform(|object: &mut Value| {
            object["metadata"]["labels"] = json!({"added": "é\"", "other": "label"});
        }));
        let mut expected = full(1);
        let cached = storage.store(expected.to_string().as_bytes(), None).expect("it is stored");
        assert_eq!(cached.meta().label("added"), Some("é\""));
        expected["metadata"]["labels"] = json!({"added": "é\"", "other": "label"});
        let found = cached.view::<Value>().expect("it decodes");
        assert_eq!((&found["metadata"], &found["spec"]), (&expected["metadata"], &expected["spec"]), "{mode:?}");
        assert!(storage.metrics().body_bytes < expected.to_string().len() / 2, "{mode:?}");
    }
}
