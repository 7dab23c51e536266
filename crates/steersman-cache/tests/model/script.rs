//! The log of a run, printed when it fails.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// Log lines with their times. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    started: Option<Instant>,
    lines: Vec<String>,
    counts: Counts,
}

/// Counts of events by name.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

/// Number of lines that are printed.
const LINES_SHOWN: usize = 400;

impl Script {
    /// Counts an event that some run has to contain.
    pub(crate) fn count(&self, what: &'static str, times: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).counts.entry(what).or_default() += times;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).counts.clone()
    }

    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        let mut script = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = script.started.get_or_insert_with(Instant::now).elapsed().as_secs_f64();
        script.lines.push(format!("{at:9.3} {what}"));
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = &self.0.lock().unwrap_or_else(PoisonError::into_inner).lines;
        let left_out = lines.len().saturating_sub(LINES_SHOWN);
        if left_out > 0 {
            writeln!(f, "({left_out} lines before these)")?;
        }
        lines[left_out..].iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
