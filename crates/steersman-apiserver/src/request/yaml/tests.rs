use proptest::prelude::*;
use proptest::{collection, sample::select};
use serde_json::json;

use super::*;
use crate::response::yaml::write;

#[test]
fn plain_scalars_are_what_go_takes_them_for() {
    let text = "a: yes\nb: off\nc: ~\nd: 0x10\ne: 010\nf: 1_000\ng: 1e3\nh: .5\ni: 2020-01-01\nj: 08\nk: \"yes\"\n\
                l: 12:30:45\nm: !!str 5\nn: !!float 5\no: !!binary YWJj\np: 2020-13-01\nq: -0b11\nr: <\n1: x\ntrue: y\n";
    let expected = json!({
        "a": true, "b": false, "c": null, "d": 16, "e": 8, "f": 1000, "g": 1000, "h": 0.5, "i": "2020-01-01", "j": 8,
        "k": "yes", "l": "12:30:45", "m": "5", "n": 5, "o": "abc", "p": "2020-13-01", "q": -3, "r": "<",
        "1": "x", "true": true,
    });
    // `n` and `y` are booleans, also as names.
    let mut expected = expected;
    let n = expected.as_object_mut().and_then(|members| members.remove("n")).unwrap();
    expected["false"] = n;
    assert_eq!(read(text.as_bytes()), Ok(Document { value: expected, duplicates: Vec::new() }));
}

#[test]
fn anchors_and_merges_are_followed() {
    let text = "base: &b {x: 1, z: 2}\nlist: [*b, *b]\nmap:\n  <<: *b\n  z: 3\nmany:\n  <<: [*b, {x: 5, w: 6}]\n";
    let read = read(text.as_bytes()).unwrap().value;
    assert_eq!(read["list"], json!([{"x": 1, "z": 2}, {"x": 1, "z": 2}]));
    assert_eq!((&read["map"], &read["many"]), (&json!({"x": 1, "z": 3}), &json!({"x": 1, "z": 2, "w": 6})));
}

#[test]
fn errors_have_the_text_of_the_real_server() {
    let cases = [
        ("a: [", "yaml: line 1: did not find expected node content"),
        ("a: b\n  c: d", "yaml: line 2: mapping values are not allowed in this context"),
        ("metadata:\n\tname: x", "yaml: line 2: found character that cannot start any token"),
        ("&a [*a]", "yaml: anchor 'a' value contains itself"),
        ("a: *b", "yaml: unknown anchor 'b' referenced"),
        ("\"a", "yaml: found unexpected end of stream"),
        ("%YAML 9.9", "yaml: found incompatible YAML document"),
        ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("[a]: 1", "yaml: invalid map key: []interface {}{\"a\"}"),
        ("<<: 5", "yaml: map merge requires map or sequence of maps as the value"),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text.as_bytes()), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn duplicate_keys_are_reported_with_their_line() {
    let document = read(b"metadata:\n  name: a\n  name: b\nfoo: 1\nfoo: 2\n").unwrap();
    assert_eq!(document.value, json!({"metadata": {"name": "b"}, "foo": 2}));
    assert_eq!(
        document.duplicates,
        ["line 3: key \"name\" already set in map", "line 5: key \"foo\" already set in map"]
    );
}

#[test]
fn little_text_does_not_become_much() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        text.push_str(&format!("a{level}: &a{level} [{}]\n", vec![alias; 10].join(", ")));
    }
    assert_eq!(read(text.as_bytes()), Err("yaml: document contains excessive aliasing".to_owned()));
    assert!(read("[".repeat(100_000).as_bytes()).is_err());
    assert!(read("- ".repeat(10_000).as_bytes()).is_err());
}

#[test]
fn an_alias_is_no_way_to_nest_deeper() {
    // Each anchor adds 400 levels to those of the one before it.
    let mut text = "a0: &a0 x\n".to_owned();
    for level in 1..40 {
        let (open, close) = ("[".repeat(400), "]".repeat(400));
        text.push_str(&format!("a{level}: &a{level} {open}*a{}{close}\n", level - 1));
    }
    assert_eq!(read(text.as_bytes()), Err("yaml: exceeded max depth of 10000".to_owned()));
    let fits = format!("a: &a {}x{}\nb: [*a]\n", "[".repeat(509), "]".repeat(509));
    assert!(read(fits.as_bytes()).is_ok());
}

#[test]
fn values_are_written_in_the_real_servers_style() {
    let value = json!({
        "b": "true", "a": "1", "c": "x: y", "d": "line1\nline2\n", "e": " lead", "f": "1e3", "g": "2020-01-01",
        "h": "#x", "i": "é", "j": "", "l": "- x", "false": "12:30:45", "o": "~", "p": "tab\there", "r": "\u{7}",
        "t": "'q'", "u": "a\n\n b\n", "v": "=1", "z": "1_000", "zb": "a: ", "zg": "😀", "zh": "a\n b",
        "k10": 1, "k2": 1.5, "k3": [], "k4": {}, "k5": [{"x": 1, "y": [2]}], "k6": null, "k7": true,
        "q": "very long line very long line very long line very long line very long line very long line very long line",
    });
    let expected = r#"a: "1"
b: "true"
c: 'x: y'
d: |
  line1
  line2
e: ' lead'
f: "1e3"
"false": "12:30:45"
g: "2020-01-01"
h: '#x'
i: é
j: ""
k2: 1.5
k3: []
k4: {}
k5:
- x: 1
  "y":
  - 2
k6: null
k7: true
k10: 1
l: '- x'
o: "~"
p: "tab\there"
q: very long line very long line very long line very long line very long line very
  long line very long line
r: "\a"
t: '''q'''
u: |
  a

   b
v: =1
z: "1_000"
zb: 'a: '
zg: "\U0001F600"
zh: |-
  a
   b
"#;
    assert_eq!(write(&value), expected);
    assert_eq!(read(expected.as_bytes()).unwrap().value, value);
}

/// The values are those of sigs.k8s.io/yaml.
#[test]
fn a_block_scalar_may_end_with_the_text() {
    let cases = [
        ("x: |\n  b", "b"),
        ("x: |\n  b\n", "b\n"),
        ("x: |-\n  b", "b"),
        ("x: |+\n  b", "b"),
        ("x: >\n  b\n  c", "b c"),
        ("x: |\n  b\n  ", "b\n"),
        ("x: |\n  b\n   ", "b\n "),
        ("x: |+\n  b\n  ", "b\n"),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text.as_bytes()).map(|document| document.value), Ok(json!({ "x": expected })), "{text:?}");
    }
}

/// A list of one text, in UTF-16 of either byte order.
#[test]
fn utf_16_is_read() {
    let units: Vec<u16> = "\u{feff}- 😀".encode_utf16().collect();
    for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
        let text: Vec<u8> = units.iter().flat_map(|unit| bytes(*unit)).collect();
        assert_eq!(read(&text).map(|document| document.value), Ok(json!(["😀"])));
        assert_eq!(read(&text[..text.len() - 1]), Err("yaml: incomplete UTF-16 character".to_owned()));
    }
}

/// Each of these is a panic in the parser without the preparation of the input.
#[test]
fn text_that_the_parser_panics_on_is_read_or_refused() {
    let cases: [(&[u8], &str); 9] = [
        (b"[!a,b]", "yaml: did not find expected whitespace or line break"),
        (b"a:\n- [!a, b]", "yaml: line 2: did not find expected whitespace or line break"),
        (b"[!,:: ? '", "yaml: found unexpected end of stream"),
        (b"\"\\", "yaml: found unexpected end of stream"),
        (b"a: \"b\n\\", "yaml: line 2: found unexpected end of stream"),
        (b"a: \xff", "yaml: invalid leading UTF-8 octet"),
        (b"a: \xc3(", "yaml: invalid trailing UTF-8 octet"),
        (b"a: \xc3", "yaml: incomplete UTF-8 octet sequence"),
        (b"\xff\xfe\x00\xdc", "yaml: unexpected low surrogate area"),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text), Err(expected.to_owned()), "{text:?}");
    }
    let commas = "a: \"!x,y\"\nb: c!,d # e!,f\ng: |\n  !h,i\nj: [k!, l]\n";
    let expected = json!({"a": "!x,y", "b": "c!,d", "g": "!h,i\n", "j": ["k!", "l"]});
    assert_eq!(read(commas.as_bytes()).map(|document| document.value), Ok(expected));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    /// The tokens that decide what a YAML parser does, in any order.
    #[test]
    fn no_text_makes_the_reader_panic(tokens in collection::vec(select(TOKENS), 0..24), tail in any::<[u8; 2]>()) {
        let text = tokens.concat();
        let _ = read(text.as_bytes());
        let _ = read(&[text.as_bytes(), &tail].concat());
        let _ = read(&[&[0xff, 0xfe], text.as_bytes()].concat());
    }
}

const TOKENS: &[&str] = &[
    "a",
    " ",
    "\n",
    "\n  ",
    "\t",
    ": ",
    ", ",
    ",",
    "[",
    "]",
    "{",
    "}",
    "- ",
    "? ",
    "!",
    "!!",
    "!<a>",
    "!a!",
    "%",
    "%YAML 1.1\n",
    "%TAG ! a,b\n",
    "%41",
    "&a",
    "*a",
    "|",
    "|2",
    "|+",
    ">-",
    "\"",
    "'",
    "\\",
    "\\u",
    " #",
    "--- ",
    "...\n",
    "\r\n",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "é",
    "<<",
    "@",
    "~",
];

/// Any input is parsed or refused.
#[test]
fn broken_text_is_refused_and_nothing_else() {
    let text = b"a: &x [1, {b: 'c', \"d\": !!str e}]\n? *x\n: |\n  f\n--- >-\n g\n...\n%YAML 1.1\n# h\n- <<: {i: ~}\n";
    let mut state = 1_u32;
    for _ in 0..20_000 {
        let mut broken = text.to_vec();
        for _ in 0..3 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (place, byte) = ((state >> 8) as usize % broken.len(), (state >> 16) as u8);
            match state >> 30 {
                0 => drop(broken.remove(place)),
                1 => broken.insert(place, text[usize::from(byte) % text.len()]),
                _ => broken[place] = byte,
            }
        }
        let _ = read(&broken);
    }
}
