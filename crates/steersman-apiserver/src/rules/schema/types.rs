//! The types of the built-in kinds, from the table of kinds: the type of a field, how Go decodes
//! and encodes it, and how patches and apply merge it.

use std::collections::HashMap;

use serde_json::Value;

/// The index of a struct in [`Types`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StructId(u16);

/// All structs of the built-in kinds.
#[derive(Debug, Default)]
pub(crate) struct Types {
    structs: Vec<Struct>,
    by_name: HashMap<String, StructId>,
}

/// One struct of the API.
#[derive(Debug)]
pub(crate) struct Struct {
    /// Group, version and name: `apps.v1.DeploymentSpec`, or `meta.v1.ObjectMeta`.
    pub(crate) name: String,
    /// Whether apply replaces a value of it as a whole.
    pub(crate) atomic: bool,
    /// Sorted by name.
    pub(crate) fields: Vec<Field>,
}

/// One field of a struct.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its name in JSON.
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// Omitted if empty: `false`, 0, "", a list or map without items, an absent pointer.
    pub(crate) omit_empty: bool,
    /// Omitted if it is the zero value of its type.
    pub(crate) omit_zero: bool,
    /// Whether OpenAPI lists it as required. Validation checks that; decoding does not.
    pub(crate) required: bool,
    /// The struct by which Go embeds it, for error messages: `VolumeSource`.
    pub(crate) embedded_by: Option<String>,
    /// How apply merges a list.
    pub(crate) list: Option<ListType>,
    /// Whether apply replaces the map or struct as a whole, if that differs from its type.
    pub(crate) atomic: Option<bool>,
    /// How a strategic merge patch merges it.
    pub(crate) patch: Patch,
    /// The default in OpenAPI. Most defaults are code in the real server, and not listed here.
    pub(crate) default: Option<Value>,
}

/// How apply merges a list (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListType {
    /// As a whole.
    Atomic,
    /// By its items, which are scalars.
    Set,
    /// By these fields of its items.
    Map(Vec<String>),
}

/// How a strategic merge patch treats a field (`x-kubernetes-patch-strategy`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patch {
    /// Lists are merged, not replaced.
    pub(crate) merge: bool,
    /// Maps and structs are replaced, not merged.
    pub(crate) replace: bool,
    /// Fields that the patch does not name are removed.
    pub(crate) retain_keys: bool,
    /// The field that identifies the items of a merged list.
    pub(crate) merge_key: Option<String>,
}

/// The type of a field, an item or a map's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Bool,
    Int32,
    Int64,
    Float64,
    String,
    /// Base64 in JSON.
    Bytes,
    /// RFC 3339, seconds.
    Time,
    /// RFC 3339, microseconds.
    MicroTime,
    /// `100m`, `2Gi`.
    Quantity,
    /// A 32-bit integer or a string.
    IntOrString,
    /// Any JSON value, unchanged.
    Any,
    /// A JSON schema or a list of them.
    SchemaOrList,
    /// A JSON schema or a boolean.
    SchemaOrBool,
    /// A JSON schema or a list of strings.
    SchemaOrStrings,
    Struct(StructId),
    /// May be absent, which differs from empty.
    Pointer(Box<Type>),
    List(Box<Type>),
    /// With strings as keys.
    Map(Box<Type>),
    /// A type with a name of its own in Go, which error messages print: `v1.Protocol`, a string.
    Named(String, Box<Type>),
}

impl Type {
    /// The type without its name in Go.
    pub(crate) fn unnamed(&self) -> &Self {
        match self {
            Self::Named(_, ty) => ty.unnamed(),
            ty => ty,
        }
    }

    /// Whether this is a list, a map or a struct, which patches can change in part.
    pub(crate) fn is_container(&self) -> bool {
        match self.unnamed() {
            Self::Pointer(ty) => ty.is_container(),
            Self::List(_) | Self::Map(_) | Self::Struct(_) => true,
            _ => false,
        }
    }
}

impl Struct {
    /// The field with this name, case-sensitive.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.field_index(name).map(|index| &self.fields[index])
    }

    pub(crate) fn field_index(&self, name: &str) -> Option<usize> {
        self.fields.binary_search_by(|field| field.name.as_str().cmp(name)).ok()
    }

    /// The name without group and version.
    pub(crate) fn go_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or_default()
    }
}

impl Types {
    /// Reads the `types` of the table.
    pub(crate) fn read(types: &serde_json::Map<String, Value>) -> Result<Self, String> {
        let id = |(index, name): (usize, &String)| Ok((name.clone(), StructId(u16::try_from(index).map_err(text)?)));
        let mut read =
            Self { structs: Vec::new(), by_name: types.keys().enumerate().map(id).collect::<Result<_, String>>()? };
        for (name, of_struct) in types {
            let fields = of_struct["fields"].as_object().ok_or_else(|| format!("{name} has no fields"))?;
            let field = |(field, words): (&String, &Value)| {
                let words = words.as_str().ok_or("not a string").map_err(text);
                words.and_then(|words| read.field(field, words)).map_err(|error| format!("{name}.{field}: {error}"))
            };
            let mut fields = fields.iter().map(field).collect::<Result<Vec<_>, _>>()?;
            fields.sort_by(|a, b| a.name.cmp(&b.name));
            read.structs.push(Struct { name: name.clone(), atomic: of_struct["map"] == "atomic", fields });
        }
        Ok(read)
    }

    /// The struct with this index.
    pub(crate) fn get(&self, id: StructId) -> &Struct {
        &self.structs[usize::from(id.0)]
    }

    /// The struct with this name, such as `apps.v1.DeploymentSpec`.
    pub(crate) fn find(&self, name: &str) -> Option<StructId> {
        self.by_name.get(name).copied()
    }

    /// All of them, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Struct> {
        self.structs.iter()
    }

    /// The type as Go's messages print it.
    pub(crate) fn go_name(&self, ty: &Type) -> String {
        match ty {
            Type::Bool => "bool".to_owned(),
            Type::Int32 => "int32".to_owned(),
            Type::Int64 => "int64".to_owned(),
            Type::Float64 => "float64".to_owned(),
            Type::String => "string".to_owned(),
            Type::Bytes => "[]uint8".to_owned(),
            Type::Time => "v1.Time".to_owned(),
            Type::MicroTime => "v1.MicroTime".to_owned(),
            Type::Quantity => "resource.Quantity".to_owned(),
            Type::IntOrString => "intstr.IntOrString".to_owned(),
            Type::Any => "v1.JSON".to_owned(),
            Type::SchemaOrList => "v1.JSONSchemaPropsOrArray".to_owned(),
            Type::SchemaOrBool => "v1.JSONSchemaPropsOrBool".to_owned(),
            Type::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray".to_owned(),
            Type::Struct(id) => {
                let name = &self.get(*id).name;
                name.split_once('.').map_or(name.as_str(), |(_group, rest)| rest).to_owned()
            }
            Type::Pointer(ty) => format!("*{}", self.go_name(ty)),
            Type::List(ty) => format!("[]{}", self.go_name(ty)),
            Type::Map(ty) => format!("map[string]{}", self.go_name(ty)),
            Type::Named(name, _) => name.clone(),
        }
    }

    /// Reads a field: its type, then its flags, of which the default is the last.
    fn field(&self, name: &str, words: &str) -> Result<Field, String> {
        let (words, default) = match words.split_once(" default=") {
            Some((words, default)) => (words, Some(serde_json::from_str(default).map_err(text)?)),
            None => (words, None),
        };
        let mut words = words.split(' ');
        let mut field = Field {
            name: name.to_owned(),
            ty: self.ty(words.next().unwrap_or_default())?,
            omit_empty: false,
            omit_zero: false,
            required: false,
            embedded_by: None,
            list: None,
            atomic: None,
            patch: Patch::default(),
            default,
        };
        let mut keys = Vec::new();
        for word in words {
            match word.split_once('=').unwrap_or((word, "")) {
                ("omitempty", "") => field.omit_empty = true,
                ("omitzero", "") => field.omit_zero = true,
                ("required", "") => field.required = true,
                ("in", by) => field.embedded_by = Some(by.to_owned()),
                ("list", "atomic") => field.list = Some(ListType::Atomic),
                ("list", "set") => field.list = Some(ListType::Set),
                ("list", "map") => field.list = Some(ListType::Map(Vec::new())),
                ("keys", names) => keys = names.split(',').map(str::to_owned).collect(),
                ("map", kind) => field.atomic = Some(kind == "atomic"),
                ("patch", strategies) => {
                    for strategy in strategies.split(',') {
                        match strategy {
                            "merge" => field.patch.merge = true,
                            "retainKeys" => field.patch.retain_keys = true,
                            "replace" => field.patch.replace = true,
                            _ => return Err(format!("an unknown patch strategy: {strategy}")),
                        }
                    }
                }
                ("patchKey", key) => field.patch.merge_key = Some(key.to_owned()),
                _ => return Err(format!("an unknown word: {word}")),
            }
        }
        if let Some(ListType::Map(of_list)) = &mut field.list {
            *of_list = keys;
        }
        Ok(field)
    }

    /// Reads a type: `*int32`, `[]core.v1.Container`, `v1.Protocol(string)`.
    fn ty(&self, expression: &str) -> Result<Type, String> {
        if let Some(rest) = expression.strip_prefix('*') {
            return Ok(Type::Pointer(Box::new(self.ty(rest)?)));
        }
        if let Some(rest) = expression.strip_prefix("[]") {
            return Ok(Type::List(Box::new(self.ty(rest)?)));
        }
        if let Some(rest) = expression.strip_prefix("map[string]") {
            return Ok(Type::Map(Box::new(self.ty(rest)?)));
        }
        if let Some((name, rest)) = expression.split_once('(') {
            let rest = rest.strip_suffix(')').ok_or_else(|| format!("a parenthesis is missing: {expression}"))?;
            return Ok(Type::Named(name.to_owned(), Box::new(self.ty(rest)?)));
        }
        Ok(match expression {
            "bool" => Type::Bool,
            "int32" => Type::Int32,
            "int64" => Type::Int64,
            "float64" => Type::Float64,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "time" => Type::Time,
            "microtime" => Type::MicroTime,
            "quantity" => Type::Quantity,
            "intorstring" => Type::IntOrString,
            "any" => Type::Any,
            "schema-or-list" => Type::SchemaOrList,
            "schema-or-bool" => Type::SchemaOrBool,
            "schema-or-strings" => Type::SchemaOrStrings,
            name => Type::Struct(self.find(name).ok_or_else(|| format!("an unknown type: {name}"))?),
        })
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is made for map_err")]
fn text(error: impl ToString) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(types: &Value) -> Result<Types, String> {
        Types::read(types.as_object().unwrap())
    }

    #[test]
    fn a_field_is_a_type_and_words() {
        let types = read(&json!({"x.v1.A": {"map": "atomic", "fields": {
            "list": "v1.As([]x.v1.A) omitempty in=B list=map keys=a,b patch=merge,retainKeys patchKey=a",
            "map": "*map[string]quantity omitzero required map=atomic default={\"a\": \"b c\"}",
        }}}))
        .unwrap();
        let a = types.find("x.v1.A").unwrap();
        let of_list = Type::List(Box::new(Type::Struct(a)));
        let a = types.get(a);
        assert!(a.atomic);
        let list = a.field("list").unwrap();
        assert_eq!(list.ty, Type::Named("v1.As".to_owned(), Box::new(of_list.clone())));
        assert_eq!((types.go_name(&list.ty), types.go_name(&of_list)), ("v1.As".to_owned(), "[]v1.A".to_owned()));
        assert_eq!((list.omit_empty, list.omit_zero, list.required, list.atomic), (true, false, false, None));
        assert_eq!(list.embedded_by.as_deref(), Some("B"));
        assert_eq!(list.list, Some(ListType::Map(vec!["a".to_owned(), "b".to_owned()])));
        assert_eq!(
            list.patch,
            Patch { merge: true, retain_keys: true, merge_key: Some("a".to_owned()), ..Patch::default() }
        );
        let map = a.field("map").unwrap();
        assert_eq!(map.ty, Type::Pointer(Box::new(Type::Map(Box::new(Type::Quantity)))));
        assert_eq!((map.omit_empty, map.omit_zero, map.required, map.atomic), (false, true, true, Some(true)));
        assert_eq!(map.default, Some(json!({"a": "b c"})));
        assert!(a.field("List").is_none());
    }

    #[test]
    fn what_is_not_understood_is_an_error_that_names_the_place() {
        for (words, error) in [
            ("x.v1.B", "x.v1.A.f: an unknown type: x.v1.B"),
            ("string nonsense", "x.v1.A.f: an unknown word: nonsense"),
            ("string patch=x", "x.v1.A.f: an unknown patch strategy: x"),
            ("v1.P(string", "x.v1.A.f: a parenthesis is missing: v1.P(string"),
        ] {
            assert_eq!(read(&json!({"x.v1.A": {"fields": {"f": words}}})).unwrap_err(), error);
        }
    }
}
