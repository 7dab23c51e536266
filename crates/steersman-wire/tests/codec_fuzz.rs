//! The fuzz targets on stable Rust, for a limited time: mutations of a few documents, the same in
//! every run.

mod targets;

use steersman_wire::{Encoding, Limits, protobuf};

/// Documents to start from: typical ones, and some that are hard to read.
const LISTS: [&str; 4] = [
    r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10","continue":"abc","remainingItemCount":3},"items":[{"metadata":{"name":"a","labels":{"a.b/c":"d"},"managedFields":[{"f:x":{"k:{\"a\":1}":{}}}]},"spec":{"nodeName":"n"},"status":{}},{"metadata":{"name":"b","annotations":{"a.b/c":"{\"x\":[1]}"}}}]}"#,
    r#" { "items" : [ {} , 5 , "x" , [ {"a":"]"} ] , null ] , "metadata" : {} , "kind" : "List" } "#,
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"gone","reason":"Expired","details":{"causes":[{"reason":"x"}],"retryAfterSeconds":1},"code":410}"#,
    r#"{"it\u0065ms":[{"a":"\\\"{[\ud83d\ude00"}],"kind":"Table","items":null}"#,
];
const EVENTS: &str = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"}}}\n\n\
    {\"object\":{\"spec\":{\"x\":\"}\\\"\"}},\"type\":\"MODIFIED\"}\r\n{\"type\":\"D\\u0045LETED\",\"object\":{}}\n\
    {\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n\
    {\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n";
const OBJECTS: [&str; 3] = [
    r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"7","generation":3,"creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":null,"labels":{"a.b/c":"d","e":"f"},"annotations":{"a.b/c":"{}","x":"y"},"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u","controller":true}],"finalizers":["a/b"],"managedFields":[{"fieldsV1":{"f:a":{}}}]},"spec":{"nodeName":"n"},"status":{"phase":{"x":1}}}"#,
    r#"{"metadata":{"n\u0061me":"\u00e9\ud83d\ude00\\","name":"b","managedFields":[],"managedFields":{}},"metadata":{"managedFields":1,"name":"z"},"status":-1.5e300}"#,
    r#" { "status" : [ ] , "metadata" : { "managedFields" : null , "annotations" : { "a.b/c" : "" } } } "#,
];
/// Pieces that change the meaning of the text around them.
const PIECES: [&str; 20] = [
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "\n",
    "\\u0061",
    "\\ud83d",
    "\"metadata\":",
    "\"items\":[",
    "\"name\":1,",
    "\"managedFields\":{},",
    "\"status\":0,",
    "\u{e9}",
    "-0",
    " ",
];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length);
        start..(start + self.below(40)).min(length)
    }

    fn mutate(&mut self, text: &mut Vec<u8>) {
        match self.below(7) {
            0 => drop(text.drain(self.range(text.len()))),
            1 => {
                let (copy, place) = (text[self.range(text.len())].to_vec(), self.below(text.len()));
                text.splice(place..place, copy);
            }
            2 if !text.is_empty() => {
                let place = self.below(text.len());
                text[place] ^= 1 << self.below(8);
            }
            3 => text.truncate(self.below(text.len() + 1)),
            _ => {
                let (piece, place) = (PIECES[self.below(PIECES.len())], self.below(text.len() + 1));
                text.splice(place..place, piece.bytes());
            }
        }
    }
}

fn fuzz<T: AsRef<[u8]>>(documents: &[T], target: fn(&[u8])) {
    let rounds = if std::env::var_os("STEERSMAN_SOAK").is_some() { 1_000_000 } else { 2_000 };
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    for round in 0..rounds {
        let mut text = documents[round % documents.len()].as_ref().to_vec();
        for _ in 0..random.below(5) {
            random.mutate(&mut text);
        }
        if std::panic::catch_unwind(|| target(&text)).is_err() {
            panic!("round {round}: {}", String::from_utf8_lossy(&text));
        }
    }
}

#[test]
fn mutated_lists() {
    fuzz(&LISTS, targets::list);
}

#[test]
fn mutated_watches() {
    fuzz(&[EVENTS], targets::watch);
}

#[test]
fn mutated_objects() {
    fuzz(&OBJECTS, targets::object);
}

#[test]
fn mutated_protobuf() {
    let object = OBJECTS[0].replace(r#","status":{"phase":{"x":1}}"#, "").replace(r#""nodeName":"n""#, "");
    let object = object.replace(r#""x":"y""#, &format!(r#""x":"{}""#, "y".repeat(500)));
    let object = protobuf::from_json(object.as_bytes()).expect("a Deployment");
    // A field of a message with its length, in two bytes.
    let field = |number: u8, bytes: &[u8]| {
        let length = [0x80 | (bytes.len() & 0x7f) as u8, (bytes.len() >> 7) as u8];
        [&[number << 3 | 2][..], &length, bytes].concat()
    };
    // An event with that object, as a server sends it, and a list with two of its messages.
    let event = [field(1, b"ADDED"), field(2, &field(1, &object))].concat();
    let event = [&(event.len() as u32).to_be_bytes()[..], &event].concat();
    // The message follows the magic bytes, the type, and its own length.
    let message = &object[4 + 23 + 3..];
    let list = [field(1, b"\x12\x0277"), field(2, message), field(2, message)].concat();
    let list = [b"k8s\0".to_vec(), field(1, b"\x0a\x07apps/v1\x12\x0eDeploymentList"), field(2, &list)].concat();
    let mut splitter = Encoding::Protobuf.split_list(Limits::default());
    splitter.push(list.clone().into());
    let items = std::iter::from_fn(|| splitter.next_item().expect("a list"))
        .filter(|item| item.as_ref().is_ok_and(|item| item.json().is_ok()));
    assert_eq!(items.count(), 2, "it is a list before it is changed");
    fuzz(&[object, event, list], targets::protobuf);
}
