//! Which changes matter.

use std::fmt;

use steersman_cache::Event;
use steersman_wire::{LabelSelector, Metadata, SelectorError};

/// What a predicate is asked about: a change, as far as the metadata tell.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// What happened.
    pub kind: ChangeKind,
    /// The metadata before, of an update.
    pub old: Option<&'a Metadata>,
    /// The metadata now, or the last ones known.
    pub object: &'a Metadata,
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It is there.
    Create,
    /// It has changed, or is told of again.
    Update,
    /// It is gone.
    Delete,
}

impl<'a> Change<'a> {
    /// The change that an event tells of.
    pub fn of<K>(event: &'a Event<K>) -> Self {
        let (kind, old) = match event {
            Event::Add { .. } => (ChangeKind::Create, None),
            Event::Update { old, .. } => (ChangeKind::Update, Some(old.meta())),
            Event::Delete { .. } => (ChangeKind::Delete, None),
        };
        Self { kind, old, object: event.object().meta() }
    }

    /// Whether something about an update is different. Creations and deletions always are.
    fn differs<T: PartialEq>(&self, what: impl Fn(&'a Metadata) -> T) -> bool {
        self.old.is_none_or(|old| what(old) != what(self.object))
    }
}

/// Says which changes matter. It sees the metadata only, so that it fits objects of any type; for a predicate on objects see
/// [`Kind::filter`](crate::Kind::filter).
pub trait Predicate: Send + Sync + 'static {
    /// Whether the change matters.
    fn matters(&self, change: &Change<'_>) -> bool;

    /// Both have to agree.
    fn and<P: Predicate>(self, other: P) -> And<Self, P>
    where
        Self: Sized,
    {
        And(self, other)
    }

    /// One has to agree.
    fn or<P: Predicate>(self, other: P) -> Or<Self, P>
    where
        Self: Sized,
    {
        Or(self, other)
    }

    /// The opposite.
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

/// Updates that changed `metadata.generation`, which is raised when the spec changes and not for status or metadata. Creations and
/// deletions matter, and so does the deletion mark: it raises the generation as well.
#[derive(Debug, Clone, Copy, Default)]
pub struct GenerationChanged;

impl Predicate for GenerationChanged {
    fn matters(&self, change: &Change<'_>) -> bool {
        change.differs(Metadata::generation)
    }
}

/// Updates that changed labels. Creations and deletions matter.
#[derive(Debug, Clone, Copy, Default)]
pub struct LabelsChanged;

impl Predicate for LabelsChanged {
    fn matters(&self, change: &Change<'_>) -> bool {
        change.differs(|meta| sorted(meta.labels()))
    }
}

/// Updates that changed annotations. Creations and deletions matter.
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

/// Updates that changed anything: all but resyncs. Creations and deletions matter.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResourceVersionChanged;

impl Predicate for ResourceVersionChanged {
    fn matters(&self, change: &Change<'_>) -> bool {
        change.differs(Metadata::resource_version)
    }
}

/// Objects whose labels match, before or after an update.
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

/// Both have to agree.
#[derive(Debug, Clone, Copy)]
pub struct And<A, B>(A, B);

impl<A: Predicate, B: Predicate> Predicate for And<A, B> {
    fn matters(&self, change: &Change<'_>) -> bool {
        self.0.matters(change) && self.1.matters(change)
    }
}

/// One has to agree.
#[derive(Debug, Clone, Copy)]
pub struct Or<A, B>(A, B);

impl<A: Predicate, B: Predicate> Predicate for Or<A, B> {
    fn matters(&self, change: &Change<'_>) -> bool {
        self.0.matters(change) || self.1.matters(change)
    }
}

/// The opposite.
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
