//! Objects without the fields that their metadata holds, and how they are completed again.
//!
//! A remainder is an object with members left out, after a head that lists them and their places.
//! The head begins with the number of members, marked by the highest bit. A byte for each follows:
//! the field in the upper four bits, and in the lower four the distance from the one before (or
//! from the beginning). If that is [`FAR`] or more, the rest follows in groups of seven bits, the
//! lowest first; the highest bit of a byte marks that more follow.
//!
//! JSON never begins with such a byte, so an object from which nothing is left out is its own
//! remainder.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::cursor::Cursor;
use super::extent::is_white_space;
use super::text::push_text;
use crate::Metadata;
use crate::codec::metadata::{Field, OwnerReference};
use crate::codec::object_error::ObjectFault;

const MARK: u8 = 0x80;
const FAR: usize = 15;
/// Few heads are longer.
const HEAD: usize = 32;
/// About the size of a member without its texts.
const MEMBER: usize = 32;

/// Whether the metadata holds exactly what this value of the field means. A `null`, for example,
/// would become an empty text.
pub(super) fn is_in_metadata(field: Field, value: &[u8]) -> bool {
    match field {
        Field::Labels | Field::Annotations => is_map_of_texts(value).unwrap_or(false),
        Field::OwnerReferences => are_plain_owners(value).unwrap_or(false),
        Field::Generation => matches!(value, [b'-' | b'0'..=b'9', ..]),
        // Few objects have finalizers.
        Field::Finalizers => false,
        _ => is_text(value),
    }
}

fn is_text(value: &[u8]) -> bool {
    value.first() == Some(&b'"')
}

fn is_map_of_texts(value: &[u8]) -> Result<bool, ObjectFault> {
    let mut cursor = Cursor::new(value);
    let mut object = cursor.object()?;
    while cursor.member(&mut object)?.is_some() {
        if !is_text(&value[cursor.skip()?]) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether each owner has all of its texts, no field beyond the metadata, and no flag that is
/// false.
fn are_plain_owners(value: &[u8]) -> Result<bool, ObjectFault> {
    const TEXTS: u8 = 0b1111;
    let mut cursor = Cursor::new(value);
    let mut list = cursor.list()?;
    while cursor.element(&mut list)? {
        let mut object = cursor.object()?;
        let mut found = 0;
        while let Some(member) = cursor.member(&mut object)? {
            let name = member.name.text()?;
            let value = &value[cursor.skip()?];
            let bit = match &*name {
                b"apiVersion" if is_text(value) => 0,
                b"kind" if is_text(value) => 1,
                b"name" if is_text(value) => 2,
                b"uid" if is_text(value) => 3,
                b"controller" if value == b"true" => 4,
                b"blockOwnerDeletion" if value == b"true" => 5,
                _ => return Ok(false),
            };
            if found & 1 << bit != 0 {
                return Ok(false);
            }
            found |= 1 << bit;
        }
        if found & TEXTS != TEXTS {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The head of a remainder. Empty as long as nothing is left out.
#[derive(Default)]
pub(super) struct Head {
    bytes: SmallVec<[u8; HEAD]>,
    place: usize,
}

impl Head {
    /// Adds the next field, in the order of the places.
    pub(super) fn push(&mut self, field: Field, place: usize) {
        if self.bytes.is_empty() {
            self.bytes.push(MARK);
        }
        self.bytes[0] += 1;
        let distance = place - std::mem::replace(&mut self.place, place);
        self.bytes.push((field as u8) << 4 | distance.min(FAR) as u8);
        if let Some(rest) = distance.checked_sub(FAR) {
            push_number(&mut self.bytes, rest);
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn push_number(out: &mut SmallVec<[u8; HEAD]>, mut number: usize) {
    while number > 0x7f {
        out.push(0x80 | (number & 0x7f) as u8);
        number >>= 7;
    }
    out.push(number as u8);
}

fn number(bytes: &mut &[u8]) -> Option<usize> {
    let (mut number, mut shift) = (0_usize, 0);
    loop {
        let byte = bytes.split_off_first()?;
        // A number that overflows comes only from a broken head.
        number |= usize::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
}

/// The fields that are left out, and their places.
struct OmittedFields {
    fields: [(Field, usize); Field::ALL.len()],
    count: usize,
}

impl OmittedFields {
    fn get(&self) -> &[(Field, usize)] {
        &self.fields[..self.count]
    }
}

/// The fields that a remainder leaves out, and its rest as JSON. `None` if the head is broken.
fn split(remainder: &[u8]) -> Option<(OmittedFields, &[u8])> {
    let mut omitted = OmittedFields { fields: [(Field::Name, 0); Field::ALL.len()], count: 0 };
    let mut rest = remainder;
    let Some(count) = remainder.first().filter(|first| **first & MARK != 0).map(|first| usize::from(first & !MARK))
    else {
        return Some((omitted, rest));
    };
    rest.split_off_first()?;
    omitted.count = count;
    let mut place = 0_usize;
    for slot in omitted.fields.get_mut(..count)? {
        let byte = rest.split_off_first()?;
        let distance = match usize::from(byte & 0x0f) {
            FAR => number(&mut rest)?.checked_add(FAR)?,
            distance => distance,
        };
        place = place.checked_add(distance)?;
        *slot = (*Field::ALL.get(usize::from(byte >> 4))?, place);
    }
    (place <= rest.len()).then_some((omitted, rest))
}

/// The rest of an object, as JSON.
pub(super) fn rest(remainder: &[u8]) -> Option<&[u8]> {
    split(remainder).map(|(_, rest)| rest)
}

/// The whole object. `None` if the remainder is broken.
pub(super) fn restore<'a>(remainder: &'a [u8], metadata: &Metadata) -> Option<Cow<'a, [u8]>> {
    let (omitted, rest) = split(remainder)?;
    if omitted.count == 0 {
        return Some(Cow::Borrowed(rest));
    }
    let texts = metadata.length();
    // Escapes make some texts longer.
    let mut whole = Vec::with_capacity(rest.len() + texts + texts / 4 + MEMBER * omitted.count);
    let mut copied = 0;
    for (field, place) in omitted.get() {
        push_rest(&mut whole, &rest[copied..*place], &rest[copied..]);
        copied = *place;
        if !matches!(last(&whole), Some(b'{' | b',')) {
            whole.push(b',');
        }
        push_member(&mut whole, *field, metadata);
    }
    push_rest(&mut whole, &rest[copied..], &rest[copied..]);
    Some(Cow::Owned(whole))
}

/// Copies a part of the rest. `follows` begins with that part, and shows what kind of place it is.
fn push_rest(whole: &mut Vec<u8>, part: &[u8], follows: &[u8]) {
    let next = || follows.iter().find(|byte| !is_white_space(**byte));
    // The members of the rest begin without a comma.
    if !whole.is_empty() && !matches!(next(), Some(b',' | b'}')) {
        whole.push(b',');
    }
    whole.extend_from_slice(part);
}

fn last(written: &[u8]) -> Option<&u8> {
    written.iter().rfind(|byte| !is_white_space(**byte))
}

fn push_member(out: &mut Vec<u8>, field: Field, metadata: &Metadata) {
    push_name(out, field.name());
    match field {
        Field::Labels => push_map(out, metadata.labels()),
        Field::Annotations => push_map(out, metadata.annotations()),
        Field::OwnerReferences => push_owners(out, metadata.owner_references()),
        Field::Generation => out.extend_from_slice(metadata.field(field).as_bytes()),
        _ => push_text(out, metadata.field(field)),
    }
}

fn push_name(out: &mut Vec<u8>, name: &str) {
    push_text(out, name);
    out.push(b':');
}

fn push_map<'a>(out: &mut Vec<u8>, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
    let mut open = b'{';
    for (key, value) in pairs {
        out.push(open);
        push_name(out, key);
        push_text(out, value);
        open = b',';
    }
    if open == b'{' {
        out.push(open);
    }
    out.push(b'}');
}

fn push_owners<'a>(out: &mut Vec<u8>, owners: impl Iterator<Item = OwnerReference<'a>>) {
    out.push(b'[');
    for (index, owner) in owners.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let texts = [("apiVersion", owner.api_version), ("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)];
        let flags = [("controller", owner.controller), ("blockOwnerDeletion", owner.block_owner_deletion)];
        push_map(out, texts.into_iter());
        for (name, _) in flags.into_iter().filter(|(_, is_set)| *is_set) {
            // Replaces the closing bracket.
            out.pop();
            out.push(b',');
            push_name(out, name);
            out.extend_from_slice(b"true}");
        }
    }
    out.push(b']');
}
