//! The queue without waiting: a state machine that is given the time.

use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use crate::delays::{Delays, Entry};
use crate::metrics::{Metrics, Unfinished};
use crate::processing::{PlaceId, Processing};
use crate::rate_limiter::{RateLimiter, controller_runtime_default};
use crate::slots::{List, Pending, SlotId, Slots};

/// How a key is added. The default is: now, with priority 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct AddOptions {
    priority: i8,
    delay: Delay,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Delay {
    #[default]
    None,
    After(Duration),
    RateLimited,
}

impl AddOptions {
    /// Now, with priority 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Higher priorities come first; 0 is the ordinary one. controller-runtime puts the initial list and unchanged resyncs
    /// in at −100. See [`Core::set_ageing`] for what a difference in priority is worth.
    pub fn priority(mut self, priority: i8) -> Self {
        self.priority = priority;
        self
    }

    /// Not before `delay` has passed. Zero means now.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = Delay::After(delay);
        self
    }

    /// Not before the rate limiter allows it. This counts a failure of the key.
    pub fn rate_limited(mut self) -> Self {
        self.delay = Delay::RateLimited;
        self
    }
}

/// What a worker says of a key when it is finished with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is well, or all is lost: the key's failures are forgotten.
    Done,
    /// It failed: the key comes back when the rate limiter allows it.
    Retry,
    /// All is well and the key is to come back after that time: its failures are forgotten.
    RequeueAfter(Duration),
}

/// A key that a worker has. Given back with [`Core::finish`].
#[derive(Debug)]
#[must_use = "the key stays with its worker until the ticket is given back to `Core::finish`"]
pub struct Ticket {
    slot: SlotId,
    place: PlaceId,
    priority: i8,
}

impl Ticket {
    /// The priority with which the key was handed out.
    pub fn priority(&self) -> i8 {
        self.priority
    }
}

/// How many adds there had been when a key was added or handed out.
pub(crate) type Stamp = u64;

/// The ready keys of one priority.
struct Level {
    priority: i8,
    list: List,
}

/// The work queue as a plain state machine. It never waits and reads no clock: each operation is told the time, and
/// [`next_deadline`](Self::next_deadline) says when the next key becomes ready by itself. [`WorkQueue`](crate::WorkQueue)
/// is this with a lock around it and workers that wait.
///
/// ```
/// use std::time::{Duration, Instant};
/// use steersman_workqueue::{AddOptions, Core, Verdict};
///
/// let now = Instant::now();
/// let mut core = Core::new();
/// core.add("default/web", AddOptions::new(), now);
/// core.add("default/web", AddOptions::new(), now);
/// let (ticket, key) = core.get(now).unwrap();
/// assert_eq!((key, core.get(now).is_none()), ("default/web", true));
///
/// core.finish(ticket, Verdict::RequeueAfter(Duration::from_secs(60)), now);
/// let later = core.next_deadline().unwrap();
/// assert_eq!(later, now + Duration::from_secs(60));
/// core.advance(later);
/// assert_eq!(core.len(), 1);
/// ```
///
/// # What is promised
///
/// - A key is in the queue once, however often it is added: with the earliest time and the highest priority of those adds.
/// - A key that a worker has is handed to nobody else. If it is added meanwhile, it is handed out once more afterwards.
/// - Keys of one priority are handed out in the order in which they became ready; delayed keys become ready in the order of
///   their times.
/// - A key that was handed out, finished and not added again is not kept anywhere.
pub struct Core<T> {
    slots: Slots<T>,
    /// Highest priority first. A level once used stays; there are at most 256.
    levels: Vec<Level>,
    ready: usize,
    /// How many keys that workers have are to be handed out once more.
    again: usize,
    processing: Processing,
    delays: Delays,
    /// What is taken from there. Empty, unless a panic came in between.
    due: Vec<Entry>,
    /// Hashes of what comes next.
    ahead: Vec<u32>,
    limiter: Box<dyn RateLimiter<T>>,
    metrics: Option<Box<dyn Metrics>>,
    /// What one point of priority is worth, in nanoseconds.
    ageing: i64,
    shut_down: bool,
    /// All times are nanoseconds since this.
    origin: Option<Instant>,
}

impl<T> std::fmt::Debug for Core<T> {
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

    /// An empty queue with controller-runtime's rate limiter.
    pub fn new() -> Self
    where
        T: Send + 'static,
    {
        Self::with_rate_limiter(controller_runtime_default())
    }

    /// An empty queue with another rate limiter.
    pub fn with_rate_limiter(limiter: impl RateLimiter<T> + 'static) -> Self {
        Self {
            slots: Slots::new(),
            levels: vec![Level { priority: 0, list: List::new() }],
            ready: 0,
            again: 0,
            processing: Processing::default(),
            delays: Delays::new(),
            due: Vec::new(),
            ahead: Vec::new(),
            limiter: Box::new(limiter),
            metrics: None,
            ageing: nanoseconds(Self::AGEING_DEFAULT),
            shut_down: false,
            origin: None,
        }
    }

    /// Has `metrics` told what happens from now on.
    pub fn set_metrics(&mut self, metrics: impl Metrics + 'static) {
        self.metrics = Some(Box::new(metrics));
    }

    /// Sets what one point of priority is worth: [`get`](Self::get) hands out the key with the smallest
    ///
    /// > the time it became ready − priority × `worth`
    ///
    /// so that a key of low priority is overtaken only by keys of higher priority that became ready at most (difference of
    /// priorities) × `worth` after it, and nobody starves. With `Duration::MAX` the higher priority always comes first.
    pub fn set_ageing(&mut self, worth: Duration) {
        self.ageing = nanoseconds(worth);
    }

    /// Whether [`add`](Self::add) without a delay, [`get`](Self::get) and [`finish`](Self::finish) look at the time they
    /// are given. While nobody uses delays, priorities or metrics they do not, and the caller may save reading its clock.
    /// Operations with a delay, a rate limit or a priority always look at it.
    pub fn needs_time(&self) -> bool {
        self.stamps_adds() || self.delays.len() > 0
    }

    /// Whether the time of each [`add`](Self::add) matters, for the sake of priorities or metrics.
    pub(crate) fn stamps_adds(&self) -> bool {
        self.levels.len() > 1 || self.metrics.is_some()
    }

    /// Adds `key`. After [`shut_down`](Self::shut_down) this does nothing.
    pub fn add(&mut self, key: T, options: AddOptions, now: Instant) {
        if self.shut_down {
            return;
        }
        let delay = match options.delay {
            Delay::None => None,
            Delay::After(delay) => Some(delay),
            Delay::RateLimited => Some(self.limiter.when(&key, now)),
        };
        let id = self.slots.find_or_insert(key);
        self.schedule(id, options.priority, delay, now);
    }

    /// Adds `key` as the add of that number. If it was handed out since then, whoever has it knows.
    pub(crate) fn add_belated(&mut self, key: T, stamp: Stamp, now: Instant) {
        if self.shut_down {
            return;
        }
        let id = self.slots.find_or_insert(key);
        let place = self.slots.get(id).place();
        if place.is_none_or(|place| stamp > self.processing.handed_out(place)) {
            self.schedule(id, 0, None, now);
        }
    }

    /// Brings what [`add`](Self::add) of these keys and [`finish`](Self::finish) of these tickets will need into the
    /// processor's cache, if it is probably not there.
    pub(crate) fn look_ahead<'a>(&mut self, next: impl Iterator<Item = Result<&'a T, &'a Ticket>>)
    where
        T: 'a,
    {
        if !self.slots.is_large() {
            return;
        }
        self.ahead.clear();
        self.ahead.extend(next.map(|next| match next {
            Ok(key) => self.slots.hash(key),
            Err(ticket) => self.slots.hash_of(ticket.slot),
        }));
        self.slots.look_ahead(&self.ahead);
    }

    /// Merges one more add into what is known of the key.
    fn schedule(&mut self, id: SlotId, priority: i8, delay: Option<Duration>, now: Instant) {
        let now = self.time(now);
        if priority != 0 && self.levels.len() == 1 {
            self.use_priorities(priority, now);
        }
        if delay.is_some() {
            self.tell(|metrics| metrics.retry());
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
                    Some(until) if until < slot.time => self.delays.hasten(&mut self.slots, id, until),
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

    /// A key that was neither ready nor delayed is ready since `time`.
    fn make_ready(&mut self, id: SlotId, time: u64) {
        self.tell(|metrics| metrics.add());
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
        self.tell_depth(level);
    }

    fn unqueue(&mut self, id: SlotId) {
        let priority = self.slots.get(id).priority;
        let level = self.level(priority);
        self.slots.unlink(&mut self.levels[level].list, id);
        self.ready -= 1;
        self.tell_depth(level);
    }

    fn tell_depth(&mut self, level: usize) {
        let (priority, depth) = (self.levels[level].priority, self.levels[level].list.len());
        self.tell(|metrics| metrics.depth(priority, depth));
    }

    /// Tells the metrics. If they panic, which the panic's message says, the queue goes on: a key must not be lost for a figure.
    #[inline]
    fn tell(&mut self, what: impl FnOnce(&mut dyn Metrics)) {
        if let Some(metrics) = &mut self.metrics {
            let _ = catch_unwind(AssertUnwindSafe(|| what(&mut **metrics)));
        }
    }

    /// The place of the level of `priority`, which is made if need be.
    fn level(&mut self, priority: i8) -> usize {
        // The usual case: nobody uses priorities.
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

    /// Before the first priority was used, nobody needed to know since when keys are ready, and the clock may not have been
    /// read: they count as ready since now.
    fn use_priorities(&mut self, priority: i8, now: u64) {
        if self.metrics.is_none() {
            let ready = self.levels[0].list;
            self.slots.for_each(&ready, |slot| slot.time = now);
            for (id, _) in self.processing.iter() {
                let slot = self.slots.get_mut(id);
                // Of one that is delayed it is the time for which it waits.
                if slot.pending == Pending::Ready {
                    slot.time = now;
                }
            }
        }
        self.level(priority);
    }

    /// Makes delayed keys ready whose time has come.
    pub fn advance(&mut self, now: Instant) {
        if self.delays.len() == 0 {
            return;
        }
        let now = self.time(now);
        self.take_due(now, Self::make_ready);
    }

    /// Ends the delays that are over by `now`, in order, and does `then` with each of their slots.
    fn take_due(&mut self, now: u64, then: impl Fn(&mut Self, SlotId, u64)) {
        self.delays.take_due(now, &mut self.due);
        if self.slots.is_large() {
            // Hashing a key may panic. What is due stays here then, for the next time; what was done of it is out of date.
            self.slots.look_at(self.due.iter().map(|(_, _, id)| *id));
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

    /// When the next delayed key becomes ready, which takes a call of [`advance`](Self::advance).
    pub fn next_deadline(&mut self) -> Option<Instant> {
        let time = self.delays.next(&self.slots)?;
        let origin = self.origin?;
        Some(origin.checked_add(Duration::from_nanos(time)).unwrap_or_else(|| origin + FAR))
    }

    /// Hands out the next key. It counts as being worked on until its ticket comes back to [`finish`](Self::finish).
    pub fn get(&mut self, now: Instant) -> Option<(Ticket, T)> {
        self.get_at(0, now)
    }

    /// [`get`](Self::get) after as many adds as `stamp` says.
    pub(crate) fn get_at(&mut self, stamp: Stamp, now: Instant) -> Option<(Ticket, T)> {
        self.advance(now);
        let id = self.first()?;
        // First what may panic.
        let key = self.slots.get(id).key().clone();
        self.unqueue(id);
        let now = self.time(now);
        let place = self.processing.start(id, now, stamp);
        let slot = self.slots.get_mut(id);
        slot.pending = Pending::No;
        slot.hand_out(place);
        let (priority, waited) = (slot.priority, now.saturating_sub(slot.time));
        self.tell(|metrics| metrics.queue_duration(Duration::from_nanos(waited)));
        Some((Ticket { slot: id, place, priority }, key))
    }

    /// The key whose turn it is.
    fn first(&self) -> Option<SlotId> {
        let mut heads = self.levels.iter().filter_map(|level| Some((level.priority, level.list.first()?)));
        let (priority, id) = heads.next()?;
        let rank = |priority: i8, id: SlotId| {
            let ready_since = i64::try_from(self.slots.get(id).time).unwrap_or(i64::MAX);
            ready_since.saturating_sub(self.ageing.saturating_mul(i64::from(priority)))
        };
        let Some(next) = heads.next() else { return Some(id) };
        // Of equal ranks the higher priority wins, which comes first.
        let others = std::iter::once(next).chain(heads);
        let first = others.fold((rank(priority, id), id), |best, (priority, id)| {
            let rank = rank(priority, id);
            if rank < best.0 { (rank, id) } else { best }
        });
        Some(first.1)
    }

    /// Takes a key back from its worker.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket can be given back once")]
    pub fn finish(&mut self, ticket: Ticket, verdict: Verdict, now: Instant) {
        let Ticket { slot: id, place, priority } = ticket;
        assert!(self.processing.is_at(place, id), "the ticket belongs to another queue");
        let (limiter, key) = (&mut self.limiter, self.slots.get(id).key());
        let limited = catch_unwind(AssertUnwindSafe(|| match verdict {
            Verdict::Done | Verdict::RequeueAfter(_) => {
                limiter.forget(key);
                Duration::ZERO
            }
            Verdict::Retry => limiter.when(key, now),
        }));
        let delay = match verdict {
            Verdict::Done => None,
            Verdict::RequeueAfter(delay) => Some(delay),
            Verdict::Retry => Some(*limited.as_ref().unwrap_or(&AFTER_PANIC)),
        };
        if delay.is_some() && !self.shut_down {
            self.schedule(id, priority, delay, now);
        }
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
        self.tell(|metrics| metrics.work_duration(Duration::from_nanos(now.saturating_sub(started))));
        // Only now, when the key is no longer with a worker that has given it back.
        if let Err(panic) = limited {
            resume_unwind(panic);
        }
    }

    /// Forgets the failures of `key`.
    pub fn forget(&mut self, key: &T) {
        self.limiter.forget(key);
    }

    /// How many failures of `key` the rate limiter counts.
    pub fn retries(&self, key: &T) -> u32 {
        self.limiter.retries(key)
    }

    /// From now on adds do nothing and delayed keys are dropped. Keys that are ready are still handed out, and those that
    /// were added while a worker has them. Once is enough; again does nothing.
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

    /// Whether no key is ready and no worker has one.
    pub fn is_drained(&self) -> bool {
        self.ready == 0 && self.processing.len() == 0
    }

    /// Whether it is shut down and nothing will be handed out any more.
    pub(crate) fn is_finished(&self) -> bool {
        self.shut_down && self.ready == 0 && self.again == 0
    }

    /// Whether the time of a delayed key has come.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        if self.delays.len() == 0 {
            return false;
        }
        let now = self.time(now);
        self.delays.is_due(now)
    }

    /// How many keys are ready.
    pub fn len(&self) -> usize {
        self.ready
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.ready == 0
    }

    /// How many keys wait for their time.
    pub fn delayed(&self) -> usize {
        self.delays.len()
    }

    /// How many keys are in the queue in any way: ready, delayed, or with a worker.
    pub fn keys(&self) -> usize {
        self.slots.len()
    }

    /// The keys that workers have now, and for how long: that is known of keys that were handed out with the right time,
    /// as always in a queue with [metrics](Self::set_metrics).
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

    fn time(&mut self, now: Instant) -> u64 {
        let origin = *self.origin.get_or_insert(now);
        // While nobody needs the time, it stands still.
        if now == origin {
            return 0;
        }
        as_nanoseconds(now.saturating_duration_since(origin))
    }
}

/// Room for so many keys that become ready together is kept for the next ones.
const DUE_KEPT: usize = 1 << 10;

/// How long a key waits whose rate limiter panicked instead of saying so.
const AFTER_PANIC: Duration = Duration::from_secs(1);

/// So far in the future that nobody will be there, and still an `Instant` everywhere.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Saturating: 584 years are for ever.
fn as_nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What a point of priority is worth, so that 255 of them can be subtracted.
fn nanoseconds(worth: Duration) -> i64 {
    i64::try_from(worth.as_nanos()).unwrap_or(i64::MAX).min(i64::MAX / 512)
}
