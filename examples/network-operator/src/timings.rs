use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use steersman::layer::{Layer, Next, ReconcileFuture};
use steersman::runtime::Object;

/// How many of the last reconciles are recorded.
const REMEMBERED_MAX: usize = 10_000;

/// The durations of reconciles, measured by a layer. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timings {
    last: Arc<Mutex<VecDeque<Duration>>>,
}

impl Timings {
    fn add(&self, took: Duration) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == REMEMBERED_MAX {
            last.pop_front();
        }
        last.push_back(took);
    }

    /// The time within which this share of the last reconciles ended, by nearest rank. Zero if
    /// there was none.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let mut all: Vec<_> = self.last.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        all.sort_unstable();
        let rank = (share * all.len() as f64).ceil() as usize;
        all.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

impl<K: Object> Layer<K> for Timings {
    fn around<'a>(&'a self, next: Next<'a, K>) -> ReconcileFuture<'a> {
        Box::pin(async move {
            let started = Instant::now();
            let result = next.reconcile().await;
            self.add(started.elapsed());
            result
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let timings = Timings::default();
        assert_eq!(timings.quantile(0.5), Duration::ZERO);
        for milliseconds in (1..=100).rev() {
            timings.add(Duration::from_millis(milliseconds));
        }
        assert_eq!(timings.quantile(0.5), Duration::from_millis(50));
        assert_eq!(timings.quantile(0.99), Duration::from_millis(99));
        assert_eq!(timings.quantile(1.0), Duration::from_millis(100));
    }

    #[test]
    fn no_more_are_remembered_than_are_needed() {
        let timings = Timings::default();
        timings.add(Duration::from_secs(1));
        for _ in 0..REMEMBERED_MAX {
            timings.add(Duration::from_millis(1));
        }
        assert_eq!(timings.quantile(1.0), Duration::from_millis(1), "the oldest is forgotten");
    }
}
