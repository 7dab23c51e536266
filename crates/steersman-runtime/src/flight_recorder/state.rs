//! The state of a manager as JSON: `/debug/state`.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use steersman_cache::{ObjectKey, ReflectorStatus};

use super::cause::{Cause, Causes};
use super::record::{Actions, ERROR_MAX, Ending, Record, truncated};
use super::{ControllerRecorder, Hub, lock};

/// How many reconciles of a controller are shown if no key is asked for.
const SHOWN: usize = 50;

/// Selects what [`Manager::debug_state`](crate::Manager::debug_state) shows. By default the last 50
/// reconciles of each controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct DebugQuery {
    kind: Option<String>,
    key: Option<String>,
}

impl DebugQuery {
    /// All reconciles that are about one object: its own, those that it caused, and those that
    /// wrote it. `key` is `namespace/name`, or the name of an object without a namespace.
    pub fn object(kind: impl Into<String>, key: impl Into<String>) -> Self {
        Self { kind: Some(kind.into()), key: Some(key.into()) }
    }

    /// Reads the parameters `kind` and `key` of a URL. Unknown ones are ignored.
    pub fn parse(query: &str) -> Self {
        let parameter = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| decoded(value)).filter(|value| !value.is_empty())
        };
        Self { kind: parameter("kind"), key: parameter("key") }
    }

    fn selects(&self, primary: &str, record: &Record) -> bool {
        let Some(key) = self.key.as_deref() else { return true };
        let is_kind = |kind: &str| self.kind.as_deref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind));
        let is_it = |kind: &str, other: &ObjectKey| other.as_str() == key && is_kind(kind);
        is_it(primary, &record.key)
            || record.writes().iter().any(|write| is_it(&write.kind, &write.key))
            || record.causes.iter().any(|cause| {
                let object = cause.object.as_ref();
                object.is_some_and(|object| is_it(&cause.source.kind, object))
            })
    }
}

/// Decodes `%2F` and the like.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, others @ ..] = rest {
        let hex = (*first == b'%').then(|| others.get(..2)).flatten();
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if byte.is_some() { &others[2..] } else { others };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The state of a manager: what [`Manager::debug_state`](crate::Manager::debug_state) returns. It
/// has kinds, keys, versions and error texts, never the content of an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DebugState {
    /// When it was taken.
    pub time: Timestamp,
    /// Whether the manager is ready.
    pub ready: bool,
    /// The controllers, in the order in which they were added.
    pub controllers: Vec<ControllerState>,
    /// The informers.
    pub informers: Vec<InformerState>,
    /// The Lease, with leader election.
    pub lease: Option<LeaseState>,
    /// The hot loops that were found last, oldest first.
    pub hot_loops: Vec<HotLoopState>,
}

/// A controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ControllerState {
    /// Its name.
    pub name: String,
    /// The kind that it reconciles.
    pub kind: String,
    /// How many reconciles have ended.
    pub reconciles_total: u64,
    /// How many of them failed.
    pub errors_total: u64,
    /// How many hot loops were found.
    pub hot_loops_total: u64,
    /// How many reconciles run now.
    pub active: usize,
    /// How many keys wait for a worker.
    pub queued: usize,
    /// How many keys wait for their time.
    pub delayed: usize,
    /// The keys that have waited longest for a worker.
    pub waiting: Vec<WaitingKey>,
    /// The keys that fail, those with the most failures first.
    pub failing: Vec<FailingKey>,
    /// The last reconciles, oldest first.
    pub reconciles: Vec<ReconcileState>,
}

/// A key that waits for a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WaitingKey {
    /// The key.
    pub key: String,
    /// For how long, in seconds.
    pub waited_seconds: f64,
}

/// A key that has failed and not succeeded since.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FailingKey {
    /// The key.
    pub key: String,
    /// How often it has failed in a row.
    pub failures: u32,
    /// The last error, shortened.
    pub error: String,
    /// When it is retried. `None` if it runs now, is queued, or is not retried.
    pub next_retry: Option<Timestamp>,
}

/// A reconcile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReconcileState {
    /// Its number among those of the controller.
    pub id: u64,
    /// The key.
    pub key: String,
    /// 1, or more after failures.
    pub attempt: u32,
    /// The first causes.
    pub causes: Vec<CauseState>,
    /// How many causes are not shown.
    pub more_causes: u32,
    /// How long the key waited for a worker, in seconds.
    pub queued_seconds: f64,
    /// When it began.
    pub started: Timestamp,
    /// How long it took, in seconds.
    pub took_seconds: f64,
    /// The reads that waited for an earlier write.
    pub waited_reads: Vec<WaitedReadState>,
    /// What it wrote.
    pub writes: Vec<WriteState>,
    /// How many writes and reads are not shown.
    pub more_actions: u32,
    /// `done`, `requeue_after` or `failed`.
    pub result: String,
    /// The error, shortened.
    pub error: Option<String>,
    /// When the key comes back by itself.
    pub next: Option<Timestamp>,
}

/// Why a key was reconciled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CauseState {
    /// `primary`, `owned`, `mapped`, `source`, `requeue_after`, `retry`, `enqueue` or `new_term`.
    pub source: String,
    /// The kind of the object that changed.
    pub kind: Option<String>,
    /// The key of that object.
    pub key: Option<String>,
    /// `initial`, `added`, `updated`, `deleted` or `resync`.
    pub event: Option<String>,
    /// The version of that object.
    pub version: Option<u64>,
    /// When. `None` for keys that were there from the start.
    pub at: Option<Timestamp>,
}

/// A read that waited for an earlier write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WaitedReadState {
    /// The kind.
    pub kind: String,
    /// For how long, in seconds.
    pub waited_seconds: f64,
}

/// A write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WriteState {
    /// `create`, `update`, `patch`, `apply` or `delete`, with the subresource: `update status`.
    pub verb: String,
    /// The kind.
    pub kind: String,
    /// The key.
    pub key: String,
    /// The version that the server has returned.
    pub version: Option<u64>,
}

/// An informer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InformerState {
    /// What it lists and watches, such as `/api/v1/pods`.
    pub resource: String,
    /// `Starting`, `Listing`, `Watching`, `BackingOff` or `Stopped`.
    pub phase: String,
    /// Since when.
    pub since: Timestamp,
    /// The number of complete lists.
    pub lists: u64,
    /// The number of watches that were started.
    pub watches: u64,
    /// The last error, shortened. It stays after the informer has recovered.
    pub last_error: Option<String>,
    /// When that was.
    pub last_error_at: Option<Timestamp>,
    /// How many objects could not be read.
    pub object_errors: u64,
}

/// The Lease of leader election.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeaseState {
    /// Its name.
    pub name: String,
    /// Whether this replica leads.
    pub is_leader: bool,
    /// Who holds it, as far as this replica knows.
    pub holder: String,
}

/// A hot loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HotLoopState {
    /// When it was found.
    pub at: Timestamp,
    /// The controller.
    pub controller: String,
    /// The key that is reconciled again and again.
    pub key: String,
    /// The cycle, spelled out.
    pub cycle: String,
    /// After how many rounds it was found.
    pub rounds: u32,
}

/// Converts between tokio's clock and the wall clock, as of one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DebugClock {
    pub(crate) instant: Instant,
    pub(crate) wall: Timestamp,
}

impl DebugClock {
    /// The time of the wall clock at an instant before or after.
    pub(crate) fn wall(&self, at: Instant) -> Timestamp {
        let ago = SignedDuration::try_from(self.instant.saturating_duration_since(at)).unwrap_or_default();
        let ahead = SignedDuration::try_from(at.saturating_duration_since(self.instant)).unwrap_or_default();
        self.wall.saturating_sub(ago).and_then(|wall| wall.saturating_add(ahead)).unwrap_or(self.wall)
    }

    fn after(&self, at: Instant, delay: Duration) -> Option<Timestamp> {
        at.checked_add(delay).map(|at| self.wall(at))
    }
}

impl ControllerRecorder {
    /// The records that a query selects.
    pub(crate) fn state(&self, primary: &str, query: &DebugQuery, clock: DebugClock) -> Vec<ReconcileState> {
        let ring = lock(&self.ring);
        let selected = ring.iter().rev().filter(|record| query.selects(primary, record));
        let limit = if query.key.is_some() { usize::MAX } else { SHOWN };
        let mut shown: Vec<_> = selected.take(limit).map(|record| record.state(primary, clock)).collect();
        shown.reverse();
        shown
    }
}

impl InformerState {
    pub(crate) fn new(status: ReflectorStatus, phase: String, clock: DebugClock) -> Self {
        let error = status.last_error;
        Self {
            resource: status.resource,
            phase,
            since: clock.wall(status.since),
            lists: status.lists,
            watches: status.watches,
            last_error_at: error.as_ref().map(|error| clock.wall(error.at)),
            last_error: error.map(|error| truncated(&error.message, ERROR_MAX).into()),
            object_errors: status.object_errors,
        }
    }
}

impl Hub {
    pub(crate) fn hot_loop_states(&self, clock: DebugClock) -> Vec<HotLoopState> {
        let found = lock(&self.found);
        let state = |(found, at): &(super::HotLoop, Instant)| HotLoopState {
            at: clock.wall(*at),
            controller: found.controller.to_string(),
            key: found.key.to_string(),
            cycle: found.cycle.clone(),
            rounds: found.rounds,
        };
        found.iter().map(state).collect()
    }
}

impl Record {
    fn state(&self, primary: &str, clock: DebugClock) -> ReconcileState {
        let ended = self.started + self.took;
        let (result, error, next) = match &self.ending {
            Ending::Done => ("done", None, None),
            Ending::RequeueAfter(delay) => ("requeue_after", None, clock.after(ended, *delay)),
            Ending::Failed { error, retry_after } => {
                let next = retry_after.and_then(|delay| clock.after(ended, delay));
                ("failed", Some(error.to_string()), next)
            }
        };
        let none = Actions::default();
        let actions = self.actions.as_deref().unwrap_or(&none);
        ReconcileState {
            id: self.id,
            key: self.key.to_string(),
            attempt: self.attempt,
            causes: self.causes.states(primary, &self.key, clock),
            more_causes: self.causes.more(),
            queued_seconds: self.queued.as_secs_f64(),
            started: clock.wall(self.started),
            took_seconds: self.took.as_secs_f64(),
            waited_reads: actions
                .reads
                .iter()
                .map(|read| WaitedReadState { kind: read.kind.to_string(), waited_seconds: read.waited.as_secs_f64() })
                .collect(),
            writes: actions
                .writes
                .iter()
                .map(|write| WriteState {
                    verb: write.verb.to_owned(),
                    kind: write.kind.to_string(),
                    key: write.key.to_string(),
                    version: Some(write.version).filter(|version| *version != 0),
                })
                .collect(),
            more_actions: actions.more_writes.saturating_add(actions.more_reads),
            result: result.to_owned(),
            error,
            next,
        }
    }
}

impl Causes {
    fn states(&self, primary: &str, key: &ObjectKey, clock: DebugClock) -> Vec<CauseState> {
        if let Self::Bulk(source, event) = self {
            let cause = Cause { event: *event, ..Cause::new(source) };
            return vec![cause.state(primary, key, clock)];
        }
        if let Self::Call(source, at) = self {
            return vec![Cause::of_call(*source, *at).state(primary, key, clock)];
        }
        self.iter().map(|cause| cause.state(primary, key, clock)).collect()
    }
}

impl Cause {
    fn state(&self, primary: &str, key: &ObjectKey, clock: DebugClock) -> CauseState {
        let event = self.event.as_str();
        let kind = if self.source.kind.is_empty() { primary } else { &self.source.kind };
        CauseState {
            source: self.source.source.as_str().to_owned(),
            kind: event.map(|_| kind.to_owned()),
            key: event.map(|_| self.object.as_ref().unwrap_or(key).to_string()),
            event: event.map(ToOwned::to_owned),
            version: Some(self.version).filter(|version| *version != 0),
            at: self.at.map(|at| clock.wall(at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_reads_the_parameters_of_a_url() {
        assert_eq!(
            DebugQuery::parse("kind=ConfigMap&key=default%2Fa&x=1"),
            DebugQuery::object("ConfigMap", "default/a")
        );
        assert_eq!(DebugQuery::parse("key=a%"), DebugQuery { kind: None, key: Some("a%".to_owned()) });
        assert_eq!(DebugQuery::parse(""), DebugQuery::default());
    }
}
