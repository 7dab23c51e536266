//! What is known of an object without decoding it.

use std::fmt;
use std::sync::Arc;

/// An object's metadata, and what type of object it is.
///
/// It is kept for every object of a cache, so it is small: a pointer and a length here, and one allocation that holds
/// everything, which clones share. What an object does not have is the empty text, as in Go.
///
/// ```
/// use steersman_wire::{Codec, Json};
///
/// let pod = br#"{"kind":"Pod","metadata":{"name":"web-0","namespace":"shop","labels":{"app":"web"}},"spec":{}}"#;
/// let metadata = Json.metadata(pod)?;
/// assert_eq!((metadata.namespace(), metadata.name()), ("shop", "web-0"));
/// assert_eq!(metadata.label("app"), Some("web"));
/// assert_eq!(metadata.uid(), "");
/// # Ok::<(), steersman_wire::ObjectError>(())
/// ```
///
/// Its size is held by the test `metadata_is_small`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Metadata {
    /// The fields in the order of [`Field`], each after its length (see [`push_length`]).
    text: Arc<str>,
}

/// The fields in their order: those that are asked for most come first, because each is found by stepping over those
/// before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Field {
    Name,
    Namespace,
    ResourceVersion,
    Uid,
    Labels,
    OwnerReferences,
    Generation,
    DeletionTimestamp,
    Finalizers,
    ApiVersion,
    Kind,
    CreationTimestamp,
    Annotations,
}

impl Metadata {
    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.field(Field::Name)
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.field(Field::Namespace)
    }

    /// `namespace/name`, or the name alone when there is no namespace: what client-go calls an object's key.
    pub fn key(&self) -> String {
        match self.namespace() {
            "" => self.name().to_owned(),
            namespace => format!("{namespace}/{}", self.name()),
        }
    }

    /// `metadata.resourceVersion`.
    pub fn resource_version(&self) -> &str {
        self.field(Field::ResourceVersion)
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.field(Field::Uid)
    }

    /// `metadata.generation`.
    pub fn generation(&self) -> Option<i64> {
        self.field(Field::Generation).parse().ok()
    }

    /// `metadata.creationTimestamp`, as it is written.
    pub fn creation_timestamp(&self) -> &str {
        self.field(Field::CreationTimestamp)
    }

    /// `metadata.deletionTimestamp`, as it is written, of an object that is being deleted.
    pub fn deletion_timestamp(&self) -> Option<&str> {
        Some(self.field(Field::DeletionTimestamp)).filter(|timestamp| !timestamp.is_empty())
    }

    /// `apiVersion`: group and version.
    pub fn api_version(&self) -> &str {
        self.field(Field::ApiVersion)
    }

    /// `kind`.
    pub fn kind(&self) -> &str {
        self.field(Field::Kind)
    }

    /// `metadata.labels`: each key once, with its value.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.field(Field::Labels))
    }

    /// A label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// `metadata.annotations`: each key once, with its value.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.field(Field::Annotations))
    }

    /// An annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// `metadata.finalizers`, in their order.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        texts(self.field(Field::Finalizers))
    }

    /// `metadata.ownerReferences`, in their order.
    pub fn owner_references(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        let mut texts = texts(self.field(Field::OwnerReferences));
        std::iter::from_fn(move || {
            let flags = texts.next()?.as_bytes();
            let mut text = || texts.next().unwrap_or_default();
            Some(OwnerReference {
                api_version: text(),
                kind: text(),
                name: text(),
                uid: text(),
                controller: flags.contains(&CONTROLLER),
                block_owner_deletion: flags.contains(&BLOCK_OWNER_DELETION),
            })
        })
    }

    /// The owner that controls this object.
    pub fn controller(&self) -> Option<OwnerReference<'_>> {
        self.owner_references().find(|owner| owner.controller)
    }

    /// How many bytes of memory all this takes, shared with its clones.
    pub fn memory(&self) -> usize {
        // The two counters of an `Arc`.
        self.text.len() + 2 * size_of::<usize>()
    }

    fn field(&self, field: Field) -> &str {
        texts(&self.text).nth(field as usize).unwrap_or_default()
    }
}

impl Default for Metadata {
    fn default() -> Self {
        Self { text: Arc::from("") }
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metadata")
            .field("api_version", &self.api_version())
            .field("kind", &self.kind())
            .field("name", &self.name())
            .field("namespace", &self.namespace())
            .field("uid", &self.uid())
            .field("resource_version", &self.resource_version())
            .field("generation", &self.generation())
            .field("creation_timestamp", &self.creation_timestamp())
            .field("deletion_timestamp", &self.deletion_timestamp())
            .field("labels", &self.labels().collect::<Vec<_>>())
            .field("annotations", &self.annotations().collect::<Vec<_>>())
            .field("owner_references", &self.owner_references().collect::<Vec<_>>())
            .field("finalizers", &self.finalizers().collect::<Vec<_>>())
            .finish()
    }
}

/// One of `metadata.ownerReferences`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OwnerReference<'a> {
    /// The owner's group and version.
    pub api_version: &'a str,
    /// The owner's kind.
    pub kind: &'a str,
    /// The owner's name.
    pub name: &'a str,
    /// The owner's uid.
    pub uid: &'a str,
    /// Whether this owner is the one that manages the object.
    pub controller: bool,
    /// Whether the owner stays, when deleted in the foreground, until this object is gone.
    pub block_owner_deletion: bool,
}

const CONTROLLER: u8 = b'c';
const BLOCK_OWNER_DELETION: u8 = b'b';

/// Puts metadata together, field by field in their order.
#[derive(Debug, Default)]
pub(crate) struct MetadataBuilder {
    text: String,
    section: String,
    written: usize,
}

impl MetadataBuilder {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), section: String::with_capacity(bytes / 2), written: 0 }
    }

    /// The next field, a plain text.
    pub(crate) fn text(&mut self, field: Field, text: &str) {
        self.turn(field);
        push_text(&mut self.text, text);
    }

    /// The next field, of several parts that [`Self::part`] and [`Self::owner`] have gathered.
    pub(crate) fn parts(&mut self, field: Field) {
        self.turn(field);
        push_text(&mut self.text, &self.section);
        self.section.clear();
    }

    pub(crate) fn part(&mut self, text: &str) {
        push_text(&mut self.section, text);
    }

    pub(crate) fn owner(&mut self, owner: &OwnerReference<'_>) {
        let flags = match (owner.controller, owner.block_owner_deletion) {
            (true, true) => "cb",
            (true, false) => "c",
            (false, true) => "b",
            (false, false) => "",
        };
        for text in [flags, owner.api_version, owner.kind, owner.name, owner.uid] {
            self.part(text);
        }
    }

    pub(crate) fn build(self) -> Metadata {
        debug_assert_eq!(self.written, Field::Annotations as usize + 1, "a field is missing");
        Metadata { text: Arc::from(self.text) }
    }

    fn turn(&mut self, field: Field) {
        debug_assert_eq!(self.written, field as usize, "{field:?} is not next");
        self.written += 1;
    }
}

fn push_text(out: &mut String, text: &str) {
    push_length(out, text.len());
    out.push_str(text);
}

/// Six bits of the length in each byte, the lowest first; bit 6 says that more follow. So every byte is an ASCII character,
/// and all of it a text.
fn push_length(out: &mut String, mut length: usize) {
    while length > 0x3f {
        out.push(char::from(0x40 | (length & 0x3f) as u8));
        length >>= 6;
    }
    out.push(char::from(length as u8));
}

/// The texts that stand one after the other, each after its length.
fn texts(mut rest: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (mut length, mut size, mut more) = (0, 0, true);
        while more {
            let byte = *rest.as_bytes().get(size)?;
            length |= usize::from(byte & 0x3f) << (6 * size);
            more = byte & 0x40 != 0;
            size += 1;
        }
        let (text, after) = rest[size..].split_at_checked(length)?;
        rest = after;
        Some(text)
    })
}

fn pairs(section: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut texts = texts(section);
    std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_any_length_come_back() {
        let long = "é".repeat(70_000);
        let written = ["", "a", &"b".repeat(63), &"c".repeat(64), &"d".repeat(4096), &long];
        let mut out = String::new();
        written.iter().for_each(|text| push_text(&mut out, text));
        assert_eq!(texts(&out).collect::<Vec<_>>(), written);
    }

    #[test]
    fn empty_metadata_has_nothing() {
        let metadata = Metadata::default();
        assert_eq!((metadata.name(), metadata.kind(), metadata.generation()), ("", "", None));
        assert_eq!(metadata.labels().count() + metadata.finalizers().count() + metadata.owner_references().count(), 0);
    }
}
