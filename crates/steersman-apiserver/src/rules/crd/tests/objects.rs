//! Validation of custom resources by their schemas.

use serde_json::json;

use super::*;

#[test]
fn a_status_is_checked_on_its_own() {
    let schema = probe();
    let old = json!({"spec": {"i": "x"}});
    let cases = [
        (json!({"n": "x"}), r#"status.n: Invalid value: "string": n in body must be of type integer: "string""#),
        (
            json!({"l": ["x"]}),
            r#"status.l[0]: Invalid value: "string": l[0] in body must be of type integer: "string""#,
        ),
        (json!("x"), r#"status: Invalid value: "string":  in body must be of type object: "string""#),
        (json!({"n": 1}), ""),
    ];
    for (status, wanted) in cases {
        let object = json!({"spec": {"i": "x"}, "status": status});
        assert_eq!(shown(&schema.validate_status(&object, &old)), wanted, "{status}");
    }
}

#[test]
fn what_was_wrong_before_may_stay_while_it_does_not_change() {
    let schema = probe();
    let old = json!({"spec": {"i": "x", "one": {}, "set": ["a", "a"], "map1": [{"k": 1}], "l": ["x"]}});
    let mut new = old.clone();
    new["metadata"] = json!({"labels": {"a": "b"}});
    assert_eq!(shown(&schema.validate_update(&new, &old)), "");
    new["spec"]["b"] = true.into();
    new["spec"]["map1"] = json!([{"k": "a"}, {"k": 1}]);
    assert_eq!(shown(&schema.validate_update(&new, &old)), "");
    new["spec"]["i"] = "y".into();
    new["spec"]["l"] = json!(["x", 1]);
    let wanted = [
        r#"spec.i: Invalid value: "string": spec.i in body must be of type integer: "string""#,
        r#"spec.l[0]: Invalid value: "string": spec.l[0] in body must be of type integer: "string""#,
    ];
    assert_eq!(shown(&schema.validate_update(&new, &old)), format!("[{}]", wanted.join(", ")));
}

/// Every keyword once.
fn probe() -> Schema {
    let spec = json!({"type": "object", "properties": {
        "i": {"type": "integer"},
        "i32": {"type": "integer", "format": "int32"},
        "n": {"type": "number", "maximum": 10.5, "minimum": 1},
        "f": {"type": "number", "format": "float"},
        "max": {"type": "integer", "maximum": 10, "minimum": 1},
        "xmax": {"type": "integer", "maximum": 10, "exclusiveMaximum": true, "minimum": 1, "exclusiveMinimum": true},
        "mult": {"type": "integer", "multipleOf": 5},
        "multf": {"type": "number", "multipleOf": 0.5},
        "s": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a+$"},
        "e": {"type": "string", "enum": ["a", "b"]},
        "ei": {"type": "integer", "enum": [1, 2]},
        "en": {"type": "string", "nullable": true, "enum": ["a"]},
        "nul": {"type": "string", "nullable": true},
        "b": {"type": "boolean"},
        "d": {"type": "string", "format": "date-time"},
        "dd": {"type": "string", "format": "date"},
        "l": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2, "minProperties": 1},
        "none": {"type": "object", "additionalProperties": false},
        "req": {"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}},
        "ios": {"x-kubernetes-int-or-string": true},
        "one": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "anyo": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "all": {"type": "integer", "allOf": [{"minimum": 2}, {"maximum": 5}]},
        "nt": {"type": "integer", "not": {"enum": [1]}},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "map": {"type": "array", "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "p": {"type": "string", "default": "TCP"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"]},
        "map1": {"type": "array", "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        "emb": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }});
    let status = json!({"type": "object", "properties": {
        "n": {"type": "integer"}, "l": {"type": "array", "items": {"type": "integer"}},
    }});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    Schema::compile(&schema, &PatternReader::default())
}

#[test]
fn objects_are_checked_in_the_words_of_the_real_server() {
    let schema = probe();
    let cases = [
        (json!({"i": "x"}), r#"spec.i: Invalid value: "string": spec.i in body must be of type integer: "string""#),
        (
            json!({"i": 1.5}),
            r#"[spec.i: Invalid value: "number": spec.i in body must be of type integer: "number", <nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.i]"#,
        ),
        (json!({"i": 1.0}), r#""#),
        (json!({"i": null}), r#""#),
        (json!({"i": true}), r#"spec.i: Invalid value: "boolean": spec.i in body must be of type integer: "boolean""#),
        (json!({"i": []}), r#"spec.i: Invalid value: "array": spec.i in body must be of type integer: "array""#),
        (json!({"i": {}}), r#"spec.i: Invalid value: "object": spec.i in body must be of type integer: "object""#),
        (
            json!({"i32": 3_000_000_000_i64}),
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.i32"#,
        ),
        (json!({"n": "x"}), r#"spec.n: Invalid value: "string": spec.n in body must be of type number: "string""#),
        (json!({"n": 11}), r#"spec.n: Invalid value: 11: spec.n in body should be less than or equal to 10"#),
        (json!({"n": 10.75}), r#"spec.n: Invalid value: 10.75: spec.n in body should be less than or equal to 10.5"#),
        (json!({"n": 0}), r#"spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1"#),
        (json!({"n": 0.25}), r#"spec.n: Invalid value: 0.25: spec.n in body should be greater than or equal to 1"#),
        (
            json!({"f": 1e+300}),
            r#"<nil>: Invalid value: "": Checked value must be of type number with format float in spec.f"#,
        ),
        (json!({"max": 11}), r#"spec.max: Invalid value: 11: spec.max in body should be less than or equal to 10"#),
        (json!({"max": 0}), r#"spec.max: Invalid value: 0: spec.max in body should be greater than or equal to 1"#),
        (json!({"max": 20.0}), r#"spec.max: Invalid value: 20: spec.max in body should be less than or equal to 10"#),
        (json!({"xmax": 10}), r#"spec.xmax: Invalid value: 10: spec.xmax in body should be less than 10"#),
        (json!({"xmax": 1}), r#"spec.xmax: Invalid value: 1: spec.xmax in body should be greater than 1"#),
        (json!({"mult": 7}), r#"spec.mult: Invalid value: 7: spec.mult in body should be a multiple of 5"#),
        (json!({"multf": 0.75}), r#"spec.multf: Invalid value: 0.75: spec.multf in body should be a multiple of 0.5"#),
        (json!({"s": "a"}), r#"spec.s: Invalid value: "a": spec.s in body should be at least 2 chars long"#),
        (json!({"s": "aaaaa"}), r#"spec.s: Too long: may not be more than 4 bytes"#),
        (json!({"s": "bb"}), r#"spec.s: Invalid value: "bb": spec.s in body should match '^a+$'"#),
        (json!({"s": 5}), r#"spec.s: Invalid value: "integer": spec.s in body must be of type string: "integer""#),
        (json!({"e": "c"}), r#"spec.e: Unsupported value: "c": supported values: "a", "b""#),
        (
            json!({"e": 1}),
            r#"[spec.e: Invalid value: "integer": spec.e in body must be of type string: "integer", spec.e: Unsupported value: 1: supported values: "a", "b"]"#,
        ),
        (json!({"ei": 3}), r#"spec.ei: Unsupported value: 3: supported values: "1", "2""#),
        (
            json!({"ei": "x"}),
            r#"[spec.ei: Invalid value: "string": spec.ei in body must be of type integer: "string", spec.ei: Unsupported value: "x": supported values: "1", "2"]"#,
        ),
        (json!({"en": null}), r#"spec.en: Unsupported value: null: supported values: "a""#),
        (json!({"nul": null}), r#""#),
        (json!({"b": "true"}), r#"spec.b: Invalid value: "string": spec.b in body must be of type boolean: "string""#),
        (json!({"d": "x"}), r#"spec.d: Invalid value: "x": spec.d in body must be of type date-time: "x""#),
        (json!({"d": 5}), r#"spec.d: Invalid value: "int64": spec.d in body must be of type date-time: "int64""#),
        (json!({"d": true}), r#"spec.d: Invalid value: "": spec.d in body must be of type date-time: """#),
        (json!({"d": []}), r#""#),
        (
            json!({"dd": "2024-13-01"}),
            r#"spec.dd: Invalid value: "2024-13-01": spec.dd in body must be of type date: "2024-13-01""#,
        ),
        (json!({"l": []}), r#"spec.l: Invalid value: 0: spec.l in body should have at least 1 items"#),
        (json!({"l": [1, 2, 3]}), r#"spec.l: Too many: 3: must have at most 2 items"#),
        (
            json!({"l": ["a", 1]}),
            r#"spec.l[0]: Invalid value: "string": spec.l[0] in body must be of type integer: "string""#,
        ),
        (
            json!({"l": [null]}),
            r#"spec.l[0]: Invalid value: "null": spec.l[0] in body must be of type integer: "null""#,
        ),
        (json!({"m": {}}), r#"spec.m: Invalid value: 0: spec.m in body should have at least 1 properties"#),
        (json!({"m": {"a": 1, "b": 2, "c": 3}}), r#"spec.m: Too many: 3: must have at most 2 items"#),
        (
            json!({"m": {"a": "x"}}),
            r#"spec.m.a: Invalid value: "string": spec.m.a in body must be of type integer: "string""#,
        ),
        (json!({"none": {"a": 1}}), r#"spec.none: Invalid value: "a": spec.none.a in body is a forbidden property"#),
        (json!({"req": {}}), r#"spec.req.x: Required value"#),
        (
            json!({"ios": 1.5}),
            r#"spec.ios: Invalid value: "number": spec.ios in body must be of type integer,string: "number""#,
        ),
        (json!({"ios": "a"}), r#""#),
        (
            json!({"ios": true}),
            r#"spec.ios: Invalid value: "boolean": spec.ios in body must be of type integer,string: "boolean""#,
        ),
        (
            json!({"one": {}}),
            r#"[<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid, spec.one.a: Required value]"#,
        ),
        (
            json!({"one": {"a": "x", "b": "y"}}),
            r#"<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ),
        (
            json!({"one": {"a": 1}}),
            r#"spec.one.a: Invalid value: "integer": spec.one.a in body must be of type string: "integer""#,
        ),
        (
            json!({"anyo": {}}),
            r#"[<nil>: Invalid value: "": "spec.anyo" must validate at least one schema (anyOf), spec.anyo.a: Required value]"#,
        ),
        (
            json!({"all": 1}),
            r#"[spec.all: Invalid value: 1: spec.all in body should be greater than or equal to 2, <nil>: Invalid value: "": "spec.all" must validate all the schemas (allOf)]"#,
        ),
        (
            json!({"all": 9}),
            r#"[spec.all: Invalid value: 9: spec.all in body should be less than or equal to 5, <nil>: Invalid value: "": "spec.all" must validate all the schemas (allOf)]"#,
        ),
        (json!({"nt": 1}), r#"<nil>: Invalid value: "": "spec.nt" must not validate the schema (not)"#),
        (json!({"set": ["a", "a", "a"]}), r#"spec.set[1]: Duplicate value: "a""#),
        (json!({"map": [{"k": "a"}, {"k": "a"}]}), r#"spec.map[1]: Duplicate value: {"k":"a","p":"TCP"}"#),
        (json!({"map1": [{"k": "a"}, {"k": "a"}]}), r#"spec.map1[1]: Duplicate value: {"k":"a"}"#),
        (
            json!({"map1": [{}, {}]}),
            r#"[spec.map1[0].k: Required value, spec.map1[1].k: Required value, spec.map1[1]: Duplicate value: {}]"#,
        ),
        (
            json!({"map1": ["x"]}),
            r#"[spec.map1[0]: Invalid value: "string": spec.map1[0] in body must be of type object: "string", spec.map1[0]: Invalid value: "x": must be an object for an array of list-type map]"#,
        ),
        (json!({"emb": {}}), r#"[spec.emb.apiVersion: Required value, spec.emb.kind: Required value]"#),
        (
            json!({"emb": {"apiVersion": "a/b/c", "kind": "A_b"}}),
            r#"[spec.emb.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c, spec.emb.kind: Invalid value: "A_b": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')]"#,
        ),
        (
            json!({"emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b", "foo": 1, "labels": {"a b": "c d"}}}}),
            r#"[spec.emb.metadata.name: Invalid value: "a/b": may not contain '/', spec.emb.metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), spec.emb.metadata.labels: Invalid value: "c d": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')]"#,
        ),
        (json!({"foo": 1, "map1": [{"k": "a", "z": 1}], "req": {"x": "a", "y": 1}}), r#""#),
    ];
    for (spec, wanted) in cases {
        let mut object =
            json!({"apiVersion": "example.com/v1", "kind": "Probe", "metadata": {"name": "a"}, "spec": spec});
        schema.default(&mut object);
        schema.prune(&mut object);
        assert_eq!(shown(&schema.validate(&object)), wanted, "{spec}");
    }
}
