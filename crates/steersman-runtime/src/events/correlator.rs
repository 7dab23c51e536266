//! Decides which Events are written. It reads no clock and sends no request.
//!
//! An occurrence that is like an earlier one is counted in the series of that one. What the server
//! does not know yet is written when its time has come:
//!
//! | series | write |
//! |---|---|
//! | new | creates the Event, at once if the bucket of its object has a token |
//! | new, no token | none: the occurrence is dropped |
//! | second occurrence | patches `series`, at once |
//! | later occurrences | patches `series` 1, 2, 4, 8, 16, 30, 30, … minutes after the last write |
//! | idle for [`IDLE`] | patches `series` if the last count is not written; then it is forgotten |
//!
//! A write that waits takes the count of the time when it is sent. Each create and each patch takes
//! a token of the object that it regards; a patch waits for one. All writes of an object are in the
//! order of their occurrences, and a write that has to be repeated holds up those behind it.
//!
//! Occurrences are alike if all but their notes are equal, and the notes too. If more than
//! [`NOTES_MAX`] notes come within [`NOTES_WINDOW`], the other notes share one series.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lru::LruCache;

use super::text::{NOTE_BYTES_MAX, event_name, truncate};
use super::{EventMetrics, EventObject, EventType};

/// The most series, objects and groups that are known at a time. The least recent one is forgotten.
pub(super) const KNOWN_MAX: usize = 4096;
/// The tokens of an object that has had no Event lately.
pub(super) const BURST: u32 = 25;
/// The time after which an object has one more token.
pub(super) const TOKEN_INTERVAL: Duration = Duration::from_secs(10);
/// Different notes that have series of their own within a window.
pub(super) const NOTES_MAX: usize = 10;
pub(super) const NOTES_WINDOW: Duration = Duration::from_secs(600);
/// A series without an occurrence for this time ends.
pub(super) const IDLE: Duration = Duration::from_secs(360);
const HEARTBEAT_MIN: Duration = Duration::from_secs(60);
const HEARTBEAT_MAX: Duration = Duration::from_secs(1800);
/// Attempts of one write.
pub(super) const ATTEMPTS_MAX: u32 = 12;
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// As kubelet and others begin such notes.
const COMBINED: &str = "(combined from similar events): ";

/// All of an occurrence but its note.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) controller: Arc<str>,
    pub(super) event_type: EventType,
    pub(super) reason: std::borrow::Cow<'static, str>,
    pub(super) action: std::borrow::Cow<'static, str>,
    pub(super) regarding: Arc<EventObject>,
    pub(super) related: Option<Arc<EventObject>>,
}

/// Occurrences with the same key are counted in one Event.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SeriesKey {
    pub(super) group: Arc<Group>,
    /// The hash of the note, `None` for the notes beyond [`NOTES_MAX`].
    note: Option<u64>,
}

/// The notes of a group that have a series of their own.
struct Notes {
    since: Duration,
    hashes: Vec<u64>,
}

struct Series {
    name: String,
    note: String,
    first: Timestamp,
    last: Timestamp,
    /// The time of the last occurrence.
    seen: Duration,
    count: u32,
    /// The count that the server knows. 0 before the Event is created.
    written: u32,
    /// It is in the queue of its object. A series is in that queue or has a timer.
    queued: bool,
    timer: Option<Duration>,
    /// The time between the last write and the next patch.
    interval: Duration,
    patch_at: Duration,
}

/// One object that Events regard.
#[derive(Default)]
struct ObjectState {
    bucket: Bucket,
    queue: VecDeque<Arc<SeriesKey>>,
    /// When the first of the queue is tried. `None` without a queue, and while it is being written.
    wake: Option<Duration>,
    /// Failed attempts of the first of the queue.
    attempts: u32,
}

/// A token bucket, as the time when it is full again.
#[derive(Default)]
struct Bucket {
    full_at: Duration,
}

impl Bucket {
    /// Takes a token, or returns when there is one.
    fn take(&mut self, now: Duration) -> Result<(), Duration> {
        let full_at = self.full_at.max(now);
        let at = full_at.saturating_sub(TOKEN_INTERVAL * (BURST - 1));
        if at > now {
            return Err(at);
        }
        self.full_at = full_at + TOKEN_INTERVAL;
        Ok(())
    }
}

/// A request to send.
#[derive(Debug, Clone)]
pub(super) struct Write {
    pub(super) key: Arc<SeriesKey>,
    pub(super) name: String,
    pub(super) count: u32,
    pub(super) last: Timestamp,
    /// The time of the first occurrence and the note, if the Event does not exist.
    pub(super) create: Option<(Timestamp, String)>,
}

#[derive(Debug)]
pub(super) enum Next {
    Write(Write),
    /// Nothing, until this time or the next occurrence.
    Wait(Option<Duration>),
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Outcome {
    Written,
    NotFound,
    AlreadyExists,
    /// The server may accept it later.
    Retry {
        /// The server asks for this delay.
        after: Option<Duration>,
        /// Writes for other objects wait, too.
        everywhere: bool,
        /// Between 0 and 1.
        jitter: f64,
    },
    Refused,
    /// The namespace is being deleted.
    Discarded,
}

pub(super) struct Correlator {
    series: LruCache<Arc<SeriesKey>, Series>,
    groups: LruCache<Arc<Group>, Notes>,
    objects: LruCache<Arc<EventObject>, ObjectState>,
    /// The objects with a queue, by the time when the first of it is tried.
    wakes: BTreeSet<(Duration, Arc<EventObject>)>,
    /// The series that are not in a queue, by the time when they are looked at.
    timers: BTreeSet<(Duration, Arc<SeriesKey>)>,
    paused_until: Duration,
    last_nanos: u64,
    /// The manager stops: nothing waits any more.
    flushing: bool,
    /// Nothing is written any more.
    ended: bool,
    metrics: EventMetrics,
}

impl Correlator {
    pub(super) fn new(known_max: usize) -> Self {
        let cap = NonZeroUsize::new(known_max).unwrap_or(NonZeroUsize::MIN);
        Self {
            series: LruCache::new(cap),
            groups: LruCache::new(cap),
            objects: LruCache::new(cap),
            wakes: BTreeSet::new(),
            timers: BTreeSet::new(),
            paused_until: Duration::ZERO,
            last_nanos: 0,
            flushing: false,
            ended: false,
            metrics: EventMetrics::default(),
        }
    }

    pub(super) fn metrics(&self) -> EventMetrics {
        let unsent = |(_, series): (_, &Series)| u64::from(series.count - series.written);
        EventMetrics { pending: self.series.iter().map(unsent).sum(), ..self.metrics }
    }

    pub(super) fn truncated(&mut self, texts: u64) {
        self.metrics.truncated_total += texts;
    }

    /// Takes in an occurrence. `random` is used if it begins a series. Returns whether
    /// [`next`](Self::next) may have an earlier time than before.
    pub(super) fn record(
        &mut self,
        group: Group,
        note: String,
        now: Duration,
        wall: Timestamp,
        random: impl FnOnce() -> [u8; 16],
    ) -> bool {
        self.metrics.recorded_total += 1;
        if self.ended {
            self.metrics.failed_total += 1;
            return false;
        }
        let (key, is_combined) = self.key_of(group, &note, now);
        let Some(series) = self.series.get_mut(&key) else {
            return self.begin(&key, note, is_combined, now, wall, random);
        };
        series.count = series.count.saturating_add(1);
        (series.last, series.seen) = (wall, now);
        if series.queued {
            return false;
        }
        if now >= series.patch_at || self.flushing {
            self.enqueue(&key, now);
            return true;
        }
        let is_earlier = series.timer.is_none_or(|timer| timer > series.patch_at);
        if is_earlier {
            self.set_timer(&key);
        }
        is_earlier
    }

    fn key_of(&mut self, group: Group, note: &str, now: Duration) -> (Arc<SeriesKey>, bool) {
        let group = Arc::new(group);
        let mut hasher = DefaultHasher::new();
        note.hash(&mut hasher);
        let hash = hasher.finish();
        let new_window = || Notes { since: now, hashes: Vec::new() };
        let notes = self.groups.get_or_insert_mut(Arc::clone(&group), new_window);
        if now >= notes.since.saturating_add(NOTES_WINDOW) {
            *notes = new_window();
        }
        if !notes.hashes.contains(&hash) && notes.hashes.len() < NOTES_MAX {
            notes.hashes.push(hash);
        }
        let is_combined = !notes.hashes.contains(&hash);
        (Arc::new(SeriesKey { group, note: (!is_combined).then_some(hash) }), is_combined)
    }

    fn begin(
        &mut self,
        key: &Arc<SeriesKey>,
        note: String,
        is_combined: bool,
        now: Duration,
        wall: Timestamp,
        random: impl FnOnce() -> [u8; 16],
    ) -> bool {
        if self.object(&key.group.regarding).bucket.take(now).is_err() {
            self.metrics.rate_limited_total += 1;
            return false;
        }
        let mut note = if is_combined { format!("{COMBINED}{note}") } else { note };
        truncate(&mut note, NOTE_BYTES_MAX);
        let series = Series {
            name: self.new_name(key, wall, random()),
            note,
            first: wall,
            last: wall,
            seen: now,
            count: 1,
            written: 0,
            queued: false,
            timer: None,
            interval: Duration::ZERO,
            patch_at: now,
        };
        if let Some((evicted, series)) = self.series.push(Arc::clone(key), series) {
            self.metrics.evicted_total += u64::from(series.count - series.written);
            series.timer.map(|timer| self.timers.remove(&(timer, evicted)));
        }
        self.enqueue(key, now);
        true
    }

    /// Two occurrences can have the same time.
    fn new_name(&mut self, key: &SeriesKey, wall: Timestamp, random: [u8; 16]) -> String {
        let nanos = u64::try_from(wall.as_nanosecond()).unwrap_or(0);
        self.last_nanos = nanos.max(self.last_nanos.saturating_add(1));
        event_name(&key.group.regarding.name, self.last_nanos, random)
    }

    fn object(&mut self, object: &Arc<EventObject>) -> &mut ObjectState {
        if !self.objects.contains(object)
            && let Some((evicted, state)) = self.objects.push(Arc::clone(object), ObjectState::default())
        {
            state.wake.map(|wake| self.wakes.remove(&(wake, evicted)));
            for key in state.queue {
                self.metrics.evicted_total += self.forget(&key);
            }
        }
        self.objects.get_or_insert_mut(Arc::clone(object), ObjectState::default)
    }

    /// Removes a series. Returns the occurrences that the server does not know.
    fn forget(&mut self, key: &Arc<SeriesKey>) -> u64 {
        let Some(series) = self.series.pop(key) else { return 0 };
        series.timer.map(|timer| self.timers.remove(&(timer, Arc::clone(key))));
        u64::from(series.count - series.written)
    }

    fn enqueue(&mut self, key: &Arc<SeriesKey>, now: Duration) {
        let Some(series) = self.series.peek_mut(key) else { return };
        series.queued = true;
        if let Some(timer) = series.timer.take() {
            self.timers.remove(&(timer, Arc::clone(key)));
        }
        let object = &key.group.regarding;
        let state = self.object(object);
        state.queue.push_back(Arc::clone(key));
        // With others before it, the object has a time already or is being written.
        if state.queue.len() == 1 {
            self.wake(object, now);
        }
    }

    fn wake(&mut self, object: &Arc<EventObject>, at: Duration) {
        if let Some(state) = self.objects.peek_mut(object) {
            state.wake = Some(at);
            self.wakes.insert((at, Arc::clone(object)));
        }
    }

    fn set_timer(&mut self, key: &Arc<SeriesKey>) {
        let Some(series) = self.series.peek_mut(key) else { return };
        let ends = series.seen.saturating_add(IDLE);
        let at = if series.count > series.written { ends.min(series.patch_at) } else { ends };
        if let Some(timer) = series.timer.replace(at) {
            self.timers.remove(&(timer, Arc::clone(key)));
        }
        self.timers.insert((at, Arc::clone(key)));
    }

    fn fire_timers(&mut self, now: Duration) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.timers.pop_first() else { return };
            let Some(series) = self.series.peek_mut(&key) else { continue };
            series.timer = None;
            let is_idle = now >= series.seen.saturating_add(IDLE);
            if series.count > series.written && (is_idle || now >= series.patch_at) {
                self.enqueue(&key, now);
            } else if is_idle {
                self.forget(&key);
            } else {
                self.set_timer(&key);
            }
        }
    }

    /// What to do now. After a write, [`done`](Self::done) comes before the next call.
    pub(super) fn next(&mut self, now: Duration) -> Next {
        self.fire_timers(now);
        while let Some((wake, object)) = self.wakes.first() {
            let (wake, object) = (*wake, Arc::clone(object));
            if !self.flushing && wake.max(self.paused_until) > now {
                break;
            }
            self.wakes.remove(&(wake, Arc::clone(&object)));
            if let Some(write) = self.write(&object, now) {
                return Next::Write(write);
            }
        }
        let wake = self.wakes.first().map(|(at, _)| (*at).max(self.paused_until));
        let timer = self.timers.first().map(|(at, _)| *at);
        Next::Wait(wake.into_iter().chain(timer).min())
    }

    /// The write of the first series in the queue of an object.
    fn write(&mut self, object: &Arc<EventObject>, now: Duration) -> Option<Write> {
        loop {
            let state = self.objects.peek_mut(object)?;
            state.wake = None;
            let key = Arc::clone(state.queue.front()?);
            // Forgotten to make room for others, or queued again under the same key since.
            let Some(series) = self.series.peek(&key).filter(|series| series.queued) else {
                state.queue.pop_front();
                continue;
            };
            // A create has taken its token before it was queued.
            let is_first_attempt = state.attempts == 0;
            if series.written > 0
                && is_first_attempt
                && let Err(at) = state.bucket.take(now)
            {
                if self.flushing {
                    self.metrics.rate_limited_total += self.drop_first(object);
                    continue;
                }
                self.wake(object, at);
                return None;
            }
            let create = (series.written == 0).then(|| (series.first, series.note.clone()));
            return Some(Write { key, name: series.name.clone(), count: series.count, last: series.last, create });
        }
    }

    /// Takes in how a write ended. `random` is used if the Event needs another name.
    pub(super) fn done(
        &mut self,
        write: &Write,
        outcome: Outcome,
        now: Duration,
        wall: Timestamp,
        random: impl FnOnce() -> [u8; 16],
    ) {
        let object = &write.key.group.regarding;
        let is_create = write.create.is_some();
        // Forgotten while it was being written, to make room for others.
        let is_known = self.series.peek(&write.key).is_some_and(|series| series.name == write.name);
        match outcome {
            _ if !is_known => {}
            Outcome::Written => {
                let total = if is_create { &mut self.metrics.created_total } else { &mut self.metrics.patched_total };
                *total += 1;
                self.written(write, write.count, now);
            }
            // An earlier attempt has created it, and its response was lost.
            Outcome::AlreadyExists if is_create && self.attempts(object) > 0 => {
                self.metrics.created_total += 1;
                self.written(write, 1, now);
            }
            Outcome::AlreadyExists | Outcome::NotFound if is_create == (outcome == Outcome::AlreadyExists) => {
                let name = self.new_name(&write.key, wall, random());
                if let Some(series) = self.series.peek_mut(&write.key) {
                    // The Event was deleted, or another one has this name.
                    (series.name, series.written) = (name, 0);
                }
                self.again(object, now, Duration::ZERO);
            }
            Outcome::Retry { .. } if self.flushing => self.metrics.failed_total += self.drop_first(object),
            Outcome::Retry { after, everywhere, jitter } => {
                let after = after.unwrap_or_else(|| backoff(self.attempts(object), jitter));
                if everywhere {
                    self.paused_until = now.saturating_add(after);
                }
                self.metrics.retries_total += 1;
                self.again(object, now, after);
            }
            Outcome::AlreadyExists | Outcome::Refused => self.metrics.refused_total += self.drop_first(object),
            Outcome::NotFound | Outcome::Discarded => self.metrics.discarded_total += self.drop_first(object),
        }
        // The object goes on with the next one, unless it has a time already.
        if let Some(state) = self.objects.peek(object)
            && state.wake.is_none()
            && !state.queue.is_empty()
        {
            self.wake(object, now);
        }
    }

    fn attempts(&self, object: &Arc<EventObject>) -> u32 {
        self.objects.peek(object).map_or(0, |state| state.attempts)
    }

    fn written(&mut self, write: &Write, count: u32, now: Duration) {
        self.leave_queue(&write.key);
        let Some(series) = self.series.peek_mut(&write.key) else { return };
        (series.queued, series.written) = (false, count);
        // The second occurrence is written at once.
        if count > 1 {
            series.interval = (series.interval * 2).clamp(HEARTBEAT_MIN, HEARTBEAT_MAX);
        }
        series.patch_at = now.saturating_add(series.interval);
        if series.count > count && (self.flushing || now >= series.patch_at) {
            self.enqueue(&write.key, now);
        } else {
            self.set_timer(&write.key);
        }
    }

    fn again(&mut self, object: &Arc<EventObject>, now: Duration, after: Duration) {
        let Some(state) = self.objects.peek_mut(object) else { return };
        state.attempts += 1;
        if state.attempts < ATTEMPTS_MAX {
            self.wake(object, now.saturating_add(after));
        } else {
            self.metrics.failed_total += self.drop_first(object);
        }
    }

    /// Gives up the first series in the queue of an object. Returns the occurrences that the server
    /// does not know.
    fn drop_first(&mut self, object: &Arc<EventObject>) -> u64 {
        let first = self.objects.peek(object).and_then(|state| state.queue.front().cloned());
        let Some(key) = first else { return 0 };
        self.leave_queue(&key);
        self.forget(&key)
    }

    fn leave_queue(&mut self, key: &Arc<SeriesKey>) {
        if let Some(state) = self.objects.peek_mut(&key.group.regarding)
            && state.queue.front() == Some(key)
        {
            state.queue.pop_front();
            state.attempts = 0;
        }
    }

    /// From now on nothing waits: each series that the server does not know whole is written once.
    pub(super) fn flush(&mut self, now: Duration) {
        self.flushing = true;
        let is_unsent = |series: &Series| series.count > series.written && !series.queued;
        let unsent = self.series.iter().filter(|(_, series)| is_unsent(series)).map(|(key, _)| Arc::clone(key));
        for key in unsent.collect::<Vec<_>>() {
            self.enqueue(&key, now);
        }
    }

    /// Gives up everything that is not written.
    pub(super) fn end(&mut self) {
        self.ended = true;
        let keys: Vec<_> = self.series.iter().map(|(key, _)| Arc::clone(key)).collect();
        for key in keys {
            self.metrics.failed_total += self.forget(&key);
        }
        self.objects.clear();
        self.groups.clear();
        self.wakes.clear();
    }

    #[cfg(test)]
    fn sizes(&self) -> [usize; 5] {
        [self.series.len(), self.groups.len(), self.objects.len(), self.wakes.len(), self.timers.len()]
    }
}

/// 1, 2, 4, … 30 s, and up to a quarter more.
fn backoff(attempts: u32, jitter: f64) -> Duration {
    (BACKOFF_MIN * (1 << attempts.min(10))).min(BACKOFF_MAX).mul_f64(1.0 + jitter / 4.0)
}

#[cfg(test)]
mod tests;
