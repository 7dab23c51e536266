//! Predicates: which changes of an object cause a reconcile.
//!
//! ```
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use steersman_runtime::kind;
//! use steersman_runtime::predicate::{AnnotationsChanged, GenerationChanged, Predicate};
//!
//! let maps = kind::<ConfigMap>().predicate(GenerationChanged.or(AnnotationsChanged));
//! # let _ = maps;
//! ```

use std::fmt;

use steersman_cache::Event;
use steersman_wire::{LabelSelector, Metadata, SelectorError};

/// A change of an object, as far as its metadata shows it.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The kind of change.
    pub kind: ChangeKind,
    /// The metadata before an update.
    pub old: Option<&'a Metadata>,
    /// The metadata now. After a deletion, the last known metadata.
    pub object: &'a Metadata,
}

/// The kind of a [`Change`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The object was created, or it existed when the controller started.
    Create,
    /// The object has changed, or a resync delivers it again.
    Update,
    /// The object was deleted.
    Delete,
}

impl<'a> Change<'a> {
    /// The change that an event describes.
    pub fn of<K>(event: &'a Event<K>) -> Self {
        let (kind, old) = match event {
            Event::Add { .. } => (ChangeKind::Create, None),
            Event::Update { old, .. } => (ChangeKind::Update, Some(old.meta())),
            Event::Delete { .. } => (ChangeKind::Delete, None),
        };
        Self { kind, old, object: event.object().meta() }
    }

    /// Returns `true` if an update has changed a part of the metadata. Creations and deletions
    /// always count as a change.
    fn differs<T: PartialEq>(&self, what: impl Fn(&'a Metadata) -> T) -> bool {
        self.old.is_none_or(|old| what(old) != what(self.object))
    }
}

/// Decides which changes cause a reconcile. A predicate sees only metadata, so that it works for
/// objects of any type. [`Kind::filter`](crate::Kind::filter) sees whole objects.
pub trait Predicate: Send + Sync + 'static {
    /// Returns `true` if the change causes a reconcile.
    fn matters(&self, change: &Change<'_>) -> bool;

    /// Both predicates accept the change.
    fn and<P: Predicate>(self, other: P) -> And<Self, P>
    where
        Self: Sized,
    {
        And(self, other)
    }

    /// At least one of the predicates accepts the change.
    fn or<P: Predicate>(self, other: P) -> Or<Self, P>
    where
        Self: Sized,
    {
        Or(self, other)
    }

    /// The predicate rejects the change.
    fn not(self) -> Not<Self>
    where
        Self: Sized,
    {
        Not(self)
    }
}

impl<F: Fn(&Change<'_>) -> bool + Send + Sync + 'static> Predicate for F {
    fn matters(&self, change: &Change<'_>) -> bool {
        self(change)
    }
}

/// Accepts updates that change `metadata.generation`. The server raises it when the spec changes,
/// and not for a change of status or metadata. A deletion timestamp raises it, too. Creations and
/// deletions are accepted.
#[derive(Debug, Clone, Copy, Default)]
pub struct GenerationChanged;

impl Predicate for GenerationChanged {
    fn matters(&self, change: &Change<'_>) -> bool {
        change.differs(Metadata::generation)
    }
}

/// Accepts updates that change labels. Creations and deletions are accepted.
#[derive(Debug, Clone, Copy, Default)]
pub struct LabelsChanged;

impl Predicate for LabelsChanged {
    fn matters(&self, change: &Change<'_>) -> bool {
        change.differs(|meta| sorted(meta.labels()))
    }
}

/// Accepts updates that change annotations. Creations and deletions are accepted.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnnotationsChanged;

impl Predicate for AnnotationsChanged {
    fn matters(&self, change: &Change<'_>) -> bool {
        change.differs(|meta| sorted(meta.annotations()))
    }
}

fn sorted<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(&'a str, &'a str)> {
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort_unstable();
    pairs
}

/// Accepts updates that change anything, which excludes resyncs. Creations and deletions are
/// accepted.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResourceVersionChanged;

impl Predicate for ResourceVersionChanged {
    fn matters(&self, change: &Change<'_>) -> bool {
        change.differs(Metadata::resource_version)
    }
}

/// Accepts changes of objects whose labels match, before or after an update.
#[derive(Debug, Clone)]
pub struct LabelsMatch(LabelSelector);

impl LabelsMatch {
    /// Parses a selector such as `app=web,tier in (a, b)`.
    pub fn parse(selector: &str) -> Result<Self, SelectorError> {
        LabelSelector::parse(selector).map(Self)
    }
}

impl Predicate for LabelsMatch {
    fn matters(&self, change: &Change<'_>) -> bool {
        let matches = |meta: &Metadata| self.0.matches(|label| meta.label(label));
        matches(change.object) || change.old.is_some_and(matches)
    }
}

/// Accepts a change that both predicates accept: [`Predicate::and`].
#[derive(Debug, Clone, Copy)]
pub struct And<A, B>(A, B);

impl<A: Predicate, B: Predicate> Predicate for And<A, B> {
    fn matters(&self, change: &Change<'_>) -> bool {
        self.0.matters(change) && self.1.matters(change)
    }
}

/// Accepts a change that at least one of the predicates accepts: [`Predicate::or`].
#[derive(Debug, Clone, Copy)]
pub struct Or<A, B>(A, B);

impl<A: Predicate, B: Predicate> Predicate for Or<A, B> {
    fn matters(&self, change: &Change<'_>) -> bool {
        self.0.matters(change) || self.1.matters(change)
    }
}

/// Accepts a change that the predicate rejects: [`Predicate::not`].
#[derive(Debug, Clone, Copy)]
pub struct Not<A>(A);

impl<A: Predicate> Predicate for Not<A> {
    fn matters(&self, change: &Change<'_>) -> bool {
        !self.0.matters(change)
    }
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "created",
            Self::Update => "updated",
            Self::Delete => "deleted",
        })
    }
}
