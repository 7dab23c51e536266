//! Durations for people, with two or three figures, as Go's `duration.HumanDuration` writes them.

use serde_json::Value;
use steersman_wire::time::{self, Precision};

const SECOND: i64 = 1_000_000;

/// A time, in microseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Now(pub(crate) i64);

impl Now {
    /// The time since `timestamp`, or that there is none.
    pub(crate) fn since(self, timestamp: &Value) -> String {
        match parse(timestamp) {
            Some(then) => human(self.0.saturating_sub(then)),
            None => "<unknown>".to_owned(),
        }
    }
}

/// The microseconds since 1970 of a time in an object. The zero time is absent.
pub(crate) fn parse(timestamp: &Value) -> Option<i64> {
    let text = timestamp.as_str()?;
    let with_fraction = time::parse(text, Precision::Microseconds);
    let (seconds, micros) = with_fraction.or_else(|_| time::parse(text, Precision::Seconds)).ok()?;
    if (seconds, micros) == (time::ZERO, 0) {
        return None;
    }
    Some(seconds.saturating_mul(SECOND).saturating_add(i64::from(micros)))
}

/// A duration in microseconds as people read it.
pub(crate) fn human(micros: i64) -> String {
    let with = |whole: i64, unit: &str, rest: i64, smaller: &str| {
        if rest == 0 { format!("{whole}{unit}") } else { format!("{whole}{unit}{rest}{smaller}") }
    };
    let seconds = micros / SECOND;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 120 => format!("{seconds}s"),
        _ if minutes < 10 => with(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => with(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if hours < 192 => with(days, "d", hours % 24, "h"),
        _ if days < 365 * 2 => format!("{days}d"),
        _ if days < 365 * 8 => with(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_have_few_figures() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        for (seconds, text) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (9 * MINUTE + 59, "9m59s"),
            (10 * MINUTE + 59, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 59 * MINUTE, "7h59m"),
            (8 * HOUR + 59 * MINUTE, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (7 * DAY + 23 * HOUR, "7d23h"),
            (8 * DAY + 23 * HOUR, "8d"),
            (2 * 365 * DAY - 1, "729d"),
            (2 * 365 * DAY, "2y"),
            (3 * 365 * DAY + DAY, "3y1d"),
            (8 * 365 * DAY + 5 * DAY, "8y"),
        ] {
            assert_eq!(human(seconds * SECOND), text, "{seconds} s");
        }
    }

    #[test]
    fn a_time_that_is_not_there_is_unknown() {
        let now = Now(1_000_000 * SECOND + 900_000);
        assert_eq!(now.since(&json!("1970-01-12T13:46:30Z")), "10s");
        assert_eq!(now.since(&json!("1970-01-12T13:46:30.950000Z")), "9s");
        for none in [json!(null), json!("0001-01-01T00:00:00Z"), json!("x"), json!(5)] {
            assert_eq!(now.since(&none), "<unknown>", "{none}");
        }
    }
}
