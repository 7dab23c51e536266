//! Why did this happen? The causes of each key, the last reconciles of each controller, and cycles
//! among them.
//!
//! An event adds a key with its [`Causes`] to the queue. The worker takes both, and runs the
//! reconcile with a [log](log::logged) that the client writes to. The end becomes a [`Record`] in
//! the [`Ring`] of the controller. If the reconcile wrote something, [`HotLoops`] looks for a
//! cycle.

mod cause;
mod hot_loop;
pub(crate) mod log;
mod page;
mod record;
mod ring;
mod state;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use steersman_cache::ObjectKey;

use hot_loop::{Finding, HotLoop, HotLoops, Turn, WINDOW};
use log::Manager as FieldManager;
use record::{ERROR_MAX, Record, truncated};
use ring::Ring;

pub(crate) use cause::{Cause, Causes, EventType, Source, SourceInfo};
pub(crate) use record::Ending;
pub(crate) use state::DebugClock;
pub use state::{
    CauseState, ControllerState, DebugQuery, DebugState, FailingKey, HotLoopState, InformerState, LeaseState,
    ReconcileState, WaitedReadState, WaitingKey, WriteState,
};

/// Settings of the flight recorder, which keeps the last reconciles of each controller: what caused
/// them, what they wrote and how they ended.
///
/// It is on by default. Its memory is bounded: by default 256 reconciles and 1 MiB for each
/// controller, whichever is less (test `the_memory_is_bounded_whatever_reconciles_do`). A reconcile
/// needs some 300 bytes. Each key that waits in a queue has its causes: under 1 KiB with usual
/// names, under 2 KiB with the longest. The detection of hot loops of the manager needs less than
/// 1 MiB if reconciles write a few objects with usual names, and never more than 10 MiB (test
/// `the_memory_is_bounded`). It keeps kinds, keys, versions and error texts, never the content of
/// an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct FlightRecorder {
    records_max: usize,
    bytes_max: usize,
}

impl Default for FlightRecorder {
    fn default() -> Self {
        Self { records_max: 256, bytes_max: 1 << 20 }
    }
}

impl FlightRecorder {
    /// Records nothing: no causes, no reconciles, no hot loops. `reconcile_trigger_total` and
    /// `reconcile_hot_loops_total` stay 0.
    pub fn off() -> Self {
        Self { records_max: 0, bytes_max: 0 }
    }

    /// How many reconciles of each controller are kept. Default: 256.
    pub fn reconciles_max(mut self, reconciles: usize) -> Self {
        self.records_max = reconciles;
        self
    }

    /// How many bytes the reconciles of each controller may take. Default: 1 MiB.
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    fn is_on(self) -> bool {
        self.records_max > 0
    }
}

/// How many hot loops are kept.
const LOOPS_KEPT: usize = 16;
/// How many objects are looked at closely at a time.
const SUSPECTS_MAX: usize = 64;
/// How often the other client of a suspect is looked for.
const NAMING_ATTEMPTS_MAX: u32 = 5;

/// The recorder of a manager.
pub(crate) struct Hub {
    settings: FlightRecorder,
    loops: Mutex<HotLoops>,
    /// The newest hot loops, oldest first.
    found: Mutex<VecDeque<(HotLoop, Instant)>>,
    /// By kind and key.
    suspects: Mutex<HashMap<(Box<str>, ObjectKey), Suspect>>,
    suspects_count: AtomicUsize,
}

/// An object that another client may fight for.
struct Suspect {
    since: Instant,
    /// How many attempts to name the other client have begun.
    attempts: u32,
    /// The field managers before the last write, if they are known.
    before: Option<Vec<FieldManager>>,
    /// The field manager that lost fields by our write.
    name: Option<String>,
}

impl Suspect {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) > WINDOW
    }
}

impl Hub {
    pub(crate) fn new(settings: FlightRecorder) -> Arc<Self> {
        Arc::new(Self {
            settings,
            loops: Mutex::default(),
            found: Mutex::default(),
            suspects: Mutex::default(),
            suspects_count: AtomicUsize::new(0),
        })
    }

    /// The recorder of one controller. `None` if nothing is recorded.
    pub(crate) fn controller(self: &Arc<Self>, name: &str) -> Option<ControllerRecorder> {
        let FlightRecorder { records_max, bytes_max } = self.settings;
        self.settings.is_on().then(|| ControllerRecorder {
            hub: Arc::clone(self),
            name: name.into(),
            ring: Mutex::new(Ring::new(records_max, bytes_max)),
            reconciles: AtomicU64::new(0),
            hot_loops: AtomicU64::new(0),
        })
    }

    /// Returns `true` if an object is looked at closely.
    fn has_suspects(&self) -> bool {
        self.suspects_count.load(Ordering::Relaxed) > 0
    }

    fn is_suspected(&self, kind: &str, key: &ObjectKey) -> bool {
        self.has_suspects() && self.with_suspect(kind, key, |_| ()).is_some()
    }

    /// Returns `true` if the other client of a suspected object has to be named. That costs two
    /// requests. It fails if the other client writes between them, so there are some attempts.
    fn begin_naming(&self, kind: &str, key: &ObjectKey) -> bool {
        self.with_suspect(kind, key, |suspect| {
            let begins = suspect.name.is_none() && suspect.attempts < NAMING_ATTEMPTS_MAX;
            suspect.attempts += u32::from(begins);
            begins
        })
        .unwrap_or(false)
    }

    /// Changes a suspect, unless its time is over.
    fn with_suspect<T>(&self, kind: &str, key: &ObjectKey, change: impl FnOnce(&mut Suspect) -> T) -> Option<T> {
        let now = tokio::time::Instant::now().into_std();
        let mut suspects = lock(&self.suspects);
        let suspect = suspects.get_mut(&(kind.into(), key.clone()))?;
        (!suspect.is_over(now)).then(|| change(suspect))
    }

    /// The field managers of a suspected object before it is written.
    pub(crate) fn managers_before(&self, kind: &str, key: &ObjectKey, managers: Vec<FieldManager>) {
        self.with_suspect(kind, key, |suspect| suspect.before = Some(managers));
    }

    /// Names the other client of a suspected object: the one that owned fields before our write and
    /// owns fewer after it.
    pub(crate) fn name_suspect(&self, kind: &str, key: &ObjectKey, after: &[FieldManager]) {
        self.with_suspect(kind, key, |suspect| {
            let Some(before) = suspect.before.take() else { return };
            let lost = |(name, fields): &&FieldManager| {
                !name.is_empty() && after.iter().all(|(other, left)| other != name || left < fields)
            };
            suspect.name = before.iter().find(lost).map(|(name, _)| name.clone());
        });
    }

    /// Looks at an object closely. If there are too many, the oldest one makes room.
    fn suspect(&self, kind: Box<str>, key: ObjectKey, now: Instant) {
        let mut suspects = lock(&self.suspects);
        suspects.retain(|_, suspect| !suspect.is_over(now));
        if suspects.len() >= SUSPECTS_MAX
            && let Some(oldest) = suspects.iter().min_by_key(|(_, suspect)| suspect.since).map(|(id, _)| id.clone())
        {
            suspects.remove(&oldest);
        }
        let suspect = Suspect { since: now, attempts: 0, before: None, name: None };
        suspects.entry((kind, key)).or_insert(suspect);
        self.suspects_count.store(suspects.len(), Ordering::Relaxed);
    }

    /// Remembers the write of a reconcile that still runs.
    fn wrote(&self, turn: Turn<'_>) {
        lock(&self.loops).wrote(turn);
    }

    /// Reports a hot loop, once.
    fn report(&self, mut found: HotLoop, now: Instant) {
        if found.is_foreign {
            let mut suspects = lock(&self.suspects);
            if let Some(name) =
                suspects.remove(&(found.kind.clone(), found.object.clone())).and_then(|suspect| suspect.name)
            {
                found.name_other(&name);
            }
            self.suspects_count.store(suspects.len(), Ordering::Relaxed);
        }
        let HotLoop { controller, key, cycle, rounds, .. } = &found;
        tracing::warn!(%controller, %key, rounds, "hot loop: {cycle}, and so on");
        let mut all = lock(&self.found);
        if all.len() == LOOPS_KEPT {
            all.pop_front();
        }
        all.push_back((found, now));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records the reconciles of one controller.
pub(crate) struct ControllerRecorder {
    hub: Arc<Hub>,
    name: Arc<str>,
    ring: Mutex<Ring>,
    /// The number of the last reconcile.
    reconciles: AtomicU64,
    hot_loops: AtomicU64,
}

impl ControllerRecorder {
    /// How many hot loops were found.
    pub(crate) fn hot_loops(&self) -> u64 {
        self.hot_loops.load(Ordering::Relaxed)
    }

    /// The record of a reconcile that begins.
    pub(crate) fn start(
        &self,
        key: ObjectKey,
        mut causes: Causes,
        attempt: u32,
        queued: Duration,
        now: Instant,
    ) -> Record {
        causes.settle(now);
        let id = self.reconciles.fetch_add(1, Ordering::Relaxed) + 1;
        let (took, ending) = (Duration::ZERO, Ending::Done);
        Record { id, key, attempt, causes, queued, started: now, took, actions: None, ending }
    }

    /// Ends the record of the reconcile that runs in this task.
    pub(crate) fn end(&self, ending: Ending, took: Duration, now: Instant) {
        let Some(mut record) = log::end() else { return };
        record.causes.end_span();
        (record.ending, record.took) = (ending, took);
        if !record.writes().is_empty() {
            self.look_for_loop(&record, now);
        }
        lock(&self.ring).push(record);
    }

    fn look_for_loop(&self, record: &Record, now: Instant) {
        let writes_total =
            record.actions.as_ref().map_or(0, |actions| actions.writes.len() + actions.more_writes as usize);
        let (controller, writes) = (&self.name, record.writes());
        let turn = Turn { controller, key: &record.key, causes: &record.causes, writes, writes_total };
        let finding = lock(&self.hub.loops).turn(turn, now);
        match finding {
            None => {}
            Some(Finding::Suspected { kind, object }) => self.hub.suspect(kind, object, now),
            Some(Finding::HotLoop(found)) => {
                self.hot_loops.fetch_add(1, Ordering::Relaxed);
                self.hub.report(found, now);
            }
        }
    }
}

/// The text of an error, as it is kept.
pub(crate) fn error_text(error: &crate::ReconcileError) -> Box<str> {
    truncated(&error.to_string(), ERROR_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn suspects_are_bounded_expire_and_are_named() {
        let hub = Hub::new(FlightRecorder::default());
        let key = |number: usize| ObjectKey::new("default", &number.to_string());
        let now = || tokio::time::Instant::now().into_std();
        for number in 0..=SUSPECTS_MAX {
            hub.suspect("ConfigMap".into(), key(number), now());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let is_suspected = |number| hub.is_suspected("ConfigMap", &key(number));
        assert!(!is_suspected(0) && is_suspected(1) && is_suspected(SUSPECTS_MAX), "the oldest one made room");
        assert!(!hub.is_suspected("Secret", &key(1)), "another kind");
        let attempts = (0..10).filter(|_| hub.begin_naming("ConfigMap", &key(1))).count();
        assert_eq!(attempts, 5, "the attempts are bounded");
        let managers = |fields| vec![("rival".to_owned(), fields)];
        assert!(hub.begin_naming("ConfigMap", &key(2)));
        hub.managers_before("ConfigMap", &key(2), managers(2));
        hub.name_suspect("ConfigMap", &key(2), &managers(2));
        assert!(hub.begin_naming("ConfigMap", &key(2)), "the rival wrote before the fields were read");
        hub.managers_before("ConfigMap", &key(2), managers(2));
        hub.name_suspect("ConfigMap", &key(2), &managers(1));
        assert!(!hub.begin_naming("ConfigMap", &key(2)), "it has a name");
        tokio::time::advance(WINDOW).await;
        assert!(!is_suspected(SUSPECTS_MAX), "the time is over");
        hub.suspect("ConfigMap".into(), key(1), now());
        assert_eq!(lock(&hub.suspects).len(), 1);
        assert!(hub.begin_naming("ConfigMap", &key(1)));
    }
}
