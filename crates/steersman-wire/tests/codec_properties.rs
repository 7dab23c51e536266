//! Random documents, written in random ways and cut at random places, compared with `serde_json`.

mod targets;

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Map, Value as Document, json};
use steersman_wire::{FieldPath, Json, Metadata, Strip, TypeMeta, WatchEvent};

use targets::{check_read, check_remainder, remove, split_list, split_watch};

/// Any text, often with characters that have to be escaped.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-z./-]{0,12}", 2 => "[\"\\\\{}\\[\\],: a]{0,8}", 1 => "\\PC{0,6}", 1 => "[\u{0}-\u{1f}]{0,3}"]
}

fn document() -> impl Strategy<Value = Document> {
    let leaf = prop_oneof![
        Just(Document::Null),
        any::<bool>().prop_map(Document::from),
        any::<i64>().prop_map(Document::from),
        any::<f64>().prop_map(Document::from),
        text().prop_map(Document::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Document::from),
            prop::collection::btree_map(text(), inner, 0..6)
                .prop_map(|map| Document::Object(map.into_iter().collect())),
        ]
    })
}

fn texts() -> impl Strategy<Value = Document> {
    prop::collection::btree_map(text(), text(), 0..20).prop_map(|map| json!(map))
}

fn owner() -> impl Strategy<Value = Document> {
    (text(), text(), text(), text(), any::<Option<bool>>(), any::<bool>()).prop_map(
        |(version, kind, name, uid, controller, block)| {
            json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": controller,
                "blockOwnerDeletion": block})
        },
    )
}

/// The metadata of an object: any field may be missing, and others may be present.
fn metadata() -> impl Strategy<Value = Document> {
    let fields: Vec<(&'static str, BoxedStrategy<Document>)> = vec![
        ("name", text().prop_map(Document::from).boxed()),
        ("namespace", text().prop_map(Document::from).boxed()),
        ("uid", text().prop_map(Document::from).boxed()),
        ("resourceVersion", text().prop_map(Document::from).boxed()),
        ("generation", any::<i64>().prop_map(Document::from).boxed()),
        ("creationTimestamp", text().prop_map(Document::from).boxed()),
        ("deletionTimestamp", prop_oneof![Just(Document::Null), text().prop_map(Document::from)].boxed()),
        ("labels", texts().boxed()),
        ("annotations", texts().boxed()),
        ("ownerReferences", prop::collection::vec(owner(), 0..3).prop_map(Document::from).boxed()),
        ("finalizers", prop::collection::vec(text(), 0..3).prop_map(Document::from).boxed()),
        ("managedFields", document().boxed()),
        ("somethingElse", document().boxed()),
    ];
    let fields: Vec<_> =
        fields.into_iter().map(|(name, value)| prop::option::of(value).prop_map(move |value| (name, value))).collect();
    fields.prop_map(|fields| {
        let there = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Document::Object(there.collect())
    })
}

fn object() -> impl Strategy<Value = Document> {
    (prop::option::of(metadata()), prop::option::of(text()), prop::option::of(text()), document(), document()).prop_map(
        |(metadata, version, kind, spec, status)| {
            let mut object = json!({"spec": spec, "status": status});
            if let Some(metadata) = metadata {
                object["metadata"] = metadata;
            }
            if let Some(version) = version {
                object["apiVersion"] = version.into();
            }
            if let Some(kind) = kind {
                object["kind"] = kind.into();
            }
            object
        },
    )
}

/// A field of the metadata or the type, and an unusual value for it.
fn odd_field() -> impl Strategy<Value = (Vec<&'static str>, Document)> {
    let places = [
        "metadata",
        "apiVersion",
        "kind",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.resourceVersion",
        "metadata.generation",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "metadata.labels",
        "metadata.annotations",
        "metadata.ownerReferences",
        "metadata.finalizers",
    ];
    let plain =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "\"\u{1}é", "uid": "u", "controller": true});
    let (mut flagged, mut more) = (plain.clone(), plain.clone());
    flagged["controller"] = false.into();
    more["else"] = 1.into();
    let values = [
        json!(null),
        json!(""),
        json!("x\"\n\u{1}é😀"),
        json!({}),
        json!([]),
        json!(0),
        json!(-7),
        json!({"a": null}),
        json!({"a": "b", "c": null}),
        json!({"a": "b", "c": ""}),
        json!([plain, plain]),
        json!([plain, null]),
        json!([flagged]),
        json!([more]),
        json!([{"kind": "Node", "name": "n"}]),
    ];
    let place = prop::sample::select(places.to_vec()).prop_map(|place| place.split('.').collect());
    (place, prop::sample::select(values.to_vec()))
}

/// Puts an unusual value into a field, if the object has the place.
fn put(object: &mut Document, path: &[&str], value: Document) {
    let place = path.iter().try_fold(object, |at, name| {
        at.as_object_mut().map(|members| members.entry(name.to_owned()).or_insert_with(|| json!({})))
    });
    if let Some(place) = place {
        *place = value;
    }
}

/// Choices of how to write a document, derived from a seed.
struct Style(u64);

impl Style {
    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn space(&mut self, out: &mut String) {
        while self.one_in(8) {
            out.push([' ', '\n', '\t', '\r'][self.below(4) as usize]);
        }
    }

    /// Members in any order, some of them twice.
    fn write(&mut self, document: &Document, out: &mut String) {
        self.space(out);
        match document {
            Document::String(text) => self.string(text, out),
            Document::Array(elements) => {
                out.push('[');
                for (index, element) in elements.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    self.write(element, out);
                }
                self.space(out);
                out.push(']');
            }
            Document::Object(members) => self.object(members, out),
            other => out.push_str(&other.to_string()),
        }
        self.space(out);
    }

    fn object(&mut self, members: &Map<String, Document>, out: &mut String) {
        let mut written: Vec<(&str, Document)> = Vec::new();
        for (name, value) in members {
            let place = self.below(written.len() as u64 + 1) as usize;
            written.insert(place, (name, value.clone()));
            if self.one_in(12) && name != "items" {
                // An earlier member of the same name, which does not count.
                let earlier = [json!(null), json!({"name": "x", "a": [1]}), json!("x\""), value.clone()];
                let place = self.below(place as u64 + 1) as usize;
                written.insert(place, (name, earlier[self.below(4) as usize].clone()));
            }
        }
        out.push('{');
        for (index, (name, value)) in written.iter().enumerate() {
            out.push_str(if index > 0 { "," } else { "" });
            self.space(out);
            self.string(name, out);
            self.space(out);
            out.push(':');
            self.write(value, out);
        }
        self.space(out);
        out.push('}');
    }

    fn string(&mut self, text: &str, out: &mut String) {
        out.push('"');
        for character in text.chars() {
            if self.one_in(10) {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            } else {
                let quoted = Document::from(character.to_string()).to_string();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
        }
        out.push('"');
    }
}

fn written(document: &Document, seed: u64) -> String {
    let mut out = String::new();
    Style(seed).write(document, &mut out);
    out
}

fn parsed(text: &[u8]) -> Document {
    serde_json::from_slice(text).expect("what was written is JSON")
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        prop::collection::vec(1_usize..5, 0..2000),
        prop::collection::vec(1_usize..200, 0..200),
        Just(vec![1; 10_000])
    ]
}

/// The metadata according to `serde_json`.
fn expected_metadata(object: &Document) -> Document {
    let metadata = &object["metadata"];
    let text = |value: &Document| value.as_str().unwrap_or_default().to_owned();
    let map = |value: &Document| value.as_object().cloned().unwrap_or_default();
    let owners: Vec<Document> = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
    let owners: Vec<Document> = owners
        .iter()
        .map(|owner| {
            json!([
                text(&owner["apiVersion"]),
                text(&owner["kind"]),
                text(&owner["name"]),
                text(&owner["uid"]),
                owner["controller"].as_bool().unwrap_or(false),
                owner["blockOwnerDeletion"].as_bool().unwrap_or(false)
            ])
        })
        .collect();
    json!({
        "type": [text(&object["apiVersion"]), text(&object["kind"])],
        "name": text(&metadata["name"]), "namespace": text(&metadata["namespace"]), "uid": text(&metadata["uid"]),
        "resourceVersion": text(&metadata["resourceVersion"]), "generation": metadata["generation"].as_i64(),
        "created": text(&metadata["creationTimestamp"]),
        "deleted": Some(text(&metadata["deletionTimestamp"])).filter(|deleted| !deleted.is_empty()),
        "labels": map(&metadata["labels"]), "annotations": map(&metadata["annotations"]), "owners": owners,
        "finalizers": metadata["finalizers"].as_array().cloned().unwrap_or_default(),
    })
}

fn found_metadata(metadata: &Metadata) -> Document {
    let owners: Vec<Document> = metadata
        .owner_references()
        .map(|o| json!([o.api_version, o.kind, o.name, o.uid, o.controller, o.block_owner_deletion]))
        .collect();
    let labels: BTreeMap<&str, &str> = metadata.labels().collect();
    assert_eq!(labels.len(), metadata.labels().count(), "a label is there twice");
    json!({
        "type": [metadata.api_version(), metadata.kind()],
        "name": metadata.name(), "namespace": metadata.namespace(), "uid": metadata.uid(),
        "resourceVersion": metadata.resource_version(), "generation": metadata.generation(),
        "created": metadata.creation_timestamp(), "deleted": metadata.deletion_timestamp(),
        "labels": labels, "annotations": metadata.annotations().collect::<BTreeMap<_, _>>(), "owners": owners,
        "finalizers": metadata.finalizers().collect::<Vec<_>>(),
    })
}

/// A path into the document, or next to it.
fn path_into(document: &Document, seed: u64) -> FieldPath {
    let (mut style, mut names, mut at) = (Style(seed), Vec::new(), document);
    while let Some(members) = at.as_object().filter(|members| !members.is_empty()) {
        let (name, value) = members.iter().nth(style.below(members.len() as u64) as usize).expect("a member");
        names.push(name.clone());
        at = value;
        if style.one_in(3) {
            break;
        }
    }
    if names.is_empty() || style.one_in(5) {
        names.push("missing".to_owned());
    }
    FieldPath::new(names).expect("there is a name")
}

fn cases() -> ProptestConfig {
    let cases = if std::env::var_os("STEERSMAN_SOAK").is_some() { 50_000 } else { 200 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn every_cut_of_a_list_gives_the_same_items(
        items in prop::collection::vec(prop_oneof![3 => object(), 1 => document()], 0..5),
        version in text(), token in prop::option::of(text()), remaining in any::<Option<i64>>(),
        seed in any::<u64>(), sizes in sizes(),
    ) {
        let list = json!({
            "kind": "PodList", "apiVersion": "v1", "extra": {"items": [1]}, "items": items,
            "metadata": {"resourceVersion": version, "continue": token, "remainingItemCount": remaining},
        });
        let list_text = written(&list, seed);
        let (found, end) = split_list(list_text.as_bytes(), sizes);
        let found: Vec<Document> = found.into_iter().map(|item| parsed(&item.expect("an item"))).collect();
        prop_assert_eq!(Document::from(found), parsed(list_text.as_bytes())["items"].take());
        let end = end.expect("a list");
        prop_assert_eq!((end.resource_version, end.continue_token), (version, token.unwrap_or_default()));
        prop_assert_eq!(end.remaining_item_count, remaining);
        prop_assert_eq!(end.type_meta.kind, "PodList");
    }

    #[test]
    fn every_cut_of_a_watch_gives_the_same_events(
        objects in prop::collection::vec((0_usize..3, object()), 0..5), seed in any::<u64>(), sizes in sizes(),
    ) {
        let (mut stream, mut expected) = (String::new(), Vec::new());
        for (kind, object) in &objects {
            let kind = ["ADDED", "MODIFIED", "DELETED"][*kind];
            let event = written(&json!({"type": kind, "object": object}), seed);
            expected.push((kind, parsed(event.as_bytes())["object"].clone()));
            stream.push_str(&event);
            stream.push('\n');
        }
        let (events, end) = split_watch(stream.as_bytes(), sizes);
        prop_assert_eq!(end, Ok(()));
        let found: Vec<(&str, Document)> = events.into_iter().map(|event| match event.expect("an event") {
            WatchEvent::Added(object) => ("ADDED", parsed(&object.json().expect("it came as JSON"))),
            WatchEvent::Modified(object) => ("MODIFIED", parsed(&object.json().expect("it came as JSON"))),
            WatchEvent::Deleted(object) => ("DELETED", parsed(&object.json().expect("it came as JSON"))),
            other => panic!("{other:?}"),
        }).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn metadata_is_what_serde_json_finds_and_nothing_is_left_out_but_what_should_be(
        object in object(), seed in any::<u64>(), paths in prop::collection::vec(any::<u64>(), 0..3),
    ) {
        let text = written(&object, seed);
        let mut expected = parsed(text.as_bytes());
        let mut strip = Strip::default();
        let paths: Vec<FieldPath> = paths.into_iter().map(|seed| path_into(&expected, seed)).collect();
        let whole = Json.metadata(text.as_bytes()).expect("metadata");
        prop_assert_eq!(found_metadata(&whole), expected_metadata(&expected));
        remove(&mut expected, &["metadata", "managedFields"]);
        for path in &paths {
            strip = strip.and(path);
            remove(&mut expected, &path.names().collect::<Vec<_>>());
        }
        let scanned = Json.scan(text.as_bytes(), &strip, None).expect("an object");
        prop_assert_eq!(parsed(&scanned.object), expected.clone());
        prop_assert_eq!(found_metadata(&scanned.metadata), expected_metadata(&expected));
    }

    #[test]
    fn what_is_left_out_because_the_metadata_holds_it_comes_back(
        object in object(), odd in prop::collection::vec(odd_field(), 0..4), seed in any::<u64>(),
        paths in prop::collection::vec(any::<u64>(), 0..3), types in prop::option::of((text(), text())),
    ) {
        let mut object = object;
        for (path, value) in odd {
            put(&mut object, &path, value);
        }
        let text = written(&object, seed);
        let paths = paths.into_iter().map(|seed| path_into(&object, seed));
        let strip = paths.fold(Strip::default(), |strip, path| strip.and(&path));
        let types = types.map(|(api_version, kind)| TypeMeta { api_version, kind });
        check_remainder(text.as_bytes(), &strip, types.as_ref());
    }

    #[test]
    fn fields_are_what_serde_json_finds(object in object(), seed in any::<u64>(), paths in prop::collection::vec(any::<u64>(), 1..6)) {
        let text = written(&object, seed);
        let document = parsed(text.as_bytes());
        for path in paths {
            let path = path_into(&document, path);
            check_read(text.as_bytes(), &document, &path);
            prop_assert_eq!(FieldPath::parse(&path.to_string()), Ok(path));
        }
    }
}
