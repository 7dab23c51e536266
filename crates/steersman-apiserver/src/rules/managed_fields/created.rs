//! The fields of a new object, written as `FieldsV1` in one pass.
//!
//! The real server compares a new object with an empty one of its kind. Go's empty struct has
//! fields: those that are written even if they are empty. They are no new fields unless their value
//! differs, and nor are the structs on the way to them.

use serde_json::Value;

use super::codec::{write_field, write_key};
use super::element::PathElement;
use super::items::Items;
use super::types::{Choice, List, Map, TypeRef};
use crate::request::budget;
use crate::rules::schema::{Field, Type, is_written_if_empty};

/// Fields of the metadata that belong to no manager.
pub(super) const STRIPPED_METADATA: [&str; 9] = [
    "clusterName",
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Fields of the object that belong to no manager.
pub(super) const STRIPPED: [&str; 2] = ["apiVersion", "kind"];

/// The state of a field in the empty object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// It is not there.
    Absent,
    /// It has the zero value of its type.
    Zero,
}

/// The fields of a new object, without those of `excluded`, which are fields of the object itself.
/// `None` if there are none, or if an item of a list has no key.
pub(crate) fn fields_of_new(ty: TypeRef<'_>, value: &Value, excluded: &[&str]) -> Option<Vec<u8>> {
    let Choice::Map(map) = ty.atom().of(Some(value)).choice() else { return None };
    let mut writer = Writer { out: Vec::with_capacity(256), has_failed: false };
    for (name, member) in value.as_object()? {
        if STRIPPED.contains(&name.as_str()) || excluded.contains(&name.as_str()) {
            continue;
        }
        if name == "metadata" {
            writer.metadata(map.member(name).unwrap_or(TypeRef::Deduced), member);
        } else {
            writer.field(&map, Before::Zero, name, member);
        }
    }
    if writer.out.is_empty() || writer.has_failed {
        return None;
    }
    let mut out = writer.out;
    // Every node begins with a comma.
    out[0] = b'{';
    out.push(b'}');
    budget::text(out.len());
    Some(out)
}

/// A field that is being written.
#[derive(Clone, Copy)]
struct Node<'a> {
    ty: TypeRef<'a>,
    /// Its type in Go, which has a zero value.
    go: Option<&'a Type>,
    before: Before,
}

struct Writer {
    out: Vec<u8>,
    /// Whether some item of a list has no key.
    has_failed: bool,
}

impl Writer {
    /// The metadata itself is never a member, and not all of its fields have managers.
    fn metadata(&mut self, ty: TypeRef<'_>, value: &Value) {
        let (Choice::Map(map), Value::Object(members)) = (ty.atom().of(Some(value)).choice(), value) else { return };
        let start = self.out.len();
        self.out.push(b',');
        write_field("metadata", &mut self.out);
        let open = self.out.len();
        for (name, member) in members {
            if !STRIPPED_METADATA.contains(&name.as_str()) {
                self.field(&map, Before::Zero, name, member);
            }
        }
        self.close(start, open);
    }

    /// Ends a node that is no member: it is dropped if there is nothing below it.
    fn close(&mut self, start: usize, open: usize) {
        if self.out.len() == open {
            self.out.truncate(start);
        } else {
            self.out[open] = b'{';
            self.out.push(b'}');
        }
    }

    fn field(&mut self, map: &Map<'_>, of_map: Before, name: &str, value: &Value) {
        let ty = map.member(name).unwrap_or(TypeRef::Untyped);
        let field = map.structure().and_then(|of| of.field(name));
        let before = match field {
            Some(field) if of_map == Before::Zero && is_written_if_empty(field) => Before::Zero,
            _ => Before::Absent,
        };
        let start = self.out.len();
        self.out.push(b',');
        write_field(name, &mut self.out);
        self.node(start, Node { ty, go: field.map(|field| &field.ty), before }, value);
    }

    /// Writes a node whose key is written.
    fn node(&mut self, start: usize, node: Node<'_>, value: &Value) {
        let Node { ty, go, before } = node;
        if !budget::step(1) {
            self.out.truncate(start);
            return;
        }
        let choice = ty.atom().of(Some(value)).choice();
        let is_leaf = match (&choice, value) {
            (Choice::List(list), Value::Array(items)) => list.is_atomic() || items.is_empty(),
            (Choice::Map(map), Value::Object(members)) => map.atomic || members.is_empty(),
            _ => true,
        };
        if is_leaf {
            if before == Before::Absent || !go.is_some_and(|ty| is_zero(ty, value)) {
                self.out.extend_from_slice(b"{}");
            } else {
                self.out.truncate(start);
            }
            return;
        }
        let open = self.out.len();
        if before == Before::Absent {
            self.out.extend_from_slice(br#",".":{}"#);
        }
        // Only a struct has a zero value with fields.
        let is_struct = before == Before::Zero && go.is_some_and(|ty| matches!(ty.unnamed(), Type::Struct(_)));
        match (choice, value) {
            (Choice::List(list), Value::Array(items)) => self.items(&list, items),
            (Choice::Map(map), Value::Object(members)) => {
                let of_map = if is_struct { Before::Zero } else { Before::Absent };
                self.members(&map, of_map, members);
            }
            _ => {}
        }
        self.close(start, open);
    }

    fn members(&mut self, map: &Map<'_>, of_map: Before, members: &serde_json::Map<String, Value>) {
        for (name, member) in members {
            self.field(map, of_map, name, member);
        }
    }

    fn items(&mut self, list: &List<'_>, items: &[Value]) {
        let mut groups = Items::new(list, items, |_| self.has_failed = true).groups;
        groups.sort_by(|(one, _), (other, _)| PathElement::cmp(one, other));
        for (element, values) in groups {
            let start = self.out.len();
            self.out.push(b',');
            write_key(&element, &mut self.out);
            match &values[..] {
                [one] => self.node(start, Node { ty: list.item, go: None, before: Before::Absent }, one),
                _ => self.out.extend_from_slice(b"{}"),
            }
        }
    }
}

/// Whether a value is the zero value of its type, as Go's encoder writes it.
fn is_zero(ty: &Type, value: &Value) -> bool {
    match (ty.unnamed(), value) {
        (Type::Bool, Value::Bool(value)) => !value,
        (Type::Int32 | Type::Int64 | Type::Float64 | Type::IntOrString, Value::Number(number)) => {
            number.as_f64() == Some(0.0)
        }
        (Type::String, Value::String(text)) => text.is_empty(),
        (Type::Quantity, Value::String(text)) => text == "0",
        (Type::Struct(id), Value::Object(members)) => {
            let of = crate::rules::kinds::builtin().types.get(*id);
            members.iter().all(|(name, member)| {
                let is_zero_field = |field: &Field| is_written_if_empty(field) && is_zero(&field.ty, member);
                of.field(name).is_some_and(is_zero_field)
            })
        }
        (_, value) => value.is_null(),
    }
}
