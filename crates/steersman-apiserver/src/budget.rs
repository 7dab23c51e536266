//! How much work one request may take, in counted steps and in bytes made: never in time, so that a request has the same
//! answer on every machine.
//!
//! A request is handled by one synchronous call on one thread, so the meter is thread-local for the time of [`metered`].
//! Code whose work can grow faster than the body charges [`step`] and [`make`]. A refused charge is a hint to end early:
//! nothing made after it is used, because every write calls [`check`] before it stores anything.

use std::cell::Cell;

use serde_json::Value;

use crate::status::Status;

/// The steps that one request may take: about a second of an optimized build. A request of 3 MiB, the largest that is
/// read, takes about a tenth of it.
const STEPS_MAX: u64 = 20_000_000;
/// The bytes that one request may make: what its body, the defaults and the zero values of its fields take in memory.
const BYTES_MAX: u64 = 64 << 20;
/// Text is copied and compared so many bytes a step.
const TEXT_STEP: usize = 64;
/// What a map with members takes, which keeps eleven of them in each node.
const MAP_BYTES: usize = 640;
const VALUE_BYTES: usize = 32;

/// What a request has cost: an extension of the response, for tests and for those who look for expensive requests.
///
/// Steps are counted where the work of a request can grow faster than the request. A request of more than 20 million
/// steps, or that makes more than 64 MiB, is refused with 413.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// The counted steps.
    pub steps: u64,
    /// The bytes of values that were made for it, estimated.
    pub bytes: u64,
}

thread_local! {
    static SPENT: Cell<Option<Cost>> = const { Cell::new(None) };
}

/// Puts back what was counted before, also after a panic.
struct Outer(Option<Cost>);

impl Drop for Outer {
    fn drop(&mut self) {
        SPENT.set(self.0);
    }
}

/// Counts what `run` spends. Within another call of this, that one counts.
pub(crate) fn metered<R>(run: impl FnOnce() -> R) -> (R, Cost) {
    if let Some(before) = SPENT.get() {
        return (run(), before);
    }
    let _outer = Outer(SPENT.replace(Some(Cost::default())));
    let result = run();
    (result, SPENT.get().unwrap_or_default())
}

/// Runs what follows from a write that is made already, and is not refused any more.
pub(crate) fn unmetered<R>(run: impl FnOnce() -> R) -> R {
    let _outer = Outer(SPENT.replace(None));
    run()
}

/// Charges steps, and returns whether the request may take more of them.
pub(crate) fn step(steps: usize) -> bool {
    let Some(mut spent) = SPENT.get() else { return true };
    spent.steps = spent.steps.saturating_add(steps as u64);
    SPENT.set(Some(spent));
    fits(spent)
}

/// Charges a copy or a comparison of text.
pub(crate) fn text(bytes: usize) -> bool {
    step(1 + bytes / TEXT_STEP)
}

/// Charges values that are made, and returns whether the request may make more of them.
pub(crate) fn make(bytes: usize) -> bool {
    let Some(mut spent) = SPENT.get() else { return true };
    spent.bytes = spent.bytes.saturating_add(bytes as u64);
    SPENT.set(Some(spent));
    fits(spent)
}

/// Whether the request has used up what it may take.
pub(crate) fn is_spent() -> bool {
    SPENT.get().is_some_and(|spent| !fits(spent))
}

/// Refuses a request that has used up what it may take.
pub(crate) fn check() -> Result<(), Status> {
    let Some(spent) = SPENT.get().filter(|spent| !fits(*spent)) else { return Ok(()) };
    Err(Status::too_large(if spent.bytes > BYTES_MAX {
        format!(
            "Request entity too large: the object takes more than {BYTES_MAX} bytes of memory with its defaults; send \
             fewer items"
        )
    } else {
        format!(
            "Request entity too large: the request takes more than {STEPS_MAX} steps to process; send fewer items, fewer \
             operations or a simpler schema"
        )
    }))
}

fn fits(spent: Cost) -> bool {
    spent.steps <= STEPS_MAX && spent.bytes <= BYTES_MAX
}

/// What a value takes in memory, estimated: its own place, and what it keeps on the heap, but not the values in it.
pub(crate) fn shallow(value: &Value) -> usize {
    VALUE_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Object(members) if !members.is_empty() => {
                // The first eleven members share a node.
                MAP_BYTES.max(members.len() * 2 * VALUE_BYTES) + members.keys().map(String::len).sum::<usize>()
            }
            _ => 0,
        }
}

/// What a value takes in memory, estimated, with all that is in it.
pub(crate) fn deep(value: &Value) -> usize {
    let within: usize = match value {
        Value::Array(items) => items.iter().map(deep).sum(),
        Value::Object(members) => members.values().map(deep).sum(),
        _ => 0,
    };
    shallow(value) + within
}

/// Whether two values are the same. Charges what it compares.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    if !step(1) {
        return false;
    }
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let pairs = |((name, one), (other_name, other)): ((&String, &Value), (&String, &Value))| {
                name == other_name && same(one, other)
            };
            one.len() == other.len() && one.iter().zip(other).all(pairs)
        }
        (Value::String(one), Value::String(other)) => text(one.len()) && one == other,
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_spent_is_counted_for_one_request_at_a_time() {
        assert!(step(usize::MAX), "outside of a request nothing is counted");
        let ((), cost) = metered(|| {
            assert!(step(10) && text(128) && make(7));
            let ((), _) = metered(|| assert!(step(5)));
        });
        assert_eq!(cost, Cost { steps: 18, bytes: 7 });
        let (refused, _) = metered(|| {
            assert!(check().is_ok());
            let fits = step(STEPS_MAX as usize + 1);
            (fits, check().unwrap_err().code, is_spent())
        });
        assert_eq!(refused, (false, 413, true));
        assert!(!is_spent(), "the next request begins with nothing spent");
    }

    #[test]
    fn values_are_compared_as_values_are() {
        let values = [json!(null), json!(1), json!(1.0), json!("a"), json!([1, {"a": "b"}]), json!({"a": 1, "b": []})];
        for one in &values {
            for other in &values {
                assert_eq!(same(one, other), one == other, "{one} and {other}");
            }
        }
    }
}
