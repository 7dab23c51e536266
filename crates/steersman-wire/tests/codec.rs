//! The guarantees of the codec, case by case.

mod targets;

use bytes::Bytes;
use serde_json::json;
use steersman_wire::{
    Encoding, Json, Limits, ObjectError, ObjectFault, RawItem, Strip, TypeMeta, Value, WatchEvent, WireError,
};

use targets::{split_list, split_watch};

fn items(body: &str) -> (Vec<String>, Result<steersman_wire::ListMeta, WireError>) {
    let (items, end) = split_list(body.as_bytes(), [body.len()]);
    let items = items.into_iter().map(|item| String::from_utf8(item.expect("an item").to_vec()).expect("a text"));
    (items.collect(), end)
}

fn scan(object: &[u8]) -> Result<String, ObjectError> {
    let scanned = Json.scan(object, &Strip::default(), None)?;
    Ok(String::from_utf8(scanned.object.to_vec()).expect("a text"))
}

#[test]
fn the_list_has_fields_before_and_behind_its_items() {
    let about = r#""kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"c","remainingItemCount":2}"#;
    for body in [format!(r#"{{{about},"items":[{{"a":1}},{{}}]}}"#), format!(r#"{{"items":[{{"a":1}},{{}}],{about}}}"#)]
    {
        let (items, end) = items(&body);
        assert_eq!(items, [r#"{"a":1}"#, "{}"]);
        let list = end.expect("a list");
        assert_eq!((list.resource_version.as_str(), list.continue_token.as_str()), ("9", "c"));
        assert_eq!(list.remaining_item_count, Some(2));
        let pod = TypeMeta { api_version: "v1".to_owned(), kind: "Pod".to_owned() };
        assert_eq!(list.item_type(), Some(pod));
    }
}

#[test]
fn a_list_may_have_no_items_in_several_ways() {
    for rest in ["", r#","items":null"#, r#","items":[]"#, r#","items":[ ]"#] {
        let (items, end) = items(&format!(r#"{{"kind":"PodList"{rest}}}"#));
        assert!(items.is_empty() && end.is_ok(), "{rest}: {end:?}");
    }
    let (_, end) = items(r#"{"kind":"List","items":[]}"#);
    assert_eq!(end.expect("a list").item_type(), None, "a List holds anything");
}

#[test]
fn the_error_for_a_response_that_is_no_list_names_its_kind() {
    let status = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old","reason":"Expired",
        "details":{"retryAfterSeconds":3,"causes":[{"reason":"ResourceVersionTooLarge","message":"m"}]},"code":410}"#;
    let Err(WireError::Status(status)) = items(status).1 else { panic!("a Status is not recognised") };
    assert!(status.is_gone());
    assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (410, "Expired", "too old"));
    assert_eq!((status.retry_after_seconds, status.causes), (Some(3), vec!["ResourceVersionTooLarge".to_owned()]));
    for (body, kind) in [
        (r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[],"rows":[{"cells":[]}]}"#, "Table"),
        (r#"{"kind":"Pod","metadata":{"name":"a"}}"#, "Pod"),
        ("{}", "an object without a kind"),
    ] {
        assert_eq!(items(body).1, Err(WireError::NotAList { kind: kind.to_owned() }));
    }
}

#[test]
fn a_list_that_cannot_be_parsed_is_an_error_with_its_position() {
    for (body, offset, expected) in [
        ("<html>", 0, "a list, which is an object"),
        (r#"{"items":[{}}]}"#, 12, "a comma or the end of the items"),
        (r#"{"items":[{} {}]}"#, 13, "a comma or the end of the items"),
        (r#"{"items":[{},]}"#, 13, "an item"),
        (r#"{"items":{}}"#, 9, "items to be a list"),
        (r#"{"items":nil}"#, 12, "items to be a list"),
        (r#"{"items":[],"items":[]}"#, 20, "items only once"),
        (r#"{"items":[]} x"#, 13, "nothing after the list"),
        (r#"{"a" 1}"#, 5, "a colon after a member's name"),
        (r#"{"a":1,}"#, 7, "a member's name"),
        (r#"{"a":,}"#, 5, "a value"),
    ] {
        for size in [1, 100] {
            let (_, end) = split_list(body.as_bytes(), std::iter::repeat(size));
            assert_eq!(end, Err(WireError::Structure { offset, expected }), "{body}");
        }
    }
    for body in ["", "{", r#"{"items":[{"#, r#"{"items":[]"#] {
        let (_, end) = split_list(body.as_bytes(), [body.len()]);
        assert!(
            matches!(end, Err(WireError::Truncated { length, .. }) if length == body.len() as u64),
            "{body}: {end:?}"
        );
    }
}

#[test]
fn one_bad_object_harms_only_itself() {
    let deep = [b"[".repeat(10_001), b"]".repeat(10_001)].concat();
    let mut body = br#"{"items":[{"metadata":{"name":"a","namespace":"n"}},"#.to_vec();
    body.extend_from_slice(b"{\"metadata\":{\"name\":\"b\",\"namespace\":\"n\"},\"spec\":\"\xff\"},5,");
    body.extend_from_slice(br#"{"metadata":{"name":"c"},"spec":"#);
    body.extend_from_slice(&deep);
    body.extend_from_slice(br#"},{"metadata":{"name":"d","labels":[]}},{"metadata":{"name":"e"}}]}"#);
    let mut list = Encoding::Json.split_list(Limits::default());
    list.push(body.into());
    let mut found = Vec::new();
    while let Some(item) = list.next_item().expect("a list") {
        let item = item.expect("an item");
        found.push(Json.scan_item(&item, &Strip::default(), None).map(|scanned| scanned.metadata.key()));
    }
    list.finish().expect("a list");
    let error =
        |index, key: Option<&str>, fault| Err(ObjectError { index: Some(index), key: key.map(str::to_owned), fault });
    let labels = ObjectFault::WrongType { field: "metadata.labels", expected: "an object" };
    assert_eq!(
        found,
        [
            Ok("n/a".to_owned()),
            error(1, Some("n/b"), ObjectFault::Utf8 { offset: 49 }),
            error(2, None, ObjectFault::Syntax { offset: 0, expected: "an object" }),
            error(3, Some("c"), ObjectFault::TooDeep),
            error(4, Some("d"), labels),
            Ok("e".to_owned()),
        ]
    );
    let message = found[1].as_ref().expect_err("an error").to_string();
    assert_eq!(message, "object n/b (index 1) cannot be read: not UTF-8 at byte 49");
}

#[test]
fn an_object_that_is_too_large_is_passed_over_and_named() {
    let large = format!(r#"{{"metadata":{{"name":"large"}},"data":"{}"}}"#, "x".repeat(500));
    let limits = Limits { object_bytes_max: 100 };
    for size in [1, 90, 10_000] {
        let mut list = Encoding::Json.split_list(limits);
        let mut found = Vec::new();
        for chunk in format!(r#"{{"items":[{{}},{large},{{"a":1}}]}}"#).as_bytes().chunks(size) {
            list.push(Bytes::copy_from_slice(chunk));
            while let Some(item) = list.next_item().expect("a list") {
                found.push(item.and_then(|item| item.json()));
            }
        }
        let error =
            ObjectError { index: Some(1), key: Some("large".to_owned()), fault: ObjectFault::TooLarge { limit: 100 } };
        assert_eq!(found, [Ok(Bytes::from("{}")), Err(error), Ok(Bytes::from(r#"{"a":1}"#))], "chunks of {size}");

        let mut watch = Encoding::Json.split_watch(limits);
        let mut found = Vec::new();
        let events = format!("{{\"type\":\"ADDED\",\"object\":{large}}}\n{{\"type\":\"ADDED\",\"object\":{{}}}}\n");
        for chunk in events.as_bytes().chunks(size) {
            watch.push(Bytes::copy_from_slice(chunk));
            while let Some(event) = watch.next_event().expect("a watch") {
                found.push(event);
            }
        }
        let error =
            ObjectError { index: Some(0), key: Some("large".to_owned()), fault: ObjectFault::TooLarge { limit: 100 } };
        assert_eq!(found, [Err(error), Ok(WatchEvent::Added(RawItem::new(1, "{}".into())))], "chunks of {size}");
    }
    let (mut list, long) = (Encoding::Json.split_list(limits), format!(r#"{{"kind":"{}"}}"#, "x".repeat(200)));
    list.push(long.into());
    assert_eq!(list.next_item(), Err(WireError::TooLarge { name: "kind".to_owned(), limit: 100 }));
}

#[test]
fn an_item_within_one_chunk_is_not_copied() {
    let chunk = Bytes::from(r#"{"items":[{"a":1},{"b":2}]}"#);
    let mut list = Encoding::Json.split_list(Limits::default());
    list.push(chunk.clone());
    let item = list.next_item().expect("a list").expect("an item").expect("an object");
    assert_eq!(item.json().expect("it came as JSON").as_ptr(), chunk[10..].as_ptr());
}

#[test]
fn watch_events_are_recognized() {
    let stream = "\n{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n\r\n\n{\"object\":{\"b\":2},\"type\":\"MODIFIED\"}{\"type\":\"DELETED\",\"object\":{}}\n\
        {\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\",\"creationTimestamp\":null}}}\n\
        {\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"8\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n\
        {\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"old\"}}\n";
    for size in [1, 7, 1000] {
        let (events, end) = split_watch(stream.as_bytes(), std::iter::repeat(size));
        assert_eq!(end, Ok(()));
        let events: Vec<WatchEvent> = events.into_iter().map(|event| event.expect("an event")).collect();
        let bookmark = |version: &str, initial_events_end| WatchEvent::Bookmark {
            resource_version: version.to_owned(),
            initial_events_end,
        };
        let item = |index, text: &'static str| RawItem::new(index, text.into());
        assert_eq!(events[0], WatchEvent::Added(item(0, r#"{"a":1}"#)));
        assert_eq!(events[1..3], [WatchEvent::Modified(item(1, r#"{"b":2}"#)), WatchEvent::Deleted(item(2, "{}"))]);
        assert_eq!(events[3..5], [bookmark("7", false), bookmark("8", true)]);
        assert!(matches!(&events[5], WatchEvent::Error(status) if status.is_gone() && status.message == "old"));
        assert_eq!(events.len(), 6);
    }
}

#[test]
fn a_chunk_that_has_been_read_is_let_go() {
    let event = "{\"type\":\"ADDED\",\"object\":{}}\n";
    for (text, events) in [(event.to_owned(), 1), (format!("{event}{event}"), 2), (format!("{event}<html>"), 2)] {
        for beginning in ["", &event[..9]] {
            let chunk = Bytes::from(format!("{text}{beginning}"));
            let mut watch = Encoding::Json.split_watch(Limits::default());
            watch.push(chunk.clone());
            for _ in 0..events {
                assert!(watch.next_event().expect("a watch").is_some());
            }
            assert!(watch.next_event().expect("a watch").is_none());
            assert!(chunk.is_unique(), "{text}{beginning}: its memory cannot be reused");
        }
    }
    let mut list = Encoding::Json.split_list(Limits::default());
    let chunk = Bytes::from(String::from(r#"{"items":[{}, {"#));
    list.push(chunk.clone());
    drop(list.next_item().expect("a list").expect("an item"));
    assert!(list.next_item().expect("a list").is_none());
    assert!(chunk.is_unique());
}

#[test]
fn a_bad_event_is_reported_and_the_next_ones_come() {
    let good = "{\"type\":\"ADDED\",\"object\":{}}\n";
    for (bad, key, message) in [
        ("<html>{}</html>", None, "expected an event, which is an object at byte 0"),
        ("}", None, "expected an event, which is an object at byte 0"),
        (
            r#"{"type":"MOVED","object":{"metadata":{"name":"a"}}}"#,
            Some("a"),
            "invalid watch event: expected a known type and an object, found the type \"MOVED\"",
        ),
        (
            r#"{"object":{"metadata":{"name":"a"}}}"#,
            Some("a"),
            "invalid watch event: expected a known type and an object, found no type",
        ),
        (r#"{"type":"ADDED"}"#, None, "invalid watch event: expected a known type and an object, found no object"),
        (
            r#"{"type":5,"object":{}}"#,
            None,
            "invalid watch event: expected a known type and an object, found a type that is no text",
        ),
        (r#"{"type":"ADDED" "object":{}}"#, None, "expected a comma or the object's end at byte 16"),
        (r#"{"object":{"metadata":{"name":"a"}},"type":}"#, Some("a"), "expected a value at byte 43"),
    ] {
        for size in [1, 1000] {
            let (events, end) = split_watch(format!("{good}{bad}\n{good}").as_bytes(), std::iter::repeat(size));
            assert_eq!((events.len(), end), (3, Ok(())), "{bad}");
            assert!(events[0].is_ok() && events[2].is_ok(), "{bad}");
            let error = events[1].as_ref().expect_err(bad);
            assert_eq!((error.index, error.key.as_deref(), error.fault.to_string().as_str()), (Some(1), key, message));
        }
    }
    let (_, end) = split_watch(b"{\"type\":", [3]);
    assert_eq!(end, Err(WireError::Truncated { length: 8, within: "an event" }));
}

#[test]
fn stripping_takes_the_right_comma_along() {
    for (object, stripped) in [
        (r#"{"metadata":{"managedFields":[]}}"#, r#"{"metadata":{}}"#),
        (r#"{"metadata":{"managedFields":[],"name":"a"}}"#, r#"{"metadata":{"name":"a"}}"#),
        (r#"{"metadata":{"name":"a","managedFields":[]}}"#, r#"{"metadata":{"name":"a"}}"#),
        (r#"{"metadata":{"managedFields":1,"managedFields":2}}"#, r#"{"metadata":{}}"#),
        (r#"{"metadata":{"managedFields":1,"managedFields":2,"a":3}}"#, r#"{"metadata":{"a":3}}"#),
        (r#"{"metadata":{"a":3,"managedFields":1,"managedFields":2}}"#, r#"{"metadata":{"a":3}}"#),
        (r#"{"metadata":{"managedFields":1,"a":3,"managedFields":2}}"#, r#"{"metadata":{"a":3}}"#),
        (r#"{"metadata":{"managed\u0046ields":1}}"#, r#"{"metadata":{}}"#),
        (r#"{"managedFields":1,"spec":{"managedFields":1}}"#, r#"{"managedFields":1,"spec":{"managedFields":1}}"#),
    ] {
        assert_eq!(scan(object.as_bytes()).expect(object), stripped);
    }
}

#[test]
fn the_type_is_filled_in_where_it_is_missing() {
    let types = TypeMeta { api_version: "apps/v1".to_owned(), kind: "A\"B".to_owned() };
    for (object, filled, kind) in [
        ("{}", r#"{"apiVersion":"apps/v1","kind":"A\"B"}"#, "A\"B"),
        (r#" {"metadata":{}}"#, r#" {"apiVersion":"apps/v1","kind":"A\"B","metadata":{}}"#, "A\"B"),
        (r#"{"kind":"C"}"#, r#"{"apiVersion":"apps/v1","kind":"C"}"#, "C"),
        (r#"{"apiVersion":"v1","kind":"C"}"#, r#"{"apiVersion":"v1","kind":"C"}"#, "C"),
    ] {
        let scanned = Json.scan(object.as_bytes(), &Strip::default(), Some(&types)).expect(object);
        assert_eq!(scanned.object, filled);
        assert_eq!(scanned.metadata.kind(), kind);
    }
    let strip = Strip::nothing().and(&"metadata".parse().expect("a path"));
    let scanned = Json.scan(br#"{"metadata":{}}"#, &strip, Some(&types)).expect("an object");
    assert_eq!(scanned.object, r#"{"apiVersion":"apps/v1","kind":"A\"B"}"#);
}

#[test]
fn metadata_is_small() {
    let object = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"shop","uid":"5d1c","labels":{"app":"web"}}}"#;
    let metadata = Json.metadata(object).expect("metadata");
    assert_eq!(size_of_val(&metadata), 32);
    // 33 bytes of text, and a byte of length for each.
    let texts = ["v1", "Pod", "web-0", "shop", "5d1c", "app", "web"].concat().len();
    assert_eq!(metadata.memory(), texts + 13 + 2);
}

#[test]
fn fields_are_read_as_they_are_written() {
    let object = br#"{"n":123456789012345678901234567890.5e-3,"t":true,"f":false,"z":null,"s":"a\u00e9","o":{"x":[1]},"e":{"a.b/c":"d"}}"#;
    let read = |path: &str| Json.read(object, &path.parse().expect("a path")).expect("a field");
    assert_eq!(read("n"), Some(Value::Number("123456789012345678901234567890.5e-3")));
    assert_eq!(
        (read("t"), read("f"), read("z")),
        (Some(Value::Bool(true)), Some(Value::Bool(false)), Some(Value::Null))
    );
    assert_eq!(read("s").as_ref().and_then(Value::as_str), Some("aé"));
    assert_eq!((read("o"), read("o.x")), (Some(Value::Raw(br#"{"x":[1]}"#)), Some(Value::Raw(b"[1]"))));
    assert_eq!(read("e['a.b/c']").as_ref().and_then(Value::as_str), Some("d"));
    assert_eq!((read("q"), read("o.q"), read("s.q"), read("o.x.q"), read("z.q")), (None, None, None, None, None));
}

#[test]
fn decoding_names_the_object_that_does_not_fit() {
    #[derive(serde::Deserialize)]
    struct View {
        spec: Spec,
    }
    #[derive(serde::Deserialize)]
    struct Spec {
        replicas: u32,
    }
    let view: View =
        Json.decode(br#"{"metadata":{"name":"a"},"spec":{"replicas":3,"x":{}},"status":[]}"#).expect("a view");
    assert_eq!(view.spec.replicas, 3);
    let error =
        Json.decode::<View>(br#"{"metadata":{"name":"a"},"spec":{"replicas":"3"}}"#).map(drop).expect_err("a text");
    assert_eq!(error.key.as_deref(), Some("a"));
    assert!(
        error.to_string().starts_with("object a cannot be read: invalid type: string \"3\", expected u32"),
        "{error}"
    );
}

#[test]
fn many_labels_twice_are_still_found_quickly() {
    let labels: Vec<String> = (0..40_000).map(|i| format!("\"k{}\":\"{i}\"", i % 20_000)).collect();
    let object = format!(r#"{{"metadata":{{"labels":{{{}}}}}}}"#, labels.join(","));
    let metadata = Json.metadata(object.as_bytes()).expect("metadata");
    assert_eq!((metadata.labels().count(), metadata.label("k7")), (20_000, Some("20007")));
    assert_eq!(json!(metadata.label("k20000")), json!(null));
}
