//! The types by which values are compared and merged: the same view of the schemas of built-in
//! kinds and of definitions.

use serde_json::Value;

use crate::rules::crd;
use crate::rules::kinds::builtin;
use crate::rules::schema::{ListType, Struct, StructId, Type, is_written_if_empty};

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TypeRef<'a> {
    /// A type of a built-in kind.
    Builtin(&'a Type, Merging<'a>),
    /// A struct of a built-in kind.
    Struct(StructId),
    /// The schema of a definition. The flag is set below a schema that preserves unknown fields.
    Custom(&'a crd::Node, bool),
    /// The root of a definition's schema, which is an object with metadata.
    Root(&'a crd::Node),
    /// A text.
    Text,
    /// Any value: maps are merged, lists are replaced.
    Deduced,
    /// Any value, replaced as a whole.
    Untyped,
}

/// How a field of a built-in kind is merged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Merging<'a> {
    pub(crate) list: Option<&'a ListType>,
    pub(crate) atomic: Option<bool>,
}

/// What a value of a type may be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Atom<'a> {
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<List<'a>>,
    pub(crate) map: Option<Map<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Number,
    Text,
    Bool,
    Any,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct List<'a> {
    pub(crate) merge: ListMerge<'a>,
    pub(crate) item: TypeRef<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ListMerge<'a> {
    /// As a whole.
    Atomic,
    /// By the values of its items.
    Set,
    /// By these fields of its items.
    Keys(&'a [String]),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Map<'a> {
    /// Whether it is replaced as a whole.
    pub(crate) atomic: bool,
    fields: Fields<'a>,
    /// The type of members that are not named fields. Without one, there are none.
    element: Option<TypeRef<'a>>,
}

#[derive(Clone, Copy, Debug)]
enum Fields<'a> {
    None,
    Struct(&'a Struct),
    Custom { node: &'a crd::Node, preserve: bool, is_object: bool },
}

impl<'a> Map<'a> {
    /// The type of a named field.
    pub(crate) fn field(&self, name: &str) -> Option<TypeRef<'a>> {
        match self.fields {
            Fields::None => None,
            Fields::Struct(of) => of
                .field(name)
                .map(|field| TypeRef::Builtin(&field.ty, Merging { list: field.list.as_ref(), atomic: field.atomic })),
            Fields::Custom { is_object: true, .. } if matches!(name, "apiVersion" | "kind") => Some(TypeRef::Text),
            Fields::Custom { is_object: true, .. } if name == "metadata" => Some(object_meta()),
            Fields::Custom { node, preserve, .. } => {
                node.property(name).map(|node| TypeRef::Custom(node, preserve || node.preserves_unknown()))
            }
        }
    }

    /// The type of a member.
    pub(crate) fn member(&self, name: &str) -> Option<TypeRef<'a>> {
        self.field(name).or(self.element)
    }

    /// The struct of a built-in kind that it is.
    pub(crate) fn structure(&self) -> Option<&'a Struct> {
        if let Fields::Struct(of) = self.fields { Some(of) } else { None }
    }

    /// Whether it is a map of anything.
    pub(crate) fn is_deduced(&self) -> bool {
        let has_fields = match self.fields {
            Fields::None => false,
            Fields::Struct(of) => !of.fields.is_empty(),
            Fields::Custom { node, is_object, .. } => is_object || node.has_properties(),
        };
        matches!(self.element, Some(TypeRef::Deduced)) && !has_fields
    }

    /// The default of a named field. Fields of Go's structs that are always written have one: the
    /// zero value of their type.
    pub(crate) fn default(&self, name: &str) -> Option<Value> {
        match self.fields {
            Fields::Struct(of) => {
                let field = of.field(name)?;
                field.default.clone().or_else(|| match field.ty.unnamed() {
                    _ if !is_written_if_empty(field) => None,
                    Type::String => Some("".into()),
                    Type::Int32 | Type::Int64 => Some(0.into()),
                    Type::Bool => Some(false.into()),
                    _ => None,
                })
            }
            Fields::Custom { node, .. } => node.property(name)?.default_value().cloned(),
            Fields::None => None,
        }
    }
}

impl<'a> List<'a> {
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self.merge, ListMerge::Atomic)
    }
}

impl<'a> Atom<'a> {
    /// What the type is for this value.
    pub(crate) fn of(self, value: Option<&Value>) -> Self {
        let none = Self::default();
        match value {
            Some(Value::Number(_) | Value::String(_) | Value::Bool(_)) if self.scalar.is_some() => {
                Self { scalar: self.scalar, ..none }
            }
            Some(Value::Array(_)) if self.list.is_some() => Self { list: self.list, ..none },
            Some(Value::Object(_)) if self.map.is_some() => Self { map: self.map, ..none },
            _ => self,
        }
    }

    /// Whether two atoms of one type are the same choice.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (self.scalar.is_some(), self.list.is_some(), self.map.is_some())
            == (other.scalar.is_some(), other.list.is_some(), other.map.is_some())
    }

    /// The atom by which a value is walked: maps go before scalars, and those before lists.
    pub(crate) fn choice(&self) -> Choice<'a> {
        match (self.map, self.scalar, self.list) {
            (Some(map), ..) => Choice::Map(map),
            (None, Some(scalar), _) => Choice::Scalar(scalar),
            (None, None, Some(list)) => Choice::List(list),
            (None, None, None) => Choice::Scalar(Scalar::Any),
        }
    }
}

/// One of the atoms.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice<'a> {
    Scalar(Scalar),
    List(List<'a>),
    Map(Map<'a>),
}

/// The metadata of every object.
fn object_meta() -> TypeRef<'static> {
    builtin().types.find("meta.v1.ObjectMeta").map_or(TypeRef::Deduced, TypeRef::Struct)
}

impl<'a> TypeRef<'a> {
    pub(crate) fn atom(self) -> Atom<'a> {
        let scalar = |scalar| Atom { scalar: Some(scalar), ..Atom::default() };
        match self {
            Self::Text => scalar(Scalar::Text),
            Self::Deduced => any(Self::Deduced, false),
            Self::Untyped => any(Self::Untyped, true),
            Self::Struct(id) => structure(id, None),
            Self::Root(node) => custom(node, node.preserves_unknown(), true),
            Self::Custom(node, preserve) => custom(node, preserve, node.is_embedded()),
            Self::Builtin(ty, merging) => match ty {
                Type::Named(_, ty) | Type::Pointer(ty) => TypeRef::Builtin(ty, merging).atom(),
                Type::Bool => scalar(Scalar::Bool),
                Type::Int32 | Type::Int64 | Type::Float64 => scalar(Scalar::Number),
                Type::String | Type::Bytes => scalar(Scalar::Text),
                Type::Time | Type::MicroTime | Type::Quantity | Type::IntOrString => scalar(Scalar::Any),
                Type::Any => any(Self::Untyped, true),
                Type::SchemaOrList | Type::SchemaOrBool | Type::SchemaOrStrings => any(Self::Deduced, false),
                Type::Struct(id) => structure(*id, merging.atomic),
                Type::List(item) => {
                    let merge = match merging.list {
                        Some(ListType::Set) => ListMerge::Set,
                        Some(ListType::Map(keys)) => ListMerge::Keys(keys),
                        Some(ListType::Atomic) | None => ListMerge::Atomic,
                    };
                    let list = List { merge, item: TypeRef::Builtin(item, Merging::default()) };
                    Atom { list: Some(list), ..Atom::default() }
                }
                Type::Map(item) => {
                    let element = Some(TypeRef::Builtin(item, Merging::default()));
                    let map = Map { atomic: merging.atomic.unwrap_or_default(), fields: Fields::None, element };
                    Atom { map: Some(map), ..Atom::default() }
                }
            },
        }
    }
}

/// Any value. `element` is the type of a map's members.
fn any(element: TypeRef<'_>, atomic: bool) -> Atom<'_> {
    Atom {
        scalar: Some(Scalar::Any),
        list: Some(List { merge: ListMerge::Atomic, item: TypeRef::Untyped }),
        map: Some(Map { atomic, fields: Fields::None, element: Some(element) }),
    }
}

fn structure(id: StructId, atomic: Option<bool>) -> Atom<'static> {
    let of = builtin().types.get(id);
    let element = of.fields.is_empty().then_some(TypeRef::Deduced);
    let map = Map { atomic: atomic.unwrap_or(of.atomic), fields: Fields::Struct(of), element };
    Atom { map: Some(map), ..Atom::default() }
}

fn custom(node: &crd::Node, preserve: bool, is_object: bool) -> Atom<'_> {
    let map = || {
        let element = match node.additional_properties() {
            crd::MoreFields::Schema(node) => Some(TypeRef::Custom(node, preserve || node.preserves_unknown())),
            crd::MoreFields::Allowed => Some(TypeRef::Deduced),
            crd::MoreFields::Forbidden => None,
            crd::MoreFields::Unspecified => {
                (preserve || (!node.has_properties() && !is_object)).then_some(TypeRef::Deduced)
            }
        };
        Some(Map { atomic: node.is_atomic(), fields: Fields::Custom { node, preserve, is_object }, element })
    };
    let list = || {
        let merge = match node.list_type() {
            crd::List::Atomic => ListMerge::Atomic,
            crd::List::Set => ListMerge::Set,
            crd::List::Map(keys) => ListMerge::Keys(keys),
        };
        let item = node.item().map(|item| TypeRef::Custom(item, preserve || item.preserves_unknown()));
        Some(List { merge, item: item.unwrap_or(TypeRef::Untyped) })
    };
    let scalar = |scalar| Atom { scalar: Some(scalar), ..Atom::default() };
    match node.single_type() {
        Some("object") => Atom { map: map(), ..Atom::default() },
        Some("array") => Atom { list: list(), ..Atom::default() },
        Some("integer" | "number") => scalar(Scalar::Number),
        Some("boolean") => scalar(Scalar::Bool),
        Some("string") => scalar(if node.is_untyped_text() { Scalar::Any } else { Scalar::Text }),
        _ if is_object => Atom { map: map(), ..Atom::default() },
        _ => Atom { scalar: Some(Scalar::Any), list: list(), map: map() },
    }
}
