use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn timing() -> Timing {
    Timing { fallback_poll: 600 * SECOND, ..Timing::default() }
}

fn wall(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn election() -> Election {
    Election::new("me".to_owned(), timing())
}

fn record(holder: &str, transitions: i32, renewed: i64) -> Record {
    let time = Some(wall(renewed));
    Record { holder: holder.to_owned(), duration: 15 * SECOND, transitions, acquired: Some(wall(0)), renewed: time }
}

fn seen(version: u64, record: Record) -> Seen {
    Seen { uid: "uid".to_owned(), version: version.to_string(), record }
}

fn replaced(step: Step) -> Record {
    match step {
        Step::Replace { record, .. } => record,
        other => panic!("not a replacement: {other:?}"),
    }
}

/// A leader whose last renewal was sent at zero.
fn leader() -> Election {
    let mut election = election();
    election.saw(None, Duration::ZERO);
    let Step::Create(record) = election.step(Duration::ZERO, wall(0)) else { panic!() };
    assert_eq!((record.transitions, record.acquired), (0, Some(wall(0))));
    election.wrote(seen(1, record), Duration::ZERO, Duration::ZERO);
    election
}

#[test]
fn a_standby_reads_first_and_waits_for_another_holder() {
    let mut election = election();
    assert_eq!(election.step(Duration::ZERO, wall(0)), Step::Read);
    election.saw(Some(seen(5, record("other", 3, 0))), SECOND);
    assert_eq!(election.step(SECOND, wall(0)), Step::Wait(16 * SECOND));
    assert_eq!(election.holder(), "other");
}

#[test]
fn a_record_that_does_not_change_for_its_duration_is_taken_over() {
    let mut election = election();
    election.saw(Some(seen(5, record("other", 3, 0))), SECOND);
    // A new version without a new record is no renewal.
    election.saw(Some(seen(6, record("other", 3, 0))), 10 * SECOND);
    let taken = replaced(election.step(16 * SECOND, wall(16)));
    assert_eq!((taken.holder.as_str(), taken.transitions, taken.acquired), ("me", 4, Some(wall(16))));
}

#[test]
fn a_renewal_starts_the_duration_again_whatever_the_clocks_show() {
    for clock in [-3600, 0, 3600] {
        let mut election = election();
        election.saw(Some(seen(5, record("other", 3, clock))), SECOND);
        election.saw(Some(seen(6, record("other", 3, clock + 2))), 10 * SECOND);
        assert_eq!(election.step(16 * SECOND, wall(0)), Step::Wait(25 * SECOND));
    }
}

#[test]
fn the_duration_is_that_of_the_record() {
    let mut election = election();
    let short = Record { duration: 3 * SECOND, ..record("other", 0, 0) };
    election.saw(Some(seen(5, short)), SECOND);
    assert!(matches!(election.step(4 * SECOND, wall(4)), Step::Replace { .. }));
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let mut election = election();
    election.saw(Some(seen(5, record("", 3, 0))), SECOND);
    assert_eq!(replaced(election.step(SECOND, wall(1))).transitions, 4);
}

#[test]
fn a_standby_whose_response_was_lost_finds_itself_and_keeps_the_epoch() {
    let mut election = election();
    election.saw(Some(seen(5, record("me", 3, 0))), SECOND);
    let renewed = replaced(election.step(SECOND, wall(1)));
    assert_eq!((renewed.transitions, renewed.acquired), (3, Some(wall(0))));
}

#[test]
fn a_leader_renews_each_retry_period_and_keeps_acquire_time_and_transitions() {
    let mut election = leader();
    assert_eq!(election.step(SECOND, wall(1)), Step::Wait(2 * SECOND));
    let renewed = replaced(election.step(2 * SECOND, wall(2)));
    assert_eq!((renewed.transitions, renewed.acquired, renewed.renewed), (0, Some(wall(0)), Some(wall(2))));
    election.wrote(seen(2, renewed), 2 * SECOND, 3 * SECOND);
    assert_eq!(election.renewal_sent(), Some(2 * SECOND));
    assert_eq!(election.epoch(), Some(&Epoch { lease_uid: "uid".to_owned(), transitions: 0 }));
}

#[test]
fn a_conflict_is_followed_by_a_read_at_once_and_an_error_by_one_after_the_retry_period() {
    let mut election = leader();
    election.failed(true, 2 * SECOND, 0.5);
    assert_eq!(election.step(2 * SECOND, wall(2)), Step::Read);
    election.failed(false, 2 * SECOND, 0.5);
    assert_eq!(election.step(2 * SECOND, wall(2)), Step::Wait(4 * SECOND), "a leader does not spread its attempts");
    election.saw(Some(seen(7, record("me", 0, 0))), 4 * SECOND);
    assert_eq!(replaced(election.step(4 * SECOND, wall(4))).transitions, 0);
}

#[test]
fn a_leader_without_a_renewal_loses_at_the_deadline_counted_from_sending() {
    let mut election = leader();
    for second in [2, 4, 6, 8] {
        election.failed(false, second * SECOND, 0.0);
    }
    assert_eq!(election.step(9 * SECOND, wall(9)), Step::Wait(10 * SECOND));
    assert_eq!(election.step(10 * SECOND, wall(10)), Step::Lost(Loss::Deadline));
    assert_eq!(election.epoch(), None);
    // A late success changes nothing.
    election.wrote(seen(9, record("me", 0, 8)), 8 * SECOND, 11 * SECOND);
    assert_eq!(election.step(11 * SECOND, wall(11)), Step::Lost(Loss::Deadline));
}

#[test]
fn a_response_later_than_the_deadline_makes_no_leader() {
    let mut election = election();
    election.saw(None, Duration::ZERO);
    let Step::Create(own) = election.step(Duration::ZERO, wall(0)) else { panic!() };
    election.wrote(seen(1, own), Duration::ZERO, 10 * SECOND);
    assert_eq!(election.epoch(), None);
    assert_eq!(replaced(election.step(10 * SECOND, wall(10))).transitions, 0, "it renews instead");
}

#[test]
fn a_leader_loses_when_it_sees_another_holder_or_none() {
    for (holder, loss) in [("other", Loss::Taken { holder: "other".to_owned() }), ("", Loss::Released)] {
        let mut election = leader();
        election.saw(Some(seen(9, record(holder, 1, 1))), SECOND);
        assert_eq!(election.step(SECOND, wall(1)), Step::Lost(loss));
    }
}

#[test]
fn a_late_event_behind_our_own_write_is_ignored() {
    let mut election = election();
    election.saw(Some(seen(5, record("", 3, 0))), SECOND);
    let taken = replaced(election.step(SECOND, wall(1)));
    election.wrote(seen(6, taken), SECOND, SECOND);
    election.saw(Some(seen(5, record("", 3, 0))), 2 * SECOND);
    assert!(election.epoch().is_some());
}

#[test]
fn a_leader_creates_a_deleted_lease_as_a_new_epoch() {
    let mut election = leader();
    election.saw(None, SECOND);
    let Step::Create(own) = election.step(2 * SECOND, wall(2)) else { panic!() };
    assert_eq!(own.transitions, 1);
    let created = Seen { uid: "new".to_owned(), version: "9".to_owned(), record: own };
    election.wrote(created, 2 * SECOND, 2 * SECOND);
    assert_eq!(election.epoch(), Some(&Epoch { lease_uid: "new".to_owned(), transitions: 1 }));
}

#[test]
fn a_standby_waits_for_the_holder_of_a_deleted_lease() {
    // The holder may have renewed since the last event.
    for holder in ["other", "", "me"] {
        let mut election = election();
        election.saw(Some(seen(5, Record { duration: SECOND, ..record(holder, 3, 0) })), SECOND);
        election.saw(None, 30 * SECOND);
        assert_eq!(election.step(30 * SECOND, wall(30)), Step::Wait(45 * SECOND), "{holder:?}");
        election.saw(None, 40 * SECOND);
        assert!(matches!(election.step(45 * SECOND, wall(45)), Step::Create(_)), "{holder:?}");
    }
    let mut election = election();
    election.saw(None, SECOND);
    assert!(matches!(election.step(SECOND, wall(1)), Step::Create(_)), "it has never seen a Lease");
}

#[test]
fn a_standby_polls_if_the_watch_brings_nothing() {
    let short = Timing { fallback_poll: 5 * SECOND, ..Timing::default() };
    let mut election = Election::new("me".to_owned(), short);
    election.saw(Some(seen(5, record("other", 3, 0))), SECOND);
    assert_eq!(election.step(SECOND, wall(1)), Step::Wait(6 * SECOND));
    assert_eq!(election.step(6 * SECOND, wall(6)), Step::Read);
}

#[test]
fn only_the_named_holder_releases() {
    let election = leader();
    let released = election.release(&seen(9, record("me", 4, 0)), wall(20)).unwrap();
    assert_eq!((released.holder.as_str(), released.duration, released.transitions), ("", SECOND, 4));
    assert_eq!(election.release(&seen(9, record("other", 5, 0)), wall(20)), None);
}

// Three replicas on one server, with requests that take time, fail or lose their response, replicas
// that pause, watches that are late, and orderly stops.

/// What happens to a replica in one tick of half a second.
#[derive(Debug, Clone)]
struct Choice {
    fate: Fate,
    /// When the response to a request that is sent now arrives, in ticks from now.
    latency: u32,
    /// The replica sees the present state by its watch.
    watch: bool,
    /// The replica does nothing for this number of ticks.
    pause: u32,
    /// A leader releases the Lease and contends again as a new process.
    release: bool,
    /// A leader that has lost contends again as the same process.
    step_down: bool,
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    Done,
    LostBefore,
    LostAfter,
}

/// When the Lease is deleted: in this tick, or later when each replica has seen it.
fn deletions() -> impl Strategy<Value = Option<usize>> {
    prop::option::of(0..150_usize)
}

fn choices() -> impl Strategy<Value = Vec<[Choice; 3]>> {
    let fate = prop_oneof![12 => Just(Fate::Done), 1 => Just(Fate::LostBefore), 1 => Just(Fate::LostAfter)];
    let latency = prop_oneof![9 => 0..2_u32, 1 => 2..30_u32];
    let pause = prop_oneof![30 => Just(0), 1 => 2..60_u32];
    let choice = (fate, latency, prop::bool::weighted(0.5), pause, prop::bool::weighted(0.01), any::<bool>());
    let choice = choice.prop_map(|(fate, latency, watch, pause, release, step_down)| Choice {
        fate,
        latency,
        watch,
        pause,
        release,
        step_down,
    });
    prop::collection::vec([choice.clone(), choice.clone(), choice], 200)
}

#[derive(Debug)]
enum Response {
    Read(Option<Seen>),
    Wrote(Seen),
    Failed { conflict: bool },
}

struct Replica {
    name: String,
    starts: usize,
    election: Election,
    /// The tick in which a response arrives, when its request was sent, and the response.
    pending: Option<(usize, Duration, Response)>,
    paused_until: usize,
}

impl Replica {
    fn new(index: usize, starts: usize) -> Self {
        let name = format!("{index}-{starts}");
        Self { election: Election::new(name.clone(), timing()), name, starts, pending: None, paused_until: 0 }
    }

    /// Whether the write gate is open.
    fn may_write(&self, now: Duration) -> bool {
        self.election.renewal_sent().is_some_and(|sent| now < sent + timing().renew_deadline)
    }
}

#[derive(Default)]
struct Server {
    lease: Option<Seen>,
    version: u64,
    /// The tick in which the Lease was deleted.
    deleted: Option<usize>,
}

impl Server {
    /// When a process that starts now acts first. After a deletion, it does not know that another
    /// replica may still lead.
    fn next_start(&self, tick: usize) -> usize {
        let deadline = timing().renew_deadline.as_secs() as usize * 2;
        self.deleted.map_or(tick, |deleted| tick.max(deleted + deadline))
    }
}

impl Server {
    fn apply(&mut self, step: &Step) -> Response {
        let record = match (step, &self.lease) {
            (Step::Read, lease) => return Response::Read(lease.clone()),
            (Step::Create(record), None) => record.clone(),
            (Step::Replace { version, record }, Some(lease)) if lease.version == *version => record.clone(),
            _ => return Response::Failed { conflict: true },
        };
        self.version += 1;
        let uid = if self.deleted.is_some() && self.lease.is_none() { "again" } else { "uid" };
        let uid = self.lease.as_ref().map_or(uid, |lease| &*lease.uid).to_owned();
        let lease = Seen { uid, ..seen(self.version, record) };
        self.lease = Some(lease.clone());
        Response::Wrote(lease)
    }
}

/// One tick of a replica.
fn act(replica: &mut Replica, index: usize, choice: &Choice, tick: usize, now: Duration, server: &mut Server) {
    if tick < replica.paused_until {
        return;
    }
    replica.paused_until = tick + choice.pause as usize;
    if replica.pending.as_ref().is_some_and(|(arrives, ..)| *arrives <= tick) {
        match replica.pending.take() {
            None => {}
            Some((_, _, Response::Read(lease))) => _ = replica.election.saw(lease, now),
            Some((_, sent, Response::Wrote(lease))) => replica.election.wrote(lease, sent, now),
            Some((.., Response::Failed { conflict })) => replica.election.failed(conflict, now, 0.5),
        }
    }
    if choice.watch {
        replica.election.saw(server.lease.clone(), now);
    }
    if choice.release
        && let Some(lease) = server.lease.clone()
        && let Some(record) = replica.election.release(&lease, wall(0))
    {
        server.apply(&Step::Replace { version: lease.version, record });
        *replica = Replica::new(index, replica.starts + 1);
        replica.paused_until = server.next_start(tick);
    }
    if replica.pending.is_some() {
        return;
    }
    // Wall clocks differ by hours and count for nothing.
    let clock = wall(i64::try_from(now.as_secs()).unwrap() + 3600 * i64::try_from(index).unwrap());
    let step = replica.election.step(now, clock);
    let response = match (&step, choice.fate) {
        (Step::Wait(until), _) => return assert!(*until > now),
        (Step::Lost(_), _) if choice.step_down => return replica.election.contend_again(),
        (Step::Lost(_), _) => {
            *replica = Replica::new(index, replica.starts + 1);
            replica.paused_until = server.next_start(tick);
            return;
        }
        (_, Fate::Done) => server.apply(&step),
        (_, Fate::LostAfter) => {
            server.apply(&step);
            Response::Failed { conflict: false }
        }
        (_, Fate::LostBefore) => Response::Failed { conflict: false },
    };
    replica.pending = Some((tick + choice.latency as usize, now, response));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn at_most_one_replica_may_write(ticks in choices(), mut deletion in deletions()) {
        let mut server = Server::default();
        let mut replicas: Vec<_> = (0..3).map(|index| Replica::new(index, 0)).collect();
        let mut epochs = std::collections::HashMap::new();
        for (tick, choices) in ticks.into_iter().enumerate() {
            let now = SECOND * 1000 + Duration::from_millis(500) * u32::try_from(tick).unwrap();
            // A replica that has never seen the Lease takes a deleted one for one that never was.
            let is_known = replicas.iter().all(|replica| matches!(replica.election.known, Known::Lease { .. }));
            if is_known && deletion.is_some_and(|at| at <= tick) {
                (deletion, server.lease, server.deleted) = (None, None, Some(tick));
            }
            for (index, choice) in choices.into_iter().enumerate() {
                act(&mut replicas[index], index, &choice, tick, now, &mut server);
                let writers: Vec<_> = replicas.iter().filter(|replica| replica.may_write(now)).collect();
                prop_assert!(writers.len() <= 1, "{:?}", writers.iter().map(|writer| &writer.name).collect::<Vec<_>>());
                for writer in writers {
                    // An epoch belongs to one process.
                    let epoch = writer.election.epoch().unwrap().clone();
                    let owner = epochs.entry(epoch).or_insert_with(|| writer.name.clone());
                    prop_assert_eq!(&*owner, &writer.name);
                }
            }
        }
    }

    #[test]
    fn a_replica_alone_becomes_leader_however_it_starts(holder in "[a-z]?", transitions in 0..9, fails in 0..5_u32) {
        let mut server = Server { lease: Some(seen(1, record(&holder, transitions, 0))), version: 1, deleted: None };
        let mut replica = Replica::new(0, 0);
        let (mut now, mut fails) = (SECOND, fails);
        for _ in 0..100 {
            match replica.election.step(now, wall(0)) {
                Step::Wait(until) => now = until,
                Step::Lost(loss) => panic!("{loss:?}"),
                _ if fails > 0 => {
                    fails -= 1;
                    replica.election.failed(false, now, 1.0);
                }
                step => match server.apply(&step) {
                    Response::Read(lease) => _ = replica.election.saw(lease, now),
                    Response::Wrote(lease) => replica.election.wrote(lease, now, now),
                    Response::Failed { conflict } => replica.election.failed(conflict, now, 1.0),
                },
            }
            if replica.may_write(now) {
                prop_assert!(now <= SECOND * (1 + 15 + 5 * 5));
                return Ok(());
            }
        }
        prop_assert!(false, "no leader after 100 steps");
    }
}
