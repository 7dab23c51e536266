//! The metadata of an object.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use crate::codec::shared_texts::{Scratch, SharedText, SharedTexts};

/// The metadata and the type of an object.
///
/// A cache stores it for every object, so it is small: one allocation for everything except what it
/// [shares](Self::share) with others. As in Go, an absent text is the empty text.
///
/// ```
/// use steersman_wire::Json;
///
/// let pod = br#"{"kind":"Pod","metadata":{"name":"web-0","namespace":"shop","labels":{"app":"web"}},"spec":{}}"#;
/// let metadata = Json.metadata(pod)?;
/// assert_eq!((metadata.namespace(), metadata.name()), ("shop", "web-0"));
/// assert_eq!(metadata.label("app"), Some("web"));
/// assert_eq!(metadata.uid(), "");
/// # Ok::<(), steersman_wire::ObjectError>(())
/// ```
///
/// The test `metadata_is_small` checks its size.
#[derive(Clone, Default)]
pub struct Metadata {
    /// The fields in the order of [`Field`], each after its length (see [`length_chars`]).
    own: Box<str>,
    /// The labels, annotations and owners that are not in `own`: a letter for which of them, then
    /// the same text as there.
    shared: Box<[SharedText]>,
}

const LABEL: &str = "l";
const ANNOTATION: &str = "a";
const OWNERS: &str = "o";

/// The fields in their order. The most used ones come first, because each is found by stepping over
/// those before it.
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

impl Field {
    pub(crate) const ALL: [Self; 13] = [
        Self::Name,
        Self::Namespace,
        Self::ResourceVersion,
        Self::Uid,
        Self::Labels,
        Self::OwnerReferences,
        Self::Generation,
        Self::DeletionTimestamp,
        Self::Finalizers,
        Self::ApiVersion,
        Self::Kind,
        Self::CreationTimestamp,
        Self::Annotations,
    ];

    /// The path of the field in an object.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Name => "metadata.name",
            Self::Namespace => "metadata.namespace",
            Self::ResourceVersion => "metadata.resourceVersion",
            Self::Uid => "metadata.uid",
            Self::Labels => "metadata.labels",
            Self::OwnerReferences => "metadata.ownerReferences",
            Self::Generation => "metadata.generation",
            Self::DeletionTimestamp => "metadata.deletionTimestamp",
            Self::Finalizers => "metadata.finalizers",
            Self::ApiVersion => "apiVersion",
            Self::Kind => "kind",
            Self::CreationTimestamp => "metadata.creationTimestamp",
            Self::Annotations => "metadata.annotations",
        }
    }

    /// The name of the member.
    pub(crate) fn name(self) -> &'static str {
        let path = self.path();
        path.strip_prefix("metadata.").unwrap_or(path)
    }
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

    /// `namespace/name`, or the name alone without a namespace: the key of an object in client-go.
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

    /// `metadata.deletionTimestamp`, as it is written. `None` if the object is not being deleted.
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
        pairs(self.field(Field::Labels)).chain(self.shared(LABEL).flat_map(pairs))
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// `metadata.annotations`: each key once, with its value.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.field(Field::Annotations)).chain(self.shared(ANNOTATION).flat_map(pairs))
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// `metadata.finalizers`, in their order.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        texts(self.field(Field::Finalizers))
    }

    /// `metadata.ownerReferences`, in their order.
    pub fn owner_references(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        let own = self.field(Field::OwnerReferences);
        let mut texts = texts(self.shared(OWNERS).next().unwrap_or(own));
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

    /// How many bytes of memory it has allocated, without shared texts.
    pub fn memory(&self) -> usize {
        self.own.len() + size_of_val(&*self.shared)
    }

    /// The same metadata, but with the labels, annotations and owners that many objects have in
    /// common stored in `texts`. It halves the memory of the Pods of one workload.
    #[must_use]
    pub fn share(self, texts: &SharedTexts) -> Self {
        texts.sharing(|share, scratch| {
            let Scratch { own, section, part, shared } = scratch;
            let mut share = |class: &str, text: &str| {
                part.clear();
                part.push_str(class);
                part.push_str(text);
                share(part).map(|text| shared.push(text)).is_some()
            };
            for (place, text) in self::texts(&self.own).enumerate() {
                if place == Field::Labels as usize {
                    push_unshared(own, section, text, |pair| share(LABEL, pair));
                } else if place == Field::Annotations as usize {
                    push_unshared(own, section, text, |pair| share(ANNOTATION, pair));
                } else if place == Field::OwnerReferences as usize && share(OWNERS, text) {
                    push_text(own, "");
                } else {
                    push_text(own, text);
                }
            }
            if shared.is_empty() {
                return self;
            }
            shared.extend_from_slice(&self.shared);
            Self { own: own.as_str().into(), shared: shared.as_slice().into() }
        })
    }

    /// Roughly the total length of its texts.
    pub(crate) fn length(&self) -> usize {
        self.own.len() + self.shared.iter().map(|text| text.get().len()).sum::<usize>()
    }

    /// A field as it is stored. For a single text, that text.
    pub(crate) fn field(&self, field: Field) -> &str {
        texts(&self.own).nth(field as usize).unwrap_or_default()
    }

    /// The shared texts of a class.
    fn shared(&self, class: &'static str) -> impl Iterator<Item = &str> {
        self.shared.iter().filter_map(move |text| text.get().strip_prefix(class))
    }
}

impl PartialEq for Metadata {
    /// Whether both have the same contents, shared or not.
    fn eq(&self, other: &Self) -> bool {
        if self.shared.is_empty() && other.shared.is_empty() {
            return self.own == other.own;
        }
        let shared = [Field::Labels, Field::OwnerReferences, Field::Annotations].map(|field| field as usize);
        let is_plain = |(place, _): &(usize, &str)| !shared.contains(place);
        texts(&self.own).enumerate().filter(is_plain).eq(texts(&other.own).enumerate().filter(is_plain))
            && self.labels().collect::<BTreeMap<_, _>>() == other.labels().collect()
            && self.annotations().collect::<BTreeMap<_, _>>() == other.annotations().collect()
            && self.owner_references().eq(other.owner_references())
    }
}

impl Eq for Metadata {}

/// Annotations are printed by their keys: `kubectl apply` stores the whole object, which may be a
/// Secret, in one of them.
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
            .field("annotations", &self.annotations().map(|(key, _)| key).collect::<Vec<_>>())
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
    /// Whether this owner manages the object.
    pub controller: bool,
    /// Whether foreground deletion of the owner waits until this object is deleted.
    pub block_owner_deletion: bool,
}

const CONTROLLER: u8 = b'c';
const BLOCK_OWNER_DELETION: u8 = b'b';

thread_local! {
    /// The buffer in which the next metadata is built.
    static TEXT: Cell<String> = const { Cell::new(String::new()) };
}

/// A larger buffer is not kept: some objects are huge.
const TEXT_MAX: usize = 16 << 10;

/// Builds metadata, field by field in their order.
pub(crate) struct MetadataBuilder {
    text: String,
    /// Where the field begins whose parts are being added.
    section: usize,
    written: usize,
}

impl MetadataBuilder {
    pub(crate) fn new() -> Self {
        // There is no buffer while a thread ends.
        let mut text = TEXT.try_with(Cell::take).unwrap_or_default();
        text.clear();
        Self { text, section: 0, written: 0 }
    }

    /// Adds the next field, a plain text.
    pub(crate) fn text(&mut self, field: Field, text: &str) {
        self.turn(field);
        push_text(&mut self.text, text);
        self.section = self.text.len();
    }

    /// Adds the next field, which consists of the parts added by [`Self::part`] and
    /// [`Self::owner`].
    pub(crate) fn parts(&mut self, field: Field) {
        self.turn(field);
        for (place, char) in length_chars(self.text.len() - self.section).enumerate() {
            self.text.insert(self.section + place, char);
        }
        self.section = self.text.len();
    }

    pub(crate) fn part(&mut self, text: &str) {
        push_text(&mut self.text, text);
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
        debug_assert_eq!(self.written, Field::ALL.len(), "a field is missing");
        let metadata = Metadata { own: self.text.as_str().into(), shared: Box::default() };
        if self.text.capacity() <= TEXT_MAX {
            let _ = TEXT.try_with(|text| text.set(self.text));
        }
        metadata
    }

    fn turn(&mut self, field: Field) {
        debug_assert_eq!(self.written, field as usize, "{field:?} is not next");
        self.written += 1;
    }
}

/// Appends the pairs of a text that are not shared.
fn push_unshared(out: &mut String, unshared: &mut String, text: &str, mut share: impl FnMut(&str) -> bool) {
    unshared.clear();
    let (mut rest, mut pairs) = (text, pairs(text));
    while pairs.next().is_some() {
        let pair = &rest[..rest.len() - pairs.rest().len()];
        rest = pairs.rest();
        if !share(pair) {
            unshared.push_str(pair);
        }
    }
    push_text(out, unshared);
}

fn push_text(out: &mut String, text: &str) {
    length_chars(text.len()).for_each(|char| out.push(char));
    out.push_str(text);
}

/// Six bits of the length in each byte, the lowest first; bit 6 marks that more follow. So every
/// byte is an ASCII character, and the result is a text.
fn length_chars(length: usize) -> impl Iterator<Item = char> {
    let mut rest = Some(length);
    std::iter::from_fn(move || {
        let length = rest.take()?;
        let low = (length & 0x3f) as u8;
        rest = (length > 0x3f).then_some(length >> 6);
        Some(char::from(if rest.is_some() { 0x40 | low } else { low }))
    })
}

/// The texts of a sequence in which each follows its length.
fn texts(rest: &str) -> Texts<'_> {
    Texts { rest }
}

struct Texts<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Texts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (mut length, mut size, mut more) = (0, 0, true);
        while more {
            let byte = *self.rest.as_bytes().get(size)?;
            length |= usize::from(byte & 0x3f) << (6 * size);
            more = byte & 0x40 != 0;
            size += 1;
        }
        let (text, after) = self.rest[size..].split_at_checked(length)?;
        self.rest = after;
        Some(text)
    }
}

/// The texts in pairs.
fn pairs(section: &str) -> Pairs<'_> {
    Pairs(texts(section))
}

struct Pairs<'a>(Texts<'a>);

impl<'a> Pairs<'a> {
    /// The unread rest.
    fn rest(&self) -> &'a str {
        self.0.rest
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.next()?, self.0.next()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Json;

    #[test]
    fn texts_of_any_length_come_back() {
        let long = "é".repeat(70_000);
        let written = ["", "a", &"b".repeat(63), &"c".repeat(64), &"d".repeat(4096), &long];
        let mut out = String::new();
        written.iter().for_each(|text| push_text(&mut out, text));
        assert_eq!(texts(&out).collect::<Vec<_>>(), written);
    }

    #[test]
    fn fields_are_in_their_order() {
        assert!(Field::ALL.iter().enumerate().all(|(place, field)| *field as usize == place));
    }

    fn pod(number: u32) -> String {
        format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"web-{number}","uid":"u-{number}",
            "labels":{{"app.kubernetes.io/name":"web","a":"b","number":"{number}-{number}-{number}-{number}"}},
            "annotations":{{"prometheus.io/scrape":"true"}},"ownerReferences":[{{"kind":"ReplicaSet","name":"web-1","uid":"o"}},
            {{"kind":"Node","name":"n1","uid":"p","controller":true}}]}}}}"#
        )
    }

    #[test]
    fn shared_metadata_is_equal_and_smaller() {
        let texts = SharedTexts::new();
        for number in 0..5 {
            let alone = Json.metadata(pod(number).as_bytes()).unwrap();
            let shared = alone.clone().share(&texts);
            assert_eq!((shared.name(), shared.kind(), shared.uid()), (alone.name(), "Pod", alone.uid()));
            for key in ["app.kubernetes.io/name", "a", "number", "none"] {
                assert_eq!(shared.label(key), alone.label(key), "{key}");
            }
            assert_eq!((shared.labels().count(), shared.annotations().count()), (3, 1));
            assert_eq!(shared.annotation("prometheus.io/scrape"), Some("true"));
            assert!(shared.owner_references().eq(alone.owner_references()));
            assert_eq!(shared.controller().map(|owner| owner.name), Some("n1"));
            assert_eq!(shared.memory() < alone.memory(), number > 0, "{number}: {shared:?}");
            assert_eq!((&shared, &shared.clone().share(&texts)), (&alone, &alone));
            assert_ne!(shared, Json.metadata(pod(number + 1).as_bytes()).unwrap());
        }
    }

    #[test]
    fn empty_metadata_has_nothing() {
        let metadata = Metadata::default();
        assert_eq!((metadata.name(), metadata.kind(), metadata.generation()), ("", "", None));
        assert_eq!(metadata.labels().count() + metadata.finalizers().count() + metadata.owner_references().count(), 0);
    }
}
