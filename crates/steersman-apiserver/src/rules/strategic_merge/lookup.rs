//! How the fields of a type are merged: the table's strategies and keys, found by the names in a
//! patch.

use super::MergeError;
use crate::rules::schema::{Field, Patch, Type, Types};

/// The type of a value that a patch is merged into.
#[derive(Clone, Copy)]
pub(super) struct Schema<'a> {
    pub(super) types: &'a Types,
    pub(super) ty: &'a Type,
}

impl<'a> Schema<'a> {
    /// The type of the field with this name, and how the field is merged.
    pub(super) fn field(self, name: &str) -> Result<(Self, &'a Patch), MergeError> {
        let ty = match self.ty.unnamed() {
            Type::Pointer(ty) => ty.unnamed(),
            ty => ty,
        };
        let (struct_name, found) = match ty {
            Type::Struct(id) => {
                let of = self.types.get(*id);
                // Go prefers the exact name, and accepts it in another case.
                let folded = || of.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
                (of.go_name(), of.field(name).or_else(folded))
            }
            Type::Any => ("RawExtension", None),
            ty if go_kind(ty) == "struct" => (go_kind(ty), None),
            ty => {
                let kind = go_kind(ty);
                return Err(MergeError::Other(format!(
                    "merging an object in json but data type is not struct, instead is: {kind}"
                )));
            }
        };
        let not_found = || {
            let name = steersman_wire::quote(name);
            MergeError::Other(format!("unable to find api field in struct {struct_name} for the json field {name}"))
        };
        let field: &Field = found.ok_or_else(not_found)?;
        Ok((Self { ty: &field.ty, ..self }, &field.patch))
    }

    /// The type of the items of the list with this name, and how the list is merged.
    pub(super) fn list(self, name: &str) -> Result<(Self, &'a Patch), MergeError> {
        let (of, patch) = self.field(name)?;
        let item = match of.ty.unnamed() {
            Type::List(item) if matches!(item.unnamed(), Type::List(_) | Type::Bytes) => {
                return Err(MergeError::Other("unexpected slice of slice".to_owned()));
            }
            Type::List(item) => &**item,
            Type::Bytes => &Type::Int32,
            Type::Pointer(ty) => match ty.unnamed() {
                Type::List(item) => &**item,
                _ => &**ty,
            },
            _ => {
                let kind = go_kind(self.ty);
                return Err(MergeError::Other(format!("expected slice or array type, but got: {kind}")));
            }
        };
        Ok((Self { ty: item, ..self }, patch))
    }

    /// The kind of its type in Go.
    pub(super) fn kind(self) -> &'static str {
        go_kind(self.ty)
    }
}

/// The kind of a type in Go.
fn go_kind(ty: &Type) -> &'static str {
    match ty.unnamed() {
        Type::Bool => "bool",
        Type::Int32 => "int32",
        Type::Int64 => "int64",
        Type::Float64 => "float64",
        Type::String => "string",
        Type::Bytes | Type::List(_) => "slice",
        Type::Map(_) => "map",
        Type::Pointer(_) => "ptr",
        _ => "struct",
    }
}
