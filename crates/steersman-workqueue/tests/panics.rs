//! Panics in code of the user: keys, rate limiters, metrics. None of them loses a key.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use steersman_workqueue::{AddOptions, Core, Outcome, QueueMetrics, RateLimiter};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A key whose hashing panics on demand.
#[derive(Clone, PartialEq, Eq)]
struct Touchy(u32, Rc<RefCell<bool>>);

impl std::hash::Hash for Touchy {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        assert!(!*self.1.borrow(), "do not touch");
        self.0.hash(state);
    }
}

/// Never limits, and does not read the key.
struct Unlimited;

impl<T> RateLimiter<T> for Unlimited {
    fn when(&mut self, _: &T, _: Instant) -> Duration {
        Duration::ZERO
    }

    fn forget(&mut self, _: &T) {}

    fn retries(&self, _: &T) -> u32 {
        0
    }
}

#[test]
fn a_key_that_panics_when_hashed_harms_no_other_key() {
    let touchy = Rc::new(RefCell::new(false));
    let mut core = Core::with_rate_limiter(Unlimited);
    let now = Instant::now();
    core.add(Touchy(1, Rc::clone(&touchy)), AddOptions::new(), now);
    *touchy.borrow_mut() = true;
    let adding = AssertUnwindSafe(|| core.add(Touchy(2, Rc::clone(&touchy)), AddOptions::new(), now));
    assert!(catch_unwind(adding).is_err());
    *touchy.borrow_mut() = false;
    let (ticket, key) = core.get(now).unwrap();
    assert_eq!((key.0, core.keys()), (1, 1));
    core.finish(ticket, Outcome::Done, now);
    assert_eq!(core.keys(), 0);
}

thread_local! {
    static HASHING_PANICS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[derive(Clone, PartialEq, Eq)]
struct Moody(u32);

impl std::hash::Hash for Moody {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        assert!(!HASHING_PANICS.get(), "not now");
        self.0.hash(state);
    }
}

#[test]
fn delayed_keys_survive_a_panic_while_they_are_made_ready() {
    let now = Instant::now();
    let mut core = Core::new();
    for number in 0..20_000 {
        core.add(Moody(number), AddOptions::new().after(Duration::from_secs(1)), now);
    }
    let later = now + Duration::from_secs(2);
    HASHING_PANICS.set(true);
    let advanced = catch_unwind(AssertUnwindSafe(|| core.advance(later)));
    HASHING_PANICS.set(false);
    assert!(advanced.is_err(), "the slots are prefetched");
    core.advance(later);
    assert_eq!((core.len(), core.delayed()), (20_000, 0));
}

/// A limiter and metrics that always panic.
struct Panics;

impl RateLimiter<&'static str> for Panics {
    fn when(&mut self, _: &&'static str, _: Instant) -> Duration {
        panic!("as planned");
    }

    fn forget(&mut self, _: &&'static str) {
        panic!("as planned");
    }

    fn retries(&self, _: &&'static str) -> u32 {
        0
    }
}

impl QueueMetrics for Panics {
    fn depth(&mut self, _: i8, _: usize) {
        panic!("as planned");
    }

    fn add(&mut self) {
        panic!("as planned");
    }

    fn queue_duration(&mut self, _: Duration) {
        panic!("as planned");
    }

    fn work_duration(&mut self, _: Duration) {
        panic!("as planned");
    }

    fn retry(&mut self) {
        panic!("as planned");
    }
}

#[test]
fn a_key_is_not_lost_when_its_rate_limiter_panics() {
    for (outcome, comes_back) in
        [(Outcome::Retry, Some(s(1))), (Outcome::RequeueAfter(s(5)), Some(s(5))), (Outcome::Done, None)]
    {
        let (mut core, now) = (Core::with_rate_limiter(Panics), Instant::now());
        core.add("a", AddOptions::new(), now);
        let (ticket, _) = core.get(now).expect("it is ready");
        let finished = catch_unwind(AssertUnwindSafe(|| core.finish(ticket, outcome, now)));
        assert!(finished.is_err(), "the panic reaches the caller");
        assert_eq!(core.next_deadline(), comes_back.map(|delay| now + delay), "{outcome:?}");
        assert_eq!(core.unfinished(now).count, 0);
        core.add("a", AddOptions::new(), now);
        assert_eq!(core.get(now).map(|(_, key)| key), Some("a"));
    }
}

#[test]
fn no_key_is_lost_when_metrics_panic() {
    let (mut core, now) = (Core::new(), Instant::now());
    core.set_metrics(Panics);
    core.add("a", AddOptions::new(), now);
    core.add("b", AddOptions::new().after(s(1)), now);
    let (ticket, _) = core.get(now).expect("it is ready");
    core.add("a", AddOptions::new(), now);
    core.finish(ticket, Outcome::Done, now);
    let later = now + s(1);
    for expected in ["a", "b"] {
        let (ticket, key) = core.get(later).expect("no key is lost");
        assert_eq!(key, expected);
        core.finish(ticket, Outcome::Done, later);
    }
    assert_eq!(core.keys(), 0);
}
