//! The definition of an index.

use std::fmt;
use std::sync::Arc;

use steersman_wire::{FieldPath, Json, Metadata, Value};

use crate::{Cached, DecodeError, Object};

/// By what objects are found: any number of values that are read from each object on arrival.
///
/// The values of an object are stored, so that changing or deleting it does not read it again. A
/// value that an object has twice counts once. Only [`Index::function`] decodes.
pub struct Index<K>(Source<K>);

type ByMetadata = dyn Fn(&Metadata) -> Vec<String> + Send + Sync;
type ByObject<K> = dyn Fn(&K) -> Vec<String> + Send + Sync;

enum Source<K> {
    Namespace,
    Label(String),
    Annotation(String),
    OwnerUid,
    Path(FieldPath),
    Metadata(Arc<ByMetadata>),
    Function(Arc<ByObject<K>>),
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Source::Namespace => Source::Namespace,
            Source::Label(key) => Source::Label(key.clone()),
            Source::Annotation(key) => Source::Annotation(key.clone()),
            Source::OwnerUid => Source::OwnerUid,
            Source::Path(path) => Source::Path(path.clone()),
            Source::Metadata(function) => Source::Metadata(Arc::clone(function)),
            Source::Function(function) => Source::Function(Arc::clone(function)),
        })
    }
}

impl<K> Index<K> {
    /// By the namespace; empty for a cluster-scoped object.
    pub(super) fn namespace() -> Self {
        Self(Source::Namespace)
    }

    /// By the value of a label.
    pub fn label(key: impl Into<String>) -> Self {
        Self(Source::Label(key.into()))
    }

    /// By the value of an annotation.
    pub fn annotation(key: impl Into<String>) -> Self {
        Self(Source::Annotation(key.into()))
    }

    /// By the uid of each owner.
    pub fn owner_uid() -> Self {
        Self(Source::OwnerUid)
    }

    /// By one field, which is read from the bytes: strings, numbers as they are written, `true` and
    /// `false`. `null`, lists and objects are no values. With
    /// [`StorageMode::Decoded`](crate::StorageMode::Decoded), each object is encoded for this on
    /// arrival.
    pub fn path(path: FieldPath) -> Self {
        Self(Source::Path(path))
    }

    /// By the results of a function of the metadata.
    pub fn metadata(function: impl Fn(&Metadata) -> Vec<String> + Send + Sync + 'static) -> Self {
        Self(Source::Metadata(Arc::new(function)))
    }

    /// By the results of a function of the object, which is decoded for this once, on arrival. An
    /// object that does not fit `K` has no values in this index, and an informer reports it.
    pub fn function(function: impl Fn(&K) -> Vec<String> + Send + Sync + 'static) -> Self {
        Self(Source::Function(Arc::new(function)))
    }

    /// Whether both give every object the same values. Of functions, only clones are equal.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Source::Namespace, Source::Namespace) | (Source::OwnerUid, Source::OwnerUid) => true,
            (Source::Label(ours), Source::Label(theirs)) | (Source::Annotation(ours), Source::Annotation(theirs)) => {
                ours == theirs
            }
            (Source::Path(ours), Source::Path(theirs)) => ours == theirs,
            (Source::Metadata(ours), Source::Metadata(theirs)) => Arc::ptr_eq(ours, theirs),
            (Source::Function(ours), Source::Function(theirs)) => Arc::ptr_eq(ours, theirs),
            _ => false,
        }
    }

    /// Whether it calls a user function.
    pub(crate) fn is_function(&self) -> bool {
        matches!(self.0, Source::Metadata(_) | Source::Function(_))
    }
}

impl<K: Object> Index<K> {
    /// Replaces `values` by those of an object. An object that has to be decoded and cannot be has
    /// none.
    pub(crate) fn read(&self, object: &Cached<K>, values: &mut Values) -> Result<(), DecodeError> {
        values.clear();
        let meta = object.meta();
        match &self.0 {
            Source::Namespace => values.push(meta.namespace()),
            Source::Label(key) => values.extend(meta.label(key)),
            Source::Annotation(key) => values.extend(meta.annotation(key)),
            Source::OwnerUid => values.extend(meta.owner_references().map(|owner| owner.uid)),
            Source::Path(path) => read_path(object, path, values)?,
            Source::Metadata(function) => values.extend(function(meta)),
            Source::Function(function) => values.extend(function(&*object.get()?)),
        }
        Ok(())
    }
}

fn read_path<K: Object>(object: &Cached<K>, path: &FieldPath, values: &mut Values) -> Result<(), DecodeError> {
    object.with_bytes_of(path, |bytes| match Json.read(bytes, path) {
        Ok(Some(Value::String(text))) => values.push(&text),
        Ok(Some(Value::Number(text))) => values.push(text),
        Ok(Some(Value::Bool(value))) => values.push(if value { "true" } else { "false" }),
        Ok(Some(Value::Null | Value::Raw(_)) | None) | Err(_) => {}
    })
}

impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Namespace => f.write_str("namespace"),
            Source::Label(key) => write!(f, "label {key}"),
            Source::Annotation(key) => write!(f, "annotation {key}"),
            Source::OwnerUid => f.write_str("uid of each owner"),
            Source::Path(path) => write!(f, "path {path}"),
            Source::Metadata(_) => f.write_str("function of the metadata"),
            Source::Function(_) => f.write_str("function of the object"),
        }
    }
}

/// The values of one object, in one allocation that is reused for the next one.
#[derive(Default)]
pub(crate) struct Values {
    text: String,
    ends: Vec<usize>,
}

impl Values {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |end| &self.text[std::mem::replace(&mut start, *end)..*end])
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    pub(super) fn push(&mut self, value: &str) {
        self.text.push_str(value);
        self.ends.push(self.text.len());
    }

    fn extend<T: AsRef<str>>(&mut self, values: impl IntoIterator<Item = T>) {
        values.into_iter().for_each(|value| self.push(value.as_ref()));
    }
}
