//! The queue without waiting: a state machine that gets the time as an argument.

use std::borrow::Borrow;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use crate::add_options::{AddOptions, Delay};
use crate::delays::{Delays, Entry};
use crate::metrics::{QueueMetrics, Unfinished};
use crate::outcome::{Outcome, Taken, Ticket};
use crate::payload::Payload;
use crate::processing::{PlaceId, Processing};
use crate::rate_limiter::{RateLimiter, controller_runtime_default};
use crate::slots::{List, Pending, Slot, SlotId, Slots};

/// The ready keys of one priority.
struct Level {
    priority: i8,
    list: List,
}

/// The work queue as a plain state machine. It never waits and reads no clock: each operation gets
/// the time as an argument, and [`next_deadline`](Self::next_deadline) returns when the next
/// delayed key becomes ready. [`WorkQueue`](crate::WorkQueue) adds a lock and workers that wait.
///
/// ```
/// use std::time::{Duration, Instant};
/// use steersman_workqueue::{AddOptions, Core, Outcome};
///
/// let now = Instant::now();
/// let mut core = Core::new();
/// core.add("default/web", AddOptions::new(), now);
/// core.add("default/web", AddOptions::new(), now);
/// let (ticket, key) = core.get(now).unwrap();
/// assert_eq!((key, core.get(now).is_none()), ("default/web", true));
///
/// core.finish(ticket, Outcome::RequeueAfter(Duration::from_secs(60)), now);
/// let later = core.next_deadline().unwrap();
/// assert_eq!(later, now + Duration::from_secs(60));
/// core.advance(later);
/// assert_eq!(core.len(), 1);
/// ```
///
/// # Guarantees
///
/// - The queue holds a key once, however often it is added: with the earliest time and the highest
///   priority of those adds.
/// - Only one worker holds a key at a time. A key that is added while a worker holds it is handed
///   out once more afterwards.
/// - Keys of one priority are handed out in the order in which they became ready. Delayed keys
///   become ready in the order of their times.
/// - The queue keeps nothing of a key that is finished and was not added again.
pub struct Core<T, P: Payload = ()> {
    slots: Slots<T, P>,
    /// Highest priority first. A level that was used once stays; there are at most 256.
    levels: Vec<Level>,
    ready: usize,
    /// How many of the keys that workers hold will be handed out once more.
    again: usize,
    processing: Processing,
    delays: Delays,
    /// The entries taken from `delays` by `take_due`. Empty, unless a panic interrupted it.
    due: Vec<Entry>,
    limiter: Box<dyn RateLimiter<T>>,
    metrics: Option<Box<dyn QueueMetrics>>,
    /// The worth of one point of priority, in nanoseconds.
    ageing: i64,
    shut_down: bool,
    /// Whether the time is used although neither delays, priorities nor metrics need it.
    timed: bool,
    /// Times are nanoseconds since this.
    origin: Option<Instant>,
}

impl<T, P: Payload> std::fmt::Debug for Core<T, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("ready", &self.ready)
            .field("delayed", &self.delays.len())
            .field("processing", &self.processing.len())
            .field("shut_down", &self.shut_down)
            .finish_non_exhaustive()
    }
}

impl<T: Hash + Eq + Clone + Send + 'static> Default for Core<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Hash + Eq + Clone> Core<T> {
    /// One point of priority is worth one second of waiting.
    pub const AGEING_DEFAULT: Duration = Duration::from_secs(1);

    /// Creates an empty queue with controller-runtime's rate limiter.
    pub fn new() -> Self
    where
        T: Send + 'static,
    {
        Self::with_rate_limiter(controller_runtime_default())
    }

    /// Creates an empty queue with the given rate limiter.
    pub fn with_rate_limiter(limiter: impl RateLimiter<T> + 'static) -> Self {
        Self::with_payloads(limiter)
    }
}

impl<T: Hash + Eq + Clone, P: Payload> Core<T, P> {
    /// Creates an empty queue whose keys carry payloads, with the given rate limiter.
    pub fn with_payloads(limiter: impl RateLimiter<T> + 'static) -> Self {
        Self {
            slots: Slots::new(),
            levels: vec![Level { priority: 0, list: List::new() }],
            ready: 0,
            again: 0,
            processing: Processing::default(),
            delays: Delays::new(),
            due: Vec::new(),
            limiter: Box::new(limiter),
            metrics: None,
            ageing: nanoseconds(Core::<T>::AGEING_DEFAULT),
            shut_down: false,
            timed: false,
            origin: None,
        }
    }

    /// Reports to `metrics` from now on.
    pub fn set_metrics(&mut self, metrics: impl QueueMetrics + 'static) {
        self.metrics = Some(Box::new(metrics));
    }

    /// Sets the time that is passed while the queue does not need it.
    pub(crate) fn set_origin(&mut self, origin: Instant) {
        self.origin.get_or_insert(origin);
    }

    /// Uses the time from now on, also where nothing else [needs it](Self::needs_time), so that the
    /// waiting times of keys are known.
    pub fn set_timed(&mut self) {
        self.timed = true;
    }

    /// Sets the worth of one point of priority. [`get`](Self::get) hands out the key with the
    /// smallest
    ///
    /// > the time it became ready − priority × `worth`
    ///
    /// So a key of a higher priority overtakes one of a lower priority only if it became ready at
    /// most (difference of priorities) × `worth` later, and no key starves. With `Duration::MAX`
    /// the higher priority always comes first.
    pub fn set_ageing(&mut self, worth: Duration) {
        self.ageing = nanoseconds(worth);
    }

    /// Whether [`add`](Self::add) without a delay, [`get`](Self::get) and [`finish`](Self::finish)
    /// use the time that they get. Without delays, priorities and metrics they do not, and the
    /// caller need not read its clock. Operations with a delay, a rate limit or a priority always
    /// use it.
    pub fn needs_time(&self) -> bool {
        self.timed || self.levels.len() > 1 || self.metrics.is_some() || self.delays.len() > 0
    }

    /// Whether [`get`](Self::get) uses the time: a worker that finds nothing does not.
    pub(crate) fn needs_time_to_get(&self) -> bool {
        self.delays.len() > 0 || self.ready > 0 && self.needs_time()
    }

    /// Adds `key`. After [`shut_down`](Self::shut_down) this does nothing.
    pub fn add(&mut self, key: T, options: AddOptions, now: Instant) {
        self.add_slot(key, options, now);
    }

    /// Adds `key` with a payload, which is merged into that of the earlier adds of the key.
    pub fn add_with_payload(&mut self, key: T, options: AddOptions, payload: P, now: Instant) {
        if let Some((id, delay)) = self.add_slot(key, options, now) {
            let until = delay.filter(|delay| !delay.is_zero()).and_then(|delay| now.checked_add(delay));
            self.slots.get_mut(id).payload.merge(payload, now, until);
        }
    }

    /// Adds `key`, and returns its slot and its delay.
    fn add_slot(&mut self, key: T, options: AddOptions, now: Instant) -> Option<(SlotId, Option<Duration>)> {
        if self.shut_down {
            return None;
        }
        let delay = match options.delay {
            Delay::None => None,
            Delay::After(delay) => Some(delay),
            Delay::RateLimited => Some(self.limiter.when(&key, now)),
        };
        let id = self.slots.find_or_insert(key, |key| key);
        self.schedule(id, options.priority, delay, now);
        Some((id, delay))
    }

    /// [`add`](Self::add) without options. `into_key` is called only if the queue does not hold
    /// `key` yet. Returns whether the add changed anything.
    pub(crate) fn push<Q: Borrow<T>>(&mut self, key: Q, into_key: impl FnOnce(Q) -> T, now: Instant) -> bool {
        if self.shut_down {
            return false;
        }
        let id = self.slots.find_or_insert(key, into_key);
        let slot = self.slots.get(id);
        if slot.pending == Pending::Ready && slot.priority >= 0 {
            return false;
        }
        self.schedule(id, 0, None, now);
        true
    }

    /// Merges one more add into the state of the key.
    fn schedule(&mut self, id: SlotId, priority: i8, delay: Option<Duration>, now: Instant) {
        let now = self.time(now);
        if priority != 0 && self.levels.len() == 1 {
            self.use_priorities(priority, now);
        }
        if delay.is_some() {
            self.notify(|metrics| metrics.retry());
        }
        let until = delay.filter(|delay| !delay.is_zero()).map(|delay| now.saturating_add(as_nanoseconds(delay)));
        let slot = self.slots.get_mut(id);
        match (slot.pending, until) {
            (Pending::No, until) => {
                slot.priority = priority;
                match until {
                    None => self.make_ready(id, now),
                    Some(until) => self.delays.delay(&mut self.slots, id, until),
                }
            }
            (Pending::Delayed, until) => {
                slot.priority = slot.priority.max(priority);
                match until {
                    None => {
                        self.delays.cancel(&mut self.slots, id);
                        self.make_ready(id, now);
                    }
                    Some(until) if until < slot.time => self.delays.shorten(&mut self.slots, id, until),
                    Some(_) => {}
                }
            }
            (Pending::Ready, _) if priority <= slot.priority => {}
            (Pending::Ready, _) if slot.processing => slot.priority = priority,
            (Pending::Ready, _) => {
                self.unqueue(id);
                self.slots.get_mut(id).priority = priority;
                self.enqueue(id);
            }
        }
    }

    /// Makes a key ready, as of `time`, that was neither ready nor delayed.
    fn make_ready(&mut self, id: SlotId, time: u64) {
        self.notify(|metrics| metrics.add());
        let slot = self.slots.get_mut(id);
        slot.pending = Pending::Ready;
        slot.time = time;
        if slot.processing {
            self.again += 1;
        } else {
            self.enqueue(id);
        }
    }

    fn enqueue(&mut self, id: SlotId) {
        let priority = self.slots.get(id).priority;
        let level = self.level(priority);
        self.slots.push_back(&mut self.levels[level].list, id);
        self.ready += 1;
        self.notify_depth(level);
    }

    fn unqueue(&mut self, id: SlotId) {
        let priority = self.slots.get(id).priority;
        let level = self.level(priority);
        self.slots.unlink(&mut self.levels[level].list, id);
        self.ready -= 1;
        self.notify_depth(level);
    }

    fn notify_depth(&mut self, level: usize) {
        let (priority, depth) = (self.levels[level].priority, self.levels[level].list.len());
        self.notify(|metrics| metrics.depth(priority, depth));
    }

    /// Reports to the metrics. Their panics are caught, and printed by the panic hook: a wrong
    /// figure must not lose a key.
    #[inline]
    fn notify(&mut self, what: impl FnOnce(&mut dyn QueueMetrics)) {
        if let Some(metrics) = &mut self.metrics {
            let _ = catch_unwind(AssertUnwindSafe(|| what(&mut **metrics)));
        }
    }

    /// The index of the level of `priority`, which is created if it is missing.
    fn level(&mut self, priority: i8) -> usize {
        // The usual case: no priorities.
        if self.levels.len() == 1 && priority == 0 {
            return 0;
        }
        match self.levels.binary_search_by(|level| priority.cmp(&level.priority)) {
            Ok(place) => place,
            Err(place) => {
                self.levels.insert(place, Level { priority, list: List::new() });
                place
            }
        }
    }

    /// Creates the first level with a priority. Until now the caller may not have read its clock,
    /// so all ready keys count as ready since `now`.
    fn use_priorities(&mut self, priority: i8, now: u64) {
        if self.metrics.is_none() && !self.timed {
            let ready = self.levels[0].list;
            self.slots.for_each(&ready, |slot| slot.time = now);
            for (id, _) in self.processing.iter() {
                let slot = self.slots.get_mut(id);
                // For a delayed key, `time` is the end of its delay.
                if slot.pending == Pending::Ready {
                    slot.time = now;
                }
            }
        }
        self.level(priority);
    }

    /// Makes the delayed keys ready whose time has come.
    pub fn advance(&mut self, now: Instant) {
        if self.delays.len() == 0 {
            return;
        }
        let now = self.time(now);
        self.take_due(now, Self::make_ready);
    }

    /// Ends the delays that are over by `now`, in order, and calls `then` for each of their slots.
    fn take_due(&mut self, now: u64, then: impl Fn(&mut Self, SlotId, u64)) {
        self.delays.take_due(now, &mut self.due);
        if self.slots.is_large() {
            // Hashing a key may panic. Then `due` keeps the entries for the next call, which skips
            // those that are already ended.
            self.slots.prefetch(self.due.iter().map(|(_, _, id)| *id));
        }
        for place in 0..self.due.len() {
            if let Some((id, time)) = self.delays.end(&mut self.slots, self.due[place]) {
                then(self, id, time);
            }
        }
        self.due.clear();
        if self.due.capacity() > DUE_KEPT {
            self.due = Vec::new();
        }
    }

    /// When the next delayed key becomes ready. It does so in a call of [`advance`](Self::advance).
    pub fn next_deadline(&mut self) -> Option<Instant> {
        let time = self.delays.next(&self.slots)?;
        let origin = self.origin?;
        Some(origin.checked_add(Duration::from_nanos(time)).unwrap_or_else(|| origin + FAR))
    }

    /// Hands out the next key. A worker holds it until [`finish`](Self::finish) gets its ticket
    /// back.
    pub fn get(&mut self, now: Instant) -> Option<(Ticket, T)> {
        self.take(now).map(|taken| (taken.ticket, taken.key))
    }

    /// [`get`](Self::get) with the payload of the key and its waiting time.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Taken<T, P>> {
        self.advance(now);
        let id = self.first()?;
        // May panic, so it comes before any change.
        let key = self.slots.get(id).key().clone();
        self.unqueue(id);
        let (at, now) = (now, self.time(now));
        let place = self.processing.start(id, now);
        let slot = self.slots.get_mut(id);
        slot.pending = Pending::No;
        slot.processing = true;
        let (priority, waited) = (slot.priority, Duration::from_nanos(now.saturating_sub(slot.time)));
        let payload = std::mem::take(&mut slot.payload);
        self.notify(|metrics| metrics.queue_duration(waited));
        Some(Taken { ticket: Ticket { slot: id, place, priority }, key, payload, waited, at })
    }

    /// The key that [`get`](Self::get) hands out next.
    fn first(&self) -> Option<SlotId> {
        let mut heads = self.levels.iter().filter_map(|level| Some((level.priority, level.list.first()?)));
        let (priority, id) = heads.next()?;
        let rank = |priority: i8, id: SlotId| {
            let ready_since = i64::try_from(self.slots.get(id).time).unwrap_or(i64::MAX);
            ready_since.saturating_sub(self.ageing.saturating_mul(i64::from(priority)))
        };
        let Some(next) = heads.next() else { return Some(id) };
        // Of equal ranks the first one stays, which has the higher priority.
        let others = std::iter::once(next).chain(heads);
        let first = others.fold((rank(priority, id), id), |best, (priority, id)| {
            let rank = rank(priority, id);
            if rank < best.0 { (rank, id) } else { best }
        });
        Some(first.1)
    }

    /// Takes a key back from its worker.
    ///
    /// # Panics
    ///
    /// If the ticket belongs to another queue, or the rate limiter panics. The key is finished
    /// before a panic of the rate limiter continues.
    pub fn finish(&mut self, ticket: Ticket, outcome: Outcome, now: Instant) {
        if let Err(panic) = self.try_finish(ticket, outcome, None, now) {
            resume_unwind(panic);
        }
    }

    /// [`finish`](Self::finish), but returns a panic of the rate limiter as an error. If the key
    /// comes back, it carries `payload`. Returns after which delay.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket can be given back once")]
    pub(crate) fn try_finish(
        &mut self,
        ticket: Ticket,
        outcome: Outcome,
        payload: Option<P>,
        now: Instant,
    ) -> std::thread::Result<Option<Duration>> {
        let Ticket { slot: id, place, priority } = ticket;
        assert!(self.processing.is_at(place, id), "the ticket belongs to another queue");
        let (limiter, key) = (&mut self.limiter, self.slots.get(id).key());
        let limited = catch_unwind(AssertUnwindSafe(|| match outcome {
            Outcome::Done | Outcome::RequeueAfter(_) => {
                limiter.forget(key);
                Duration::ZERO
            }
            Outcome::Retry => limiter.when(key, now),
        }));
        let delay = match outcome {
            Outcome::Done => None,
            Outcome::RequeueAfter(delay) => Some(delay),
            Outcome::Retry => Some(*limited.as_ref().unwrap_or(&AFTER_PANIC)),
        };
        if delay.is_some() && !self.shut_down {
            self.schedule(id, priority, delay, now);
            if let Some(payload) = payload {
                let until = delay.filter(|delay| !delay.is_zero()).and_then(|delay| now.checked_add(delay));
                self.slots.get_mut(id).payload.merge(payload, now, until);
            }
        }
        self.release(id, place, now);
        limited.map(|_| delay)
    }

    /// Takes a key back from a worker that has not worked on it. It is ready again, with its
    /// priority, its failures and this payload.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket can be given back once")]
    pub(crate) fn give_back(&mut self, ticket: Ticket, payload: P, now: Instant) {
        let Ticket { slot: id, place, priority } = ticket;
        assert!(self.processing.is_at(place, id), "the ticket belongs to another queue");
        if !self.shut_down {
            self.schedule(id, priority, None, now);
            let newer = std::mem::replace(&mut self.slots.get_mut(id).payload, payload);
            self.slots.get_mut(id).payload.merge(newer, now, None);
        }
        self.release(id, place, now);
    }

    /// The worker no longer holds the key.
    fn release(&mut self, id: SlotId, place: PlaceId, now: Instant) {
        let started = self.processing.finish(place);
        let now = self.time(now);
        let slot = self.slots.get_mut(id);
        slot.processing = false;
        match slot.pending {
            Pending::No => drop(self.slots.remove(id)),
            Pending::Delayed => {}
            Pending::Ready => {
                self.again -= 1;
                self.enqueue(id);
            }
        }
        self.notify(|metrics| metrics.work_duration(Duration::from_nanos(now.saturating_sub(started))));
    }

    /// Forgets the failures of `key`.
    pub fn forget(&mut self, key: &T) {
        self.limiter.forget(key);
    }

    /// How many failures of `key` the rate limiter has counted.
    pub fn retries(&self, key: &T) -> u32 {
        self.limiter.retries(key)
    }

    /// Drops the delayed keys and ignores all further adds. Ready keys are still handed out, and so
    /// are those that were added while a worker holds them. Further calls do nothing.
    pub fn shut_down(&mut self) {
        self.shut_down = true;
        self.take_due(u64::MAX, |core, id, _| {
            if !core.slots.get(id).processing {
                core.slots.remove(id);
            }
        });
    }

    /// Whether [`shut_down`](Self::shut_down) has been called.
    pub fn is_shut_down(&self) -> bool {
        self.shut_down
    }

    /// Whether no key is ready and no worker holds one.
    pub fn is_drained(&self) -> bool {
        self.ready == 0 && self.processing.len() == 0
    }

    /// Whether the queue is shut down and will hand out no more keys.
    pub(crate) fn is_finished(&self) -> bool {
        self.shut_down && self.ready == 0 && self.again == 0
    }

    /// How many keys are ready.
    pub fn len(&self) -> usize {
        self.ready
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.ready == 0
    }

    /// How many keys are delayed.
    pub fn delayed(&self) -> usize {
        self.delays.len()
    }

    /// How many keys the queue holds: ready, delayed, or with a worker.
    pub fn keys(&self) -> usize {
        self.slots.len()
    }

    /// The keys that workers hold now, and for how long. The times are right for keys that were
    /// handed out while the queue used the time; with [metrics](Self::set_metrics) it always does.
    pub fn unfinished(&self, now: Instant) -> Unfinished {
        let now = self.origin.map_or(0, |origin| as_nanoseconds(now.saturating_duration_since(origin)));
        let mut unfinished = Unfinished::default();
        for (_, started) in self.processing.iter() {
            let worked = Duration::from_nanos(now.saturating_sub(started));
            unfinished.count += 1;
            unfinished.total = unfinished.total.saturating_add(worked);
            unfinished.longest = unfinished.longest.max(worked);
        }
        unfinished
    }

    /// The keys that have waited longest for a worker, each with its waiting time: at most `limit`,
    /// the longest first. Keys of one priority wait in order, so it looks at `limit` of each.
    pub fn waiting(&self, limit: usize, now: Instant) -> Vec<(T, Duration)> {
        let now = self.origin.map_or(0, |origin| as_nanoseconds(now.saturating_duration_since(origin)));
        let mut waiting: Vec<_> =
            self.levels.iter().flat_map(|level| self.slots.iter(&level.list).take(limit)).collect();
        waiting.sort_by_key(|slot| slot.time);
        waiting.truncate(limit);
        let waited = |slot: &Slot<T, P>| Duration::from_nanos(now.saturating_sub(slot.time));
        waiting.into_iter().map(|slot| (slot.key().clone(), waited(slot))).collect()
    }

    /// The time until `key` becomes ready. `None` if it is not delayed.
    pub fn delay_of(&self, key: &T, now: Instant) -> Option<Duration> {
        let now = self.origin.map_or(0, |origin| as_nanoseconds(now.saturating_duration_since(origin)));
        let slot = self.slots.find(key).filter(|slot| slot.pending == Pending::Delayed)?;
        Some(Duration::from_nanos(slot.time.saturating_sub(now)))
    }

    fn time(&mut self, now: Instant) -> u64 {
        let origin = *self.origin.get_or_insert(now);
        // The caller passes the same time again and again while the queue does not need it.
        if now == origin {
            return 0;
        }
        as_nanoseconds(now.saturating_duration_since(origin))
    }
}

/// The capacity of `due` that is kept for the next time.
const DUE_KEPT: usize = 1 << 10;

/// The delay of a key whose rate limiter panicked.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// Far enough in the future to mean "never", and still an `Instant` on every platform.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Saturates at 584 years.
fn as_nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The worth of a point of priority, limited so that 255 of them can be subtracted.
fn nanoseconds(worth: Duration) -> i64 {
    i64::try_from(worth.as_nanos()).unwrap_or(i64::MAX).min(i64::MAX / 512)
}
