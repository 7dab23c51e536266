//! A remainder leaves out what the metadata of the object holds, and restoring brings it back.

mod targets;

use serde_json::{Value as Document, json};
use steersman_wire::{Json, SharedTexts, Strip, TypeMeta};

use targets::check_remainder;

/// The rest of an object as JSON, after a check that it can be restored.
#[track_caller]
fn rest(object: &str) -> String {
    rest_without(object, &Strip::default(), None)
}

#[track_caller]
fn rest_without(object: &str, strip: &Strip, types: Option<&TypeMeta>) -> String {
    check_remainder(object.as_bytes(), strip, types);
    let scanned = Json.scan_remainder(object.as_bytes(), strip, types).expect(object);
    let rest = Json.rest(&scanned.object).expect("it is not broken");
    String::from_utf8(rest.to_vec()).expect("JSON is a text")
}

fn restored(object: &str, types: Option<&TypeMeta>) -> String {
    let scanned = Json.scan_remainder(object.as_bytes(), &Strip::default(), types).expect(object);
    let whole = Json.restore(&scanned.object, &scanned.metadata).expect("it is not broken");
    String::from_utf8(whole.into_owned()).expect("JSON is a text")
}

const POD: &str = concat!(
    r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-0","generateName":"web-","namespace":"shop","uid":"u-1","#,
    r#""resourceVersion":"7","generation":3,"creationTimestamp":"2026-01-01T00:00:00Z","#,
    r#""deletionTimestamp":"2026-01-02T00:00:00Z","deletionGracePeriodSeconds":30,"#,
    r#""labels":{"app":"web","tier":""},"annotations":{"a.b/c":"{\"x\":\"\\\\n\"}","é":"😀\u0001"},"#,
    r#""ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"u","controller":true,"#,
    r#""blockOwnerDeletion":true},{"apiVersion":"v1","kind":"Node","name":"n","uid":"v"}],"finalizers":["a/b"]},"#,
    r#""spec":{"nodeName":"n1"},"status":{}}"#
);

#[test]
fn what_the_metadata_holds_is_left_out_and_every_byte_comes_back() {
    let expected = concat!(
        r#"{"metadata":{"generateName":"web-","deletionGracePeriodSeconds":30,"finalizers":["a/b"]},"#,
        r#""spec":{"nodeName":"n1"},"status":{}}"#
    );
    assert_eq!(rest(POD), expected);
    assert_eq!(restored(POD, None), POD);
    let remainder = Json.scan_remainder(POD.as_bytes(), &Strip::default(), None).expect("an object");
    let head = remainder.object.len() - expected.len();
    assert!(head <= 16, "{head} bytes say what was left out");
}

#[test]
fn members_come_back_to_their_places() {
    for object in [
        r#"{"metadata":{"name":"a"}}"#,
        r#"{"metadata":{"name":"a"},"kind":"A"}"#,
        r#"{"a":1,"kind":"A"}"#,
        r#"{"a":1,"kind":"A","b":2,"apiVersion":"v1","c":3}"#,
        r#"{"kind":"A"}"#,
        r#"{"kind":"A","apiVersion":"v1"}"#,
        r#"{"spec":{"text":"long enough to be far away from the beginning"},"metadata":{"x":1,"name":"a","y":{}}}"#,
        r#"{"metadata":{"labels":{},"annotations":{},"ownerReferences":[]},"kind":""}"#,
    ] {
        assert_ne!(rest(object), object);
        assert_eq!(restored(object, None), object);
    }
}

#[test]
fn far_places_are_found() {
    for length in (0..40).chain([100, 126, 127, 128, 129, 142, 143, 144, 16_000, 16_398, 16_399, 16_400, 70_000]) {
        let object = format!(r#"{{"s":"{}","kind":"A","metadata":{{"name":"a"}}}}"#, "x".repeat(length));
        rest(&object);
        assert_eq!(restored(&object, None), object);
    }
}

#[test]
fn white_space_may_be_anywhere() {
    for object in [
        " { \"kind\" : \"A\" } ",
        "{ \"kind\" : \"A\" , \"a\" : 1 }",
        "{ \"a\" : 1 , \"kind\" : \"A\" }",
        "\n{\"a\":1 ,\"kind\":\"A\"\t, \"b\":2}",
        " { \"metadata\" : { \"name\" : \"a\" , \"x\" : 1 , \"labels\" : { \"a\" : \"b\" } } } ",
    ] {
        assert!(!rest(object).contains("kind") && !rest(object).contains("name"), "{object}");
        rest_without(object, &Strip::default(), Some(&types("v1", "B")));
    }
}

fn types(api_version: &str, kind: &str) -> TypeMeta {
    TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() }
}

#[test]
fn a_type_that_is_filled_in_is_in_the_metadata_only() {
    let types = types("example.com/v1", "A\"");
    for (object, left, whole) in [
        ("{}", "{}", r#"{"apiVersion":"example.com/v1","kind":"A\""}"#),
        (r#"{"a":1}"#, r#"{"a":1}"#, r#"{"apiVersion":"example.com/v1","kind":"A\"","a":1}"#),
        (r#"{"kind":"B"}"#, "{}", r#"{"apiVersion":"example.com/v1","kind":"B"}"#),
        (r#"{"apiVersion":"v1","a":1}"#, r#"{"a":1}"#, r#"{"kind":"A\"","apiVersion":"v1","a":1}"#),
        (r#"{"kind":null}"#, r#"{"kind":null}"#, r#"{"apiVersion":"example.com/v1","kind":null}"#),
    ] {
        assert_eq!(rest_without(object, &Strip::default(), Some(&types)), left);
        assert_eq!(restored(object, Some(&types)), whole);
    }
}

#[test]
fn what_is_not_exactly_held_stays() {
    for metadata in [
        r#"{"name":null}"#,
        r#"{"labels":null}"#,
        r#"{"labels":{"a":null}}"#,
        r#"{"annotations":{"a":"b","c":null}}"#,
        r#"{"generation":null,"deletionTimestamp":null}"#,
        r#"{"finalizers":[],"generateName":"a"}"#,
        r#"{"ownerReferences":null}"#,
        r#"{"ownerReferences":[null]}"#,
        r#"{"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"a","uid":"u","controller":false}]}"#,
        r#"{"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"a","uid":"u","blockOwnerDeletion":null}]}"#,
        r#"{"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"a","uid":"u","more":1}]}"#,
        r#"{"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"a"}]}"#,
        r#"{"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"a","uid":null}]}"#,
        r#"{"ownerReferences":[{"kind":"B","apiVersion":"v1","kind":"A","name":"a","uid":"u"}]}"#,
    ] {
        let object = format!(r#"{{"metadata":{metadata},"apiVersion":null}}"#);
        assert_eq!(rest(&object), object);
    }
}

#[test]
fn an_object_with_duplicate_fields_keeps_everything() {
    for object in [
        r#"{"kind":"A","kind":"B","metadata":{"name":"a"}}"#,
        r#"{"kind":"A","k\u0069nd":null}"#,
        r#"{"kind":"A","metadata":{"name":"a"},"metadata":{"uid":"u"}}"#,
        r#"{"kind":"A","metadata":{"name":"a"},"metadata":null}"#,
        r#"{"kind":"A","metadata":null,"metadata":{"name":"a"}}"#,
        r#"{"kind":"A","metadata":{"name":null,"name":"a"}}"#,
        r#"{"kind":"A","metadata":{"labels":{"a":"b"},"labels":{"c":"d"}}}"#,
        r#"{"kind":"A","metadata":{"ownerReferences":[],"ownerReferences":[]}}"#,
    ] {
        assert_eq!(rest(object), object);
        let scanned = Json.scan_remainder(object.as_bytes(), &Strip::default(), None).expect(object);
        assert_eq!(scanned.object, object, "a whole object is its own remainder");
        rest_without(object, &Strip::nothing(), Some(&types("v1", "C")));
    }
    // Of equal labels the last counts, and no other is stored.
    let object = r#"{"metadata":{"labels":{"a":"b","\u0061":"c"},"annotations":{"x":"1","y":"2","x":"3"}}}"#;
    assert_eq!(rest(object), r#"{"metadata":{}}"#);
    let document: Document = serde_json::from_str(&restored(object, None)).expect("JSON");
    assert_eq!(document, json!({"metadata": {"labels": {"a": "c"}, "annotations": {"x": "3", "y": "2"}}}));
}

#[test]
fn what_is_to_be_left_out_does_not_come_back() {
    let strip = ["metadata.labels.a", "metadata.annotations", "metadata.uid", "kind", "spec.x"]
        .iter()
        .fold(Strip::default(), |strip, path| strip.and(&path.parse().expect("a path")));
    for (object, left) in [
        (r#"{"metadata":{"labels":{"a":"1","b":"2"},"uid":"u"}}"#, r#"{"metadata":{}}"#),
        (r#"{"metadata":{"labels":{"a":"1"},"annotations":{"b":"c"}},"kind":"A"}"#, r#"{"metadata":{}}"#),
        (r#"{"metadata":{"managedFields":[],"name":"a","uid":"u","x":1}}"#, r#"{"metadata":{"x":1}}"#),
        (r#"{"metadata":{"x":1,"managedFields":[],"name":"a","uid":"u"}}"#, r#"{"metadata":{"x":1}}"#),
        (r#"{"metadata":{"labels":{"a":null,"b":"2"}}}"#, r#"{"metadata":{"labels":{"b":"2"}}}"#),
        (r#"{"spec":{"x":1,"y":2},"apiVersion":"v1","kind":"A"}"#, r#"{"spec":{"y":2}}"#),
    ] {
        assert_eq!(rest_without(object, &strip, None), left);
        rest_without(object, &strip, Some(&types("v1", "B")));
    }
}

#[test]
fn texts_come_back_however_they_are_written() {
    let object = r#"{"k\u0069nd":"\u0041","metadata":{"n\u0061me":"\ud83d\ude00\/\u0000\b\f\n\r\t\"\\é","labels":{"\u0062":"\u003c"}}}"#;
    assert_eq!(rest(object), r#"{"metadata":{}}"#);
    let whole = restored(object, None);
    assert_eq!(whole, r#"{"kind":"A","metadata":{"name":"😀/\u0000\b\f\n\r\t\"\\é","labels":{"b":"<"}}}"#);
}

#[test]
fn shared_metadata_makes_objects_whole_as_well() {
    let texts = SharedTexts::new();
    for _ in 0..3 {
        let scanned = Json.scan_remainder(POD.as_bytes(), &Strip::default(), None).expect("an object");
        let metadata = scanned.metadata.share(&texts);
        let whole = Json.restore(&scanned.object, &metadata).expect("it is not broken");
        let [whole, expected] =
            [&whole, POD.as_bytes()].map(|json| serde_json::from_slice::<Document>(json).expect("JSON"));
        assert_eq!(whole, expected);
    }
    assert!(!texts.is_empty());
}

#[test]
fn a_broken_remainder_does_not_panic() {
    let scanned = Json.scan_remainder(POD.as_bytes(), &Strip::default(), None).expect("an object");
    let good = scanned.object.to_vec();
    let (mut restored, mut refused) = (0, 0);
    let mut check = |bad: &[u8]| match Json.restore(bad, &scanned.metadata) {
        Some(_) => restored += 1,
        None => {
            refused += 1;
            assert_eq!(Json.rest(bad), None);
        }
    };
    (0..good.len()).for_each(|length| check(&good[..length]));
    for place in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[place / 8] ^= 1 << (place % 8);
        check(&bad);
    }
    for byte in 0..=u8::MAX {
        check(&[byte; 30]);
        check(&[0x81, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, byte, b'{', b'}']);
    }
    assert!(restored > 0 && refused > 100, "{restored} {refused}");
}

#[test]
fn what_is_refused_is_refused_alike() {
    for object in
        [r#"{"metadata":{"name":1}}"#, r#"{"metadata":{"labels":[]}}"#, r#"{"metadata":{"labels":{"a":1}}}"#, "[]", "{"]
    {
        check_remainder(object.as_bytes(), &Strip::default(), None);
        assert!(Json.scan_remainder(object.as_bytes(), &Strip::default(), None).is_err(), "{object}");
    }
}
