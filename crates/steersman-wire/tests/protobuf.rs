//! Protobuf compared with Go: `protobuf.jsonl` has objects of every kind, in JSON and in protobuf,
//! written by `xtask/servers/kubernetes/gotypes` (`cargo xtask kinds`).

use bytes::Bytes;
use serde_json::{Value, json};
use steersman_wire::{Encoding, Json, Limits, ObjectFault, RawItem, Strip, WatchEvent, WireError, base64, protobuf};

struct Sample {
    json: Value,
    protobuf: Vec<u8>,
}

fn samples() -> Vec<Sample> {
    let lines = include_str!("protobuf.jsonl").lines();
    lines
        .map(|line| {
            let mut sample: Value = serde_json::from_str(line).expect("a sample");
            let protobuf = base64::decode(sample["protobuf"].as_str().expect("a text")).expect("base64");
            Sample { json: sample["json"].take(), protobuf }
        })
        .collect()
}

/// A sample with every field.
fn full(kind: &str) -> Sample {
    samples().into_iter().rfind(|sample| sample.json["kind"] == kind).expect("a sample of the kind")
}

fn parse(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(json)))
}

#[test]
fn objects_of_every_kind_are_read_as_go_writes_them_in_json() {
    let samples = samples();
    assert!(samples.len() > 300, "{}", samples.len());
    for Sample { json, protobuf } in samples {
        let read = protobuf::to_json(&protobuf).unwrap_or_else(|error| panic!("{}: {error}", json["kind"]));
        assert_eq!(parse(&read), json, "{}", json["kind"]);
    }
}

#[test]
fn objects_of_every_kind_survive_being_written() {
    for Sample { json, .. } in samples() {
        let written = protobuf::from_json(json.to_string().as_bytes()).unwrap_or_else(|| panic!("{json}"));
        assert_eq!(parse(&protobuf::to_json(&written).unwrap()), json, "{}", json["kind"]);
    }
}

#[test]
fn the_kinds_that_controllers_use_are_known() {
    for (api_version, kind) in [
        ("v1", "Pod"),
        ("v1", "Secret"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("apps/v1", "Deployment"),
        ("batch/v1", "CronJob"),
        ("coordination.k8s.io/v1", "Lease"),
        ("events.k8s.io/v1", "Event"),
        ("networking.k8s.io/v1", "Ingress"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("apiregistration.k8s.io/v1", "APIService"),
        ("meta.k8s.io/v1", "PartialObjectMetadata"),
        ("v1", "Status"),
    ] {
        assert!(protobuf::has_kind(api_version, kind), "{api_version} {kind}");
    }
    for (api_version, kind) in
        [("samplecrd.k8s.io/v1", "Network"), ("v1", "PodList"), ("apps/v2", "Deployment"), ("", "")]
    {
        assert!(!protobuf::has_kind(api_version, kind), "{api_version} {kind}");
    }
}

/// A definition with this schema, as protobuf and back.
fn definition(schema: &Value) -> Option<Value> {
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    let names = json!({"plural": "things", "kind": "Thing"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": versions},
    });
    let back = parse(&protobuf::canonical(definition.to_string().as_bytes())?);
    back.pointer("/spec/versions/0/schema/openAPIV3Schema").cloned()
}

#[test]
fn a_schema_keeps_its_choices_and_its_json() {
    let schema = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "any": {"additionalProperties": {"type": "string"}, "default": {"a": [1, null]}, "enum": ["x", 7, null]},
            "list": {"items": {"type": "integer", "minimum": -1.5, "maximum": 10}},
            "tuple": {"items": [{"type": "string"}, {"type": "null"}], "additionalItems": true},
        },
        "dependencies": {"a": ["b", "c"], "d": {"not": {"required": ["e"]}}},
        "x-kubernetes-validations": [{"rule": "self.any != ''"}],
    });
    assert_eq!(definition(&schema), Some(schema));
}

/// A body of a few KiB must not overflow the stack of its reader.
#[test]
fn a_schema_that_is_nested_too_deep_is_refused() {
    let nested = |levels: usize| {
        let schema = (0..levels).fold(json!({"type": "string"}), |schema, _| json!({ "not": schema }));
        definition(&schema)
    };
    assert!(nested(100).is_some());
    // Hundreds of thousands of levels fit into a body.
    let mut schema = Vec::new();
    for _ in 0..50_000 {
        let mut outer = vec![28 << 3 & 0x7f | 0x80 | 2, 1];
        push_length(&mut outer, schema.len());
        outer.append(&mut schema);
        schema = outer;
    }
    for number in [1, 4, 7, 2] {
        let mut outer = vec![number << 3 | 2];
        push_length(&mut outer, schema.len());
        outer.append(&mut schema);
        schema = outer;
    }
    let (api_version, kind) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let mut type_meta = vec![1 << 3 | 2, api_version.len() as u8];
    type_meta.extend_from_slice(api_version.as_bytes());
    type_meta.extend_from_slice(&[2 << 3 | 2, kind.len() as u8]);
    type_meta.extend_from_slice(kind.as_bytes());
    let mut body = b"k8s\0".to_vec();
    body.extend_from_slice(&[1 << 3 | 2, type_meta.len() as u8]);
    body.append(&mut type_meta);
    body.push(2 << 3 | 2);
    push_length(&mut body, schema.len());
    body.append(&mut schema);
    let error = protobuf::to_json(&body).unwrap_err();
    assert!(error.to_string().contains("fewer levels"), "{error}");
}

fn push_length(out: &mut Vec<u8>, mut length: usize) {
    while length > 0x7f {
        out.push(0x80 | (length & 0x7f) as u8);
        length >>= 7;
    }
    out.push(length as u8);
}

/// In JSON, the claims of a StatefulSet have their type. A message has no field for it.
#[test]
fn an_object_within_another_needs_no_type() {
    let set = |claim: Value| {
        let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a"}, "spec": {
            "serviceName": "s", "volumeClaimTemplates": [claim]}});
        protobuf::canonical(set.to_string().as_bytes()).map(|json| parse(&json))
    };
    let typed = set(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}}));
    assert_eq!(typed, set(json!({"metadata": {"name": "c"}})));
    assert!(typed.is_some());
    assert_eq!(set(json!({"metadata": {"name": "c"}, "mood": "good"})), None);
}

/// Then the server gets the JSON and decides, and nothing is lost.
#[test]
fn what_a_message_cannot_hold_is_not_written() {
    let map = |metadata: Value, more: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object.to_string()
    };
    let good = map(json!({"name": "a"}), json!({"data": {"k": "v"}, "immutable": null}));
    assert!(protobuf::from_json(good.as_bytes()).is_some());
    for object in [
        map(json!({"name": "a"}), json!({"newField": 1})),
        map(json!({"name": "a", "newField": 1}), json!({})),
        map(json!({"name": 1}), json!({})),
        map(json!({"name": "a", "generation": "1"}), json!({})),
        map(json!({"name": "a", "generation": 1.5}), json!({})),
        map(json!({"name": "a", "generation": u64::MAX}), json!({})),
        map(json!({"name": "a", "creationTimestamp": "yesterday"}), json!({})),
        map(json!({"name": "a"}), json!({"data": {"k": 1}})),
        map(json!({"name": "a"}), json!({"data": ["k"]})),
        map(json!({"name": "a"}), json!({"binaryData": {"k": "not base64"}})),
        map(json!({"name": "a"}), json!({"immutable": "true"})),
        json!({"apiVersion": "example.com/v1", "kind": "ConfigMap"}).to_string(),
        json!({"kind": "ConfigMap"}).to_string(),
        r#"{"apiVersion":"v1","kind":"ConfigMap","data":{},"data":{}}"#.to_owned(),
        r#"{"apiVersion":"v1","kind":"ConfigMap"} more"#.to_owned(),
        "[]".to_owned(),
        String::new(),
    ] {
        assert_eq!(protobuf::from_json(object.as_bytes()), None, "{object}");
    }
}

#[test]
fn fields_of_a_newer_release_are_passed_over() {
    let Sample { json, protobuf } = full("ConfigMap");
    // Fields with a number that no message has, of every wire type, after the others.
    let unknown = field(1_000, b"new");
    let (type_meta, raw) = opened(&protobuf);
    let longer = envelope(&type_meta, &[&raw[..], &unknown, &[0xd0, 0x3e, 7], &[0xd5, 0x3e, 1, 2, 3, 4]].concat());
    assert_eq!(parse(&protobuf::to_json(&longer).unwrap()), json);
}

#[test]
fn an_object_that_is_cut_off_or_changed_is_read_or_refused_and_nothing_else() {
    for kind in ["ConfigMap", "Pod", "Event", "Status"] {
        let Sample { protobuf, .. } = full(kind);
        for length in 0..protobuf.len() {
            // An object that is cut off between two fields may still be valid.
            if let Ok(json) = protobuf::to_json(&protobuf[..length]) {
                parse(&json);
            }
        }
        for place in 4..protobuf.len().min(3_000) {
            for change in [1, 0x80, 0xff] {
                let mut changed = protobuf.clone();
                changed[place] ^= change;
                if let Ok(json) = protobuf::to_json(&changed) {
                    parse(&json);
                }
            }
        }
    }
    for (body, expected) in [
        (&b"{}"[..], "expected the envelope of an object"),
        (b"k8s\0", "arrived as protobuf, which has only built-in kinds: request JSON"),
    ] {
        let error = protobuf::to_json(body).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

// Bodies around objects, as Go writes them.

fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(0x80 | (number & 0x7f) as u8);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn field(number: usize, bytes: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | 2)[..], &varint(bytes.len()), bytes].concat()
}

fn type_meta(api_version: &str, kind: &str) -> Vec<u8> {
    [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat()
}

fn envelope(type_meta: &[u8], raw: &[u8]) -> Vec<u8> {
    [&b"k8s\0"[..], &field(1, type_meta), &field(2, raw), &field(3, b""), &field(4, b"")].concat()
}

/// The type and the message in an envelope.
fn opened(envelope: &[u8]) -> (Vec<u8>, Vec<u8>) {
    fn next(rest: &mut &[u8]) -> Vec<u8> {
        let (mut length, mut shift, mut at) = (0_usize, 0, 1);
        loop {
            length |= usize::from(rest[at] & 0x7f) << shift;
            shift += 7;
            at += 1;
            if rest[at - 1] < 0x80 {
                break;
            }
        }
        let (value, after) = rest[at..].split_at(length);
        *rest = after;
        value.to_vec()
    }
    let mut rest = &envelope[4..];
    let type_meta = next(&mut rest);
    (type_meta, next(&mut rest))
}

fn list(kind: &str, items: &[Vec<u8>]) -> Vec<u8> {
    let meta = [field(1, b""), field(2, b"77"), field(3, b"token"), vec![4 << 3, 5]].concat();
    let items = items.iter().flat_map(|item| field(2, item));
    envelope(&type_meta("v1", kind), &field(1, &meta).into_iter().chain(items).collect::<Vec<_>>())
}

fn named(name: &str) -> Vec<u8> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}});
    opened(&protobuf::from_json(object.to_string().as_bytes()).unwrap()).1
}

/// The names of the items, errors as their texts, and the version of the list.
fn split_list(body: &[u8], step: usize, limits: Limits) -> (Vec<String>, Result<String, WireError>) {
    let mut splitter = Encoding::Protobuf.split_list(limits);
    let mut found = Vec::new();
    for chunk in body.chunks(step) {
        splitter.push(Bytes::copy_from_slice(chunk));
        loop {
            match splitter.next_item() {
                Ok(None) => break,
                Ok(Some(Ok(item))) => {
                    let type_meta = splitter.list().item_type();
                    let scanned = Json.scan_item(&item, &Strip::default(), type_meta.as_ref()).unwrap();
                    found.push(format!("{} {}", scanned.metadata.kind(), scanned.metadata.key()));
                }
                Ok(Some(Err(error))) => found.push(error.to_string()),
                Err(error) => return (found, Err(error)),
            }
        }
    }
    let meta = splitter.finish();
    (
        found,
        meta.map(|meta| {
            let rest = meta.remaining_item_count.unwrap_or_default();
            format!("{} {} {} {rest}", meta.type_meta.kind, meta.resource_version, meta.continue_token)
        }),
    )
}

#[test]
fn a_list_is_split_however_it_is_cut() {
    let body = list("ConfigMapList", &["a", "b", &"c".repeat(300)].map(named));
    let expected =
        ["ConfigMap shop/a".to_owned(), "ConfigMap shop/b".to_owned(), format!("ConfigMap shop/{}", "c".repeat(300))];
    for step in 1..=body.len() {
        let (found, meta) = split_list(&body, step, Limits::default());
        assert_eq!(found, expected, "chunks of {step}");
        assert_eq!(meta.as_deref(), Ok("ConfigMapList 77 token 5"));
    }
    let (found, meta) = split_list(&list("ConfigMapList", &[]), 7, Limits::default());
    assert_eq!((found.len(), meta.as_deref()), (0, Ok("ConfigMapList 77 token 5")));
}

/// In JSON they do, while items of other lists do not.
#[test]
fn items_of_which_only_the_metadata_is_sent_are_marked() {
    let body = envelope(&type_meta("meta.k8s.io/v1", "PartialObjectMetadataList"), &field(2, &named("a")));
    let mut splitter = Encoding::Protobuf.split_list(Limits::default());
    splitter.push(body.into());
    let item = splitter.next_item().unwrap().expect("an item").unwrap();
    let expected = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": "a", "namespace": "shop"}});
    assert_eq!(parse(&item.json().unwrap()), expected);
}

#[test]
fn an_item_that_is_too_large_is_passed_over_and_named() {
    // The data of a ConfigMap follow its metadata.
    let large = [named("large"), field(2, &field(1, &[b'x'; 10_000]))].concat();
    let body = list("ConfigMapList", &[named("a"), large, named("b")]);
    for step in [1, 100, 4_096, 100_000] {
        let (found, meta) = split_list(&body, step, Limits { object_bytes_max: 1_000 });
        let error = "object shop/large (index 1) cannot be read: larger than the limit of 1000 bytes";
        assert_eq!(found, ["ConfigMap shop/a", error, "ConfigMap shop/b"]);
        assert!(meta.is_ok());
    }
}

#[test]
fn a_list_that_is_cut_off_is_an_error_wherever_that_is() {
    let body = list("ConfigMapList", &["a", "b"].map(named));
    // The last two fields of the envelope are empty and may be missing.
    for length in 0..body.len() - 4 {
        let (_, meta) = split_list(&body[..length], 10, Limits::default());
        assert!(matches!(meta, Err(WireError::Truncated { .. })), "{length}: {meta:?}");
    }
}

#[test]
fn what_is_no_list_is_refused() {
    let refusal = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "too old",
        "reason": "Expired", "code": 410});
    let refusal = protobuf::from_json(refusal.to_string().as_bytes()).unwrap();
    let refused = |body: &[u8]| split_list(body, 5, Limits::default()).1.unwrap_err();
    assert!(matches!(refused(&refusal), WireError::Status(status) if status.is_gone() && status.message == "too old"));
    let pod = full("ConfigMap").protobuf;
    assert_eq!(refused(&pod), WireError::NotAList { kind: "ConfigMap".to_owned() });
    assert!(matches!(refused(b"{\"kind\":\"PodList\"}"), WireError::Structure { offset: 0, .. }));
    assert!(matches!(refused(&list("NetworkList", &[])), WireError::ListMeta { .. }));
    // An item that is longer than its list.
    let broken = envelope(&type_meta("v1", "ConfigMapList"), &[2 << 3 | 2, 100, 0]);
    assert!(matches!(refused(&broken), WireError::Structure { .. }));
}

fn event(kind: &str, object: &[u8]) -> Vec<u8> {
    let event = [field(1, kind.as_bytes()), field(2, &field(1, object))].concat();
    [&u32::try_from(event.len()).unwrap().to_be_bytes()[..], &event].concat()
}

fn watched(name: &str) -> Vec<u8> {
    envelope(&type_meta("v1", "ConfigMap"), &named(name))
}

/// The events as text.
fn split_watch(body: &[u8], step: usize, limits: Limits) -> (Vec<String>, Result<(), WireError>) {
    let mut splitter = Encoding::Protobuf.split_watch(limits);
    let mut found = Vec::new();
    let words = |what: &str, item: RawItem| {
        let scanned = Json.scan_item_remainder(&item, &Strip::default(), None).unwrap();
        format!("{what} {} {}", scanned.metadata.kind(), scanned.metadata.key())
    };
    for chunk in body.chunks(step) {
        splitter.push(Bytes::copy_from_slice(chunk));
        while let Some(event) = splitter.next_event().unwrap() {
            found.push(match event {
                Ok(WatchEvent::Added(item)) => words("added", item),
                Ok(WatchEvent::Modified(item)) => words("modified", item),
                Ok(WatchEvent::Deleted(item)) => words("deleted", item),
                Ok(WatchEvent::Bookmark { resource_version, initial_events_end }) => {
                    format!("bookmark {resource_version} {initial_events_end}")
                }
                Ok(WatchEvent::Error(status)) => format!("error {} {}", status.code, status.reason),
                Err(error) => error.to_string(),
            });
        }
    }
    (found, splitter.finish())
}

#[test]
fn a_watch_is_split_however_it_is_cut() {
    let bookmark = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"resourceVersion": "12", "annotations": {"k8s.io/initial-events-end": "true"}}});
    let status = json!({"apiVersion": "v1", "kind": "Status", "reason": "Expired", "code": 410});
    let [bookmark, status] =
        [bookmark, status].map(|object| protobuf::from_json(object.to_string().as_bytes()).unwrap());
    let body = [
        event("ADDED", &watched("a")),
        event("MODIFIED", &watched("b")),
        event("DELETED", &watched("c")),
        event("BOOKMARK", &bookmark),
        event("ERROR", &status),
    ]
    .concat();
    let expected = [
        "added ConfigMap shop/a",
        "modified ConfigMap shop/b",
        "deleted ConfigMap shop/c",
        "bookmark 12 true",
        "error 410 Expired",
    ];
    for step in 1..=body.len() {
        let (found, end) = split_watch(&body, step, Limits::default());
        assert_eq!((found.as_slice(), end), (&expected.map(str::to_owned)[..], Ok(())), "chunks of {step}");
    }
    for length in 1..event("ADDED", &watched("a")).len() {
        let (found, end) = split_watch(&body[..length], 9, Limits::default());
        assert!(found.is_empty() && matches!(end, Err(WireError::Truncated { .. })), "{length}: {found:?}, {end:?}");
    }
}

#[test]
fn an_event_that_cannot_be_read_harms_only_itself() {
    let network = envelope(&type_meta("example.com/v1", "Network"), &named("n"));
    let body = [
        event("ADDED", &watched("a")),
        event("ADDED", b"{}"),
        event("ADDED", &network),
        event("SHOUTED", &watched("b")),
        event("", &watched("b")),
        vec![0, 0, 0, 0],
        vec![0, 0, 0, 2, 0xff, 0xff],
        event("ADDED", &watched(&"large".repeat(200))),
        event("ADDED", &watched("z")),
    ]
    .concat();
    let (found, end) = split_watch(&body, 64, Limits { object_bytes_max: 500 });
    let expected = [
        "added ConfigMap shop/a",
        "object (index 1) cannot be read: expected the envelope of an object at byte 0",
        "object shop/n (index 2) cannot be read: example.com/v1 Network arrived as protobuf, which has only built-in \
         kinds: request JSON",
        "object shop/b (index 3) cannot be read: invalid watch event: expected a known type and an object, found the type \
         \"SHOUTED\"",
        "object shop/b (index 4) cannot be read: invalid watch event: expected a known type and an object, found no type",
        "object (index 5) cannot be read: invalid watch event: expected a known type and an object, found no object",
        "object (index 6) cannot be read: expected a number at byte 2",
        "object (index 7) cannot be read: larger than the limit of 500 bytes",
        "added ConfigMap shop/z",
    ];
    assert_eq!(found, expected);
    assert_eq!(end, Ok(()));
}

#[test]
fn a_field_that_comes_twice_is_an_error_that_names_the_object() {
    let twice = envelope(&type_meta("v1", "ConfigMap"), &[named("a"), named("b")].concat());
    let error = protobuf::to_json(&twice).unwrap_err();
    assert_eq!(error.key.as_deref(), Some("shop/a"));
    assert!(matches!(error.fault, ObjectFault::Syntax { expected: "each field once", .. }), "{error}");
}

#[test]
fn what_is_stripped_does_not_become_json() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}, "binaryData": {"b": "AA=="},
        "metadata": {"name": "a", "annotations": {"a.b/c": "d", "e": "f"},
            "managedFields": [{"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]}});
    let sent = protobuf::from_json(object.to_string().as_bytes()).unwrap();
    let mut splitter = Encoding::Protobuf.split_watch(Limits::default());
    splitter.push(event("ADDED", &sent).into());
    let Some(Ok(WatchEvent::Added(item))) = splitter.next_event().unwrap() else { panic!("an event") };
    assert_eq!(parse(&item.json().unwrap()), object);
    let strip = ["metadata.annotations['a.b/c']", "data"].map(|path| path.parse().unwrap());
    let strip = strip.iter().fold(Strip::default(), Strip::and);
    let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "binaryData": {"b": "AA=="},
        "metadata": {"name": "a", "annotations": {"e": "f"}}});
    assert_eq!(parse(&Json.scan_item(&item, &strip, None).unwrap().object), expected);
}

#[test]
fn the_content_type_names_the_encoding() {
    for (content_type, expected) in [
        (None, Encoding::Json),
        (Some("application/json"), Encoding::Json),
        (Some("text/plain"), Encoding::Json),
        (Some("application/vnd.kubernetes.protobuf"), Encoding::Protobuf),
        (Some("application/vnd.kubernetes.protobuf;stream=watch"), Encoding::Protobuf),
        (Some("Application/VND.Kubernetes.Protobuf; as=x"), Encoding::Protobuf),
    ] {
        assert_eq!(Encoding::of(content_type), expected, "{content_type:?}");
    }
    assert_eq!(Encoding::of(Some(Encoding::Json.media_type())), Encoding::Json);
    assert_eq!(Encoding::of(Some(Encoding::Protobuf.media_type())), Encoding::Protobuf);
}
