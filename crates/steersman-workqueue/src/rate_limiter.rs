//! How long a key waits before it is retried.

use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

use hashbrown::DefaultHashBuilder;

use crate::Error;
use crate::table::Table;

/// Decides how long a failed key waits before its next try.
///
/// The queue calls a limiter under its lock: it must not block and must not use the queue. A panic
/// in it goes to the caller of the queue, and the key comes back after a second.
pub trait RateLimiter<T>: Send {
    /// Counts one more failure of `key` and returns how long it has to wait.
    fn when(&mut self, key: &T, now: Instant) -> Duration;

    /// Forgets the failures of `key`: it succeeded, or will not be retried.
    fn forget(&mut self, key: &T);

    /// How many failures of `key` were counted since it was last forgotten.
    fn retries(&self, key: &T) -> u32;
}

impl<T, L: RateLimiter<T> + ?Sized> RateLimiter<T> for Box<L> {
    fn when(&mut self, key: &T, now: Instant) -> Duration {
        (**self).when(key, now)
    }

    fn forget(&mut self, key: &T) {
        (**self).forget(key);
    }

    fn retries(&self, key: &T) -> u32 {
        (**self).retries(key)
    }
}

/// client-go's default: the longer of two waits. One starts with 5 ms and doubles with each failure
/// of the key, up to 1000 s. The other allows 10 tries a second for all keys together, after a
/// burst of 100.
pub fn client_go_default<T: Hash + Eq + Clone + Send + 'static>() -> MaxOfRateLimiter<T> {
    let bucket = BucketRateLimiter::new(10.0, 100).expect("both numbers are positive");
    MaxOfRateLimiter::new(vec![Box::new(controller_runtime_default()), Box::new(bucket)])
}

/// controller-runtime's default with its priority queue: 5 ms, doubled with each failure of the
/// key, up to 1000 s.
pub fn controller_runtime_default<T>() -> ItemExponentialFailureRateLimiter<T> {
    ItemExponentialFailureRateLimiter::new(Duration::from_millis(5), Duration::from_secs(1000))
}

/// The capacity, in keys, that is kept when all failures are forgotten.
const KEPT_WHEN_EMPTY: usize = 1 << 12;

/// The failures of each key.
///
/// The table takes eight bytes a key, so it stays in the processor's cache longer than a table of
/// keys would. The keys are stored beside it in the order in which they first failed, which is
/// roughly the order in which they fail again.
#[derive(Clone)]
struct Failures<T> {
    table: Table,
    counts: Vec<Count<T>>,
    /// Free places in `counts`.
    free: Vec<u32>,
    /// The place of the key that is expected to fail next: the one after the last.
    next: usize,
    hasher: DefaultHashBuilder,
}

/// How many times a key has failed. `None` instead of the key if it is forgotten.
#[derive(Clone)]
struct Count<T> {
    key: Option<T>,
    failures: u32,
}

impl<T> Failures<T> {
    fn new() -> Self {
        Self {
            table: Table::default(),
            counts: Vec::new(),
            free: Vec::new(),
            next: 0,
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl<T> std::fmt::Debug for Failures<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Failures").field("keys", &self.table.len()).finish_non_exhaustive()
    }
}

impl<T: Hash + Eq + Clone> Failures<T> {
    fn hash(&self, key: &T) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    fn find(&self, hash: u32, key: &T) -> Option<u32> {
        let is_key = |index: u32| self.counts[index as usize].key.as_ref().is_some_and(|other| other == key);
        self.table.find(hash, is_key)
    }

    /// Counts one more failure and returns how many there were before.
    fn count(&mut self, key: &T) -> u32 {
        // Keys that failed in a row are retried in a row. Then no key has to be hashed.
        let expected = self.counts.get(self.next).and_then(|count| count.key.as_ref());
        if expected.is_some_and(|expected| expected == key) {
            return self.count_at(self.next);
        }
        let hash = self.hash(key);
        if let Some(index) = self.find(hash, key) {
            return self.count_at(index as usize);
        }
        let first = Count { key: Some(key.clone()), failures: 1 };
        let index = if let Some(index) = self.free.pop() {
            self.counts[index as usize] = first;
            index
        } else {
            self.counts.push(first);
            u32::try_from(self.counts.len()).expect("memory holds fewer than 2³² keys") - 1
        };
        self.table.insert(hash, index);
        0
    }

    fn count_at(&mut self, index: usize) -> u32 {
        self.next = if index + 1 < self.counts.len() { index + 1 } else { 0 };
        let before = self.counts[index].failures;
        self.counts[index].failures = before.saturating_add(1);
        before
    }

    fn forget(&mut self, key: &T) {
        // The usual case, in which the key need not be hashed.
        if self.table.is_empty() {
            return;
        }
        let hash = self.hash(key);
        let Some(index) = self.find(hash, key) else { return };
        self.table.remove(hash, index);
        self.free.push(index);
        self.counts[index as usize].key = None;
        if self.table.is_empty() && self.counts.len() > KEPT_WHEN_EMPTY {
            (self.table, self.counts, self.free) = Default::default();
        }
    }

    fn get(&self, key: &T) -> u32 {
        self.find(self.hash(key), key).map_or(0, |index| self.counts[index as usize].failures)
    }
}

/// Doubles the wait with each failure of a key: `base`, 2·`base`, 4·`base`, … up to `max`.
#[derive(Clone, Debug)]
pub struct ItemExponentialFailureRateLimiter<T> {
    failures: Failures<T>,
    base_ns: u64,
    max: Duration,
}

impl<T> ItemExponentialFailureRateLimiter<T> {
    /// Waits `base` after the first failure, and never longer than `max`, even if `base` is longer.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { failures: Failures::new(), base_ns: u64::try_from(base.as_nanos()).unwrap_or(u64::MAX), max }
    }
}

impl<T: Hash + Eq + Clone + Send> RateLimiter<T> for ItemExponentialFailureRateLimiter<T> {
    fn when(&mut self, key: &T, _: Instant) -> Duration {
        let failures = self.failures.count(key);
        // Nanoseconds are shifted instead of multiplied. A shift that overflows is longer than any
        // `max`.
        if failures > self.base_ns.leading_zeros() && self.base_ns > 0 {
            return self.max;
        }
        Duration::from_nanos(self.base_ns.unbounded_shl(failures)).min(self.max)
    }

    fn forget(&mut self, key: &T) {
        self.failures.forget(key);
    }

    fn retries(&self, key: &T) -> u32 {
        self.failures.get(key)
    }
}

/// Waits `fast` after each of the first failures of a key, and `slow` after each later one.
#[derive(Clone, Debug)]
pub struct ItemFastSlowRateLimiter<T> {
    failures: Failures<T>,
    fast: Duration,
    slow: Duration,
    fast_tries_max: u32,
}

impl<T> ItemFastSlowRateLimiter<T> {
    /// Waits `fast` for the first `fast_tries_max` failures.
    pub fn new(fast: Duration, slow: Duration, fast_tries_max: u32) -> Self {
        Self { failures: Failures::new(), fast, slow, fast_tries_max }
    }
}

impl<T: Hash + Eq + Clone + Send> RateLimiter<T> for ItemFastSlowRateLimiter<T> {
    fn when(&mut self, key: &T, _: Instant) -> Duration {
        if self.failures.count(key) < self.fast_tries_max { self.fast } else { self.slow }
    }

    fn forget(&mut self, key: &T) {
        self.failures.forget(key);
    }

    fn retries(&self, key: &T) -> u32 {
        self.failures.get(key)
    }
}

/// A token bucket for all keys together: a number of tries a second, after a burst.
///
/// The bucket starts full. A try that finds it empty takes the next token in advance, and waits for
/// it.
#[derive(Clone, Debug)]
pub struct BucketRateLimiter {
    rate: f64,
    burst: f64,
    /// Negative if tokens were taken in advance.
    tokens: f64,
    filled: Option<Instant>,
}

impl BucketRateLimiter {
    /// Allows `rate` tries a second, after `burst` at once. Both must be above zero: a bucket that
    /// never fills would hold every key for ever.
    pub fn new(rate: f64, burst: u32) -> Result<Self, Error> {
        if !(rate.is_finite() && rate > 0.0) {
            return Err(Error::InvalidRate { rate });
        }
        if burst == 0 {
            return Err(Error::InvalidBurst);
        }
        let burst = f64::from(burst);
        Ok(Self { rate, burst, tokens: burst, filled: None })
    }
}

impl<T> RateLimiter<T> for BucketRateLimiter {
    fn when(&mut self, _: &T, now: Instant) -> Duration {
        let filled = self.filled.map_or(now, |filled| filled.max(now));
        let elapsed = self.filled.map_or(Duration::ZERO, |since| filled.saturating_duration_since(since));
        self.tokens = (self.tokens + elapsed.as_secs_f64() * self.rate).min(self.burst) - 1.0;
        self.filled = Some(filled);
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(-self.tokens / self.rate).unwrap_or(Duration::MAX)
    }

    /// Does nothing: tokens are not counted by key.
    fn forget(&mut self, _: &T) {}

    fn retries(&self, _: &T) -> u32 {
        0
    }
}

/// Waits as long as the longest of several limiters.
pub struct MaxOfRateLimiter<T> {
    limiters: Vec<Box<dyn RateLimiter<T>>>,
}

impl<T> MaxOfRateLimiter<T> {
    /// Combines `limiters`. Without any, keys do not wait.
    pub fn new(limiters: Vec<Box<dyn RateLimiter<T>>>) -> Self {
        Self { limiters }
    }
}

impl<T> std::fmt::Debug for MaxOfRateLimiter<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MaxOfRateLimiter").field("limiters", &self.limiters.len()).finish()
    }
}

impl<T> RateLimiter<T> for MaxOfRateLimiter<T> {
    fn when(&mut self, key: &T, now: Instant) -> Duration {
        self.limiters.iter_mut().map(|limiter| limiter.when(key, now)).max().unwrap_or(Duration::ZERO)
    }

    fn forget(&mut self, key: &T) {
        for limiter in &mut self.limiters {
            limiter.forget(key);
        }
    }

    /// The largest count of all limiters.
    fn retries(&self, key: &T) -> u32 {
        self.limiters.iter().map(|limiter| limiter.retries(key)).max().unwrap_or(0)
    }
}

/// Limits the waits of another limiter.
#[derive(Clone, Debug)]
pub struct WithMaxWaitRateLimiter<L> {
    limiter: L,
    max: Duration,
}

impl<L> WithMaxWaitRateLimiter<L> {
    /// Never waits longer than `max`.
    pub fn new(limiter: L, max: Duration) -> Self {
        Self { limiter, max }
    }
}

impl<T, L: RateLimiter<T>> RateLimiter<T> for WithMaxWaitRateLimiter<L> {
    fn when(&mut self, key: &T, now: Instant) -> Duration {
        self.limiter.when(key, now).min(self.max)
    }

    fn forget(&mut self, key: &T) {
        self.limiter.forget(key);
    }

    fn retries(&self, key: &T) -> u32 {
        self.limiter.retries(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn waits<L: RateLimiter<&'static str>>(limiter: &mut L, key: &'static str, count: usize) -> Vec<Duration> {
        let now = Instant::now();
        (0..count).map(|_| limiter.when(&key, now)).collect()
    }

    #[test]
    fn per_item_exponential_doubles_per_key_up_to_the_cap_and_forget_resets() {
        let mut limiter = ItemExponentialFailureRateLimiter::new(ms(1), ms(5));
        assert_eq!(waits(&mut limiter, "one", 5), [ms(1), ms(2), ms(4), ms(5), ms(5)]);
        assert_eq!(limiter.retries(&"one"), 5);
        assert_eq!(waits(&mut limiter, "two", 2), [ms(1), ms(2)]);
        limiter.forget(&"one");
        assert_eq!((limiter.retries(&"one"), limiter.retries(&"two")), (0, 2));
        assert_eq!(waits(&mut limiter, "one", 1), [ms(1)]);
    }

    proptest::proptest! {
        /// Keys fail in the order that the limiter expects, and in others. Forgotten keys make
        /// room.
        #[test]
        fn per_item_exponential_counts_as_a_slow_map_does(
            operations in proptest::collection::vec((0_u32..8, 0..4), 0..300),
        ) {
            let mut limiter = ItemExponentialFailureRateLimiter::new(ms(1), ms(1 << 20));
            let mut model = std::collections::HashMap::<u32, u32>::new();
            let mut last = 0;
            for (number, what) in operations {
                let key = if what == 0 { number } else { (last + 1) % 8 };
                last = key;
                if what == 3 && number % 2 == 0 {
                    limiter.forget(&key);
                    model.remove(&key);
                } else {
                    let failures = model.entry(key).or_default();
                    proptest::prop_assert_eq!(limiter.when(&key, Instant::now()), ms(1 << *failures).min(ms(1 << 20)));
                    *failures += 1;
                }
                for key in 0..8 {
                    proptest::prop_assert_eq!(limiter.retries(&key), model.get(&key).copied().unwrap_or(0));
                }
            }
        }
    }

    #[test]
    fn what_many_failures_took_is_given_back_when_all_are_forgotten() {
        let mut limiter = ItemExponentialFailureRateLimiter::new(ms(1), ms(5));
        let keys = 0..20_000_u32;
        keys.clone().for_each(|key| assert_eq!(limiter.when(&key, Instant::now()), ms(1)));
        keys.clone().for_each(|key| limiter.forget(&key));
        assert!(
            limiter.failures.counts.capacity() <= KEPT_WHEN_EMPTY
                && limiter.failures.free.capacity() <= KEPT_WHEN_EMPTY
        );
        assert_eq!((limiter.when(&7, Instant::now()), limiter.when(&7, Instant::now())), (ms(1), ms(2)));
    }

    #[test]
    fn per_item_exponential_never_overflows() {
        let max = Duration::from_secs(1000);
        let mut limiter = ItemExponentialFailureRateLimiter::new(ms(5), max);
        let long = waits(&mut limiter, "one", 2000);
        assert!(long.is_sorted() && long[17] < max && long[18..].iter().all(|wait| *wait == max));
        let mut huge = ItemExponentialFailureRateLimiter::new(Duration::MAX, Duration::MAX);
        let century = Duration::from_secs(100 * 365 * 24 * 3600);
        assert!(waits(&mut huge, "one", 3).iter().all(|wait| *wait > century));
        let mut none = ItemExponentialFailureRateLimiter::new(Duration::ZERO, max);
        assert!(waits(&mut none, "one", 200).iter().all(Duration::is_zero));
        let mut inverted = ItemExponentialFailureRateLimiter::new(ms(10), ms(1));
        assert_eq!(inverted.when(&"one", Instant::now()), ms(1));
    }

    #[test]
    fn fast_slow_is_fast_n_times_then_slow() {
        let mut limiter = ItemFastSlowRateLimiter::new(ms(5), ms(10_000), 3);
        assert_eq!(waits(&mut limiter, "one", 5), [ms(5), ms(5), ms(5), ms(10_000), ms(10_000)]);
        assert_eq!(waits(&mut limiter, "two", 1), [ms(5)]);
        limiter.forget(&"one");
        assert_eq!(waits(&mut limiter, "one", 1), [ms(5)]);
        assert_eq!(limiter.retries(&"one"), 1);
    }

    #[test]
    fn the_bucket_starts_full_and_then_lets_the_rate_through() {
        let start = Instant::now();
        let mut limiter = BucketRateLimiter::new(10.0, 3).unwrap();
        let mut when = |now: Instant| RateLimiter::<&str>::when(&mut limiter, &"any", now);
        assert_eq!([when(start), when(start), when(start)], [ms(0), ms(0), ms(0)]);
        assert_eq!([when(start), when(start)], [ms(100), ms(200)]);
        // By now the two tokens that were taken in advance have come, and half of the next one.
        assert_eq!(when(start + ms(250)), ms(50));
        // Never more than the burst, however long the break.
        let later = start + Duration::from_secs(3600);
        assert_eq!([when(later), when(later), when(later), when(later)], [ms(0), ms(0), ms(0), ms(100)]);
        // A clock that goes back takes no tokens away.
        assert_eq!(when(start), ms(200));
    }

    #[test]
    fn a_bucket_that_would_never_fill_is_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(BucketRateLimiter::new(rate, 1), Err(Error::InvalidRate { .. })), "{rate}");
        }
        assert!(matches!(BucketRateLimiter::new(1.0, 0), Err(Error::InvalidBurst)));
        let mut slow = BucketRateLimiter::new(f64::MIN_POSITIVE, 1).unwrap();
        assert_eq!(waits(&mut slow, "one", 2), [Duration::ZERO, Duration::MAX]);
    }

    #[test]
    fn the_mix_waits_for_the_longest() {
        let fast_slow = ItemFastSlowRateLimiter::new(ms(5), ms(1000), 3);
        let exponential = ItemExponentialFailureRateLimiter::new(ms(1), ms(100));
        let mut limiter = MaxOfRateLimiter::new(vec![Box::new(fast_slow), Box::new(exponential)]);
        let expected = [ms(5), ms(5), ms(5), ms(1000), ms(1000)];
        assert_eq!(waits(&mut limiter, "one", 5), expected);
        assert_eq!(limiter.retries(&"one"), 5);
        limiter.forget(&"one");
        assert_eq!(limiter.retries(&"one"), 0);
        assert_eq!(waits(&mut MaxOfRateLimiter::new(vec![]), "one", 1), [Duration::ZERO]);
    }

    #[test]
    fn the_maximum_wait_wraps_any_limiter() {
        let inner = ItemFastSlowRateLimiter::new(ms(5), ms(10_000), 1);
        let mut limiter = WithMaxWaitRateLimiter::new(inner, ms(50));
        assert_eq!(waits(&mut limiter, "one", 2), [ms(5), ms(50)]);
        assert_eq!(limiter.retries(&"one"), 2);
        limiter.forget(&"one");
        assert_eq!(limiter.retries(&"one"), 0);
    }

    #[test]
    fn the_defaults_are_those_of_the_peers() {
        let mut go = client_go_default();
        assert_eq!(waits(&mut go, "one", 3), [ms(5), ms(10), ms(20)]);
        // After the burst of 100, ten a second for all keys together.
        let now = Instant::now();
        let last = |limiter: &mut dyn RateLimiter<&'static str>| (0..20).map(|_| limiter.when(&"two", now)).last();
        assert_eq!(last(&mut go), Some(Duration::from_secs(1000)));
        assert_eq!(last(&mut controller_runtime_default()), Some(Duration::from_secs(1000)));
        let mut fresh = client_go_default::<u32>();
        let waits: Vec<_> = (0..110).map(|key| fresh.when(&key, now)).collect();
        assert_eq!((waits[0], waits[99], waits[100], waits[109]), (ms(5), ms(5), ms(100), ms(1000)));

        let mut runtime = controller_runtime_default::<u32>();
        assert!((0..1000).all(|key| runtime.when(&key, now) == ms(5)));
    }
}
