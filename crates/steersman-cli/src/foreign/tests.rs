//! Files with CRDs, and what is made of them. `tests/foreign_types` compiles the types of a schema
//! that has everything.

use serde_json::{Value, json};

use super::definition::Definition;
use super::{Wanted, print, types};

fn wanted() -> Wanted<'static> {
    Wanted { group: None, version: None, kind: None, plural: None, namespaced: None }
}

fn crd(kind: &str, schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}s.example.org", kind.to_lowercase())},
        "spec": {
            "group": "example.org",
            "names": {"kind": kind, "plural": format!("{}s", kind.to_lowercase())},
            "scope": "Cluster",
            "versions": [
                {"name": "v1alpha1", "served": false, "storage": false, "schema": {"openAPIV3Schema": schema}},
                {"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": schema}},
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    })
}

fn spec(properties: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
}

fn read(text: &str, wanted: &Wanted<'_>) -> Result<Definition, String> {
    Definition::read(text, wanted).map_err(|error| format!("{error:#}"))
}

/// The fields of the spec, as Rust.
fn fields(properties: &Value) -> String {
    let definition = read(&crd("Thing", &spec(properties)).to_string(), &wanted()).unwrap();
    let file = print::file(&definition, &types::of(&definition).unwrap());
    let (_, rest) = file.split_once("pub struct ThingSpec {\n").unwrap();
    let (body, _) = rest.split_once("\n}\n").unwrap();
    body.lines().filter(|line| !line.trim().starts_with("//")).map(str::trim).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_storage_version_is_taken_unless_another_one_is_asked_for() {
    let text = crd("Thing", &spec(&json!({"a": {"type": "string"}}))).to_string();
    let definition = read(&text, &wanted()).unwrap();
    assert_eq!((definition.version.as_str(), definition.namespaced), ("v1", false));
    assert_eq!(definition.text, text, "the only document is kept byte by byte");
    assert_eq!(read(&text, &Wanted { version: Some("v1beta1"), ..wanted() }).unwrap().version, "v1beta1");
}

#[test]
fn one_of_several_crds_is_taken_alone() {
    let schema = spec(&json!({"a": {"type": "string"}}));
    let other = json!({"apiVersion": "v1", "kind": "Namespace"});
    let text = format!("---\n{}\n---\n{other}\n---\n{}\n", crd("A", &schema), crd("B", &schema));
    let definition = read(&text, &Wanted { kind: Some("B"), ..wanted() }).unwrap();
    assert_eq!(definition.kind, "B");
    assert!(!definition.text.contains("Namespace\n") && read(&definition.text, &wanted()).unwrap().kind == "B");
}

#[test]
fn a_file_that_cannot_be_used_is_an_error_that_names_the_way_out() {
    let good = crd("Thing", &spec(&json!({"a": {"type": "string"}})));
    let changed = |path: &str, value: Value| {
        let mut crd = good.clone();
        *crd.pointer_mut(path).unwrap() = value;
        crd.to_string()
    };
    let two = format!("{}\n---\n{}\n", crd("A", &spec(&json!({}))), crd("B", &spec(&json!({}))));
    let cases = [
        ("a: [", wanted(), "it is neither YAML nor JSON"),
        ("apiVersion: v1\nkind: Pod\n", wanted(), "it contains no CustomResourceDefinition"),
        (&changed("/apiVersion", json!("apiextensions.k8s.io/v1beta1")), wanted(), "no longer has"),
        (&changed("/spec/versions", json!("v1")), wanted(), "it is no valid CustomResourceDefinition"),
        (&changed("/spec/versions/2/schema", json!(null)), wanted(), "the version v1 has no schema"),
        (&two, wanted(), "use --kind with one of A, B"),
        (&two, Wanted { kind: Some("C"), ..wanted() }, "no CRD of the kind C: use --kind with one of A, B"),
        (
            &good.to_string(),
            Wanted { version: Some("v3"), ..wanted() },
            "use --version with one of v1alpha1, v1beta1, v1",
        ),
        (&good.to_string(), Wanted { version: Some("v1alpha1"), ..wanted() }, "v1alpha1 is not served"),
        (&good.to_string(), Wanted { group: Some("g"), ..wanted() }, "\"example.org\" for --group: omit the flag"),
        (&good.to_string(), Wanted { plural: Some("p"), ..wanted() }, "\"things\" for --plural"),
        (&good.to_string(), Wanted { namespaced: Some(true), ..wanted() }, "\"false\" for --namespaced"),
    ];
    for (text, wanted, message) in cases {
        let error = read(text, &wanted).err().unwrap_or_else(|| panic!("accepted: {text}"));
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_kind_without_fields_is_an_error() {
    let schema = json!({"type": "object", "properties": {"metadata": {"type": "object"}}});
    let definition = read(&crd("Thing", &schema).to_string(), &wanted()).unwrap();
    assert!(types::of(&definition).err().unwrap().to_string().contains("no field beside apiVersion"));
}

#[test]
fn each_schema_has_its_type() {
    const OPTIONAL: &str = "#[serde(default, skip_serializing_if = \"Option::is_none\")] pub a: Option<";
    let cases = [
        (json!({"type": "string"}), "String"),
        (json!({"type": "boolean"}), "bool"),
        (json!({"type": "integer"}), "i64"),
        (json!({"type": "integer", "format": "int64"}), "i64"),
        (json!({"type": "integer", "format": "int32"}), "i32"),
        (json!({"type": "number"}), "f64"),
        (json!({"x-kubernetes-int-or-string": true}), "IntOrString"),
        (json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), "IntOrString"),
        (json!({"anyOf": [{"type": "boolean"}, {"type": "string"}]}), "Value"),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), "Value"),
        (json!({"type": "object", "x-kubernetes-embedded-resource": true}), "Value"),
        (json!({"type": "object"}), "BTreeMap<String, Value>"),
        (json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), "BTreeMap<String, Value>"),
        (json!({"type": "object", "additionalProperties": true}), "BTreeMap<String, Value>"),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), "BTreeMap<String, String>"),
        (json!({"type": "array", "items": {"type": "integer"}}), "Vec<i64>"),
        (json!({"type": "array"}), "Vec<Value>"),
        (json!({"type": "array", "items": {"type": "string", "nullable": true}}), "Vec<Value>"),
        (json!({"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string"}}}}), "Vec<ThingA>"),
        (
            json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string", "enum": ["x"]}}}),
            "BTreeMap<String, Vec<ThingA>>",
        ),
        (json!({"type": "integer", "enum": [1, 2]}), "i64"),
    ];
    for (schema, expected) in cases {
        assert_eq!(fields(&json!({"a": schema})), format!("{OPTIONAL}{expected}>,"), "{schema}");
    }
}

#[test]
fn names_that_are_taken_get_a_number() {
    let fields =
        fields(&json!({"status": {"type": "object", "properties": {"b": {"type": "string"}}}, "a-b": {}, "aB": {}}));
    assert!(fields.contains("pub status: Option<ThingStatus>"), "the object has no status: {fields}");
    assert!(fields.contains("pub a_b: Option<Value>") && fields.contains("pub a_b2: Option<Value>"), "{fields}");
    let with_status = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"status": {"type": "string", "enum": ["a"]}}},
        "status": {"type": "object", "properties": {"a": {"type": "string"}}},
    }});
    let definition = read(&crd("Thing", &with_status).to_string(), &wanted()).unwrap();
    let file = print::file(&definition, &types::of(&definition).unwrap());
    assert!(file.contains("pub status: Option<ThingStatus2>") && file.contains("pub status: Option<ThingStatus>,"));
}

#[test]
fn a_description_is_wrapped_and_never_a_test() {
    let description =
        "First line.\n\n```\nlet broken = ;\n```\n    indented code\n- item one\n- item two\n\u{202e}marked";
    let long = "word ".repeat(40);
    let schema = spec(
        &json!({"a": {"type": "string", "description": description}, "b": {"type": "string", "description": long}}),
    );
    let definition = read(&crd("Thing", &schema).to_string(), &wanted()).unwrap();
    let file = print::file(&definition, &types::of(&definition).unwrap());
    assert!(file.contains("    /// First line.\n    ///\n    /// ''' let broken = ; ''' indented code\n    /// - item one\n    /// - item two marked\n"), "{file}");
    assert!(!file.contains("```") && !file.contains('\u{202e}'));
    assert!(file.lines().filter(|line| line.trim().starts_with("///")).all(|line| line.len() <= 100));
}
