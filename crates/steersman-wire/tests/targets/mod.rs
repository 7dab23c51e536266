//! The fuzz targets. Each takes any bytes, must not panic, and compares its results with
//! `serde_json`.
//!
//! `tests/codec_fuzz.rs` runs them on stable; a fuzzer can include this file as a module.

// Not every test uses all of it.
#![allow(dead_code)]

use bytes::Bytes;
use serde_json::Value as Document;
use steersman_wire::{
    Encoding, FieldPath, Json, Limits, ListMeta, Metadata, ObjectError, ObjectFault, RawItem, Scanned, SharedTexts,
    Strip, TypeMeta, Value, WatchEvent, WireError, protobuf,
};

type Objects<T> = Vec<Result<T, ObjectError>>;

/// A list: the result does not depend on the chunks, and is what `serde_json` reads.
pub(crate) fn list(data: &[u8]) {
    let (whole, end) = split_list(data, [data.len()]);
    for size in [1, 2 + data.len() % 61] {
        assert_eq!(split_list(data, std::iter::repeat(size)), (whole.clone(), end.clone()), "cut every {size}");
    }
    for item in whole.iter().flatten() {
        object(item);
    }
    if let (Ok(_), Ok(document)) = (&end, serde_json::from_slice::<Document>(data)) {
        let expected = document["items"].as_array().cloned().unwrap_or_default();
        let items: Vec<Document> =
            whole.iter().flatten().map(|item| serde_json::from_slice(item).expect("an item of JSON is JSON")).collect();
        assert_eq!(items, expected);
    }
}

/// A watch: the result does not depend on the chunks, and is what `serde_json` reads.
pub(crate) fn watch(data: &[u8]) {
    let (whole, end) = split_watch(data, [data.len()]);
    for size in [1, 2 + data.len() % 61] {
        assert_eq!(split_watch(data, std::iter::repeat(size)), (whole.clone(), end.clone()), "cut every {size}");
    }
    let objects = |events: &Objects<WatchEvent>| -> Vec<Document> {
        let objects = events.iter().flatten().filter_map(|event| match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => Some(object),
            _ => None,
        });
        objects
            .map(|object| {
                serde_json::from_slice(&object.json().expect("it came as JSON")).expect("an object of JSON is JSON")
            })
            .collect()
    };
    let documents: Result<Vec<Document>, _> = serde_json::Deserializer::from_slice(data).into_iter().collect();
    if let (Ok(()), Ok(documents)) = (&end, documents)
        && documents.iter().all(Document::is_object)
    {
        let mut expected = documents;
        expected.retain(|event| {
            event.get("object").is_some()
                && event["type"].as_str().is_some_and(|kind| ["ADDED", "MODIFIED", "DELETED"].contains(&kind))
        });
        let expected: Vec<Document> = expected.into_iter().map(|mut event| event["object"].take()).collect();
        assert_eq!(objects(&whole), expected);
    }
}

/// One object: metadata, stripping and reading fields agree with `serde_json`.
pub(crate) fn object(data: &[u8]) {
    let applied: FieldPath = "metadata.annotations['a.b/c']".parse().expect("a path");
    let status: FieldPath = "status".parse().expect("a path");
    let strip = Strip::default().and(&applied).and(&status);
    let types = TypeMeta { api_version: "v1".to_owned(), kind: "Thing".to_owned() };
    for type_meta in [None, Some(&types)] {
        check_remainder(data, &strip, type_meta);
        check_remainder(data, &Strip::nothing(), type_meta);
    }
    // A broken remainder is an error or gives some result; it must not panic.
    let _ = (Json.restore(data, &Metadata::default()), Json.rest(data));
    let scanned = Json.scan(data, &strip, None);
    let metadata = Json.metadata(data);
    let Ok(document) = serde_json::from_slice::<Document>(data) else {
        for path in [&applied, &status] {
            let _ = Json.read(data, path);
        }
        return;
    };
    if !document.is_object() {
        assert!(scanned.is_err() && metadata.is_err(), "{document} is no object");
        return;
    }
    for path in ["metadata.name", "metadata.labels['a.b/c']", "spec.nodeName", "status.phase.x", "metadata"] {
        let path: FieldPath = path.parse().expect("a path");
        check_read(data, &document, &path);
    }
    match (scanned, metadata) {
        (Ok(scanned), Ok(_)) => {
            let mut expected = document;
            remove(&mut expected, &["status"]);
            remove(&mut expected, &["metadata", "managedFields"]);
            remove(&mut expected, &["metadata", "annotations", "a.b/c"]);
            let stripped: Document = serde_json::from_slice(&scanned.object).expect("a stripped object is JSON");
            assert_eq!(stripped, expected);
            assert_eq!(scanned.metadata.name(), expected["metadata"]["name"].as_str().unwrap_or_default());
        }
        (scanned, Err(error)) => {
            assert!(matches!(error.fault, ObjectFault::WrongType { .. }), "{error} in {document}");
            // The field with the wrong type may be the one that is left out.
            assert!(scanned.is_ok() || scanned.is_err_and(|e| matches!(e.fault, ObjectFault::WrongType { .. })));
        }
        (Err(error), Ok(_)) => panic!("{error}, but without stripping there is none: {document}"),
    }
}

/// An object can be restored from its remainder and its metadata, shared or not.
pub(crate) fn check_remainder(data: &[u8], strip: &Strip, type_meta: Option<&TypeMeta>) {
    let plain = |error: ObjectError| (error.key, error.fault);
    let (whole, remainder) = match (
        Json.scan(data, strip, type_meta).map_err(plain),
        Json.scan_remainder(data, strip, type_meta).map_err(plain),
    ) {
        (Ok(whole), Ok(remainder)) => (whole, remainder),
        (whole, remainder) => return assert_eq!(whole.map(|_| ()), remainder.map(|_| ())),
    };
    assert_eq!(remainder.metadata, whole.metadata);
    assert!(remainder.object.len() <= whole.object.len());
    // Skipped fields may hold anything.
    let document = |json: &[u8]| serde_json::from_slice::<Document>(json).ok();
    let expected = document(&whole.object);
    let texts = SharedTexts::new();
    for metadata in (0..3).map(|_| remainder.metadata.clone().share(&texts)) {
        let restored = Json.restore(&remainder.object, &metadata).expect("a remainder can be restored");
        assert_eq!(document(&restored), expected, "{}", String::from_utf8_lossy(&remainder.object));
    }
    let (mut rest, mut expected) = (document(Json.rest(&remainder.object).expect("it is not broken")), expected);
    for document in [&mut rest, &mut expected].into_iter().flatten() {
        ["apiVersion", "kind", "metadata"].iter().for_each(|name| remove(document, &[name]));
    }
    assert_eq!(rest, expected, "all other fields can be read without restoring");
}

/// Reading a field agrees with `serde_json`.
pub(crate) fn check_read(data: &[u8], document: &Document, path: &FieldPath) {
    let expected = path.names().try_fold(document, |document, name| document.as_object()?.get(name));
    let found = Json.read(data, path).unwrap_or_else(|error| panic!("{path}: {error} in {document}"));
    let found = found.map(|value| match value {
        Value::Null => Document::Null,
        Value::Bool(flag) => flag.into(),
        Value::Number(number) => serde_json::from_str(number).expect("a number is JSON"),
        Value::String(text) => text.into_owned().into(),
        Value::Raw(raw) => serde_json::from_slice(raw).expect("a part of JSON is JSON"),
    });
    assert_eq!(found.as_ref(), expected, "{path}");
}

/// Removes a field from a document, if it is there.
pub(crate) fn remove(document: &mut Document, path: &[&str]) {
    match path {
        [] => {}
        [name] => drop(document.as_object_mut().map(|members| members.remove(*name))),
        [name, rest @ ..] => {
            if let Some(value) = document.as_object_mut().and_then(|members| members.get_mut(*name)) {
                remove(value, rest);
            }
        }
    }
}

/// The items of a list that arrives in chunks of these sizes, and how it ended.
pub(crate) fn split_list(
    data: &[u8],
    sizes: impl IntoIterator<Item = usize>,
) -> (Objects<Bytes>, Result<ListMeta, WireError>) {
    let (mut splitter, mut items) = (Encoding::Json.split_list(Limits::default()), Vec::new());
    for chunk in chunks(data, sizes) {
        splitter.push(chunk);
        loop {
            match splitter.next_item() {
                Ok(Some(item)) => items.push(item.map(|item| check_item(&item))),
                Ok(None) => break,
                Err(error) => return (items, Err(error)),
            }
        }
    }
    (items, splitter.finish())
}

/// The outline of an item makes no difference to what is read from it.
fn check_item(item: &RawItem) -> Bytes {
    let json = item.json().expect("it can be read");
    let (noted, alone) = (Json.scan_item(item, &Strip::default(), None), Json.scan(&json, &Strip::default(), None));
    let plain = |scanned: Result<Scanned, ObjectError>| {
        scanned.map(|scanned| (scanned.metadata, scanned.object)).map_err(|error| (error.key, error.fault))
    };
    assert_eq!(plain(noted), plain(alone));
    json
}

/// Protobuf: as an object, a list and a watch. The result does not depend on the chunks, and is
/// JSON.
pub(crate) fn protobuf(data: &[u8]) {
    let parse = |json: &[u8]| serde_json::from_slice::<Document>(json).expect("what becomes JSON is JSON");
    let checked = |item: &RawItem| item.json().map(|_| check_item(item));
    if let Ok(json) = protobuf::to_json(data) {
        parse(&json);
        if let Some(canonical) = protobuf::canonical(&json) {
            let again = protobuf::canonical(&canonical).expect("what was written can be read");
            assert_eq!(parse(&again), parse(&canonical), "{}", String::from_utf8_lossy(&json));
        }
    }
    let cut = |size: usize| {
        let (mut list, mut watch) = (
            Encoding::Protobuf.split_list(Limits::default()),
            Encoding::Protobuf.split_watch(Limits { object_bytes_max: 1_000 }),
        );
        let (mut found, mut failed) = (Vec::new(), None);
        for chunk in chunks(data, std::iter::repeat(size.max(1))) {
            list.push(chunk.clone());
            watch.push(chunk);
            while failed.is_none() {
                match list.next_item() {
                    Ok(None) => break,
                    Ok(Some(item)) => {
                        found.push(item.and_then(|item| checked(&item)).map_err(|error| error.to_string()));
                    }
                    Err(error) => failed = Some(error),
                }
            }
            while let Some(event) = watch.next_event().expect("a watch always goes on") {
                let item = match event {
                    Ok(WatchEvent::Added(item) | WatchEvent::Modified(item) | WatchEvent::Deleted(item)) => {
                        checked(&item)
                    }
                    Ok(other) => Ok(format!("{other:?}").into()),
                    Err(error) => Err(error),
                };
                found.push(item.map_err(|error| error.to_string()));
            }
        }
        found.sort();
        (found, failed.map_or_else(|| list.finish(), Err), watch.finish())
    };
    let whole = cut(data.len());
    for size in [1, 2 + data.len() % 61] {
        assert_eq!(cut(size), whole, "cut every {size}");
    }
}

/// The same for the object of an event.
fn check_event(event: &Result<WatchEvent, ObjectError>) {
    if let Ok(WatchEvent::Added(item) | WatchEvent::Modified(item) | WatchEvent::Deleted(item)) = event {
        check_item(item);
    }
}

/// The events of a watch that arrives in chunks of these sizes, and how it ended.
pub(crate) fn split_watch(
    data: &[u8],
    sizes: impl IntoIterator<Item = usize>,
) -> (Objects<WatchEvent>, Result<(), WireError>) {
    let (mut splitter, mut events) = (Encoding::Json.split_watch(Limits::default()), Vec::new());
    for chunk in chunks(data, sizes) {
        splitter.push(chunk);
        while let Some(event) = splitter.next_event().expect("a watch in JSON can always be followed") {
            check_event(&event);
            events.push(event);
        }
    }
    (events, splitter.finish())
}

fn chunks(data: &[u8], sizes: impl IntoIterator<Item = usize>) -> Vec<Bytes> {
    let (mut rest, mut chunks) = (data, Vec::new());
    for size in sizes {
        if rest.is_empty() {
            break;
        }
        let (chunk, after) = rest.split_at(size.clamp(1, rest.len()));
        chunks.push(Bytes::copy_from_slice(chunk));
        rest = after;
    }
    if !rest.is_empty() {
        chunks.push(Bytes::copy_from_slice(rest));
    }
    chunks
}
