//! Objects read the same under every dictionary.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::*;
use crate::object::body::Corrupt;
use crate::{Cached, Storage, StorageMetrics, StorageOptions};

fn storage() -> Storage<Value> {
    Storage::new(StorageOptions { mode: StorageMode::Compressed, ..StorageOptions::default() })
}

/// Pseudo-random text, the same in every run.
fn noise(seed: usize, length: usize) -> String {
    let mut state = seed as u64;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + ((state >> 33) % 26) as u8)
    };
    (0..length).map(letter).collect()
}

/// What the objects of each shape have in common.
static COMMON: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
    let parts = |shape: usize| (0..20).map(|part| noise(1000 * (shape + 1) + part, 30)).collect();
    (0..10).map(parts).collect()
});

/// Objects of one shape have much in common with each other and little with those of another.
fn object(shape: usize, index: usize) -> String {
    json!({
        "kind": "Thing",
        "metadata": {"name": format!("thing-{index}"), "uid": noise(1_000_000 + index, 20), "resourceVersion": "1"},
        "common": COMMON[shape],
    })
    .to_string()
}

fn store(storage: &Storage<Value>, object: &str) -> Cached<Value> {
    storage.store(object.as_bytes(), None).expect("it is stored")
}

fn store_all(storage: &Storage<Value>, shape: usize, indexes: std::ops::Range<usize>) -> Vec<Cached<Value>> {
    indexes.map(|index| store(storage, &object(shape, index))).collect()
}

/// A storage that has its first dictionary, and the objects it was trained on.
fn trained() -> (Storage<Value>, Vec<Cached<Value>>) {
    let storage = storage();
    let objects = store_all(&storage, 0, 0..SAMPLES);
    wait_until_trained(&storage);
    assert_eq!(storage.metrics().dictionary_version, 1);
    (storage, objects)
}

fn compression(storage: &Storage<Value>) -> &Compression<Value> {
    storage.shared().compression.as_ref().expect("it compresses")
}

fn wait_until_trained(storage: &Storage<Value>) {
    compression(storage).wait_until_trained();
}

#[track_caller]
fn assert_unchanged(objects: &[Cached<Value>], shape: usize, first: usize) {
    for (index, cached) in objects.iter().enumerate() {
        let expected = object(shape, first + index);
        assert_eq!(cached.to_json().expect("JSON"), expected.as_bytes());
        assert_eq!(cached.get().expect("it decodes").to_string(), expected);
        let name = cached.read(&"metadata.name".parse().expect("a path")).expect("it reads");
        assert_eq!(name, Some(format!("thing-{}", first + index)));
    }
}

#[test]
fn objects_stay_what_they_are_before_and_after_training() {
    let (storage, before) = (storage(), SAMPLES - 1);
    let mut objects = store_all(&storage, 0, 0..before);
    assert_unchanged(&objects, 0, 0);
    let StorageMetrics { dictionary_version, compressed_objects, body_bytes, .. } = storage.metrics();
    assert_eq!(
        (dictionary_version, compressed_objects),
        (0, before - (BOOTSTRAP - 1)),
        "with the bootstrap dictionary"
    );
    let plain: usize = (0..before).map(|index| object(0, index).len()).sum();
    assert!(body_bytes < plain / 3, "{plain} bytes take {body_bytes}");
    objects.extend(store_all(&storage, 0, before..SAMPLES + 50));
    assert_unchanged(&objects, 0, 0);
    wait_until_trained(&storage);
    objects.extend(store_all(&storage, 0, SAMPLES + 50..SAMPLES + 100));
    assert_unchanged(&objects, 0, 0);
    let StorageMetrics { dictionary_version, dictionary_bytes, compressed_objects, body_bytes, .. } = storage.metrics();
    assert_eq!((dictionary_version, compressed_objects), (1, objects.len()));
    let plain: usize = (0..objects.len()).map(|index| object(0, index).len()).sum();
    assert!(body_bytes < plain / 5, "{plain} bytes take {body_bytes}");
    assert!((1..1 << 20).contains(&dictionary_bytes), "{dictionary_bytes}");
    drop(objects);
    assert_eq!((storage.metrics().body_bytes, storage.metrics().compressed_objects), (0, 0));
}

#[test]
fn objects_that_arrived_before_the_dictionary_are_compressed() {
    let storage = storage();
    let lock = TRAINING.lock().unwrap_or_else(PoisonError::into_inner);
    let objects = store_all(&storage, 0, 0..3 * SAMPLES);
    assert!(storage.metrics().dictionary_training, "on another thread, which waits for the lock");
    let StorageMetrics { compressed_objects, body_bytes: bootstrapped, .. } = storage.metrics();
    assert_eq!(compressed_objects, objects.len() - (BOOTSTRAP - 1));
    drop(lock);
    wait_until_trained(&storage);
    let StorageMetrics { compressed_objects, body_bytes, .. } = storage.metrics();
    assert_eq!(compressed_objects, objects.len());
    assert!(body_bytes < bootstrapped, "{bootstrapped} bytes with the bootstrap dictionary became {body_bytes}");
    assert!(compression(&storage).state().bootstrap.is_none());
    assert_unchanged(&objects, 0, 0);
}

#[test]
fn the_memo_works_as_for_encoded_objects() {
    let (storage, objects) = trained();
    (0..2).for_each(|_| drop(objects[7].get().expect("it decodes")));
    let before = storage.metrics().decodes_total;
    let object = objects[7].get().expect("it decodes");
    let json = objects[7].to_json().expect("JSON").len();
    assert!(Arc::ptr_eq(&object, &objects[7].get().expect("it decodes")));
    let StorageMetrics { decodes_total, memo_objects, memo_bytes, .. } = storage.metrics();
    assert_eq!((decodes_total, memo_objects, memo_bytes), (before, 1, json));
}

#[test]
fn a_decoded_object_stays_shared_while_its_body_is_compressed() {
    let storage = storage();
    let lock = TRAINING.lock().unwrap_or_else(PoisonError::into_inner);
    let objects = store_all(&storage, 0, 0..SAMPLES);
    let before = objects[0].get().expect("it decodes");
    drop(lock);
    wait_until_trained(&storage);
    assert!(Arc::ptr_eq(&before, &objects[0].get().expect("it decodes")));
}

#[test]
fn kinds_with_few_objects_are_not_trained() {
    let storage = storage();
    let objects = store_all(&storage, 0, 0..5);
    wait_until_trained(&storage);
    assert_unchanged(&objects, 0, 0);
    // Many states of few objects do not start a training: only the last states exist.
    let mut held = objects;
    for index in 0..4 * SAMPLES {
        let position = index % held.len();
        held[position] = store(&storage, &object(0, index));
        assert!(compression(&storage).state().waiting.len() <= SAMPLES);
    }
    assert!(!storage.metrics().dictionary_training);
    assert_eq!(storage.metrics().dictionary_version, 0);
}

#[test]
fn objects_too_small_to_train_on_stay_uncompressed() {
    let storage = storage();
    let tiny = |index: usize| format!(r#"{{"metadata":{{"name":"{index}"}}}}"#);
    let objects: Vec<_> = (0..5 * SAMPLES).map(|index| store(&storage, &tiny(index))).collect();
    wait_until_trained(&storage);
    for (index, cached) in objects.iter().enumerate() {
        assert_eq!(cached.to_json().expect("JSON"), tiny(index).as_bytes());
    }
}

#[test]
fn a_dictionary_is_replaced_when_objects_change_and_the_old_one_is_freed() {
    let (storage, old) = trained();
    let same = store_all(&storage, 0, SAMPLES..SAMPLES + WINDOW);
    wait_until_trained(&storage);
    assert_eq!(storage.metrics().dictionary_version, 1, "these are like its samples");

    let between = store_all(&storage, 1, 0..WINDOW);
    wait_until_trained(&storage);
    let before = storage.metrics();
    assert_eq!((before.dictionary_version, before.dictionaries), (2, 2));

    let new = store_all(&storage, 1, WINDOW..2 * WINDOW);
    wait_until_trained(&storage);
    let bytes = storage.metrics().body_bytes - before.body_bytes;
    let plain: usize = (WINDOW..2 * WINDOW).map(|index| object(1, index).len()).sum();
    assert!(bytes < plain / 5, "{plain} bytes take {bytes}");
    assert_eq!(storage.metrics().dictionary_version, 2, "these are like its samples");
    assert_unchanged(&old, 0, 0);
    assert_unchanged(&same, 0, SAMPLES);
    assert_unchanged(&between, 1, 0);
    assert_unchanged(&new, 1, WINDOW);

    drop((old, same));
    assert_eq!(storage.metrics().dictionaries, 2, "some objects were compressed with the first one");
    drop(between);
    assert_eq!(storage.metrics().dictionaries, 1);
    assert_unchanged(&new, 1, WINDOW);
}

#[test]
fn the_number_of_dictionaries_is_limited() {
    let (storage, mut held) = trained();
    for shape in 1..DICTIONARIES_MAX + 2 {
        held.extend(store_all(&storage, shape, 0..WINDOW));
        wait_until_trained(&storage);
    }
    assert_eq!(storage.metrics().dictionaries, DICTIONARIES_MAX);
    drop(held);
    assert_eq!(storage.metrics().dictionaries, 1);
    let _held = store_all(&storage, 9, 0..WINDOW);
    wait_until_trained(&storage);
    assert_eq!(storage.metrics().dictionary_version, DICTIONARIES_MAX as u64 + 1, "there is room again");
}

#[test]
fn a_training_holds_no_storage_and_ends_without_it() {
    let storage = storage();
    let lock = TRAINING.lock().unwrap_or_else(PoisonError::into_inner);
    let objects = store_all(&storage, 0, 0..SAMPLES);
    assert!(storage.metrics().dictionary_training);
    let dropped = Arc::downgrade(storage.shared());
    drop((storage, objects));
    assert_eq!(dropped.strong_count(), 0, "the training does not hold it");
    drop(lock);
    Training(dropped).run();
}

#[test]
fn an_object_that_does_not_shrink_stays_uncompressed() {
    let (storage, objects) = trained();
    let object = format!(r#"{{"metadata":{{"name":"a"}},"x":"{}"}}"#, noise(5, 4));
    let before = storage.metrics();
    let cached = store(&storage, &object);
    let after = storage.metrics();
    assert!(after.body_bytes - before.body_bytes <= object.len());
    assert_eq!(cached.to_json().expect("JSON"), object.as_bytes());
    drop(objects);
}

#[test]
fn a_corrupted_body_is_an_error() {
    let (storage, _objects) = trained();
    let dictionary = compression(&storage).dictionary().expect("it is trained");
    let json = object(0, 12).into_bytes();
    let good = dictionary.compress(&json).expect("it shrinks");
    assert_eq!(dictionary.decompress(&good, json.len()).as_ref(), Ok(&json));
    assert_eq!(dictionary.decompress(&good, json.len() - 1), Err(Corrupt));
    assert_eq!(dictionary.decompress(&good, json.len() + 1), Err(Corrupt));
    for length in 0..good.len() {
        assert_eq!(dictionary.decompress(&good[..length], json.len()), Err(Corrupt));
    }
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        // Some flipped bits leave a text of the same length, which the decompressor cannot detect.
        let result = dictionary.decompress(&bad, json.len());
        assert!(result.is_err() || result.is_ok_and(|json| json.len() == object(0, 12).len()));
    }
}

#[test]
fn a_storage_is_used_by_many_threads_while_it_trains() {
    let storage = storage();
    thread::scope(|scope| {
        for part in 0..4 {
            let storage = &storage;
            scope.spawn(move || {
                let objects = store_all(storage, 0, part * 1000..part * 1000 + 400);
                assert_unchanged(&objects, 0, part * 1000);
            });
        }
    });
    wait_until_trained(&storage);
    assert_eq!((storage.metrics().objects, storage.metrics().compressed_objects), (0, 0));
}
