//! Versions of a definition as the real server's messages print them: the Go structs of its own release of the API, which
//! has no JSON names. Every field is there, in the order of the structs, and what is not set is null or empty.

use serde_json::Value;

use crate::budget;

/// What a field is.
#[derive(Clone, Copy)]
enum Type {
    /// Empty when it is absent.
    Text,
    /// False when it is absent.
    Flag,
    /// Zero when it is absent.
    Number,
    /// Null when it is absent, and printed as it is: pointers to scalars, lists of scalars, JSON of any kind.
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
    /// A schema, or a list of them; a list is always told.
    SchemaOrList,
    /// A schema, or whether there may be one.
    SchemaOrFlag,
    /// A schema or a list of texts, by name.
    Dependencies,
}

/// The name in the struct, the name in JSON, and what it is.
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
    // Each struct shows all of its fields, of which a schema has forty.
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
