//! Rust types for a schema.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;

use super::definition::Definition;
use super::names::{self, Names};

/// Types that the file imports or declares itself.
const TAKEN: [&str; 10] = [
    "BTreeMap",
    "ClusterResourceScope",
    "Cow",
    "Deserialize",
    "IntOrString",
    "NamespaceResourceScope",
    "ObjectMeta",
    "Resource",
    "Serialize",
    "Value",
];
/// Fields of every object, which have types of their own.
const OF_EVERY_OBJECT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Names of fields and parameters that the generated code has itself.
const OBJECT_FIELDS: [&str; 5] = ["api_version", "kind", "metadata", "name", "unknown"];

/// The types of a kind.
pub(super) struct Types {
    /// The fields of the object beside those of every object.
    pub(super) root: Struct,
    /// In the order in which they are used.
    pub(super) others: Vec<Declared>,
}

/// A type that the file declares.
pub(super) enum Declared {
    Struct(Struct),
    Enum(Enum),
}

/// An object with known fields.
pub(super) struct Struct {
    pub(super) name: String,
    pub(super) docs: String,
    pub(super) fields: Vec<Field>,
    /// The schema permits fields that it does not name.
    pub(super) open: bool,
}

/// A text with known values.
pub(super) struct Enum {
    pub(super) name: String,
    pub(super) docs: String,
    /// The variants with their values.
    pub(super) variants: Vec<(String, String)>,
    /// The variant of a value that is not known.
    pub(super) other: String,
}

pub(super) struct Field {
    /// The name in JSON.
    pub(super) key: String,
    pub(super) name: String,
    pub(super) docs: String,
    pub(super) kind: Type,
    pub(super) presence: Presence,
}

/// Whether a field may be absent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    /// It is always there, and may be `null`.
    Nullable,
    Optional,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    Float,
    Integer32,
    Integer64,
    IntOrString,
    Text,
    /// Anything.
    Value,
    List(Box<Type>),
    Map(Box<Type>),
    /// A declared type.
    Named(String),
}

/// The types of a kind.
pub(super) fn of(definition: &Definition) -> Result<Types> {
    let schema = &definition.schema;
    let empty = BTreeMap::new();
    let properties = schema.properties.as_ref().unwrap_or(&empty);
    ensure!(
        properties.keys().any(|key| !OF_EVERY_OBJECT.contains(&key.as_str())) || is_open(schema),
        "it has no field beside apiVersion, kind and metadata"
    );
    let kind = definition.kind.clone();
    let mut names = Names::with(TAKEN);
    // Those of the object itself, such as its spec, before those within its spec.
    let own = properties.keys().map(|key| format!("{kind}{}", names::type_name(key)));
    std::iter::once(kind.clone()).chain(own).for_each(|name| drop(names.take(name)));
    let mut builder = Builder { names, declared: Vec::new() };
    let root = builder.structure(kind, "", schema, Level::Object);
    Ok(Types { root, others: builder.declared })
}

/// Where a schema is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// It is that of the object.
    Object,
    /// It is that of a field of the object: the name of its type is reserved.
    Field,
    Below,
}

struct Builder {
    names: Names,
    declared: Vec<Declared>,
}

impl Builder {
    /// A struct for an object, and the types of its fields.
    fn structure(&mut self, name: String, docs: &str, schema: &JSONSchemaProps, level: Level) -> Struct {
        let required = schema.required.as_deref().unwrap_or_default();
        let is_object = level == Level::Object;
        let mut fields = if is_object { Names::with(OBJECT_FIELDS) } else { Names::with(["unknown"]) };
        let is_own = |key: &String| !is_object || !OF_EVERY_OBJECT.contains(&key.as_str());
        let properties = schema.properties.iter().flatten().filter(|(key, _)| is_own(key));
        let below = if is_object { Level::Field } else { Level::Below };
        // The names of a spec's types need no `Spec`.
        let prefix = name.strip_suffix("Spec").filter(|prefix| !prefix.is_empty()).unwrap_or(&name).to_owned();
        let fields = properties
            .map(|(key, schema)| {
                let is_nullable = schema.nullable == Some(true);
                let presence = match (required.contains(key), is_nullable) {
                    (true, false) => Presence::Required,
                    (true, true) => Presence::Nullable,
                    (false, _) => Presence::Optional,
                };
                let kind = self.kind(&format!("{prefix}{}", names::type_name(key)), schema, below);
                let docs = schema.description.clone().unwrap_or_default();
                Field { key: key.clone(), name: fields.take(names::field(key)), docs, kind, presence }
            })
            .collect();
        Struct { name, docs: docs.to_owned(), fields, open: is_open(schema) }
    }

    /// The type for a schema. `name` is for a type that has to be declared.
    fn kind(&mut self, name: &str, schema: &JSONSchemaProps, level: Level) -> Type {
        if is_int_or_string(schema) {
            return Type::IntOrString;
        }
        if schema.x_kubernetes_embedded_resource == Some(true) {
            return Type::Value;
        }
        match schema.type_.as_deref() {
            Some("boolean") => Type::Bool,
            Some("number") => Type::Float,
            Some("integer") if schema.format.as_deref() == Some("int32") => Type::Integer32,
            Some("integer") => Type::Integer64,
            Some("string") => self.text(name, schema, level),
            Some("array") => match &schema.items {
                Some(JSONSchemaPropsOrArray::Schema(items)) => Type::List(Box::new(self.item(name, items, level))),
                _ => Type::List(Box::new(Type::Value)),
            },
            _ => self.object(name, schema, level),
        }
    }

    /// The type of the values of a list or a map. One that may be `null` is kept as it is.
    fn item(&mut self, name: &str, schema: &JSONSchemaProps, level: Level) -> Type {
        if schema.nullable == Some(true) { Type::Value } else { self.kind(name, schema, level) }
    }

    /// The name for a type that is declared.
    fn name(&mut self, name: &str, level: Level) -> String {
        if level == Level::Field { name.to_owned() } else { self.names.take(name.to_owned()) }
    }

    fn object(&mut self, name: &str, schema: &JSONSchemaProps, level: Level) -> Type {
        if schema.properties.as_ref().is_some_and(|properties| !properties.is_empty()) {
            let name = self.name(name, level);
            // Before the types of its fields.
            let place = self.declared.len();
            let docs = schema.description.clone().unwrap_or_default();
            let structure = self.structure(name.clone(), &docs, schema, Level::Below);
            self.declared.insert(place, Declared::Struct(structure));
            return Type::Named(name);
        }
        match &schema.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(values)) => Type::Map(Box::new(self.item(name, values, level))),
            _ if schema.type_.is_some() => Type::Map(Box::new(Type::Value)),
            _ => Type::Value,
        }
    }

    fn text(&mut self, name: &str, schema: &JSONSchemaProps, level: Level) -> Type {
        let values = schema.enum_.iter().flatten().map(|value| value.0.as_str().map(str::to_owned));
        // A value that is no text is `null`, which the field allows or not.
        let values: Vec<String> = values.flatten().collect();
        if values.is_empty() {
            return Type::Text;
        }
        let mut variants = Names::default();
        let name = self.name(name, level);
        let variants_of: Vec<(String, String)> =
            values.into_iter().map(|value| (variants.take(names::variant(&value)), value)).collect();
        let docs = schema.description.clone().unwrap_or_default();
        let other = variants.take("Other".to_owned());
        self.declared.push(Declared::Enum(Enum { name: name.clone(), docs, variants: variants_of, other }));
        Type::Named(name)
    }
}

fn is_open(schema: &JSONSchemaProps) -> bool {
    schema.x_kubernetes_preserve_unknown_fields == Some(true)
}

/// A number or a text, in the ways in which schemas have it.
fn is_int_or_string(schema: &JSONSchemaProps) -> bool {
    let types = |schemas: &Option<Vec<JSONSchemaProps>>| -> Vec<Value> {
        schemas.iter().flatten().filter_map(|schema| schema.type_.clone().map(Value::String)).collect()
    };
    let both =
        |found: &[Value]| found.len() == 2 && found.contains(&"integer".into()) && found.contains(&"string".into());
    schema.x_kubernetes_int_or_string == Some(true)
        || schema.type_.is_none() && (both(&types(&schema.any_of)) || both(&types(&schema.one_of)))
}

impl Types {
    /// Whether a type, or one that it contains without an `Option`, list or map, has no default.
    pub(super) fn has_default(&self, kind: &Type) -> bool {
        match kind {
            Type::IntOrString => false,
            Type::Named(name) => self.others.iter().any(|declared| match declared {
                Declared::Struct(it) => it.name == *name && self.struct_has_default(it),
                Declared::Enum(_) => false,
            }),
            _ => true,
        }
    }

    pub(super) fn struct_has_default(&self, structure: &Struct) -> bool {
        let mut required = structure.fields.iter().filter(|field| field.presence == Presence::Required);
        required.all(|field| self.has_default(&field.kind))
    }

    /// Whether a type occurs, also within another one.
    pub(super) fn uses(&self, wanted: &Type) -> bool {
        fn contains(kind: &Type, wanted: &Type) -> bool {
            kind == wanted
                || match kind {
                    Type::List(inner) => contains(inner, wanted),
                    Type::Map(inner) => matches!(wanted, Type::Map(_)) || contains(inner, wanted),
                    _ => false,
                }
        }
        self.structs().any(|it| it.fields.iter().any(|field| contains(&field.kind, wanted)))
    }

    /// Whether a struct has fields that its schema does not name.
    pub(super) fn has_open(&self) -> bool {
        self.structs().any(|structure| structure.open)
    }

    fn structs(&self) -> impl Iterator<Item = &Struct> {
        let others = self.others.iter().filter_map(|declared| match declared {
            Declared::Struct(structure) => Some(structure),
            Declared::Enum(_) => None,
        });
        std::iter::once(&self.root).chain(others)
    }
}
