//! Histograms that cost two atomic additions for each observation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets of a histogram, in whole units.
#[derive(Debug)]
pub(crate) struct Buckets {
    /// In ascending order, without infinity.
    bounds: &'static [u64],
    /// How many units are one of what is shown: 10⁹ for nanoseconds that are shown as seconds.
    units: f64,
}

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Of `controller_runtime_reconcile_time_seconds`.
pub(crate) static RECONCILE_TIME: Buckets = Buckets {
    bounds: &[
        5 * MS,
        10 * MS,
        25 * MS,
        50 * MS,
        100 * MS,
        150 * MS,
        200 * MS,
        250 * MS,
        300 * MS,
        350 * MS,
        400 * MS,
        450 * MS,
        500 * MS,
        600 * MS,
        700 * MS,
        800 * MS,
        900 * MS,
        S,
        1_250 * MS,
        1_500 * MS,
        1_750 * MS,
        2 * S,
        2_500 * MS,
        3 * S,
        3_500 * MS,
        4 * S,
        4_500 * MS,
        5 * S,
        6 * S,
        7 * S,
        8 * S,
        9 * S,
        10 * S,
        15 * S,
        20 * S,
        25 * S,
        30 * S,
        40 * S,
        50 * S,
        60 * S,
    ],
    units: 1e9,
};

/// Of the durations of a work queue: ten times the one before, from 10 ns to 1,000 s.
pub(crate) static QUEUE_TIME: Buckets = Buckets {
    bounds: &[10, 100, 1_000, 10_000, 100_000, MS, 10 * MS, 100 * MS, S, 10 * S, 100 * S, 1_000 * S],
    units: 1e9,
};

/// Of the durations of requests.
pub(crate) static REQUEST_TIME: Buckets = Buckets {
    bounds: &[5 * MS, 25 * MS, 100 * MS, 250 * MS, 500 * MS, S, 2 * S, 4 * S, 8 * S, 15 * S, 30 * S, 60 * S],
    units: 1e9,
};

/// Of the sizes of requests and responses.
pub(crate) static REQUEST_SIZE: Buckets = Buckets {
    bounds: &[64, 256, 512, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB],
    units: 1.0,
};

/// A histogram. An observation takes no lock and allocates nothing.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: &'static Buckets,
    /// One for each bound, and one for what is above the last.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    pub(crate) fn new(buckets: &'static Buckets) -> Self {
        let counts = (0..=buckets.bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { buckets, counts, sum: AtomicU64::new(0) }
    }

    /// Counts a duration, if the units are nanoseconds.
    pub(crate) fn observe(&self, duration: Duration) {
        let nanoseconds = duration.as_secs().saturating_mul(S).saturating_add(duration.subsec_nanos().into());
        self.observe_units(nanoseconds);
    }

    pub(crate) fn observe_units(&self, value: u64) {
        let bounds = self.buckets.bounds;
        // Most reconciles are in the first bucket.
        let is_first = bounds.first().is_some_and(|first| value <= *first);
        let place = if is_first { 0 } else { bounds.partition_point(|bound| *bound < value) };
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// The sum, the count, and the count of each bucket with its upper bound.
    pub(crate) fn read(&self) -> (f64, u64, Vec<(f64, u64)>) {
        let bounds = self.buckets.bounds.iter().map(|bound| *bound as f64 / self.buckets.units);
        let bounds = bounds.chain([f64::INFINITY]);
        let counts: Vec<_> = bounds.zip(self.counts.iter().map(|count| count.load(Ordering::Relaxed))).collect();
        let total = counts.iter().map(|(_, count)| count).sum();
        (self.sum.load(Ordering::Relaxed) as f64 / self.buckets.units, total, counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_the_first_bucket_that_has_room_for_it() {
        let histogram = Histogram::new(&QUEUE_TIME);
        for value in [0, 10, 11, S, S + 1, 5_000 * S] {
            histogram.observe_units(value);
        }
        let (sum, count, buckets) = histogram.read();
        let filled: Vec<_> = buckets.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(1e-8, 2), (1e-7, 1), (1.0, 1), (10.0, 1), (f64::INFINITY, 1)]);
        assert_eq!((sum, count), (5_002.000_000_022, 6));
    }

    #[test]
    fn bounds_are_those_of_controller_runtime() {
        let shown =
            |buckets| -> Vec<f64> { Histogram::new(buckets).read().2.into_iter().map(|(bound, _)| bound).collect() };
        let reconcile = shown(&RECONCILE_TIME);
        assert_eq!((reconcile.len(), reconcile[0], reconcile[20], reconcile[39]), (41, 0.005, 1.75, 60.0));
        assert_eq!(shown(&REQUEST_TIME)[..4], [0.005, 0.025, 0.1, 0.25]);
        assert_eq!(shown(&REQUEST_SIZE)[10], 16_777_216.0);
        for buckets in [&RECONCILE_TIME, &QUEUE_TIME, &REQUEST_TIME, &REQUEST_SIZE] {
            assert!(buckets.bounds.is_sorted());
        }
    }
}
