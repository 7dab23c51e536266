//! Versions of a definition as the messages of the real server print them: as Go structs of its
//! internal version, which have no JSON names. Every field is printed in the order of the structs;
//! unset fields are null or empty.

use serde_json::Value;

use crate::request::budget;

/// The type of a field.
#[derive(Clone, Copy)]
enum Type {
    /// Empty if it is absent.
    Text,
    /// False if it is absent.
    Flag,
    /// Zero if it is absent.
    Number,
    /// Null if it is absent, and otherwise printed unchanged: pointers to scalars, lists of
    /// scalars, any JSON.
    Plain,
    /// A pointer to a struct.
    Struct(&'static [Field]),
    /// A list of structs.
    List(&'static [Field]),
    /// A schema.
    Schema,
    /// A list of schemas.
    Schemas,
    /// A map of schemas.
    SchemaMap,
    /// A schema or a list of schemas; the list is always printed.
    SchemaOrList,
    /// A schema or a boolean.
    SchemaOrFlag,
    /// A schema or a list of texts, by name.
    Dependencies,
}

/// The name in the struct, the name in JSON, and the type.
type Field = (&'static str, &'static str, Type);

const VERSION: &[Field] = &[
    ("Name", "name", Type::Text),
    ("Served", "served", Type::Flag),
    ("Storage", "storage", Type::Flag),
    ("Deprecated", "deprecated", Type::Flag),
    ("DeprecationWarning", "deprecationWarning", Type::Plain),
    ("Schema", "schema", Type::Struct(&[("OpenAPIV3Schema", "openAPIV3Schema", Type::Schema)])),
    ("Subresources", "subresources", Type::Struct(SUBRESOURCES)),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", Type::List(COLUMN)),
    ("SelectableFields", "selectableFields", Type::List(&[("JSONPath", "jsonPath", Type::Text)])),
];

const SUBRESOURCES: &[Field] = &[("Status", "status", Type::Struct(&[])), ("Scale", "scale", Type::Struct(SCALE))];

const SCALE: &[Field] = &[
    ("SpecReplicasPath", "specReplicasPath", Type::Text),
    ("StatusReplicasPath", "statusReplicasPath", Type::Text),
    ("LabelSelectorPath", "labelSelectorPath", Type::Plain),
];

const COLUMN: &[Field] = &[
    ("Name", "name", Type::Text),
    ("Type", "type", Type::Text),
    ("Format", "format", Type::Text),
    ("Description", "description", Type::Text),
    ("Priority", "priority", Type::Number),
    ("JSONPath", "jsonPath", Type::Text),
];

const SCHEMA: &[Field] = &[
    ("ID", "id", Type::Text),
    ("Schema", "$schema", Type::Text),
    ("Ref", "$ref", Type::Plain),
    ("Description", "description", Type::Text),
    ("Type", "type", Type::Text),
    ("Nullable", "nullable", Type::Flag),
    ("Format", "format", Type::Text),
    ("Title", "title", Type::Text),
    ("Default", "default", Type::Plain),
    ("Maximum", "maximum", Type::Plain),
    ("ExclusiveMaximum", "exclusiveMaximum", Type::Flag),
    ("Minimum", "minimum", Type::Plain),
    ("ExclusiveMinimum", "exclusiveMinimum", Type::Flag),
    ("MaxLength", "maxLength", Type::Plain),
    ("MinLength", "minLength", Type::Plain),
    ("Pattern", "pattern", Type::Text),
    ("MaxItems", "maxItems", Type::Plain),
    ("MinItems", "minItems", Type::Plain),
    ("UniqueItems", "uniqueItems", Type::Flag),
    ("MultipleOf", "multipleOf", Type::Plain),
    ("Enum", "enum", Type::Plain),
    ("MaxProperties", "maxProperties", Type::Plain),
    ("MinProperties", "minProperties", Type::Plain),
    ("Required", "required", Type::Plain),
    ("Items", "items", Type::SchemaOrList),
    ("AllOf", "allOf", Type::Schemas),
    ("OneOf", "oneOf", Type::Schemas),
    ("AnyOf", "anyOf", Type::Schemas),
    ("Not", "not", Type::Schema),
    ("Properties", "properties", Type::SchemaMap),
    ("AdditionalProperties", "additionalProperties", Type::SchemaOrFlag),
    ("PatternProperties", "patternProperties", Type::SchemaMap),
    ("Dependencies", "dependencies", Type::Dependencies),
    ("AdditionalItems", "additionalItems", Type::SchemaOrFlag),
    ("Definitions", "definitions", Type::SchemaMap),
    (
        "ExternalDocs",
        "externalDocs",
        Type::Struct(&[("Description", "description", Type::Text), ("URL", "url", Type::Text)]),
    ),
    ("Example", "example", Type::Plain),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Type::Plain),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Type::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Type::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Type::Plain),
    ("XListType", "x-kubernetes-list-type", Type::Plain),
    ("XMapType", "x-kubernetes-map-type", Type::Plain),
    ("XValidations", "x-kubernetes-validations", Type::List(RULE)),
];

const RULE: &[Field] = &[
    ("Rule", "rule", Type::Text),
    ("Message", "message", Type::Text),
    ("MessageExpression", "messageExpression", Type::Text),
    ("Reason", "reason", Type::Plain),
    ("FieldPath", "fieldPath", Type::Text),
    ("OptionalOldSelf", "optionalOldSelf", Type::Plain),
];

/// The versions of a definition.
pub(super) fn versions(versions: &[Value]) -> String {
    list(versions.iter().map(|version| structure(version, VERSION)))
}

fn list(texts: impl Iterator<Item = String>) -> String {
    format!("[{}]", texts.collect::<Vec<_>>().join(","))
}

fn structure(value: &Value, fields: &[Field]) -> String {
    // Each struct prints all of its fields. A schema has forty.
    if !budget::step(fields.len()) || !budget::make(fields.len() * 24) {
        return "null".to_owned();
    }
    let fields = fields.iter().map(|(shown, name, ty)| format!("\"{shown}\":{}", field(&value[*name], *ty)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn map(value: &Value, of: impl Fn(&Value) -> String) -> String {
    let Some(members) = value.as_object() else { return "null".to_owned() };
    let members = members.iter().map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), of(value)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn field(value: &Value, ty: Type) -> String {
    let schema = |value: &Value| structure(value, SCHEMA);
    match ty {
        Type::Text if value.is_null() => "\"\"".to_owned(),
        Type::Flag if value.is_null() => "false".to_owned(),
        Type::Number if value.is_null() => "0".to_owned(),
        Type::Text | Type::Flag | Type::Number | Type::Plain => value.to_string(),
        _ if value.is_null() => "null".to_owned(),
        Type::Struct(fields) => structure(value, fields),
        Type::List(fields) => match value.as_array() {
            Some(values) => list(values.iter().map(|value| structure(value, fields))),
            None => "null".to_owned(),
        },
        Type::Schema => schema(value),
        Type::Schemas => match value.as_array() {
            Some(values) => list(values.iter().map(schema)),
            None => "null".to_owned(),
        },
        Type::SchemaMap => map(value, schema),
        Type::SchemaOrList => match value.as_array() {
            Some(values) => format!("{{\"Schema\":null,\"JSONSchemas\":{}}}", list(values.iter().map(schema))),
            None => format!("{{\"Schema\":{},\"JSONSchemas\":null}}", schema(value)),
        },
        Type::SchemaOrFlag => match value.as_bool() {
            Some(allowed) => format!("{{\"Allows\":{allowed},\"Schema\":null}}"),
            None => format!("{{\"Allows\":true,\"Schema\":{}}}", schema(value)),
        },
        Type::Dependencies => map(value, |value| match value.as_array() {
            Some(_) => format!("{{\"Schema\":null,\"Property\":{value}}}"),
            None => format!("{{\"Schema\":{},\"Property\":null}}", schema(value)),
        }),
    }
}
