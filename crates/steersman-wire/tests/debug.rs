//! `Debug` of every public type that holds objects prints lengths and names, and nothing that could
//! be the value of a Secret.

use std::fmt::Debug;

use bytes::Bytes;
use steersman_wire::{Encoding, Json, Limits, RawItem, Strip, Value, WatchEvent, protobuf};

const CANARY: &str = "c2VjcmV0";

fn secret() -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"database","namespace":"default","annotations":{{"kubectl.kubernetes.io/last-applied-configuration":"{CANARY}"}}}},"data":{{"password":"{CANARY}"}}}}"#
    )
}

/// The bytes of the text in both forms: `Bytes` prints a text, a slice prints numbers.
fn hides(what: &str, value: &impl Debug) -> String {
    let printed = format!("{value:?} {value:#?}").replace(char::is_whitespace, "");
    let numbers = format!("{:?}", CANARY.as_bytes()).replace(char::is_whitespace, "");
    let numbers = numbers.trim_matches(['[', ']']);
    let decoded = "secret";
    for leak in [CANARY, numbers, decoded] {
        assert!(!printed.contains(leak), "{what} prints {leak}: {printed}");
    }
    printed
}

#[test]
fn objects_are_printed_by_their_length() {
    let object = Bytes::from(secret());
    let item = RawItem::new(3, object.clone());
    let printed = hides("RawItem", &item);
    assert!(printed.contains(&format!("{}bytes", object.len())) && printed.contains("index:3"), "{printed}");
    hides("WatchEvent", &WatchEvent::Added(item));
    let scanned = Json.scan(&object, &Strip::nothing(), None).unwrap();
    let printed = hides("Scanned", &scanned);
    assert!(printed.contains("database") && printed.contains("last-applied-configuration"), "{printed}");
    hides("Metadata", &scanned.metadata);
    for value in [Value::String(CANARY.into()), Value::Raw(object.as_ref()), Value::Number("1")] {
        hides("Value", &value);
    }
}

#[test]
fn what_has_arrived_in_part_is_printed_by_its_length() {
    let list = format!(r#"{{"kind":"SecretList","apiVersion":"v1","metadata":{{}},"items":[{}"#, secret());
    let event = format!(r#"{{"type":"ADDED","object":{}"#, secret());
    let status = format!(r#"{{"kind":"Secret","details":"{CANARY}","metadata":"{CANARY}","items":"{CANARY}","#);
    for body in [list.clone(), list + ",{", event.clone(), event + "}", status] {
        // Cut in the middle of an object, in the middle of the canary, and after it.
        let canary = body.rfind(CANARY).unwrap();
        for cut in [canary, canary + 4, canary + CANARY.len(), body.len()] {
            let mut list = Encoding::Json.split_list(Limits::default());
            let mut watch = Encoding::Json.split_watch(Limits::default());
            for part in [&body[..cut], &body[cut..]] {
                list.push(Bytes::from(part.to_owned()));
                watch.push(Bytes::from(part.to_owned()));
                for _ in 0..2 {
                    hides("a list", &list);
                    hides("an item", &list.next_item());
                    hides("a watch", &watch);
                    hides("an event", &watch.next_event());
                }
            }
        }
    }
}

#[test]
fn protobuf_is_printed_by_its_length() {
    let object = Bytes::from(protobuf::from_json(secret().as_bytes()).unwrap());
    for cut in 0..object.len() {
        let mut list = Encoding::Protobuf.split_list(Limits::default());
        let mut watch = Encoding::Protobuf.split_watch(Limits::default());
        list.push(object.slice(..cut));
        watch.push(Bytes::copy_from_slice(&u32::try_from(object.len()).unwrap().to_be_bytes()));
        watch.push(object.slice(..cut));
        hides("a list", &list);
        hides("an item", &list.next_item());
        hides("a watch", &watch);
        hides("an event", &watch.next_event());
        hides("a watch", &watch);
    }
}

/// The message of the decoder quotes the object. Only `Display` has it.
#[test]
fn errors_are_printed_without_the_decoders_words() {
    let error = Json.decode::<std::collections::BTreeMap<String, u32>>(format!(r#"{{"a":"{CANARY}"}}"#).as_bytes());
    hides("ObjectError", &error.unwrap_err());
}
