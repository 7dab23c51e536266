//! Why a key is reconciled.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use steersman_cache::{Cached, Event, Object, ObjectKey};
use steersman_workqueue::Payload;
use tracing::Span;

/// How many causes of a key are kept; later ones are counted.
pub(crate) const CAUSES_MAX: usize = 4;

/// Where a key comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A watch of the controller's own kind.
    Primary,
    /// A watch of objects that the controller owns.
    Owned,
    /// A watch with a function that returns the keys.
    Mapped,
    /// A source or channel of the program.
    Custom,
    /// [`Action::requeue_after`](crate::Action::requeue_after).
    RequeueAfter,
    /// A failed reconcile.
    Retry,
    /// [`Controller::enqueue`](crate::Controller::enqueue).
    Manual,
    /// This replica leads again.
    NewTerm,
}

impl Source {
    /// In the order of their declaration.
    pub(crate) const ALL: [Self; 8] = [
        Self::Primary,
        Self::Owned,
        Self::Mapped,
        Self::Custom,
        Self::RequeueAfter,
        Self::Retry,
        Self::Manual,
        Self::NewTerm,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Owned => "owned",
            Self::Mapped => "mapped",
            Self::Custom => "source",
            Self::RequeueAfter => "requeue_after",
            Self::Retry => "retry",
            Self::Manual => "enqueue",
            Self::NewTerm => "new_term",
        }
    }
}

/// What a watch has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventType {
    /// The source is no watch.
    None,
    /// The object was there when the watch began.
    Initial,
    Added,
    Updated,
    Deleted,
    /// The object has not changed.
    Resync,
}

impl EventType {
    pub(crate) fn of<K: Object>(event: &Event<K>) -> Self {
        match event {
            Event::Add { initial: true, .. } => Self::Initial,
            Event::Add { initial: false, .. } => Self::Added,
            Event::Update { old, new } if old.is_same_state(new) => Self::Resync,
            Event::Update { .. } => Self::Updated,
            Event::Delete { .. } => Self::Deleted,
        }
    }

    pub(crate) fn as_str(self) -> Option<&'static str> {
        Some(match self {
            Self::None => return None,
            Self::Initial => "initial",
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Resync => "resync",
        })
    }
}

/// A source of a controller, and the kind that it watches.
#[derive(Debug)]
pub(crate) struct SourceInfo {
    pub(crate) source: Source,
    /// Empty if the source watches nothing.
    pub(crate) kind: String,
}

impl SourceInfo {
    pub(crate) fn new(source: Source, kind: &str) -> Arc<Self> {
        Arc::new(Self { source, kind: kind.to_owned() })
    }

    /// A source that watches nothing.
    fn without_kind(source: Source) -> &'static Arc<Self> {
        static INFOS: LazyLock<[Arc<SourceInfo>; Source::ALL.len()]> =
            LazyLock::new(|| Source::ALL.map(|source| SourceInfo::new(source, "")));
        &INFOS[source as usize]
    }
}

/// One reason to reconcile a key.
#[derive(Debug, Clone)]
pub(crate) struct Cause {
    pub(crate) source: Arc<SourceInfo>,
    pub(crate) event: EventType,
    /// The object of the event. `None` if it is the one to reconcile.
    pub(crate) object: Option<ObjectKey>,
    /// The version of that object, if it is a number; otherwise 0.
    pub(crate) version: u64,
    /// When the key was added. For a delayed key, when its delay ends.
    pub(crate) at: Option<Instant>,
}

impl Cause {
    /// The queue adds the time.
    pub(crate) fn new(source: &Arc<SourceInfo>) -> Self {
        Self { source: Arc::clone(source), event: EventType::None, object: None, version: 0, at: None }
    }

    /// A call, a timer or another source that watches nothing.
    pub(crate) fn of_call(source: Source, at: Option<Instant>) -> Self {
        Self { at, ..Self::new(SourceInfo::without_kind(source)) }
    }

    /// An event of an object, which is about another key if `is_other`.
    pub(crate) fn of_event<K>(source: &Arc<SourceInfo>, event: EventType, object: &Cached<K>, is_other: bool) -> Self {
        Self {
            source: Arc::clone(source),
            event,
            object: is_other.then(|| object.key()),
            version: version_number(object.meta().resource_version()),
            at: None,
        }
    }

    /// The object that changed, if a watch has shown a change.
    pub(crate) fn changed<'a>(&'a self, key: &'a ObjectKey) -> Option<(&'a ObjectKey, u64)> {
        let is_change = matches!(self.event, EventType::Added | EventType::Updated);
        (is_change && self.version != 0).then(|| (self.object.as_ref().unwrap_or(key), self.version))
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.object.as_ref().map_or(0, key_bytes)
    }
}

impl fmt::Display for Cause {
    /// `updated ConfigMap default/a, version 7 (owned)`, or the source alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = self.source.source.as_str();
        let Some(event) = self.event.as_str() else { return f.write_str(source) };
        write!(f, "{event} {}", self.source.kind)?;
        if let Some(object) = &self.object {
            write!(f, " {object}")?;
        }
        if self.version != 0 {
            write!(f, ", version {}", self.version)?;
        }
        write!(f, " ({source})")
    }
}

/// The bytes of a key on the heap.
pub(super) fn key_bytes(key: &ObjectKey) -> usize {
    2 * size_of::<usize>() + key.as_str().len()
}

/// A version as a number; 0 if it is none.
pub(crate) fn version_number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

/// The causes of a key: the first few, and how many came after them.
///
/// A queue holds one for each of its keys. For a key that was there from the start, which may be
/// one of a million, and for one that no watch has added, it needs no memory of its own.
#[derive(Debug, Clone, Default)]
pub(crate) enum Causes {
    #[default]
    None,
    /// A list or a resync: the object itself, at the time when the key became ready.
    Bulk(Arc<SourceInfo>, EventType),
    /// One source that watches nothing. The queue adds the time.
    Call(Source, Option<Instant>),
    Some(Box<SomeCauses>),
}

#[derive(Debug, Clone)]
pub(crate) struct SomeCauses {
    pub(crate) first: Cause,
    pub(crate) others: Vec<Cause>,
    /// How many causes are not kept.
    pub(crate) more: u32,
    /// From the first event to the end of the reconcile, if it is wanted.
    span: Option<Box<Span>>,
}

impl Causes {
    pub(crate) fn one(cause: Cause) -> Self {
        Self::Some(Box::new(SomeCauses { first: cause, others: Vec::new(), more: 0, span: None }))
    }

    /// The same, with a span that lasts until the end of the reconcile.
    pub(crate) fn in_span(mut self, span: Span) -> Self {
        if let Self::Some(some) = &mut self
            && !span.is_disabled()
        {
            some.span = Some(Box::new(span));
        }
        self
    }

    /// The span that began with the first event.
    pub(crate) fn span(&self) -> Option<&Span> {
        if let Self::Some(some) = self { some.span.as_deref() } else { None }
    }

    /// Ends the span.
    pub(crate) fn end_span(&mut self) {
        if let Self::Some(some) = self {
            some.span = None;
        }
    }

    /// The source of the first cause.
    pub(crate) fn source(&self) -> Option<Source> {
        match self {
            Self::None => None,
            Self::Bulk(source, _) => Some(source.source),
            Self::Call(source, _) => Some(*source),
            Self::Some(some) => Some(some.first.source.source),
        }
    }

    /// The causes that are kept, but [`Bulk`](Self::Bulk) and [`Call`](Self::Call).
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Cause> {
        let some = if let Self::Some(some) = self { Some(&**some) } else { None };
        some.into_iter().flat_map(|some| std::iter::once(&some.first).chain(&some.others))
    }

    /// How many causes are not kept.
    pub(crate) fn more(&self) -> u32 {
        if let Self::Some(some) = self { some.more } else { 0 }
    }

    /// The first cause, for logs.
    pub(crate) fn first(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Bulk(source, event) => Some(Cause { event: *event, ..Cause::new(source) }.to_string()),
            Self::Call(source, _) => Some(source.as_str().to_owned()),
            Self::Some(some) => Some(some.first.to_string()),
        }
    }

    /// Forgets requests to come back later that other causes have overtaken.
    pub(crate) fn settle(&mut self, now: Instant) {
        let Self::Some(some) = self else { return };
        let is_overtaken = |cause: &Cause| {
            matches!(cause.source.source, Source::RequeueAfter | Source::Retry) && cause.at.is_some_and(|at| at > now)
        };
        if some.others.is_empty() {
            return;
        }
        some.others.retain(|cause| !is_overtaken(cause));
        if is_overtaken(&some.first) && !some.others.is_empty() {
            some.first = some.others.remove(0);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::None | Self::Bulk(..) | Self::Call(..) => 0,
            Self::Some(some) => {
                let unused = (some.others.capacity() - some.others.len()) * size_of::<Cause>();
                size_of::<SomeCauses>() + unused + self.iter().map(Cause::bytes).sum::<usize>()
            }
        }
    }

    fn push(&mut self, cause: Cause) {
        match self {
            Self::None => *self = Self::one(cause),
            Self::Bulk(source, event) => {
                let first = Cause { event: *event, ..Cause::new(source) };
                *self = Self::Some(Box::new(SomeCauses { first, others: vec![cause], more: 0, span: None }));
            }
            Self::Call(source, at) => {
                let first = Cause::of_call(*source, *at);
                *self = Self::Some(Box::new(SomeCauses { first, others: vec![cause], more: 0, span: None }));
            }
            Self::Some(some) if some.others.len() + 1 < CAUSES_MAX => some.others.push(cause),
            Self::Some(some) => some.more = some.more.saturating_add(1),
        }
    }
}

impl Payload for Causes {
    fn merge(&mut self, added: Self, now: Instant, until: Option<Instant>) {
        match added {
            Self::None => {}
            Self::Bulk(..) if matches!(self, Self::None) => *self = added,
            Self::Bulk(source, event) => {
                self.push(Cause { event, at: Some(now), ..Cause::new(&source) });
            }
            Self::Call(source, _) => {
                let at = Some(until.unwrap_or(now));
                if matches!(self, Self::None) {
                    *self = Self::Call(source, at);
                } else {
                    self.push(Cause::of_call(source, at));
                }
            }
            Self::Some(mut some) => {
                some.first.at = Some(until.unwrap_or(now));
                if matches!(self, Self::None) {
                    *self = Self::Some(some);
                } else {
                    let span = some.span;
                    self.push(some.first);
                    if let Self::Some(some) = self
                        && some.span.is_none()
                    {
                        some.span = span;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn cause(source: Source) -> Causes {
        Causes::one(Cause::new(&SourceInfo::new(source, "ConfigMap")))
    }

    fn sources(causes: &Causes) -> Vec<Source> {
        causes.iter().map(|cause| cause.source.source).collect()
    }

    #[test]
    fn the_first_causes_are_kept_and_the_others_counted() {
        let now = Instant::now();
        let mut causes = Causes::default();
        for _ in 0..10_000 {
            causes.merge(cause(Source::Owned), now, None);
        }
        assert_eq!((causes.iter().count(), causes.more()), (CAUSES_MAX, 10_000 - CAUSES_MAX as u32));
        assert!(causes.iter().all(|cause| cause.at == Some(now)));
        let bytes_with = |name_length: usize| {
            let key = ObjectKey::new(&"n".repeat(name_length.min(63)), &"x".repeat(name_length));
            let mut causes = Causes::default();
            for _ in 0..CAUSES_MAX {
                let cause = Cause { object: Some(key.clone()), ..Cause::new(&SourceInfo::new(Source::Mapped, "Pod")) };
                causes.merge(Causes::one(cause), now, None);
            }
            causes.bytes()
        };
        let [usual, longest] = [40, 253].map(bytes_with);
        assert!(usual < 1_024 && longest < 2_048, "{usual} {longest}");
    }

    #[test]
    fn an_initial_list_needs_no_memory_until_something_else_comes() {
        let now = Instant::now();
        let source = SourceInfo::new(Source::Primary, "ConfigMap");
        let mut causes = Causes::default();
        causes.merge(Causes::Bulk(Arc::clone(&source), EventType::Initial), now, None);
        assert_eq!((causes.bytes(), size_of::<Causes>()), (0, 24));
        causes.merge(cause(Source::Mapped), now, None);
        assert_eq!(sources(&causes), [Source::Primary, Source::Mapped]);
        assert_eq!(causes.iter().next().unwrap().event, EventType::Initial);
        causes.merge(Causes::Bulk(source, EventType::Resync), now, None);
        assert_eq!(causes.iter().last().unwrap().event, EventType::Resync);
    }

    #[test]
    fn a_call_needs_no_memory_until_something_else_comes() {
        let now = Instant::now();
        for other_first in [false, true] {
            let mut causes = Causes::default();
            causes.merge(Causes::Call(Source::Manual, None), now, None);
            assert_eq!((causes.bytes(), causes.first().as_deref()), (0, Some("enqueue")));
            if other_first {
                causes = cause(Source::Mapped);
                causes.merge(Causes::Call(Source::Manual, None), now, None);
            } else {
                causes.merge(cause(Source::Mapped), now, None);
            }
            let mut wanted = vec![Source::Manual, Source::Mapped];
            if other_first {
                wanted.reverse();
            }
            assert_eq!(sources(&causes), wanted);
            let manual = causes.iter().find(|cause| cause.source.source == Source::Manual).unwrap();
            assert_eq!((manual.at, &*manual.source.kind), (Some(now), ""));
        }
    }

    #[test]
    fn a_request_to_come_back_that_an_event_overtakes_is_no_cause() {
        let now = Instant::now();
        let due = now + Duration::from_secs(60);
        let mut causes = Causes::default();
        causes.merge(Causes::Call(Source::RequeueAfter, None), now, Some(due));
        causes.merge(cause(Source::Primary), now, None);
        let mut at_the_time = causes.clone();
        causes.settle(now);
        assert_eq!(sources(&causes), [Source::Primary]);
        at_the_time.settle(due);
        assert_eq!(sources(&at_the_time), [Source::RequeueAfter, Source::Primary]);
        // The event came while the key was reconciled.
        let mut event_first = Causes::default();
        event_first.merge(cause(Source::Primary), now, None);
        event_first.merge(Causes::Call(Source::RequeueAfter, None), now, Some(due));
        event_first.settle(now);
        assert_eq!(sources(&event_first), [Source::Primary]);
        let mut alone = Causes::default();
        alone.merge(Causes::Call(Source::Retry, None), now, Some(due));
        alone.settle(now);
        assert_eq!(alone.source(), Some(Source::Retry), "a timer may be early");
    }
}
