//! The words for a reconcile, its causes and its times: `why` and `run` show the same ones.

use steersman_runtime::CauseState;

/// How a reconcile ended. When the key comes back is another part of the line.
pub(crate) fn result_text(result: &str) -> String {
    if result == "requeue_after" { "done".to_owned() } else { result.replace('_', " ") }
}

/// Why a key was reconciled.
pub(crate) fn cause_text(cause: &CauseState) -> String {
    let source = cause.source.replace('_', " ");
    match (&cause.event, &cause.kind, &cause.key) {
        (Some(event), Some(kind), Some(key)) => {
            let version = cause.version.map_or_else(String::new, |version| format!(", version {version}"));
            format!("{event} {kind} {key}{version} ({source})")
        }
        _ => source,
    }
}

/// The time of day, with milliseconds.
pub(crate) fn clock(time: jiff::Timestamp) -> String {
    time.strftime("%H:%M:%S%.3f").to_string()
}

/// A short time in milliseconds, a longer one in seconds.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1_000.0) } else { format!("{seconds:.1} s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reconcile_that_comes_back_is_done() {
        assert_eq!(result_text("requeue_after"), "done");
        assert_eq!(result_text("terminal_error"), "terminal error");
    }
}
