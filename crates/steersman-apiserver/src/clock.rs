//! Times as objects have them.

use steersman_wire::time::{self, Precision};

/// Seconds since 1970 as `2026-01-31T10:00:00Z`.
pub(crate) fn rfc3339(seconds: u64) -> String {
    time::format(i64::try_from(seconds).unwrap_or(i64::MAX), None)
}

/// The seconds since 1970 of a time that [`rfc3339`] wrote.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let (seconds, _) = time::parse(text, Precision::Seconds).ok()?;
    u64::try_from(seconds).ok()
}
