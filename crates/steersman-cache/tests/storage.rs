//! The guarantees of stored objects.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube_core::DynamicObject;
use kube_core::metadata::PartialObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};
use steersman_cache::{Cached, Delta, Event, Object, Storage, StorageMetrics, StorageMode, StorageOptions};
use steersman_wire::{FieldPath, Json, RawItem, Strip, TypeMeta};

const MODES: [StorageMode; 3] = [StorageMode::Encoded, StorageMode::Decoded, StorageMode::Compressed];

fn storage<K: Object>(mode: StorageMode) -> Storage<K> {
    Storage::new(StorageOptions { mode, ..StorageOptions::default() })
}

fn with_memo<K: Object>(memo_bytes_max: usize) -> Storage<K> {
    Storage::new(StorageOptions { memo_bytes_max, ..StorageOptions::default() })
}

fn store<K: Object>(storage: &Storage<K>, object: &Value) -> Cached<K> {
    storage.store(object.to_string().as_bytes(), None).expect("the object is kept")
}

fn config_map(index: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": format!("config-{index}"), "namespace": "shop", "uid": "u", "resourceVersion": "7"},
        "data": {"index": index.to_string()},
    })
}

/// A Secret that does not decode, with a decoder that would quote it.
fn broken_secret() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "token", "namespace": "shop", "resourceVersion": "9"},
        "data": "hunter2",
    })
}

fn path(text: &str) -> FieldPath {
    text.parse().expect("a path")
}

#[test]
fn a_state_is_decoded_once_and_shared() {
    for mode in MODES {
        let storage = storage::<ConfigMap>(mode);
        let cached = store(&storage, &config_map(1));
        let start = Barrier::new(8);
        let objects: Vec<Arc<ConfigMap>> = thread::scope(|scope| {
            let readers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        cached.clone().get().expect("it decodes")
                    })
                })
                .collect();
            readers.into_iter().map(|reader| reader.join().expect("a reader")).collect()
        });
        assert!(objects.iter().all(|object| Arc::ptr_eq(object, &objects[0])), "{mode:?}");
        assert_eq!(storage.metrics().decodes_total, 1, "{mode:?}");
    }
}

#[test]
fn a_state_in_use_is_not_decoded_again_without_a_memo() {
    let storage = with_memo::<ConfigMap>(0);
    let cached = store(&storage, &config_map(1));
    let held = cached.get().expect("it decodes");
    assert!(Arc::ptr_eq(&held, &cached.get().expect("it decodes")));
    assert_eq!(storage.metrics().decodes_total, 1);
    drop(held);
    cached.get().expect("it decodes");
    assert_eq!(storage.metrics().decodes_total, 2);
}

/// Reads an object and drops it.
fn read(object: &Cached<ConfigMap>) {
    object.get().expect("it decodes");
}

#[test]
fn what_is_read_once_is_not_kept() {
    // A memo of this size keeps no first reads.
    let length = store(&with_memo::<ConfigMap>(0), &config_map(100)).to_json().expect("JSON").len();
    let storage = with_memo::<ConfigMap>(60 * length);
    let objects: Vec<_> = (100..160).map(|index| store(&storage, &config_map(index))).collect();
    objects.iter().for_each(read);
    assert_eq!(storage.metrics().memo_objects, 0);
    objects.iter().for_each(read);
    assert_eq!((storage.metrics().memo_objects, storage.metrics().decodes_total), (60, 120));
    objects.iter().for_each(read);
    assert_eq!(storage.metrics().decodes_total, 120, "from the second time on they are kept");
}

#[test]
fn the_memo_is_bounded() {
    let length = store(&with_memo::<ConfigMap>(0), &config_map(100)).to_json().expect("JSON").len();
    let storage = with_memo::<ConfigMap>(10 * length + 1);
    let objects: Vec<_> = (100..200).map(|index| store(&storage, &config_map(index))).collect();
    for (place, object) in objects.iter().enumerate() {
        (0..2).for_each(|_| read(object));
        let expected = (place + 1).min(10);
        let StorageMetrics { memo_objects, memo_bytes, .. } = storage.metrics();
        assert_eq!((memo_objects, memo_bytes), (expected, expected * length));
    }
    let mut large = config_map(1);
    large["data"]["text"] = "x".repeat(20 * length).into();
    let large = store(&storage, &large);
    (0..3).for_each(|_| read(&large));
    assert_eq!(storage.metrics().memo_objects, 10, "what is larger than the memo pushes nothing out of it");
    assert_eq!(storage.metrics().decodes_total, 203, "and is not kept");
}

#[test]
fn the_memo_is_bounded_while_many_threads_read() {
    let length = store(&with_memo::<ConfigMap>(0), &config_map(100)).to_json().expect("JSON").len();
    let storage = with_memo::<ConfigMap>(5 * length);
    let objects: Vec<_> = (100..120).map(|index| store(&storage, &config_map(index))).collect();
    thread::scope(|scope| {
        for reader in 0..4 {
            let (objects, storage) = (&objects, &storage);
            scope.spawn(move || {
                for round in 0..2000 {
                    let index = (round * (reader + 1) + round / 7) % objects.len();
                    let data = objects[index].get().expect("it decodes").data.clone().expect("data");
                    assert_eq!(data["index"], (100 + index).to_string());
                    assert!(storage.metrics().memo_bytes <= 5 * length);
                }
            });
        }
    });
}

#[test]
fn what_is_asked_for_again_stays_in_the_memo() {
    let length = store(&with_memo::<ConfigMap>(0), &config_map(100)).to_json().expect("JSON").len();
    let storage = with_memo::<ConfigMap>(4 * length);
    let popular = store(&storage, &config_map(100));
    (0..2).for_each(|_| read(&popular));
    for index in 101..150 {
        read(&popular);
        let other = store(&storage, &config_map(index));
        (0..2).for_each(|_| read(&other));
    }
    assert_eq!(storage.metrics().decodes_total, 100, "the popular one was decoded no more than the others");
    for index in 150..160 {
        let other = store(&storage, &config_map(index));
        (0..2).for_each(|_| read(&other));
    }
    read(&popular);
    assert_eq!(storage.metrics().decodes_total, 121, "the last read was long ago");
}

#[test]
fn reading_every_object_does_not_drive_out_those_that_are_read_all_the_time() {
    let length = store(&with_memo::<ConfigMap>(0), &config_map(1000)).to_json().expect("JSON").len();
    let storage = with_memo::<ConfigMap>(60 * length);
    let objects: Vec<_> = (1000..2000).map(|index| store(&storage, &config_map(index))).collect();
    let (popular, others) = objects.split_at(20);
    (0..2).for_each(|_| popular.iter().for_each(read));
    let before = storage.metrics().decodes_total;
    // At the second pass, every earlier read is too long ago.
    (0..3).for_each(|_| others.iter().for_each(read));
    popular.iter().for_each(read);
    assert_eq!(storage.metrics().decodes_total - before, 3 * 980, "the popular ones are still there");
    assert_eq!(storage.metrics().memo_objects, 20);
}

#[test]
fn an_object_can_be_looked_at_without_taking_it_along() {
    for mode in MODES {
        let object = store(&storage::<ConfigMap>(mode), &config_map(7));
        let index = object.with(|map| map.data.as_ref().and_then(|data| data.get("index").cloned()));
        assert_eq!(index.expect("it decodes").as_deref(), Some("7"));
        let broken = store(&storage::<Secret>(mode), &broken_secret());
        assert!(broken.with(|_| ()).is_err());
    }
}

#[test]
fn a_decode_error_names_the_object_and_never_quotes_it() {
    for mode in MODES {
        let cached = store(&storage::<Secret>(mode), &broken_secret());
        let errors = [cached.get().expect_err("no Secret"), cached.view::<Secret>().expect_err("no Secret")];
        for error in errors {
            let text = format!("{error} {error:?}");
            for part in ["Secret", "shop/token", "9"] {
                assert!(text.contains(part), "{text}");
            }
            assert!(!text.contains("hunter2"), "{text}");
            assert!(error.wanted.ends_with("Secret") && error.line == 1 && error.column > 1, "{error:?}");
        }
    }
    let unreadable = br#"{"metadata":{"name":"token","labels":"hunter2"}}"#;
    let error = Storage::<Secret>::default().store(unreadable, None).expect_err("labels are no text");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
}

#[test]
fn an_object_that_does_not_decode_harms_only_its_own_readers() {
    for mode in MODES {
        let storage = storage::<Secret>(mode);
        let bad = store(&storage, &broken_secret());
        let good = store(&storage, &mended_secret());
        let on_arrival = u64::from(mode == StorageMode::Decoded);
        assert_eq!(storage.metrics().decode_errors_total, on_arrival, "{mode:?}");
        assert!(bad.get().is_err() && bad.get().is_err(), "{mode:?}");
        assert_eq!(storage.metrics().decode_errors_total, on_arrival + 2, "{mode:?}");
        good.get().expect("it decodes");
        assert_eq!(bad.meta().name(), "token");
        assert_eq!(bad.read(&path("data")).expect("it is JSON").as_deref(), Some("hunter2"));
        assert_eq!(bad.view::<Value>().expect("it is JSON")["data"], "hunter2");
    }
}

fn mended_secret() -> Value {
    let mut secret = broken_secret();
    secret["metadata"]["name"] = "other".into();
    secret["data"] = json!({});
    secret
}

#[test]
fn an_object_that_cannot_be_transformed_is_not_kept_as_it_came() {
    for mode in MODES {
        let options = StorageOptions { mode, ..StorageOptions::default() };
        let storage = Storage::new(options.transform(|secret: &mut Secret| secret.data = None));
        let refused = storage.store(broken_secret().to_string().as_bytes(), None);
        let error = refused.expect_err("its data cannot be taken out");
        assert_eq!(error.key.as_deref(), Some("shop/token"), "{mode:?}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        store(&storage, &mended_secret());
        assert_eq!((storage.metrics().objects, storage.metrics().decode_errors_total), (0, 1), "{mode:?}");
    }
}

/// A type whose own code panics.
#[derive(Debug)]
struct Touchy(Value);

impl<'de> Deserialize<'de> for Touchy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        assert_ne!(value["data"], "cannot be decoded", "this is the test");
        Ok(Self(value))
    }
}

impl serde::Serialize for Touchy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert_ne!(self.0["data"], "cannot be encoded", "this is the test");
        self.0.serialize(serializer)
    }
}

#[test]
fn a_panic_of_the_types_own_code_is_an_error_of_that_object() {
    let touchy = |data: &str| json!({"kind": "Touchy", "metadata": {"name": "a", "namespace": "shop"}, "data": data});
    for mode in MODES {
        let storage = storage::<Touchy>(mode);
        let error = store(&storage, &touchy("cannot be decoded")).get().expect_err("it panics");
        assert!(error.panicked && error.key.name() == "a", "{mode:?} {error}");
        assert!(error.to_string().ends_with("Touchy: the code of that type panicked"), "{error}");
        assert_eq!(store(&storage, &touchy("good")).get().expect("it decodes").0["data"], "good");

        let unencoded = store(&storage, &touchy("cannot be encoded")).to_json();
        assert_eq!(unencoded.is_err_and(|error| error.panicked), mode == StorageMode::Decoded, "{mode:?}");

        let options = StorageOptions { mode, ..StorageOptions::default() };
        let transforming = Storage::new(options.transform(|_: &mut Touchy| {}));
        for data in ["cannot be decoded", "cannot be encoded"] {
            let error = transforming.store(touchy(data).to_string().as_bytes(), None).expect_err(data);
            assert_eq!(error.key.as_deref(), Some("shop/a"), "{mode:?} {data}");
            assert!(error.to_string().contains("panicked"), "{error}");
        }
    }
}

#[test]
fn a_decoder_that_panics_harms_only_its_own_caller() {
    #[derive(Debug)]
    struct Panics;
    impl<'de> Deserialize<'de> for Panics {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            panic!("as the test wants")
        }
    }
    let storage = Storage::<ConfigMap>::default();
    let cached = store(&storage, &config_map(3));
    assert!(cached.view::<Panics>().expect_err("it panics").panicked);
    assert_eq!(cached.get().expect("it decodes").metadata.name.as_deref(), Some("config-3"));
    assert_eq!(cached.read(&path("data.index")).expect("it reads").as_deref(), Some("3"));
}

#[test]
fn debug_output_shows_no_content() {
    for mode in MODES {
        let storage = storage::<Secret>(mode);
        let mut secret = broken_secret();
        secret["data"] = json!({"password": "aHVudGVyMg=="});
        secret["metadata"]["annotations"] = json!({"note": "aHVudGVyMg=="});
        let cached = store(&storage, &secret);
        cached.get().expect("it decodes");
        assert_eq!(format!("{cached:?}"), "shop/token@9");
        let text = format!("{storage:?} {:?} {:?}", storage.metrics(), StorageOptions::<Secret>::default());
        assert!(!text.contains("aHVudGVyMg"), "{text}");
    }
}

#[test]
fn managed_fields_are_dropped() {
    for mode in MODES {
        let mut object = config_map(1);
        object["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Update"}]);
        let cached = store(&storage::<ConfigMap>(mode), &object);
        assert_eq!(cached.get().expect("it decodes").metadata.managed_fields, None, "{mode:?}");
        assert_eq!(cached.view::<Value>().expect("JSON"), config_map(1), "{mode:?}");
    }
}

#[test]
fn what_strip_names_is_left_out() {
    for mode in MODES {
        let strip = Strip::nothing().and(&path("data.index")).and(&path("metadata.annotations['a/b']"));
        let storage = Storage::<ConfigMap>::new(StorageOptions { mode, strip, ..StorageOptions::default() });
        let mut object = config_map(1);
        object["data"]["kept"] = "yes".into();
        object["metadata"]["annotations"] = json!({"a/b": "no", "c": "yes"});
        object["metadata"]["managedFields"] = json!([{"manager": "kubectl"}]);
        let cached = store(&storage, &object);
        let config = cached.get().expect("it decodes");
        assert_eq!(config.data.iter().flatten().collect::<Vec<_>>(), [(&"kept".to_owned(), &"yes".to_owned())]);
        assert_eq!(config.metadata.managed_fields.as_ref().map(Vec::len), Some(1), "no option drops them");
        assert_eq!((cached.meta().annotation("a/b"), cached.meta().annotation("c")), (None, Some("yes")));
    }
}

#[test]
fn a_transform_runs_once_per_object_and_what_it_leaves_is_kept() {
    for mode in MODES {
        let runs = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&runs);
        let options = StorageOptions { mode, ..StorageOptions::default() }.transform(move |config: &mut ConfigMap| {
            counter.fetch_add(1, Ordering::Relaxed);
            config.data = None;
            config.metadata.labels.get_or_insert_default().insert("seen".to_owned(), "yes".to_owned());
        });
        let storage = Storage::new(options);
        let mut object = config_map(1);
        object["unknown"] = "to ConfigMap".into();
        let cached = store(&storage, &object);
        for _ in 0..3 {
            assert_eq!(cached.get().expect("it decodes").data, None);
        }
        assert_eq!(cached.meta().label("seen"), Some("yes"), "{mode:?}: the metadata is that after the transform");
        let mut expected = config_map(1);
        expected["metadata"]["labels"] = json!({"seen": "yes"});
        expected.as_object_mut().expect("an object").remove("data");
        assert_eq!(
            cached.view::<Value>().expect("JSON"),
            expected,
            "{mode:?}: fields unknown to ConfigMap are dropped"
        );
        assert_eq!(runs.load(Ordering::Relaxed), 1, "{mode:?}");
    }
}

#[test]
fn a_transform_that_changes_which_object_it_is_is_refused() {
    type Change = (&'static str, fn(&mut ConfigMap));
    let changes: [Change; 4] = [
        ("metadata.name", |config| config.metadata.name = None),
        ("metadata.namespace", |config| config.metadata.namespace = Some("other".to_owned())),
        ("metadata.uid", |config| config.metadata.uid = None),
        ("metadata.resourceVersion", |config| config.metadata.resource_version = None),
    ];
    for (field, change) in changes {
        let storage = Storage::new(StorageOptions::default().transform(change));
        let error = storage.store(config_map(1).to_string().as_bytes(), None).expect_err(field).to_string();
        assert_eq!(
            error,
            format!("object shop/config-1 cannot be read: {field} is not what it was before the transform")
        );
    }
}

#[test]
fn an_object_without_a_name_is_refused() {
    for object in ["{}", r#"{"metadata":{}}"#, r#"{"metadata":{"name":""}}"#, "[]", "", "\u{0}"] {
        Storage::<ConfigMap>::default().store(object.as_bytes(), None).expect_err(object);
    }
}

#[test]
fn items_without_a_type_get_that_of_their_list() {
    let type_meta = TypeMeta { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned() };
    let item = RawItem::new(0, br#"{"metadata":{"name":"a"},"data":{"b":"c"}}"#.to_vec().into());
    for mode in MODES {
        let cached = storage::<DynamicObject>(mode).store_item(&item, Some(&type_meta)).expect("it is kept");
        assert_eq!((cached.meta().api_version(), cached.meta().kind()), ("v1", "ConfigMap"));
        let types = cached.get().expect("it decodes").types.clone().expect("types");
        assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "ConfigMap"));
        assert_eq!(cached.read(&path("kind")).expect("it reads").as_deref(), Some("ConfigMap"));
    }
}

#[test]
fn dynamic_and_partial_objects_go_the_same_way() {
    for mode in MODES {
        let dynamic = store(&storage::<DynamicObject>(mode), &config_map(4)).get().expect("it decodes");
        assert_eq!(dynamic.data["data"]["index"], "4");
        let partial = store(&storage::<PartialObjectMeta<Pod>>(mode), &config_map(4)).get().expect("it decodes");
        assert_eq!(partial.metadata.name.as_deref(), Some("config-4"));
    }
}

#[test]
fn a_view_reads_the_fields_it_has() {
    #[derive(Deserialize)]
    struct Data {
        index: String,
    }
    #[derive(Deserialize)]
    struct View {
        data: Data,
    }
    for mode in MODES {
        let storage = storage::<ConfigMap>(mode);
        let cached = store(&storage, &config_map(5));
        assert_eq!(cached.view::<View>().expect("it decodes").data.index, "5");
        let decodes = u64::from(mode == StorageMode::Decoded);
        assert_eq!((storage.metrics().views_total, storage.metrics().decodes_total), (1, decodes), "{mode:?}");
    }
}

#[test]
fn one_field_is_read_by_its_path() {
    let object = json!({
        "metadata": {"name": "a"},
        "text": "é\n", "number": 12.50, "yes": true, "nothing": null, "list": [1, 2], "object": {"b": "c"},
    });
    for mode in MODES {
        let storage = storage::<Value>(mode);
        let cached = store(&storage, &object);
        for (field, expected) in [
            ("text", Some("é\n")),
            ("number", Some("12.5")),
            ("yes", Some("true")),
            ("nothing", Some("null")),
            ("list", Some("[1,2]")),
            ("object", Some(r#"{"b":"c"}"#)),
            ("object.b", Some("c")),
            ("object.c", None),
            ("text.b", None),
        ] {
            assert_eq!(cached.read(&path(field)).expect("it reads").as_deref(), expected, "{mode:?} {field}");
        }
        assert_eq!(storage.metrics().views_total, 0);
    }
}

#[test]
fn nothing_of_the_buffer_that_an_object_came_in_is_held() {
    struct Buffer(Vec<u8>, Arc<AtomicBool>);
    impl AsRef<[u8]> for Buffer {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Buffer {
        fn drop(&mut self) {
            self.1.store(true, Ordering::Relaxed);
        }
    }
    for mode in MODES {
        let freed = Arc::new(AtomicBool::new(false));
        let object = config_map(1).to_string();
        let buffer = bytes::Bytes::from_owner(Buffer(object.clone().into_bytes(), Arc::clone(&freed)));
        let storage = storage::<ConfigMap>(mode);
        let cached = storage.store_item(&RawItem::new(0, buffer), None).expect("it is kept");
        assert!(freed.load(Ordering::Relaxed), "{mode:?}");
        let remainder = Json.scan_remainder(object.as_bytes(), &Strip::default(), None).expect("an object").object;
        let expected = if mode == StorageMode::Decoded { 0 } else { remainder.len() };
        assert_eq!(storage.metrics().body_bytes, expected, "{mode:?}: exactly its size");
        assert_eq!(cached.view::<Value>().expect("JSON"), config_map(1));
    }
}

#[test]
fn decodes_and_views_are_counted() {
    for (mode, transform, stored, read) in [
        (StorageMode::Encoded, false, 0, 1),
        (StorageMode::Decoded, false, 1, 1),
        (StorageMode::Compressed, false, 0, 1),
        (StorageMode::Encoded, true, 1, 2),
        (StorageMode::Decoded, true, 2, 2),
    ] {
        let options = StorageOptions { mode, ..StorageOptions::default() };
        let storage = Storage::new(if transform { options.transform(|_: &mut ConfigMap| ()) } else { options });
        let cached = store(&storage, &config_map(1));
        assert_eq!(storage.metrics().decodes_total, stored, "{mode:?} {transform}");
        cached.meta().label("app");
        cached.read(&path("data.index")).expect("it reads");
        cached.to_json().expect("JSON");
        assert_eq!(storage.metrics().decodes_total, stored, "{mode:?} {transform}");
        let _held = cached.get().expect("it decodes");
        cached.get().expect("it decodes");
        cached.view::<Value>().expect("it decodes");
        let StorageMetrics { decodes_total, views_total, .. } = storage.metrics();
        assert_eq!((decodes_total, views_total), (read, 1), "{mode:?} {transform}");
    }
}

#[test]
fn what_is_held_is_counted() {
    for mode in MODES {
        let storage = storage::<ConfigMap>(mode);
        let cached = store(&storage, &config_map(1));
        let other = cached.clone();
        assert_eq!(storage.metrics().objects, 1, "{mode:?}");
        drop(cached);
        assert_eq!(storage.metrics().objects, 1, "{mode:?}");
        drop(other);
        let StorageMetrics { objects, body_bytes, .. } = storage.metrics();
        assert_eq!((objects, body_bytes), (0, 0), "{mode:?}");
    }
}

#[test]
fn states_and_objects_are_distinguished() {
    let storage = Storage::<ConfigMap>::default();
    let one = store(&storage, &config_map(1));
    let mut object = config_map(1);
    assert!(one.is_same_state(&store(&storage, &object)));
    object["metadata"]["resourceVersion"] = "8".into();
    let later = store(&storage, &object);
    assert!(one.is_same_object(&later) && !one.is_same_state(&later));
    object["metadata"]["uid"] = "v".into();
    assert!(!later.is_same_object(&store(&storage, &object)));
    assert!(!one.is_same_object(&store(&storage, &config_map(2))));
    object["metadata"]["resourceVersion"] = Value::Null;
    let unversioned = store(&storage, &object);
    assert!(unversioned.is_same_state(&unversioned.clone()) && !unversioned.is_same_state(&store(&storage, &object)));
}

/// `Debug` prints key and version only, in each form and for every container.
#[test]
fn a_secret_is_not_printed() {
    for mode in MODES {
        let storage = storage::<Secret>(mode);
        let mut secret = mended_secret();
        secret["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": "aHVudGVyMg=="});
        secret["data"] = json!({"password": "aHVudGVyMg=="});
        let cached = store(&storage, &secret);
        let printed = format!(
            "{storage:?} {cached:?} {:?} {:?} {:#?} {:?}",
            cached.meta(),
            Event::Update { old: cached.clone(), new: cached.clone() },
            Delta::Added(cached.clone()),
            storage.metrics(),
        );
        for leak in ["aHVudGVyMg", "hunter2", "104, 117, 110"] {
            assert!(!printed.contains(leak), "{mode:?} prints {leak}: {printed}");
        }
        assert!(printed.contains("shop/other") && printed.contains("last-applied"), "{printed}");
    }
}
