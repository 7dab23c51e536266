//! The correlator against a server that is a map, at times that the tests choose.

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A correlator, a server of Events and a clock.
struct Bench {
    correlator: Correlator,
    now: Duration,
    /// The Events of the server: the group, the note and the count.
    server: BTreeMap<String, (Arc<Group>, String, u32)>,
    /// When a write was tried for the first time, in order, and which.
    writes: Vec<(Duration, Write)>,
    /// The names whose last attempt failed.
    failed: HashSet<String>,
}

/// What the server does with a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reply {
    Works,
    /// Fails, and the next attempt works.
    FailsOnce,
    /// Carries out the request, and the response is lost.
    LosesResponse,
    /// Has forgotten the Event before.
    Forgets,
    Refuses,
}

fn retry(everywhere: bool) -> Outcome {
    Outcome::Retry { after: None, everywhere, jitter: 0.0 }
}

impl Bench {
    fn new(known_max: usize) -> Self {
        let (server, writes) = (BTreeMap::new(), Vec::new());
        Self { correlator: Correlator::new(known_max), now: 1000 * SECOND, server, writes, failed: HashSet::new() }
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap() + self.now
    }

    fn record(&mut self, object: &str, reason: &str, note: &str) {
        let (now, wall) = (self.now, self.wall());
        let regarding = Arc::new(EventObject { name: object.to_owned(), ..EventObject::default() });
        let group = Group {
            controller: "test".into(),
            event_type: EventType::Normal,
            reason: reason.to_owned().into(),
            action: "Act".into(),
            regarding,
            related: None,
        };
        self.correlator.record(group, note.to_owned(), now, wall, || [0; 16]);
    }

    /// The next request, if there is one now.
    fn next(&mut self) -> Option<Write> {
        match self.correlator.next(self.now) {
            Next::Write(write) => Some(write),
            Next::Wait(until) => {
                assert!(
                    until.is_none_or(|until| until > self.now),
                    "it would wake up with nothing to write: {until:?}"
                );
                None
            }
        }
    }

    fn done(&mut self, write: &Write, outcome: Outcome) {
        let (now, wall) = (self.now, self.wall());
        self.correlator.done(write, outcome, now, wall, || [0; 16]);
    }

    /// Answers one request.
    fn answer(&mut self, write: &Write, reply: Reply) {
        if !self.failed.remove(&write.name) {
            self.writes.push((self.now, write.clone()));
        }
        let exists = self.server.contains_key(&write.name);
        let outcome = match reply {
            Reply::FailsOnce => retry(false),
            Reply::Refuses => Outcome::Refused,
            Reply::Forgets if write.create.is_none() => {
                self.server.remove(&write.name);
                Outcome::NotFound
            }
            _ if write.create.is_some() && exists => Outcome::AlreadyExists,
            _ if write.create.is_none() && !exists => Outcome::NotFound,
            Reply::Works | Reply::LosesResponse | Reply::Forgets => {
                let group = Arc::clone(&write.key.group);
                let note = write.create.as_ref().map(|(_, note)| note.clone());
                let event = self.server.entry(write.name.clone()).or_insert((group, note.unwrap_or_default(), 0));
                event.2 = write.count;
                if reply == Reply::LosesResponse { retry(false) } else { Outcome::Written }
            }
        };
        if matches!(outcome, Outcome::Retry { .. }) {
            self.failed.insert(write.name.clone());
        }
        self.done(write, outcome);
    }

    /// Answers all requests of now.
    fn works(&mut self) -> usize {
        let mut writes = 0;
        while let Some(write) = self.next() {
            self.answer(&write, Reply::Works);
            writes += 1;
        }
        writes
    }

    /// Lets time pass in steps of a second, while the server works.
    fn pass(&mut self, seconds: u32) -> usize {
        (0..seconds)
            .map(|_| {
                self.now += SECOND;
                self.works()
            })
            .sum()
    }

    /// Lets time pass until nothing is left to do.
    fn rest(&mut self) {
        loop {
            self.works();
            let Next::Wait(Some(until)) = self.correlator.next(self.now) else { return };
            self.now = until;
        }
    }

    fn counts(&self, object: &str) -> Vec<u32> {
        let of_object = self.server.values().filter(|(group, ..)| group.regarding.name == object);
        of_object.map(|(.., count)| *count).collect()
    }
}

#[test]
fn a_series_is_written_at_its_second_occurrence_and_then_ever_more_rarely() {
    let mut bench = Bench::new(100);
    let start = bench.now;
    for _ in 0..3 * 3600 {
        bench.record("a", "Failed", "no");
        bench.works();
        bench.now += SECOND;
    }
    let times: Vec<_> = bench.writes.iter().map(|(at, _)| (*at - start).as_secs()).collect();
    let minutes = [1, 2, 4, 8, 16, 30, 30, 30, 30];
    let mut expected = vec![0, 1];
    expected.extend(minutes.iter().scan(1, |at, minutes| {
        *at += minutes * 60;
        Some(*at)
    }));
    assert_eq!(times, expected);
    let counts: Vec<_> = bench.writes.iter().map(|(_, write)| write.count).collect();
    assert_eq!(counts, times.iter().map(|second| u32::try_from(second + 1).unwrap()).collect::<Vec<_>>());
    assert!(bench.writes[1..].iter().all(|(_, write)| write.create.is_none()));
}

#[test]
fn a_series_that_ends_is_written_with_its_last_count_and_forgotten() {
    let mut bench = Bench::new(100);
    for _ in 0..10 {
        bench.record("a", "Failed", "no");
        bench.works();
    }
    bench.record("b", "Failed", "no");
    assert_eq!(bench.counts("a"), [2], "the others wait for the heartbeat");
    assert_eq!(bench.pass(59), 1, "b is created");
    assert_eq!(bench.pass(1), 1);
    assert_eq!(bench.counts("a"), [10]);
    bench.record("a", "Failed", "no");
    // Its next heartbeat is after two minutes, and it is idle after six.
    assert_eq!(bench.pass(119), 0);
    assert_eq!(bench.pass(1), 1);
    assert_eq!(bench.pass(1000), 0);
    assert_eq!(bench.correlator.sizes()[0], 0);
    bench.record("a", "Failed", "no");
    bench.works();
    assert_eq!(bench.counts("a"), [11, 1], "a new series");
}

#[test]
fn a_series_that_ends_does_not_wait_for_its_heartbeat() {
    let mut bench = Bench::new(100);
    // The fifth heartbeat comes 16 minutes after the fourth.
    for _ in 0..(1 + 2 + 4 + 8) * 60 + 30 {
        bench.record("a", "Failed", "no");
        bench.works();
        bench.now += SECOND;
    }
    assert_eq!(bench.counts("a"), [902]);
    assert_eq!(bench.pass(358), 0);
    assert_eq!(bench.pass(1), 1);
    assert_eq!(bench.counts("a"), [930]);
}

#[test]
fn notes_beyond_ten_share_a_series() {
    let mut bench = Bench::new(100);
    for number in 0..25 {
        bench.record("a", "Failed", &format!("note {number}"));
    }
    bench.record("a", "Failed", "note 3");
    bench.works();
    bench.pass(60);
    let mut notes: Vec<_> = bench.server.values().map(|(_, note, count)| (note.as_str(), *count)).collect();
    notes.sort_unstable();
    assert_eq!(notes[0], ("(combined from similar events): note 10", 15));
    assert_eq!(notes[1..].iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1, 1, 1, 2, 1, 1, 1, 1, 1, 1]);
    // Other reasons are not concerned, and neither is the time after the window.
    bench.record("a", "Other", "note 20");
    // A minute of the ten has passed.
    bench.now += 539 * SECOND;
    bench.record("a", "Failed", "note 21");
    bench.now += SECOND;
    bench.record("a", "Failed", "note 20");
    bench.works();
    let is_alone = |wanted: &str| bench.server.values().filter(|(_, note, _)| note == wanted).count();
    assert_eq!((is_alone("note 20"), is_alone("note 21")), (2, 0));
}

#[test]
fn a_note_is_cut_with_its_prefix() {
    let mut bench = Bench::new(100);
    for number in 0..11 {
        bench.record("a", "Failed", &format!("{number}{}", "\u{e9}".repeat(511)));
    }
    bench.works();
    let longest = bench.server.values().map(|(_, note, _)| note.len()).max();
    assert_eq!(longest, Some(NOTE_BYTES_MAX));
}

#[test]
fn an_object_has_a_burst_and_then_one_event_in_ten_seconds() {
    let mut bench = Bench::new(1000);
    for number in 0..40 {
        bench.record("a", &format!("Reason{number}"), "no");
    }
    bench.record("b", "Failed", "no");
    bench.works();
    assert_eq!((bench.counts("a").len(), bench.counts("b").len()), (25, 1));
    assert_eq!(bench.correlator.metrics().rate_limited_total, 15);
    bench.pass(9);
    bench.record("a", "TooEarly", "no");
    bench.pass(1);
    bench.record("a", "InTime", "no");
    bench.record("a", "TooLate", "no");
    bench.works();
    assert_eq!(bench.counts("a").len(), 26);
    // The second of a known series waits for the next token.
    bench.record("a", "InTime", "no");
    assert_eq!(bench.pass(9), 0);
    assert_eq!(bench.pass(1), 1);
    assert_eq!(bench.correlator.metrics().rate_limited_total, 17);
}

#[test]
fn a_write_that_fails_holds_up_its_object_alone_unless_the_server_is_away() {
    let mut bench = Bench::new(100);
    bench.record("a", "First", "no");
    bench.record("a", "Second", "no");
    bench.record("b", "Third", "no");
    let first = bench.next().unwrap();
    assert_eq!(first.key.group.reason, "First");
    bench.done(&first, retry(false));
    let third = bench.next().unwrap();
    assert_eq!(third.key.group.reason, "Third");
    bench.done(&third, retry(true));
    assert!(bench.next().is_none());
    assert_eq!(bench.pass(1), 3);
    let reasons: Vec<_> = bench.writes.iter().map(|(_, write)| write.key.group.reason.to_string()).collect();
    let of_a: Vec<_> = reasons.iter().filter(|reason| *reason != "Third").collect();
    assert_eq!(of_a, ["First", "Second"]);
    assert_eq!(bench.correlator.metrics().retries_total, 2);
}

#[test]
fn the_delay_that_the_server_asks_for_counts() {
    let mut bench = Bench::new(100);
    bench.record("a", "First", "no");
    let write = bench.next().unwrap();
    bench.done(&write, Outcome::Retry { after: Some(17 * SECOND), everywhere: true, jitter: 1.0 });
    bench.record("b", "Second", "no");
    assert_eq!(bench.pass(16), 0);
    assert_eq!(bench.pass(1), 2);
}

#[test]
fn a_write_is_given_up_after_twelve_attempts() {
    let mut bench = Bench::new(100);
    bench.record("a", "First", "no");
    bench.record("a", "First", "no");
    bench.record("a", "Second", "no");
    let mut times = Vec::new();
    while bench.correlator.metrics().failed_total == 0 {
        match bench.next() {
            Some(write) => {
                assert_eq!((&*write.key.group.reason, write.count), ("First", 2));
                bench.done(&write, retry(false));
                times.push(bench.now);
            }
            None => bench.now += SECOND,
        }
    }
    let gaps: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert_eq!(gaps, [1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30]);
    assert_eq!(bench.correlator.metrics().failed_total, 2);
    bench.works();
    assert_eq!(bench.counts("a"), [1], "the second goes on");
}

#[test]
fn refused_and_discarded_events_are_counted_and_not_repeated() {
    let mut bench = Bench::new(100);
    for (outcome, refused, discarded) in
        [(Outcome::Refused, 1, 0), (Outcome::Discarded, 1, 1), (Outcome::NotFound, 1, 2)]
    {
        bench.record("a", "First", "no");
        let write = bench.next().unwrap();
        bench.done(&write, outcome);
        assert!(bench.next().is_none(), "{outcome:?}");
        let metrics = bench.correlator.metrics();
        assert_eq!((metrics.refused_total, metrics.discarded_total), (refused, discarded), "{outcome:?}");
    }
    assert_eq!(bench.pass(2000), 0);
}

#[test]
fn an_event_that_is_deleted_comes_again_with_its_count() {
    let mut bench = Bench::new(100);
    bench.record("a", "First", "no");
    bench.works();
    bench.server.clear();
    bench.record("a", "First", "no");
    bench.works();
    assert_eq!(bench.counts("a"), [2]);
}

#[test]
fn an_event_whose_name_is_taken_gets_another() {
    let mut bench = Bench::new(100);
    bench.record("a", "First", "no");
    let write = bench.next().unwrap();
    bench.done(&write, Outcome::AlreadyExists);
    let again = bench.next().unwrap();
    assert_ne!(again.name, write.name);
    bench.answer(&again, Reply::Works);
    assert_eq!(bench.counts("a"), [1]);
}

#[test]
fn a_flush_writes_each_count_once_and_gives_up_what_fails() {
    let mut bench = Bench::new(100);
    for _ in 0..5 {
        bench.record("a", "First", "no");
        bench.works();
    }
    bench.record("b", "Second", "no");
    let write = bench.next().unwrap();
    bench.done(&write, retry(true));
    bench.record("c", "Third", "no");
    assert!(bench.next().is_none());
    bench.correlator.flush(bench.now);
    let mut seen = Vec::new();
    while let Some(write) = bench.next() {
        seen.push(write.key.group.reason.to_string());
        if write.key.group.reason == "Second" {
            bench.done(&write, retry(false));
        } else {
            bench.answer(&write, Reply::Works);
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, ["First", "Second", "Third"]);
    assert_eq!((bench.counts("a"), bench.counts("c")), (vec![5], vec![1]));
    let metrics = bench.correlator.metrics();
    assert_eq!((metrics.failed_total, metrics.pending), (1, 0));
    bench.correlator.end();
    bench.record("a", "First", "no");
    assert!(bench.next().is_none());
    assert_eq!(bench.correlator.metrics().failed_total, 2);
}

/// One thing that happens.
#[derive(Debug, Clone)]
enum Op {
    Record { object: u8, reason: u8, note: u8, times: u8 },
    Pass { seconds: u16 },
    Answer(Reply),
}

fn ops(faults: bool) -> impl Strategy<Value = Vec<Op>> {
    let reply = if faults {
        prop_oneof![
            3 => Just(Reply::Works),
            1 => Just(Reply::FailsOnce),
            1 => Just(Reply::LosesResponse),
            1 => Just(Reply::Forgets),
            1 => Just(Reply::Refuses),
        ]
        .boxed()
    } else {
        Just(Reply::Works).boxed()
    };
    let op = prop_oneof![
        4 => (0..4_u8, 0..3_u8, 0..13_u8, 1..4_u8)
            .prop_map(|(object, reason, note, times)| Op::Record { object, reason, note, times }),
        1 => (0..700_u16).prop_map(|seconds| Op::Pass { seconds }),
        4 => reply.prop_map(Op::Answer),
    ];
    proptest::collection::vec(op, 1..150)
}

fn apply(bench: &mut Bench, op: &Op, answer_at_once: bool) {
    match *op {
        Op::Record { object, reason, note, times } => {
            for _ in 0..times {
                bench.record(&format!("object{object}"), &format!("Reason{reason}"), &format!("note {note}"));
            }
        }
        Op::Pass { seconds } => bench.now += SECOND * u32::from(seconds),
        Op::Answer(reply) => {
            if let Some(write) = bench.next() {
                // The second attempt works. Of a create whose response is lost the correlator
                // cannot know the count, and takes it as one until its next patch.
                let is_unsure = reply == Reply::LosesResponse && write.create.is_some() && write.count > 1;
                let works = is_unsure || bench.failed.contains(&write.name);
                let reply = if works { Reply::Works } else { reply };
                bench.answer(&write, reply);
            }
        }
    }
    if answer_at_once {
        bench.works();
    }
}

proptest! {
    /// Every occurrence is in an Event of the server, or counted as dropped.
    #[test]
    fn every_occurrence_is_accounted_for(ops in ops(true)) {
        let mut bench = Bench::new(1000);
        ops.iter().for_each(|op| apply(&mut bench, op, false));
        bench.rest();
        let metrics = bench.correlator.metrics();
        prop_assert_eq!(metrics.pending, 0);
        let on_server: u64 = bench.server.values().map(|(.., count)| u64::from(*count)).sum();
        let dropped = metrics.rate_limited_total + metrics.refused_total + metrics.failed_total;
        prop_assert_eq!((metrics.evicted_total, metrics.discarded_total), (0, 0));
        prop_assert_eq!(metrics.recorded_total, on_server + dropped);
        prop_assert_eq!(bench.correlator.sizes()[0], 0, "series that ended are forgotten");
        prop_assert_eq!(&bench.correlator.sizes()[3..], [0, 0]);
    }

    /// Without faults: the server's counts are those of a model, and no window has too many writes.
    #[test]
    fn counts_are_those_of_a_model_and_writes_stay_within_the_bound(ops in ops(false)) {
        let mut bench = Bench::new(1000);
        let mut model: HashMap<(String, String), u64> = HashMap::new();
        for op in &ops {
            if let Op::Record { object, reason, times, .. } = op {
                *model.entry((format!("object{object}"), format!("Reason{reason}"))).or_default() += u64::from(*times);
            }
            apply(&mut bench, op, true);
        }
        bench.rest();
        for (index, (from, first)) in bench.writes.iter().enumerate() {
            let object = &first.key.group.regarding;
            let same = bench.writes[index..].iter().filter(|(_, write)| write.key.group.regarding == *object);
            for (number, (at, _)) in same.enumerate() {
                let allowed = u64::from(BURST) + (*at - *from).as_secs() / TOKEN_INTERVAL.as_secs();
                prop_assert!((number as u64) < allowed, "{number} writes from {from:?} to {at:?}");
            }
        }
        let mut counts: HashMap<(String, String), u64> = HashMap::new();
        for (group, _, count) in bench.server.values() {
            *counts.entry((group.regarding.name.clone(), group.reason.to_string())).or_default() += u64::from(*count);
        }
        if bench.correlator.metrics().rate_limited_total == 0 {
            prop_assert_eq!(counts, model);
        } else {
            for (key, count) in counts {
                prop_assert!(count <= model[&key]);
            }
        }
    }

    /// The Events of an object are created in the order of their first occurrences.
    #[test]
    fn events_of_an_object_are_in_order(ops in ops(true)) {
        let mut bench = Bench::new(1000);
        ops.iter().for_each(|op| apply(&mut bench, op, false));
        bench.rest();
        let mut last: HashMap<String, (Timestamp, String)> = HashMap::new();
        let mut created = HashSet::new();
        for (_, write) in &bench.writes {
            let Some((first, _)) = write.create.clone() else { continue };
            // An Event that the server has forgotten comes again later.
            if !created.insert((Arc::clone(&write.key), first)) {
                continue;
            }
            let this = (first, write.name.clone());
            let object = write.key.group.regarding.name.clone();
            if let Some(before) = last.insert(object, this.clone()) {
                prop_assert!(before <= this, "{before:?} before {this:?}");
            }
        }
    }

    /// Whatever happens, memory stays within its bound, and what is forgotten is counted.
    #[test]
    fn memory_is_bounded(ops in ops(true), known_max in 1_usize..5) {
        let mut bench = Bench::new(known_max);
        for op in &ops {
            apply(&mut bench, op, false);
            let [series, groups, objects, wakes, timers] = bench.correlator.sizes();
            prop_assert!(series <= known_max && groups <= known_max && objects <= known_max);
            prop_assert!(wakes <= objects && timers <= series);
        }
        bench.rest();
        prop_assert_eq!(bench.correlator.sizes()[0], 0);
        let metrics = bench.correlator.metrics();
        let on_server: u64 = bench.server.values().map(|(.., count)| u64::from(*count)).sum();
        let dropped = metrics.rate_limited_total + metrics.refused_total + metrics.failed_total + metrics.evicted_total;
        prop_assert!(metrics.recorded_total <= on_server + dropped);
    }
}
