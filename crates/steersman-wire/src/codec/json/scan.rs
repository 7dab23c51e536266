//! Reads the metadata of an object and leaves out fields, in one walk over its bytes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

use super::cursor::Cursor;
use super::remainder::{Head, is_in_metadata};
use super::text::unescape;
use crate::codec::metadata::{Field, Metadata, MetadataBuilder, OwnerReference};
use crate::codec::object_error::ObjectFault;
use crate::codec::outline::Outline;
use crate::codec::strip::{Cut, Node, Strip};
use crate::codec::{Scanned, TypeMeta};

const FIELDS: usize = Field::ALL.len();
/// Few remainders have more cuts.
const CUTS: usize = 16;
/// From this many labels or annotations on, a hash table finds duplicates.
const PAIRS_FEW: usize = 16;
const OWNERS: &str = "metadata.ownerReferences";

/// What to return of an object beside its metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// The whole object.
    Whole,
    /// The fields that its metadata does not hold: see [`super::remainder`].
    Remainder,
}

/// Returns the metadata and the object without the fields that are left out.
pub(super) fn scan(
    object: &[u8],
    outline: &Outline,
    strip: &Strip,
    type_meta: Option<&TypeMeta>,
    output: Output,
) -> Result<Scanned, ObjectFault> {
    let mut walk = Walk::new(object, strip, output);
    walk.walk(outline)?;
    if walk.ambiguous && output == Output::Remainder {
        // The last of two counts, so the metadata does not hold the value that was cut out first.
        walk = Walk::new(object, strip, Output::Whole);
        walk.walk(outline)?;
    }
    let metadata = walk.metadata(type_meta)?;
    let object = walk.copy(type_meta);
    Ok(Scanned { metadata, object })
}

/// Returns the metadata only.
pub(super) fn metadata(object: &[u8]) -> Result<Metadata, ObjectFault> {
    let strip = Strip::nothing();
    let mut walk = Walk::new(object, &strip, Output::Whole);
    walk.walk(&Outline::default())?;
    walk.metadata(None)
}

/// The key of an object, for an error message. `None` if it cannot be read. The object may be cut
/// off.
pub(super) fn key(object: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(object);
    let strip = Strip::nothing();
    let mut walk = Walk::new(text.as_bytes(), &strip, Output::Whole);
    // An error does not matter: the fields before it are known.
    let _ = walk.root(&Outline::default());
    let name = walk.text(Field::Name).ok().filter(|name| !name.is_empty())?;
    let namespace = walk.text(Field::Namespace).unwrap_or_default();
    Some(if namespace.is_empty() { name.into_owned() } else { format!("{namespace}/{name}") })
}

/// The results of a walk over an object.
struct Walk<'a> {
    object: &'a [u8],
    strip: &'a Strip,
    output: Output,
    /// The place of the value of each metadata field.
    places: [Option<Range<usize>>; FIELDS],
    /// The ranges that are left out, in their order.
    cuts: SmallVec<[Range<usize>; CUTS]>,
    /// The fields that are left out because the metadata holds them, and the beginnings of their
    /// cuts.
    omitted: SmallVec<[(Field, usize); CUTS]>,
    /// Whether a field, or the metadata, occurs twice.
    ambiguous: bool,
    /// Whether there is a member `metadata`.
    has_metadata: bool,
    /// The position after the opening bracket of the object.
    inside: usize,
    /// Whether any member of the object stays.
    kept: bool,
    /// Whether `metadata` is not an object.
    wrong_metadata: bool,
}

/// The object to which members belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Metadata,
    Other,
}

impl<'a> Walk<'a> {
    fn new(object: &'a [u8], strip: &'a Strip, output: Output) -> Self {
        Self {
            object,
            strip,
            output,
            places: Default::default(),
            cuts: SmallVec::new(),
            omitted: SmallVec::new(),
            ambiguous: false,
            has_metadata: false,
            inside: 0,
            kept: false,
            wrong_metadata: false,
        }
    }

    fn walk(&mut self, outline: &Outline) -> Result<(), ObjectFault> {
        if outline.too_deep {
            return Err(ObjectFault::TooDeep);
        }
        // Most objects are ASCII, which is several times faster to check.
        if !outline.is_ascii && !self.object.is_ascii() {
            std::str::from_utf8(self.object).map_err(|error| ObjectFault::Utf8 { offset: error.valid_up_to() })?;
        }
        self.root(outline)?;
        if self.wrong_metadata {
            return Err(ObjectFault::WrongType { field: "metadata", expected: "an object" });
        }
        Ok(())
    }

    fn root(&mut self, outline: &Outline) -> Result<(), ObjectFault> {
        let mut cursor = Cursor::with_outline(self.object, outline);
        cursor.peek();
        self.inside = cursor.at() + 1;
        self.kept = self.members(&mut cursor, Some(self.strip.root()), Level::Root)?;
        cursor.end()
    }

    /// Walks over the members of the object that comes next. Returns whether any of them stays.
    fn members(&mut self, cursor: &mut Cursor<'_>, node: Option<&Node>, level: Level) -> Result<bool, ObjectFault> {
        let mut object = cursor.object()?;
        let mut kept = false;
        // A member that is cut before the first one that stays takes the comma after it along, any
        // other the comma before it.
        let mut cut_from = None;
        let mut end = cursor.at();
        while let Some(member) = cursor.member(&mut object)? {
            if let Some(start) = cut_from.take() {
                self.cuts.push(start..member.name.start);
            }
            let name = member.name.text()?;
            let mut omitted = None;
            match node.and_then(|node| node.at(&name)) {
                Some(Cut::Whole) => {
                    cursor.skip()?;
                }
                cut => {
                    let within = if let Some(Cut::Within(node)) = cut { Some(node) } else { None };
                    omitted = self.value(cursor, within, level, &name)?;
                    if omitted.is_none() {
                        kept = true;
                        continue;
                    }
                }
            }
            end = cursor.at();
            let cut = match member.comma {
                Some(comma) if kept => {
                    self.cuts.push(comma..end);
                    comma
                }
                _ => *cut_from.insert(member.name.start),
            };
            self.omitted.extend(omitted.map(|field| (field, cut)));
        }
        if let Some(start) = cut_from {
            self.cuts.push(start..end);
        }
        Ok(kept)
    }

    /// Walks over the value of a member, and records its place if it is a metadata field. Returns
    /// the field if the value is left out because the metadata holds it.
    #[inline]
    fn value(
        &mut self,
        cursor: &mut Cursor<'_>,
        node: Option<&Node>,
        level: Level,
        name: &[u8],
    ) -> Result<Option<Field>, ObjectFault> {
        if level == Level::Root && name == b"metadata" {
            self.metadata_value(cursor, node)?;
            return Ok(None);
        }
        let (start, cuts) = (cursor.at(), self.cuts.len());
        if node.is_some() && cursor.peek() == Some(b'{') {
            self.members(cursor, node, Level::Other)?;
        } else {
            cursor.skip()?;
        }
        let Some(field) = field(level, name) else { return Ok(None) };
        let place = start..cursor.at();
        self.ambiguous |= self.places[field as usize].replace(place.clone()).is_some();
        if self.output == Output::Whole || !is_in_metadata(field, &self.object[place]) {
            return Ok(None);
        }
        // This cut includes all cuts within it.
        self.cuts.truncate(cuts);
        Ok(Some(field))
    }

    fn metadata_value(&mut self, cursor: &mut Cursor<'_>, node: Option<&Node>) -> Result<(), ObjectFault> {
        self.ambiguous |= std::mem::replace(&mut self.has_metadata, true);
        // The last of two counts as a whole, so the fields of the first are forgotten.
        for (place, field) in self.places.iter_mut().enumerate() {
            if place != Field::ApiVersion as usize && place != Field::Kind as usize {
                *field = None;
            }
        }
        let first = cursor.peek();
        self.wrong_metadata = !matches!(first, Some(b'{' | b'n'));
        if first == Some(b'{') {
            return self.members(cursor, node, Level::Metadata).map(drop);
        }
        cursor.skip().map(drop)
    }

    /// The bytes of a field. `None` if it is absent or `null`.
    fn raw(&self, field: Field) -> Option<&'a [u8]> {
        self.places[field as usize].clone().map(|place| &self.object[place]).filter(|raw| *raw != b"null")
    }

    fn text(&self, field: Field) -> Result<Cow<'a, str>, ObjectFault> {
        self.raw(field).map_or(Ok(Cow::Borrowed("")), |raw| string(raw, field.path()))
    }

    fn metadata(&self, type_meta: Option<&TypeMeta>) -> Result<Metadata, ObjectFault> {
        let mut metadata = MetadataBuilder::new();
        for field in [Field::Name, Field::Namespace, Field::ResourceVersion, Field::Uid] {
            metadata.text(field, &self.text(field)?);
        }
        self.pairs(Field::Labels, "labels", &mut metadata)?;
        self.owner_references(&mut metadata)?;
        metadata.text(Field::Generation, self.generation()?);
        metadata.text(Field::DeletionTimestamp, &self.text(Field::DeletionTimestamp)?);
        self.finalizers(&mut metadata)?;
        for (field, fallback) in self.types(type_meta) {
            match fallback {
                Some(fallback) => metadata.text(field, fallback),
                None => metadata.text(field, &self.text(field)?),
            }
        }
        metadata.text(Field::CreationTimestamp, &self.text(Field::CreationTimestamp)?);
        self.pairs(Field::Annotations, "annotations", &mut metadata)?;
        Ok(metadata.build())
    }

    /// The values of the type fields that the object lacks.
    fn types<'t>(&self, type_meta: Option<&'t TypeMeta>) -> [(Field, Option<&'t str>); 2] {
        let missing = |field: Field| self.places[field as usize].is_none();
        [
            (Field::ApiVersion, type_meta.map(|types| &*types.api_version).filter(|_| missing(Field::ApiVersion))),
            (Field::Kind, type_meta.map(|types| &*types.kind).filter(|_| missing(Field::Kind))),
        ]
    }

    fn generation(&self) -> Result<&'a str, ObjectFault> {
        let Some(raw) = self.raw(Field::Generation) else { return Ok("") };
        let number = std::str::from_utf8(raw).ok().filter(|text| text.parse::<i64>().is_ok());
        number.ok_or(ObjectFault::WrongType { field: Field::Generation.path(), expected: "a whole number" })
    }

    fn pairs(&self, field: Field, name: &str, metadata: &mut MetadataBuilder) -> Result<(), ObjectFault> {
        let mut pairs = Pairs::new();
        if let Some(raw) = self.raw(field) {
            let node = self.strip.root().within("metadata").and_then(|node| node.within(name));
            let mut cursor = Cursor::new(raw);
            let wrong = ObjectFault::WrongType { field: field.path(), expected: "an object" };
            let mut object = cursor.object().map_err(|_| wrong)?;
            while let Some(member) = cursor.member(&mut object)? {
                let key = member.name.text()?;
                let value = &raw[cursor.skip()?];
                if !matches!(node.and_then(|node| node.at(&key)), Some(Cut::Whole)) {
                    pairs.push((plain_text(key)?, value));
                }
            }
        }
        drop_duplicates(&mut pairs);
        for (key, value) in &pairs {
            metadata.part(key);
            metadata.part(&string_or_null(value, field.path())?);
        }
        metadata.parts(field);
        Ok(())
    }

    fn finalizers(&self, metadata: &mut MetadataBuilder) -> Result<(), ObjectFault> {
        if let Some(raw) = self.raw(Field::Finalizers) {
            let mut cursor = Cursor::new(raw);
            let wrong = ObjectFault::WrongType { field: Field::Finalizers.path(), expected: "a list" };
            let mut list = cursor.list().map_err(|_| wrong)?;
            while cursor.element(&mut list)? {
                metadata.part(&string(&raw[cursor.skip()?], Field::Finalizers.path())?);
            }
        }
        metadata.parts(Field::Finalizers);
        Ok(())
    }

    fn owner_references(&self, metadata: &mut MetadataBuilder) -> Result<(), ObjectFault> {
        if let Some(raw) = self.raw(Field::OwnerReferences) {
            let mut cursor = Cursor::new(raw);
            let wrong = ObjectFault::WrongType { field: Field::OwnerReferences.path(), expected: "a list" };
            let mut list = cursor.list().map_err(|_| wrong)?;
            while cursor.element(&mut list)? {
                owner_reference(raw, &mut cursor, metadata)?;
            }
        }
        metadata.parts(Field::OwnerReferences);
        Ok(())
    }

    /// A copy of the object, in an allocation of exactly its size: without the ranges that are left
    /// out, and with its type or as a remainder.
    fn copy(&self, type_meta: Option<&TypeMeta>) -> Bytes {
        let (head, types) = match self.output {
            Output::Whole => (Head::default(), self.written_types(type_meta)),
            Output::Remainder => (self.head(type_meta), Vec::new()),
        };
        let left_out: usize = self.cuts.iter().map(ExactSizeIterator::len).sum();
        let mut copy = Vec::with_capacity(head.bytes().len() + self.object.len() - left_out + types.len());
        copy.extend_from_slice(head.bytes());
        copy.extend_from_slice(&self.object[..self.inside]);
        copy.extend_from_slice(&types);
        let mut copied = self.inside;
        for cut in &self.cuts {
            copy.extend_from_slice(&self.object[copied..cut.start]);
            copied = cut.end;
        }
        copy.extend_from_slice(&self.object[copied..]);
        debug_assert_eq!(copy.len(), copy.capacity());
        Bytes::from(copy)
    }

    /// The type fields that the object lacks, as JSON.
    fn written_types(&self, type_meta: Option<&TypeMeta>) -> Vec<u8> {
        let mut types = Vec::new();
        for (field, value) in self.types(type_meta) {
            if let Some(value) = value {
                let (comma, name) = (if types.is_empty() { "" } else { "," }, field.name());
                types.extend_from_slice(format!("{comma}\"{name}\":{}", serde_json::Value::from(value)).as_bytes());
            }
        }
        if !types.is_empty() && self.kept {
            types.push(b',');
        }
        types
    }

    /// The head of a remainder: the fields that the copy lacks because the metadata holds them.
    /// Type fields that were filled in are in the metadata only.
    fn head(&self, type_meta: Option<&TypeMeta>) -> Head {
        let mut head = Head::default();
        let filled_in = self.types(type_meta).into_iter().filter(|(_, value)| value.is_some());
        filled_in.for_each(|(field, _)| head.push(field, self.inside));
        let (mut cuts, mut left_out) = (self.cuts.iter().peekable(), 0);
        for (field, start) in &self.omitted {
            while let Some(cut) = cuts.next_if(|cut| cut.start < *start) {
                left_out += cut.len();
            }
            head.push(*field, start - left_out);
        }
        head
    }
}

/// The metadata field of a member.
#[inline]
fn field(level: Level, name: &[u8]) -> Option<Field> {
    Some(match (level, name) {
        (Level::Root, b"apiVersion") => Field::ApiVersion,
        (Level::Root, b"kind") => Field::Kind,
        (Level::Metadata, b"name") => Field::Name,
        (Level::Metadata, b"namespace") => Field::Namespace,
        (Level::Metadata, b"resourceVersion") => Field::ResourceVersion,
        (Level::Metadata, b"uid") => Field::Uid,
        (Level::Metadata, b"labels") => Field::Labels,
        (Level::Metadata, b"annotations") => Field::Annotations,
        (Level::Metadata, b"ownerReferences") => Field::OwnerReferences,
        (Level::Metadata, b"generation") => Field::Generation,
        (Level::Metadata, b"deletionTimestamp") => Field::DeletionTimestamp,
        (Level::Metadata, b"creationTimestamp") => Field::CreationTimestamp,
        (Level::Metadata, b"finalizers") => Field::Finalizers,
        _ => return None,
    })
}

/// The text of a string.
fn string<'a>(raw: &'a [u8], field: &'static str) -> Result<Cow<'a, str>, ObjectFault> {
    match raw {
        [b'"', text @ .., b'"'] => unescape(text),
        _ => Err(ObjectFault::WrongType { field, expected: "a text, or a map or list of texts" }),
    }
}

fn string_or_null<'a>(raw: &'a [u8], field: &'static str) -> Result<Cow<'a, str>, ObjectFault> {
    if raw == b"null" { Ok(Cow::Borrowed("")) } else { string(raw, field) }
}

fn plain_text(name: Cow<'_, [u8]>) -> Result<Cow<'_, str>, ObjectFault> {
    match name {
        // The string has no escapes; control characters are still to be checked.
        Cow::Borrowed(raw) => unescape(raw),
        Cow::Owned(text) => String::from_utf8(text)
            .map(Cow::Owned)
            .map_err(|error| ObjectFault::Utf8 { offset: error.utf8_error().valid_up_to() }),
    }
}

/// Keys, and their values as they are written.
type Pairs<'a> = SmallVec<[(Cow<'a, str>, &'a [u8]); PAIRS_FEW]>;

/// Keeps the last pair of each key.
fn drop_duplicates(pairs: &mut Pairs<'_>) {
    let is_last: Vec<bool> = if pairs.len() <= PAIRS_FEW {
        let again = |place: usize| pairs[place + 1..].iter().any(|(key, _)| *key == pairs[place].0);
        if !(0..pairs.len()).any(again) {
            return;
        }
        (0..pairs.len()).map(|place| !again(place)).collect()
    } else {
        let last: HashMap<&str, usize> = pairs.iter().enumerate().map(|(place, (key, _))| (&**key, place)).collect();
        pairs.iter().enumerate().map(|(place, (key, _))| last[&**key] == place).collect()
    };
    let mut is_last = is_last.into_iter();
    pairs.retain(|_| is_last.next().unwrap_or(true));
}

/// Reads the owner reference that comes next.
fn owner_reference(raw: &[u8], cursor: &mut Cursor<'_>, metadata: &mut MetadataBuilder) -> Result<(), ObjectFault> {
    if cursor.peek() == Some(b'n') {
        cursor.skip()?;
        metadata.owner(&OwnerReference::default());
        return Ok(());
    }
    let mut object =
        cursor.object().map_err(|_| ObjectFault::WrongType { field: OWNERS, expected: "a list of objects" })?;
    let (mut texts, mut flags) = ([&b"null"[..]; 4], [&b"null"[..]; 2]);
    while let Some(member) = cursor.member(&mut object)? {
        let name = member.name.text()?;
        let value = &raw[cursor.skip()?];
        match &*name {
            b"apiVersion" => texts[0] = value,
            b"kind" => texts[1] = value,
            b"name" => texts[2] = value,
            b"uid" => texts[3] = value,
            b"controller" => flags[0] = value,
            b"blockOwnerDeletion" => flags[1] = value,
            _ => {}
        }
    }
    let text = |place: usize| string_or_null(texts[place], OWNERS);
    metadata.owner(&OwnerReference {
        api_version: &text(0)?,
        kind: &text(1)?,
        name: &text(2)?,
        uid: &text(3)?,
        controller: flag(flags[0])?,
        block_owner_deletion: flag(flags[1])?,
    });
    Ok(())
}

fn flag(value: &[u8]) -> Result<bool, ObjectFault> {
    match value {
        b"true" => Ok(true),
        b"false" | b"null" => Ok(false),
        _ => Err(ObjectFault::WrongType { field: OWNERS, expected: "true or false where it should be" }),
    }
}
