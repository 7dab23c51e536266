use proptest::prelude::*;
use serde_json::{Value, json};

use super::codec::{decode, encode};
use super::compare::compare;
use super::created::fields_of_new;
use super::element::{PathElement, same};
use super::entries::{Managed, before, same_but_times};
use super::fields::{fields_of, without};
use super::merge::merge;
use super::resource::Resource;
use super::set::FieldSet;
use super::types::TypeRef;
use super::update::{ApplyError, Writer, apply, create, update};
use super::validate::validate;
use crate::rules::crd::{PatternReader, Schema};
use crate::rules::kinds::{Kind, builtin};
use crate::rules::schema::{FieldValidation, decode_value};

fn text(set: &FieldSet) -> String {
    let mut out = Vec::new();
    encode(set, &mut out);
    String::from_utf8(out).unwrap()
}

fn set(value: &Value) -> FieldSet {
    decode(value.to_string().as_bytes()).unwrap()
}

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[a-c]{1,2}".prop_map(|name| PathElement::field(&name)),
        "[a-c<\"]".prop_map(|value| PathElement::Value(value.into())),
        (0_i64..3).prop_map(|value| PathElement::Value(value.into())),
        ("[a-c]", 0_i64..3).prop_map(|(name, port)| PathElement::Key(
            [("name".into(), name.into()), ("port".into(), port.into())].into()
        )),
        (0_i64..3).prop_map(PathElement::Index),
    ]
}

fn sets() -> impl Strategy<Value = FieldSet> {
    let path = proptest::collection::vec(element(), 1..4);
    proptest::collection::vec(path, 0..12).prop_map(|paths| {
        let mut set = FieldSet::default();
        for path in paths {
            let mut at = &mut set;
            let last = path.len() - 1;
            for (place, step) in path.into_iter().enumerate() {
                let node = at.node(step);
                node.member |= place == last;
                at = &mut node.children;
            }
        }
        set
    })
}

proptest! {
    #[test]
    fn a_set_is_read_as_it_was_written(one in sets()) {
        let written = text(&one);
        prop_assert_eq!(&decode(written.as_bytes()).unwrap(), &one);
        // JSON with another order of its members is the same set.
        let value: Value = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(set(&value), one);
    }

    #[test]
    fn sets_follow_the_laws_of_sets(one in sets(), other in sets(), third in sets()) {
        prop_assert_eq!(one.union(&other), other.union(&one));
        prop_assert_eq!(one.intersection(&other), other.intersection(&one));
        prop_assert_eq!(one.union(&other).union(&third), one.union(&other.union(&third)));
        prop_assert_eq!(one.difference(&other).union(&one.intersection(&other)), one.clone());
        prop_assert!(one.difference(&other).intersection(&other).is_empty());
        prop_assert!(one.difference(&one).is_empty() && one.recursive_difference(&one).is_empty());
        prop_assert_eq!(one.difference(&other.union(&third)), one.difference(&other).difference(&third));
        prop_assert_eq!(
            one.union(&other).intersection(&third),
            one.intersection(&third).union(&other.intersection(&third))
        );
        let left = one.recursive_difference(&other);
        prop_assert_eq!(left.difference(&one.difference(&other)), FieldSet::default());
        prop_assert_eq!(one.paths().len(), one.union(&one).paths().len());
    }
}

#[test]
fn fields_are_written_in_the_order_of_the_real_server() {
    let fields =
        json!({"f:b": {}, "k:{\"name\":\"x\"}": {".": {}, "f:name": {}}, "v:\"v\"": {}, "i:0": {}, "f:a": {".": {}}});
    let expected = r#"{"f:a":{},"f:b":{},"k:{\"name\":\"x\"}":{".":{},"f:name":{}},"v:\"v\"":{},"i:0":{}}"#;
    assert_eq!(text(&set(&fields)), expected);
    // What a later release may write is dropped.
    assert_eq!(text(&set(&json!({"f:a": {"x:new": {"f:b": {}}}, "y:z": {}}))), r#"{"f:a":{}}"#);
    assert_eq!(text(&set(&json!({"v:\"<a>\"": {}}))), r#"{"v:\"\\u003ca\\u003e\"":{}}"#);
    for wrong in [r#"{"f":{}}"#, r#"{"fa":{}}"#, r#"{"k:x":{}}"#, "[]", "{", r#"{"f:a":1}"#, "{} {}"] {
        assert!(decode(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn paths_are_printed_as_in_conflicts() {
    let fields = json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:name": {}}}, "f:set": {"v:\"a\"": {}}}});
    let paths = set(&fields).paths();
    assert_eq!(paths, [r#".spec.ports[port=80,protocol="TCP"].name"#, r#".spec.set[="a"]"#]);
}

#[test]
fn a_set_that_is_nested_too_deep_is_refused() {
    let nested = |depth: usize| "{\"f:a\":".repeat(depth) + "{}" + &"}".repeat(depth);
    assert!(decode(nested(500).as_bytes()).is_ok());
    assert!(decode(nested(100_000).as_bytes()).is_err());
}

/// A schema with each kind of list and map.
fn schema() -> Schema {
    let text = json!({"type": "string"});
    let item = json!({
        "type": "object",
        "properties": {"name": text, "port": {"type": "integer", "default": 80}, "value": text},
    });
    let spec = json!({"type": "object", "properties": {
        "text": text,
        "count": {"type": "integer"},
        "on": {"type": "boolean"},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"], "items": item},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "atomic": {"type": "array", "items": text},
        "map": {"type": "object", "additionalProperties": text},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
    }});
    let root = json!({"type": "object", "properties": {"spec": spec}});
    Schema::compile(&root, &PatternReader::default())
}

fn spec(spec: impl Into<Value>) -> Value {
    json!({ "spec": spec.into() })
}

#[test]
fn configurations_are_merged_by_the_types_of_lists_and_maps() {
    let schema = schema();
    let cases = [
        (json!({"text": "a"}), json!({"count": 1}), json!({"text": "a", "count": 1})),
        (json!({"text": "a"}), json!({"text": "b"}), json!({"text": "b"})),
        (json!({"atomic": ["a", "b"]}), json!({"atomic": ["c"]}), json!({"atomic": ["c"]})),
        (json!({"map": {"a": "1"}}), json!({"map": {"b": "2"}}), json!({"map": {"a": "1", "b": "2"}})),
        (json!({"whole": {"a": "1"}}), json!({"whole": {"b": "2"}}), json!({"whole": {"b": "2"}})),
        (json!({"set": ["a", "b"]}), json!({"set": ["b", "c"]}), json!({"set": ["a", "b", "c"]})),
        (json!({"set": ["a", "b", "c"]}), json!({"set": ["c", "a"]}), json!({"set": ["b", "c", "a"]})),
        (json!({"set": ["a", "b", "c"]}), json!({"set": ["c", "n", "b"]}), json!({"set": ["a", "c", "n", "b"]})),
        (json!({"any": {"x": {"y": 1}}}), json!({"any": {"x": {"z": [1]}}}), json!({"any": {"x": {"y": 1, "z": [1]}}})),
        (
            json!({"keyed": [{"name": "a", "port": 80, "value": "1"}]}),
            json!({"keyed": [{"name": "b"}, {"name": "a", "value": "2"}]}),
            json!({"keyed": [{"name": "b"}, {"name": "a", "port": 80, "value": "2"}]}),
        ),
        (json!({"map": {"a": "1"}}), json!({"map": null}), json!({"map": {"a": "1"}})),
    ];
    for (live, config, expected) in cases {
        let ty = TypeRef::Root(schema.root());
        let merged = merge(ty, &spec(live.clone()), &spec(config.clone()));
        assert_eq!(merged, Ok(spec(expected)), "{live} with {config}");
    }
}

#[test]
fn comparisons_list_what_differs() {
    let schema = schema();
    let ty = TypeRef::Root(schema.root());
    let differ = |before: Value, after: Value| {
        let of = compare(ty, Some(&spec(before)), Some(&spec(after))).unwrap();
        [of.removed, of.modified, of.added].map(|set| set.paths().join(" "))
    };
    let none = || String::new();
    assert_eq!(differ(json!({"text": "a"}), json!({"text": "a"})), [none(), none(), none()]);
    assert_eq!(
        differ(json!({"text": "a", "count": 1}), json!({"text": "b", "on": true})),
        [".spec.count".to_owned(), ".spec.text".to_owned(), ".spec.on".to_owned()]
    );
    assert_eq!(
        differ(json!({"set": ["a", "b"]}), json!({"set": ["b", "c"]})),
        [".spec.set[=\"a\"]".to_owned(), none(), ".spec.set[=\"c\"]".to_owned()]
    );
    assert_eq!(
        differ(json!({"keyed": [{"name": "a"}]}), json!({"keyed": [{"name": "a", "value": "1"}]})),
        [none(), none(), ".spec.keyed[name=\"a\",port=80].value".to_owned()]
    );
    // Items that come twice are compared as a whole.
    let twice = json!({"keyed": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]});
    let once = json!({"keyed": [{"name": "a", "value": "1"}]});
    let item = ".spec.keyed[name=\"a\",port=80]";
    assert_eq!(differ(twice.clone(), twice.clone()), [none(), none(), none()]);
    assert_eq!(differ(twice.clone(), once.clone())[0], item);
    assert!(differ(once, twice)[2].starts_with(item));
    assert_eq!(differ(json!({"whole": {"a": "1"}}), json!({"whole": {"b": "1"}}))[1], ".spec.whole");
}

#[test]
fn fields_are_removed_with_what_is_below_them() {
    let schema = schema();
    let ty = TypeRef::Root(schema.root());
    let value =
        spec(json!({"text": "a", "map": {"a": "1", "b": "2"}, "keyed": [{"name": "a"}, {"name": "b"}], "set": ["x"]}));
    let removed = set(&json!({"f:spec": {
        "f:text": {}, "f:map": {"f:a": {}}, "f:keyed": {"k:{\"name\":\"a\",\"port\":80}": {}}, "f:set": {"v:\"x\"": {}},
    }}));
    let expected = spec(json!({"map": {"b": "2"}, "keyed": [{"name": "b"}], "set": null}));
    assert_eq!(without(ty, value.clone(), &removed), expected);
    let all = fields_of(ty, &value).with_named_fields(Some(ty));
    assert_eq!(without(ty, value, &all), Value::Null);
}

#[test]
fn what_does_not_fit_is_refused_with_its_path() {
    let schema = schema();
    let ty = TypeRef::Root(schema.root());
    for (value, error) in [
        (json!({"nonsense": 1}), ".spec.nonsense: field not declared in schema"),
        (json!({"count": "a"}), ".spec.count: expected numeric (int or float), got string"),
        (json!({"text": 5}), ".spec.text: expected string, got &value.valueUnstructured{Value:5}"),
        (json!({"on": "a"}), ".spec.on: expected boolean, got &{a}"),
        (json!({"map": []}), ".spec.map: expected map, got &{[]}"),
        (json!({"set": {}}), ".spec.set: expected list, got &{map[]}"),
        (json!({"set": ["a", "a"]}), ".spec.set: duplicate entries for key [=\"a\"]"),
        (
            json!({"keyed": [{"name": "a"}, {"name": "a"}]}),
            ".spec.keyed: duplicate entries for key [name=\"a\",port=80]",
        ),
        (
            json!({"set": [null]}),
            ".spec.set: element 0: associative list without keys has an element that's an explicit null",
        ),
    ] {
        assert_eq!(validate(ty, &spec(value), false), Err(error.to_owned()));
    }
    assert_eq!(validate(ty, &spec(json!({"set": ["a", "a"], "text": null})), true), Ok(()));
}

fn kind(group: &str, version: &str, kind: &str) -> &'static Kind {
    builtin().kind(group, version, kind).unwrap()
}

/// The new fields of a decoded object, by the direct way and by comparison with an empty object.
fn new_fields(kind: &Kind, value: Value) -> String {
    let fields = kind.fields.unwrap();
    let value = decode_value(value, fields, FieldValidation::Ignore).unwrap().value;
    let resource = Resource::new(kind, None, "");
    let ty = TypeRef::Struct(fields);
    let direct =
        fields_of_new(ty, &value, &["status"]).map(|text| String::from_utf8(text).unwrap()).unwrap_or_default();
    let compared = compare(ty, Some(&resource.empty()), Some(&value)).unwrap().written();
    let compared = compared.recursive_difference(&FieldSet::of(&[&["status"]]));
    let strip: Vec<Vec<&str>> = super::created::STRIPPED_METADATA.iter().map(|name| vec!["metadata", name]).collect();
    let mut strip: Vec<&[&str]> = strip.iter().map(Vec::as_slice).collect();
    strip.extend([&["apiVersion"][..], &["kind"], &["metadata"]]);
    let compared = compared.difference(&FieldSet::of(&strip));
    assert_eq!(direct, if compared.is_empty() { String::new() } else { text(&compared) });
    direct
}

#[test]
fn a_new_object_has_the_fields_that_differ_from_an_empty_one() {
    let deployment = json!({
        "metadata": {"name": "d", "labels": {"a": "b"}, "uid": "u"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 80}], "args": ["x"]}, {"name": "b"},
            ]}},
        },
        "status": {"replicas": 5},
    });
    assert_eq!(
        new_fields(kind("apps", "v1", "Deployment"), deployment),
        r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:strategy":{"f:type":{}},"f:template":{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"b\"}":{".":{},"f:name":{},"f:resources":{}},"k:{\"name\":\"c\"}":{".":{},"f:args":{},"f:image":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},"f:resources":{}}}}}}}"#
    );
    assert_eq!(
        new_fields(kind("", "v1", "ConfigMap"), json!({"metadata": {"name": "a"}, "data": {"k": "v"}})),
        r#"{"f:data":{".":{},"f:k":{}}}"#
    );
    assert_eq!(new_fields(kind("", "v1", "ConfigMap"), json!({"metadata": {"name": "a"}})), "");
}

#[test]
fn the_direct_way_agrees_with_the_comparison_for_recorded_objects() {
    let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/data/defaults");
    let mut compared = 0;
    for file in std::fs::read_dir(recorded).unwrap() {
        let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(file.unwrap().path()).unwrap()).unwrap();
        for case in cases {
            let api_version = case["apiVersion"].as_str().unwrap();
            let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
            let kind = kind(group, version, case["kind"].as_str().unwrap());
            for object in [&case["sent"], &case["came"]] {
                new_fields(kind, object.clone());
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared}");
}

/// A ConfigMap and who has its fields.
struct Maps {
    value: Value,
    managed: Managed,
}

fn maps() -> Resource<'static> {
    Resource::new(kind("", "v1", "ConfigMap"), None, "")
}

fn object(data: impl Into<Value>) -> Value {
    let data = data.into();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u"}, "data": data})
}

fn writer<'a>(manager: &'a str, now: &'a str) -> Writer<'a> {
    Writer { manager, now, force: false }
}

impl Maps {
    fn new(manager: &str, data: Value) -> Self {
        let value = object(data);
        let managed = create(&maps(), &value, Managed::default(), writer(manager, "2026-01-01T00:00:00Z"));
        Self { value, managed }
    }

    fn update(&mut self, manager: &str, now: &str, data: Value) {
        let value = object(data);
        self.managed = update(&maps(), &self.value, &value, self.managed.clone(), writer(manager, now));
        self.value = value;
    }

    fn apply(&mut self, manager: &str, now: &str, data: impl Into<Value>, force: bool) -> Result<(), ApplyError> {
        let data = data.into();
        let writer = Writer { manager, now, force };
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
        let applied = apply(&maps(), &self.value, &config, self.managed.clone(), writer)?;
        self.value = applied.value.unwrap_or_else(|| self.value.clone());
        self.managed = applied.managed;
        Ok(())
    }

    /// Each entry as a line: operation, manager, time and fields.
    fn entries(&self) -> Vec<String> {
        let text = self.managed.clone().text();
        let entries: Value = if text.is_empty() { json!([]) } else { serde_json::from_slice(&text).unwrap() };
        let line = |entry: &Value| {
            let word = |name: &str| entry[name].as_str().unwrap_or("-").to_owned();
            let fields = set(&entry["fieldsV1"]).paths().join(" ");
            format!("{} {} {} {fields}", word("operation"), word("manager"), word("time"))
        };
        entries.as_array().unwrap().iter().map(line).collect()
    }
}

#[test]
fn updates_take_the_fields_that_they_change() {
    let mut maps = Maps::new("u", json!({"a": "1", "b": "2"}));
    assert_eq!(maps.entries(), ["Update u 2026-01-01T00:00:00Z .data .data.a .data.b"]);
    maps.update("v", "2026-01-02T00:00:00Z", json!({"a": "1", "b": "3"}));
    let both = ["Update u 2026-01-01T00:00:00Z .data .data.a", "Update v 2026-01-02T00:00:00Z .data.b"];
    assert_eq!(maps.entries(), both);
    maps.update("w", "2026-01-03T00:00:00Z", json!({"a": "1", "b": "3"}));
    assert_eq!(maps.entries(), both, "who changes nothing gets nothing");
    maps.update("w", "2026-01-04T00:00:00Z", json!({"a": "1"}));
    assert_eq!(maps.entries(), [both[0]]);
}

#[test]
fn applies_conflict_take_and_give_up() {
    let mut maps = Maps::new("u", json!({"a": "1", "b": "2"}));
    let Err(ApplyError::Conflicts(conflicts)) = maps.apply("x", "2026-01-02T00:00:00Z", json!({"a": "9"}), false)
    else {
        panic!("it did not conflict")
    };
    assert_eq!((conflicts.len(), conflicts[0].fields.paths()), (1, vec![".data.a".to_owned()]));
    maps.apply("x", "2026-01-02T00:00:00Z", json!({"a": "9", "c": "3"}), true).unwrap();
    assert_eq!(maps.value["data"], json!({"a": "9", "b": "2", "c": "3"}));
    assert_eq!(
        maps.entries(),
        ["Apply x 2026-01-02T00:00:00Z .data.a .data.c", "Update u 2026-01-01T00:00:00Z .data .data.b"]
    );
    // The same again changes no time.
    maps.apply("x", "2026-01-03T00:00:00Z", json!({"a": "9", "c": "3"}), false).unwrap();
    assert_eq!(maps.entries()[0], "Apply x 2026-01-02T00:00:00Z .data.a .data.c");
    // Another one shares a field, which stays until both have given it up.
    maps.apply("y", "2026-01-04T00:00:00Z", json!({"c": "3"}), false).unwrap();
    maps.apply("x", "2026-01-05T00:00:00Z", json!({"a": "9"}), false).unwrap();
    assert_eq!(maps.value["data"], json!({"a": "9", "b": "2", "c": "3"}));
    maps.apply("y", "2026-01-06T00:00:00Z", json!({}), false).unwrap();
    assert_eq!(maps.value["data"], json!({"a": "9", "b": "2"}));
    maps.apply("x", "2026-01-07T00:00:00Z", json!({}), false).unwrap();
    assert_eq!(maps.value["data"], json!({"b": "2"}), "an updater still has it");
}

#[test]
fn an_object_without_managers_gets_one_for_what_it_had() {
    let mut maps = Maps::new("u", json!({"a": "1"}));
    maps.managed = Managed::default();
    maps.update("v", "2026-01-02T00:00:00Z", json!({"a": "2"}));
    assert!(maps.entries().is_empty(), "its fields are not tracked");
    maps.apply("x", "2026-01-03T00:00:00Z", json!({"b": "1"}), false).unwrap();
    let first = "Update before-first-apply 2026-01-03T00:00:00Z .data .data.a";
    assert_eq!(maps.entries(), ["Apply x 2026-01-03T00:00:00Z .data.b", first]);
}

#[test]
fn the_oldest_of_many_updaters_are_merged() {
    let mut maps = Maps::new("m00", json!({"k00": "v"}));
    let mut data = json!({"k00": "v"});
    for place in 1..13 {
        data[format!("k{place:02}")] = "v".into();
        maps.update(&format!("m{place:02}"), &format!("2026-01-01T00:00:{place:02}Z"), data.clone());
    }
    let entries = maps.entries();
    assert_eq!(entries.len(), 10);
    assert_eq!(entries[0], "Update ancient-changes 2026-01-01T00:00:03Z .data .data.k00 .data.k01 .data.k02 .data.k03");
    assert_eq!(entries[9], "Update m12 2026-01-01T00:00:12Z .data.k12");
}

#[test]
fn entries_of_a_request_replace_the_stored_ones_if_they_can_be_used() {
    let stored = Maps::new("u", json!({"a": "1"})).managed.text();
    let entry = |manager: &str| json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}});
    let names = |given: Option<Value>, is_subresource: bool| {
        let managed = before(&stored, given.as_ref(), is_subresource);
        managed.entries.iter().map(|entry| entry.manager.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(None, false), ["u"]);
    assert_eq!(names(Some(json!([entry("v")])), false), ["v"]);
    assert_eq!(names(Some(json!([entry("v")])), true), ["u"]);
    for reset in [json!([]), json!([{}])] {
        assert_eq!(names(Some(reset.clone()), false), Vec::<String>::new());
        assert_eq!(names(Some(reset), true), ["u"]);
    }
    for (field, wrong) in [
        ("operation", json!("Other")),
        ("apiVersion", json!("")),
        ("fieldsType", json!("FieldsV2")),
        ("fieldsV1", json!({"x": {}})),
    ] {
        let mut entry = entry("v");
        entry[field] = wrong;
        assert_eq!(names(Some(json!([entry])), false), ["u"], "{field}");
    }
    let twice = json!([entry("v"), entry("w"), entry("v")]);
    assert_eq!(names(Some(twice), false), ["v", "w"]);
}

#[test]
fn times_alone_are_no_difference() {
    let at = |time: &str| create(&maps(), &object(json!({"a": "1"})), Managed::default(), writer("u", time)).text();
    assert!(same_but_times(&at("2026-01-01T00:00:00Z"), &at("2026-01-02T00:00:00Z")));
    let other = create(&maps(), &object(json!({"b": "1"})), Managed::default(), writer("u", "t")).text();
    assert!(!same_but_times(&at("2026-01-01T00:00:00Z"), &other));
    assert!(!same_but_times(&other, &[]));
}

#[test]
fn a_scale_has_the_managers_of_the_replicas() {
    use super::scale::ScaleFields;

    let deployments = Resource::new(kind("apps", "v1", "Deployment"), None, "");
    let value = json!({"metadata": {"name": "d", "uid": "u"}, "spec": {"replicas": 2, "paused": true}});
    let parent = create(&deployments, &value, Managed::default(), writer("u", "t"));
    let fields = ScaleFields {
        api_version: "apps/v1".to_owned(),
        paths: vec![("apps/v1".to_owned(), Some(vec!["spec", "replicas"]))],
    };
    let of_scale = fields.of_scale(&parent);
    assert_eq!((of_scale.entries.len(), &*of_scale.entries[0].api_version), (1, "autoscaling/v1"));
    // Another manager takes the number.
    let taken = fields.of_parent(&parent, Managed::default());
    let text = String::from_utf8(taken.text()).unwrap();
    assert!(text.contains("f:paused") && !text.contains("f:replicas"), "{text}");
}

#[test]
fn numbers_are_compared_as_in_go() {
    let exact = 9_007_199_254_740_993_i64;
    assert!(!same(&json!(exact), &json!(exact - 1)), "integers are compared exactly");
    assert!(same(&json!((exact - 1) as f64), &json!(exact - 1)));
    assert!(same(&json!((exact - 1) as f64), &json!(exact)), "beside a float, both are floats");
    assert!(same(&json!(u64::MAX), &json!(u64::MAX - 1)), "what is no i64 is a float");
    assert!(!same(&json!(1), &json!(1.5)));
}
