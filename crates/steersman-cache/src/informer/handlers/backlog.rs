//! The events of a handler that is far behind, merged by object.

use std::collections::{BTreeMap, HashMap};

use super::Event;
use crate::{Cached, ObjectKey};

/// Waiting events, with at most one of each variant per object. A stuck handler therefore takes
/// memory by the number of objects, not by the number of changes.
///
/// For each object, the handler receives events that it could have received at a lower rate. An
/// update starts from the last state before it, and no deletion of a known object is missing.
/// Objects come out in the order of their first waiting event.
///
/// A short-lived object, which was added and deleted while the handler was behind, comes out as an
/// addition and a deletion: the handler may know it from elsewhere, like a controller that created
/// it and has to restore it. Of these, [`SHORT_LIVED_MAX`] are kept; further ones are dropped and
/// counted.
pub(super) struct Backlog<K> {
    /// By the number of their first event.
    entries: BTreeMap<u64, Entry<K>>,
    numbers: HashMap<ObjectKey, u64>,
    next: u64,
    /// Number of events in the entries.
    events: usize,
    /// Number of entries with a short-lived object.
    short_lived: usize,
    /// Number of short-lived objects that were dropped.
    dropped: u64,
    /// A mark comes out after the entries with smaller numbers.
    marks: Vec<(u64, Mark)>,
}

/// A note for the handler's task that all earlier events have been delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Synced,
    Resynced,
}

/// Largest number of short-lived objects in a backlog. Nothing else limits their number.
pub(super) const SHORT_LIVED_MAX: usize = 1_024;

/// The events of one object. They come out in the order of the fields.
struct Entry<K> {
    key: ObjectKey,
    /// Update of the object that the handler knows, from the state that it knows.
    update: Option<(Cached<K>, Cached<K>)>,
    /// Deletion of the object that the handler knows, with whether its final state is unknown.
    delete: Option<(Cached<K>, bool)>,
    /// The last object of this name that was added and deleted since.
    short_lived: Option<ShortLived<K>>,
    /// Addition of an object that the handler does not know, with whether it is initial.
    add: Option<(Cached<K>, bool)>,
}

/// An object that was added and deleted.
struct ShortLived<K> {
    added: Cached<K>,
    initial: bool,
    deleted: Cached<K>,
    final_state_unknown: bool,
}

impl<K> Entry<K> {
    fn len(&self) -> usize {
        let short_lived = if self.short_lived.is_some() { 2 } else { 0 };
        usize::from(self.update.is_some())
            + usize::from(self.delete.is_some())
            + short_lived
            + usize::from(self.add.is_some())
    }

    fn merge(&mut self, event: Event<K>) {
        match event {
            Event::Add { object, initial } => self.add = Some((object, initial)),
            Event::Update { old, new } => match (&mut self.add, &mut self.update) {
                (Some((object, _)), _) => *object = new,
                (None, Some((_, known))) => *known = new,
                (None, None) => self.update = Some((old, new)),
            },
            // The update before it stays: a handler with a filter may know only the older state.
            Event::Delete { object: deleted, final_state_unknown } => match self.add.take() {
                Some((added, initial)) => {
                    self.short_lived = Some(ShortLived { added, initial, deleted, final_state_unknown });
                }
                None => self.delete = Some((deleted, final_state_unknown)),
            },
        }
    }

    fn into_events(self) -> impl Iterator<Item = Event<K>> {
        let update = self.update.map(|(old, new)| Event::Update { old, new });
        let delete = self.delete.map(|(object, final_state_unknown)| Event::Delete { object, final_state_unknown });
        let short_lived = self.short_lived.into_iter().flat_map(|object| {
            let ShortLived { added, initial, deleted, final_state_unknown } = object;
            [Event::Add { object: added, initial }, Event::Delete { object: deleted, final_state_unknown }]
        });
        let add = self.add.map(|(object, initial)| Event::Add { object, initial });
        update.into_iter().chain(delete).chain(short_lived).chain(add)
    }
}

impl<K> Backlog<K> {
    pub(super) fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            numbers: HashMap::new(),
            next: 0,
            events: 0,
            short_lived: 0,
            dropped: 0,
            marks: Vec::new(),
        }
    }

    /// Number of waiting events.
    pub(super) fn len(&self) -> usize {
        self.events
    }

    /// Number of short-lived objects that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.marks.is_empty()
    }

    pub(super) fn push(&mut self, event: Event<K>) {
        let key = event.object().key();
        let number = *self.numbers.entry(key.clone()).or_insert(self.next);
        let entry = self.entries.entry(number).or_insert_with(|| {
            self.next += 1;
            Entry { key, update: None, delete: None, short_lived: None, add: None }
        });
        self.events -= entry.len();
        self.short_lived -= usize::from(entry.short_lived.is_some());
        entry.merge(event);
        if entry.short_lived.is_some() && self.short_lived == SHORT_LIVED_MAX {
            entry.short_lived = None;
            self.dropped += 1;
        }
        self.short_lived += usize::from(entry.short_lived.is_some());
        self.events += entry.len();
        if entry.len() == 0
            && let Some(entry) = self.entries.remove(&number)
        {
            self.numbers.remove(&entry.key);
        }
    }

    pub(super) fn mark(&mut self, mark: Mark) {
        self.marks.push((self.next, mark));
    }

    /// Takes out the events of the first `max` objects before the first mark. If there are none,
    /// takes out that mark.
    pub(super) fn pop(&mut self, max: usize) -> (Vec<Event<K>>, Option<Mark>) {
        let mark = self.marks.first().copied();
        let mut events = Vec::new();
        for _ in 0..max {
            let Some(first) = self.entries.first_entry() else { break };
            if mark.is_some_and(|(number, _)| *first.key() >= number) {
                break;
            }
            let entry = first.remove();
            self.numbers.remove(&entry.key);
            self.short_lived -= usize::from(entry.short_lived.is_some());
            events.extend(entry.into_events());
        }
        self.events -= events.len();
        if !events.is_empty() || mark.is_none() {
            return (events, None);
        }
        (events, Some(self.marks.remove(0).1))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::Storage;

    fn object(name: &str, uid: u64, version: u64) -> Cached<Value> {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"T","metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
        );
        let item: steersman_wire::RawItem = bytes::Bytes::from(json).into();
        Storage::default().store_item(&item, None).expect("it can be read")
    }

    fn show(event: &Event<Value>) -> String {
        let version = |object: &Cached<Value>| object.meta().resource_version().to_owned();
        match event {
            Event::Add { object, initial } => format!("+{}{}", version(object), if *initial { "i" } else { "" }),
            Event::Update { old, new } => format!("{}>{}", version(old), version(new)),
            Event::Delete { object, final_state_unknown } => {
                format!("-{}{}", version(object), if *final_state_unknown { "?" } else { "" })
            }
        }
    }

    /// `+1` is an addition at version 1, `+1i` an initial one, `1>2` an update, `-3` a deletion,
    /// `-3?` one with unknown final state.
    fn event(text: &str) -> Event<Value> {
        let at = |version: &str| object("a", 1, version.parse().expect("a version"));
        if let Some(version) = text.strip_prefix('+') {
            return Event::Add { object: at(version.trim_end_matches('i')), initial: version.ends_with('i') };
        }
        if let Some(version) = text.strip_prefix('-') {
            let final_state_unknown = version.ends_with('?');
            return Event::Delete { object: at(version.trim_end_matches('?')), final_state_unknown };
        }
        let (old, new) = text.split_once('>').expect("an update");
        Event::Update { old: at(old), new: at(new) }
    }

    #[test]
    fn events_of_one_object_are_merged() {
        for (events, expected) in [
            ("+1 1>2 2>3", "+3"),
            ("+1i 1>2", "+2i"),
            ("1>2 2>3 3>3", "1>3"),
            ("1>1 1>2", "1>2"),
            ("+1 -2", "+1 -2"),
            ("+1 1>2 -3", "+2 -3"),
            ("1>2 -3", "1>2 -3"),
            ("1>2 2>3 -4?", "1>3 -4?"),
            ("-3 +4", "-3 +4"),
            ("-3 +4 4>5 -6", "-3 +5 -6"),
            ("1>2 -3 +4 4>5", "1>2 -3 +5"),
            ("1>2 -3 +4 -5 +6", "1>2 -3 +4 -5 +6"),
            ("1>2 -3 +4 -5 +6 -7", "1>2 -3 +6 -7"),
        ] {
            let mut backlog = Backlog::new();
            events.split_whitespace().map(event).for_each(|event| backlog.push(event));
            let len = backlog.len();
            let (popped, mark) = backlog.pop(10);
            let shown: Vec<_> = popped.iter().map(show).collect();
            assert_eq!((shown.join(" "), len, mark), (expected.to_owned(), popped.len(), None), "{events}");
            assert!(backlog.is_empty() && backlog.numbers.is_empty() && backlog.events == 0, "{events}");
        }
    }

    #[test]
    fn a_mark_comes_after_everything_before_it_and_before_everything_after_it() {
        let mut backlog = Backlog::new();
        backlog.push(Event::Add { object: object("a", 1, 1), initial: true });
        backlog.mark(Mark::Synced);
        backlog.push(Event::Add { object: object("b", 2, 2), initial: false });
        // Merged into the entry before the mark.
        backlog.push(Event::Update { old: object("a", 1, 1), new: object("a", 1, 3) });
        backlog.mark(Mark::Resynced);
        let mut out = Vec::new();
        while !backlog.is_empty() {
            let (events, mark) = backlog.pop(10);
            out.extend(events.iter().map(show).chain(mark.map(|mark| format!("{mark:?}"))));
        }
        assert_eq!(out, ["+3i", "Synced", "+2", "Resynced"]);
    }

    #[test]
    fn a_bounded_number_of_short_lived_objects_is_kept_and_the_others_are_counted() {
        let mut backlog = Backlog::new();
        for number in 0..10_000 {
            let name = format!("n{number}");
            backlog.push(Event::Add { object: object(&name, number, 1), initial: false });
            backlog.push(Event::Delete { object: object(&name, number, 2), final_state_unknown: false });
        }
        assert_eq!((backlog.len(), backlog.dropped()), (2 * SHORT_LIVED_MAX, 10_000 - SHORT_LIVED_MAX as u64));
        assert_eq!(backlog.pop(10_000).0.len(), 2 * SHORT_LIVED_MAX);
        assert!(backlog.is_empty() && backlog.numbers.is_empty() && backlog.short_lived == 0);
    }

    /// Delivers an event, and checks it against what the handler knows.
    fn deliver(known: &mut HashMap<String, String>, event: &Event<Value>) {
        let (name, version) = (event.object().meta().name().to_owned(), event.object().meta().resource_version());
        match event {
            Event::Add { .. } => assert_eq!(known.insert(name, version.to_owned()), None, "{event:?}"),
            Event::Update { old, .. } => {
                let before = known.insert(name, version.to_owned());
                assert_eq!(before.as_deref(), Some(old.meta().resource_version()), "{event:?}");
            }
            Event::Delete { .. } => assert!(known.remove(&name).is_some(), "{event:?}"),
        }
    }

    #[test]
    fn a_handler_sees_a_possible_history_and_ends_with_the_final_state() {
        let world = steersman_client::World::system();
        let below = |n: usize| (world.random_unit() * n as f64) as usize % n;
        for _ in 0..200 {
            let (mut backlog, mut server, mut known) = (Backlog::new(), HashMap::new(), HashMap::new());
            for version in 1..=300 {
                let name = format!("n{}", below(5));
                let next = object(&name, version, version);
                let event = match (server.get(&name).cloned(), below(4)) {
                    (None, _) => {
                        server.insert(name, next.clone());
                        Event::Add { object: next, initial: false }
                    }
                    (Some(_), 0) => {
                        server.remove(&name);
                        Event::Delete { object: next, final_state_unknown: false }
                    }
                    (Some(old), 1) => Event::Update { old: old.clone(), new: old },
                    (Some(old), _) => {
                        server.insert(name, next.clone());
                        Event::Update { old, new: next }
                    }
                };
                backlog.push(event);
                assert!(backlog.len() <= 5 * 5);
                if below(10) == 0 {
                    backlog.pop(1 + below(3)).0.iter().for_each(|event| deliver(&mut known, event));
                }
            }
            while !backlog.is_empty() {
                backlog.pop(2).0.iter().for_each(|event| deliver(&mut known, event));
            }
            let state = |(name, object): (String, Cached<Value>)| (name, object.meta().resource_version().to_owned());
            assert_eq!(known, server.into_iter().map(state).collect::<HashMap<_, _>>());
        }
    }
}
