//! The guarantees of [`DeltaFifo`].

use proptest::prelude::*;
use steersman_cache::{Batch, Delta, DeltaFifo, Queued, Work};

/// A state of an object. It has no uid, because the queue does not read it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    namespace: String,
    name: String,
    version: String,
}

impl Queued for State {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn resource_version(&self) -> &str {
        &self.version
    }
}

/// A state from `name@version` or `namespace/name@version`.
fn state(text: &str) -> State {
    let (key, version) = text.split_once('@').unwrap();
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    State { namespace: namespace.into(), name: name.into(), version: version.into() }
}

fn states(texts: &str) -> Vec<State> {
    texts.split_whitespace().map(state).collect()
}

fn show_state(state: &State) -> String {
    let slash = if state.namespace.is_empty() { "" } else { "/" };
    format!("{}{slash}{}@{}", state.namespace, state.name, state.version)
}

/// `+` added, `~` updated, `-` deleted, `?` deleted with unknown final state.
fn show_delta(delta: &Delta<State>) -> String {
    let sign = match delta {
        Delta::Added(_) => '+',
        Delta::Updated(_) => '~',
        Delta::Deleted { final_state_unknown: false, .. } => '-',
        Delta::Deleted { final_state_unknown: true, .. } => '?',
    };
    format!("{sign}{}", show_state(delta.object()))
}

fn show_deltas<'a>(deltas: impl IntoIterator<Item = &'a Delta<State>>) -> String {
    deltas.into_iter().map(show_delta).collect::<Vec<_>>().join(" ")
}

fn show_replace(objects: &[State]) -> String {
    format!("[{}]", objects.iter().map(show_state).collect::<Vec<_>>().join(" "))
}

/// A batch as text: keys are separated by `|`, a replace is in brackets, and the version follows
/// `=>`.
fn show(batch: &Batch<State>) -> String {
    let work = match &batch.work {
        Work::Changes(keys) => keys.iter().map(show_deltas).collect::<Vec<_>>().join(" | "),
        Work::Replace(objects) => show_replace(objects),
        Work::Nothing => "nothing".to_owned(),
    };
    match &batch.reached {
        Some(version) => format!("{work} => {version}"),
        None => work,
    }
}

fn pop(fifo: &mut DeltaFifo<State>, keys_max: usize) -> String {
    fifo.pop(keys_max).map_or_else(|| "none".to_owned(), |batch| show(&batch))
}

/// Pops everything, one key at a time.
fn drain(fifo: &mut DeltaFifo<State>) -> Vec<String> {
    std::iter::from_fn(|| fifo.pop(1)).map(|batch| show(&batch)).collect()
}

#[test]
fn a_key_is_queued_once_and_keeps_its_place() {
    let mut fifo = DeltaFifo::new();
    fifo.add(state("a@1"));
    fifo.add(state("b@2"));
    fifo.update(state("a@3"));
    fifo.delete(state("b@4"));
    fifo.add(state("b@5"));
    assert_eq!((fifo.len(), fifo.deltas()), (2, 5));
    assert_eq!(pop(&mut fifo, 1000), "+a@1 ~a@3 | +b@2 -b@4 +b@5 => 5");
    assert_eq!((fifo.len(), fifo.deltas(), fifo.is_empty()), (0, 0, true));
    fifo.update(state("a@6"));
    assert_eq!(pop(&mut fifo, 1000), "~a@6 => 6", "a key that was popped begins a new list");
    assert_eq!(pop(&mut fifo, 1000), "none");
}

#[test]
fn the_version_reached_waits_for_every_earlier_event() {
    let mut fifo = DeltaFifo::new();
    fifo.add(state("a@1"));
    fifo.add(state("b@2"));
    fifo.update(state("a@3"));
    assert_eq!(drain(&mut fifo), ["+a@1 ~a@3 => 1", "+b@2 => 3"]);
}

#[test]
fn bookmarks_keep_their_place_among_the_events() {
    let mut fifo = DeltaFifo::new();
    fifo.add(state("a@1"));
    fifo.add(state("b@2"));
    fifo.bookmark("9");
    fifo.add(state("c@10"));
    assert_eq!(drain(&mut fifo), ["+a@1 => 1", "+b@2 => 9", "+c@10 => 10"]);
}

#[test]
fn a_bookmark_is_reached_at_once_when_no_event_waits() {
    let mut fifo = DeltaFifo::new();
    fifo.bookmark("7");
    fifo.bookmark("8");
    assert!(!fifo.is_empty());
    assert_eq!((fifo.len(), pop(&mut fifo, 1000)), (0, "nothing => 8".to_owned()));
    assert_eq!(pop(&mut fifo, 1000), "none");

    fifo.add(state("a@9"));
    assert_eq!(pop(&mut fifo, 1000), "+a@9 => 9");
    fifo.bookmark("10");
    fifo.add(state("b@11"));
    fifo.update(state("b@12"));
    assert_eq!(drain(&mut fifo), ["+b@11 ~b@12 => 12"], "the bookmark needs no batch of its own");
}

#[test]
fn an_unseen_deletion_neither_moves_nor_holds_back_the_version() {
    let mut fifo = DeltaFifo::new();
    fifo.add(state("a@5"));
    fifo.delete_unseen(state("b@2"));
    fifo.bookmark("6");
    assert_eq!(drain(&mut fifo), ["+a@5 => 6", "?b@2"]);
}

#[test]
fn objects_without_a_version_hold_it_back_but_do_not_move_it() {
    let mut fifo = DeltaFifo::new();
    fifo.add(state("a@1"));
    fifo.add(state("b@"));
    fifo.bookmark("3");
    fifo.bookmark("");
    assert_eq!(drain(&mut fifo), ["+a@1 => 1", "+b@ => 3"]);
}

#[test]
fn versions_that_are_no_numbers_are_passed_on() {
    let mut fifo = DeltaFifo::new();
    fifo.replace(states("a@x"), "opaque");
    fifo.add(state("a@y"));
    assert_eq!(drain(&mut fifo), ["[a@x] => opaque", "+a@y => y"]);
}

#[test]
fn only_deletions_of_one_key_collapse() {
    let mut fifo = DeltaFifo::new();
    for text in ["a@1", "a@1"] {
        fifo.add(state(text));
    }
    for text in ["a@2", "a@2"] {
        fifo.update(state(text));
    }
    for text in ["a@3", "a@4"] {
        fifo.delete(state(text));
    }
    assert_eq!(fifo.deltas(), 5);
    assert_eq!(pop(&mut fifo, 1), "+a@1 +a@1 ~a@2 ~a@2 -a@4 => 4");

    fifo.delete(state("a@5"));
    fifo.add(state("a@6"));
    fifo.delete(state("a@7"));
    assert_eq!(pop(&mut fifo, 1), "-a@5 +a@6 -a@7 => 7", "they do not follow each other");
}

#[test]
fn of_two_deletions_the_known_final_state_is_kept() {
    let mut fifo = DeltaFifo::new();
    fifo.delete_unseen(state("a@1"));
    fifo.delete(state("a@3"));
    fifo.delete_unseen(state("a@2"));
    assert_eq!(drain(&mut fifo), ["-a@3 => 3"]);

    fifo.delete_unseen(state("a@1"));
    fifo.delete_unseen(state("a@2"));
    assert_eq!(drain(&mut fifo), ["?a@1"]);
}

#[test]
fn a_deletion_is_queued_also_for_an_object_that_is_not() {
    let mut fifo = DeltaFifo::new();
    fifo.add(state("a@4"));
    fifo.delete(state("a@5"));
    fifo.delete(state("b@6"));
    fifo.delete_unseen(state("c@3"));
    assert_eq!(pop(&mut fifo, 1000), "+a@4 -a@5 | -b@6 | ?c@3 => 6");
}

#[test]
fn a_deletion_after_a_replace_comes_out_after_it() {
    let mut fifo = DeltaFifo::new();
    fifo.replace(states("a@1"), "2");
    fifo.delete(state("a@3"));
    assert_eq!(drain(&mut fifo), ["[a@1] => 2", "-a@3 => 3"]);
}

#[test]
fn a_replace_is_one_entry_that_nothing_crosses() {
    let mut fifo = DeltaFifo::new();
    fifo.add(state("a@1"));
    fifo.add(state("b@2"));
    fifo.replace(states("a@1 b@3"), "4");
    fifo.update(state("b@5"));
    fifo.update(state("a@6"));
    fifo.update(state("b@7"));
    assert_eq!((fifo.len(), fifo.deltas()), (5, 7));
    let batches = std::iter::from_fn(|| fifo.pop(1000)).map(|batch| show(&batch)).collect::<Vec<_>>();
    assert_eq!(batches, ["+a@1 | +b@2 => 2", "[a@1 b@3] => 4", "~b@5 ~b@7 | ~a@6 => 7"]);
    assert_eq!((fifo.len(), fifo.deltas()), (0, 0));
}

#[test]
fn a_bookmark_before_a_replace_is_reached_before_it() {
    let mut fifo = DeltaFifo::new();
    fifo.add(state("a@1"));
    fifo.bookmark("2");
    fifo.replace(Vec::new(), "5");
    fifo.bookmark("6");
    assert_eq!(drain(&mut fifo), ["+a@1 => 2", "[] => 6"]);
}

#[test]
fn a_replace_takes_the_place_of_the_one_directly_before_it() {
    let mut fifo = DeltaFifo::new();
    fifo.add(state("a@1"));
    fifo.replace(states("a@1 b@2"), "3");
    fifo.bookmark("4");
    fifo.replace(states("b@2"), "5");
    assert_eq!((fifo.len(), fifo.deltas()), (2, 2));
    fifo.add(state("a@6"));
    fifo.replace(states("c@7"), "7");
    assert_eq!(drain(&mut fifo), ["+a@1 => 1", "[b@2] => 5", "+a@6 => 6", "[c@7] => 7"]);
}

#[test]
fn a_replace_may_go_back_to_an_earlier_version() {
    let mut fifo = DeltaFifo::new();
    fifo.add(state("a@100"));
    fifo.replace(states("a@50"), "60");
    assert_eq!(drain(&mut fifo), ["+a@100 => 100", "[a@50] => 60"]);
}

#[test]
fn it_has_synced_once_the_first_replace_is_popped() {
    let mut fifo = DeltaFifo::new();
    assert!(!fifo.has_synced());
    fifo.replace(states("a@1"), "1");
    fifo.add(state("b@2"));
    assert!(!fifo.has_synced(), "an add after the replace changes nothing");
    pop(&mut fifo, 1);
    assert!(fifo.has_synced());
    fifo.replace(states("a@1"), "3");
    assert!(fifo.has_synced(), "later replaces do not count");
}

#[test]
fn it_has_synced_at_once_with_an_empty_replace() {
    let mut fifo = DeltaFifo::<State>::new();
    fifo.replace(Vec::new(), "1");
    assert!(fifo.has_synced());
    assert_eq!(drain(&mut fifo), ["[] => 1"], "an empty list empties the cache too");
}

#[test]
fn it_has_synced_at_once_when_an_object_comes_before_any_replace() {
    let comes: [fn(&mut DeltaFifo<State>); 4] = [
        |fifo| fifo.add(state("a@1")),
        |fifo| fifo.update(state("a@1")),
        |fifo| fifo.delete(state("a@1")),
        |fifo| fifo.delete_unseen(state("a@1")),
    ];
    for come in comes {
        let mut fifo = DeltaFifo::new();
        come(&mut fifo);
        fifo.replace(states("a@1"), "2");
        assert!(fifo.has_synced());
    }
    let mut fifo = DeltaFifo::<State>::new();
    fifo.bookmark("1");
    assert!(!fifo.has_synced(), "a bookmark is no event of an object");
}

#[test]
fn a_batch_has_at_most_the_keys_asked_for_each_once() {
    let mut fifo = DeltaFifo::new();
    for version in 1..=20 {
        fifo.update(state(&format!("{}@{version}", version % 5)));
    }
    assert_eq!((fifo.len(), fifo.deltas()), (5, 20));
    assert_eq!(pop(&mut fifo, 2), "~1@1 ~1@6 ~1@11 ~1@16 | ~2@2 ~2@7 ~2@12 ~2@17 => 2");
    assert_eq!((fifo.len(), fifo.deltas()), (3, 12));
    assert_eq!(pop(&mut fifo, 0), "~3@3 ~3@8 ~3@13 ~3@18 => 3", "a limit of 0 means 1");
    assert_eq!(pop(&mut fifo, 1000), "~4@4 ~4@9 ~4@14 ~4@19 | ~0@5 ~0@10 ~0@15 ~0@20 => 20");
}

#[test]
fn the_namespace_is_part_of_the_key() {
    let mut fifo = DeltaFifo::new();
    for text in ["x/a@1", "y/a@2", "a@3"] {
        fifo.add(state(text));
    }
    assert_eq!(pop(&mut fifo, 1000), "+x/a@1 | +y/a@2 | +a@3 => 3");
}

#[test]
fn many_keys_come_out_in_order_and_can_be_queued_again() {
    let mut fifo = DeltaFifo::new();
    for round in 0..3 {
        for key in 0..10_000 {
            fifo.add(state(&format!("{key}@{}", round * 10_000 + key + 1)));
        }
        let mut keys = Vec::new();
        while let Some(batch) = fifo.pop(1000) {
            let Work::Changes(changes) = batch.work else { panic!("{batch:?}") };
            assert_eq!(changes.len(), 1000);
            assert_eq!(batch.reached.unwrap(), changes[999].newest().object().version);
            keys.extend(changes.iter().map(|changes| changes.oldest().object().name.clone()));
        }
        assert!(keys.iter().map(|key| key.parse::<usize>().unwrap()).eq(0..10_000));
    }
}

/// An operation on the queue. Keys are small numbers, so that they often coincide.
#[derive(Debug, Clone)]
enum Operation {
    Add(u8),
    Update(u8),
    Delete { key: u8, seen: bool },
    Bookmark,
    Replace(Vec<u8>),
    Pop(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let keys = || prop::collection::vec(0..6u8, 0..5);
    prop_oneof![
        4 => (0..6u8).prop_map(Operation::Add),
        4 => (0..6u8).prop_map(Operation::Update),
        4 => (0..6u8, prop::bool::weighted(0.8)).prop_map(|(key, seen)| Operation::Delete { key, seen }),
        2 => Just(Operation::Bookmark),
        2 => keys().prop_map(Operation::Replace),
        4 => (0..4usize).prop_map(Operation::Pop),
    ]
}

/// A simple model of the queue: a log of everything that was pushed, and whether it was popped.
#[derive(Default)]
struct Model {
    log: Vec<Logged>,
    /// Number of pushes.
    put: usize,
    /// The newest event that a reported version covers.
    reported: usize,
    /// Whether the first operation was a replace with objects that are not popped yet.
    waits_for_replace: Option<bool>,
}

struct Logged {
    number: usize,
    what: What,
    is_out: bool,
    /// The version of an event of the stream.
    event: Option<String>,
}

#[derive(Clone)]
enum What {
    Delta(Delta<State>),
    Replace(Vec<State>),
    /// Moves only the version.
    Mark,
}

/// The log entries that are popped together.
struct Group {
    numbers: Vec<usize>,
    what: Vec<What>,
}

impl Group {
    fn key(&self) -> Option<(&str, &str)> {
        match &self.what[0] {
            What::Delta(delta) => Some((&delta.object().namespace, &delta.object().name)),
            _ => None,
        }
    }

    /// The deltas, with consecutive deletions merged.
    fn deltas(&self) -> Vec<Delta<State>> {
        let mut deltas: Vec<Delta<State>> = Vec::new();
        for what in &self.what {
            let What::Delta(delta) = what else { continue };
            match (deltas.last_mut(), delta) {
                (Some(Delta::Deleted { .. }), Delta::Deleted { final_state_unknown: true, .. }) => {}
                (Some(last @ Delta::Deleted { .. }), Delta::Deleted { .. }) => *last = delta.clone(),
                _ => deltas.push(delta.clone()),
            }
        }
        deltas
    }

    fn deltas_len(&self) -> usize {
        match &self.what[0] {
            What::Replace(objects) => objects.len(),
            _ => self.deltas().len(),
        }
    }

    fn show(&self) -> String {
        match &self.what[0] {
            What::Replace(objects) => show_replace(objects),
            _ => show_deltas(&self.deltas()),
        }
    }
}

impl Model {
    fn put(&mut self, what: What, event: Option<&str>) {
        self.put += 1;
        self.log.push(Logged { number: self.put, what, is_out: false, event: event.map(str::to_owned) });
    }

    /// The queued groups in order.
    fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for logged in self.log.iter().filter(|logged| !logged.is_out && !matches!(logged.what, What::Mark)) {
            let group = Group { numbers: vec![logged.number], what: vec![logged.what.clone()] };
            let since_replace = groups.iter().rposition(|group| group.key().is_none()).map_or(0, |index| index + 1);
            let same = groups[since_replace..].iter_mut().find(|other| other.key() == group.key());
            match same {
                Some(same) if group.key().is_some() => {
                    same.numbers.extend(group.numbers);
                    same.what.extend(group.what);
                }
                _ => groups.push(group),
            }
        }
        groups
    }

    fn delete(&mut self, object: State, seen: bool) {
        let event = seen.then(|| object.version.clone());
        self.put(What::Delta(Delta::Deleted { object, final_state_unknown: !seen }), event.as_deref());
    }

    fn replace(&mut self, objects: Vec<State>, version: &str) {
        if let Some(last) = self.log.iter().rposition(|logged| !matches!(logged.what, What::Mark))
            && matches!(self.log[last], Logged { what: What::Replace(_), is_out: false, .. })
        {
            self.log.truncate(last);
        }
        self.put(What::Replace(objects), Some(version));
    }

    /// The newest version of the longest prefix of the log whose events are all popped, unless it
    /// was reported.
    fn report(&mut self) -> Option<String> {
        let is_out = |logged: &&Logged| logged.is_out || logged.event.is_none() || matches!(logged.what, What::Mark);
        let newest =
            self.log.iter().take_while(is_out).filter(|logged| logged.event.as_ref().is_some_and(|v| !v.is_empty()));
        let newest = newest.last().filter(|logged| logged.number > self.reported)?;
        self.reported = newest.number;
        newest.event.clone()
    }

    /// The popped batch as text.
    fn pop(&mut self, keys_max: usize) -> String {
        let mut groups = self.groups();
        let is_replace = groups.first().is_some_and(|group| group.key().is_none());
        let keys = groups.iter().take_while(|group| group.key().is_some()).count();
        groups.truncate(if is_replace { 1 } else { keys.min(keys_max.max(1)) });
        for logged in &mut self.log {
            logged.is_out |= groups.iter().any(|group| group.numbers.contains(&logged.number));
        }
        if is_replace {
            self.waits_for_replace = Some(false);
        }
        let work = groups.iter().map(Group::show).reduce(|all, next| format!("{all} | {next}"));
        match (work, self.report()) {
            (None, None) => "none".to_owned(),
            (None, Some(version)) => format!("nothing => {version}"),
            (Some(work), None) => work,
            (Some(work), Some(version)) => format!("{work} => {version}"),
        }
    }
}

/// A version: usually a number, sometimes another text or none.
fn version(number: usize) -> String {
    match number % 8 {
        3 => String::new(),
        5 => format!("v{number}"),
        _ => number.to_string(),
    }
}

fn check(operations: Vec<Operation>) {
    let (mut fifo, mut model) = (DeltaFifo::new(), Model::default());
    for (number, operation) in operations.into_iter().enumerate() {
        let version = version(number);
        let state = |key: u8| state(&format!("{}/{}@{version}", key % 2, key / 2));
        let states = |keys: Vec<u8>| keys.into_iter().map(state).collect::<Vec<_>>();
        match &operation {
            Operation::Add(_) | Operation::Update(_) | Operation::Delete { .. } => {
                model.waits_for_replace.get_or_insert(false);
            }
            Operation::Replace(keys) => {
                model.waits_for_replace.get_or_insert(!keys.is_empty());
            }
            Operation::Bookmark | Operation::Pop(_) => {}
        }
        match operation {
            Operation::Add(key) => {
                fifo.add(state(key));
                model.put(What::Delta(Delta::Added(state(key))), Some(&version));
            }
            Operation::Update(key) => {
                fifo.update(state(key));
                model.put(What::Delta(Delta::Updated(state(key))), Some(&version));
            }
            Operation::Delete { key, seen } => {
                if seen {
                    fifo.delete(state(key));
                } else {
                    fifo.delete_unseen(state(key));
                }
                model.delete(state(key), seen);
            }
            Operation::Bookmark => {
                fifo.bookmark(&version);
                model.put(What::Mark, Some(&version));
            }
            Operation::Replace(keys) => {
                fifo.replace(states(keys.clone()), &version);
                model.replace(states(keys), &version);
            }
            Operation::Pop(keys_max) => assert_eq!(pop(&mut fifo, keys_max), model.pop(keys_max)),
        }
        let groups = model.groups();
        assert_eq!((fifo.len(), fifo.deltas()), (groups.len(), groups.iter().map(Group::deltas_len).sum()));
        assert_eq!(fifo.has_synced(), model.waits_for_replace == Some(false));
    }
    while !fifo.is_empty() {
        assert_eq!(pop(&mut fifo, 2), model.pop(2));
    }
    assert_eq!(model.pop(2), "none", "the queue is empty only if nothing is left");
}

/// More cases under `cargo xtask test --soak`.
fn cases() -> u32 {
    if std::env::var_os("STEERSMAN_SOAK").is_some() { 20_000 } else { 1_000 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn every_promise_holds_in_any_order_of_operations(operations in prop::collection::vec(operation(), 1..80)) {
        check(operations);
    }
}
