//! The limits on the work of one request, in counted steps and in allocated bytes. Time is not
//! limited, so that a request has the same response on every machine.
//!
//! A request is handled by one synchronous call on one thread, so the meter is thread-local for the
//! time of [`metered`]. Code whose work can grow faster than the body charges [`step`] and
//! [`make`]. A refused charge is a hint to end early: nothing made after it is used, because every
//! write calls [`check`] before it stores anything.

use std::cell::Cell;

use serde_json::Value;

use crate::response::status::Status;

/// The steps of one request: about a second of an optimized build. A request of 3 MiB, the largest
/// that is read, takes about a tenth of it.
const STEPS_MAX: u64 = 20_000_000;
/// The bytes that one request may allocate: the memory of its body, of defaults and of the zero
/// values of its fields.
const BYTES_MAX: u64 = 64 << 20;
/// How many bytes of text are copied or compared in a step.
const TEXT_STEP: usize = 64;
/// The memory of a map with members, which has eleven of them in each node.
const MAP_BYTES: usize = 640;
const VALUE_BYTES: usize = 32;

/// The cost of a request: an extension of the response, for tests and for finding expensive
/// requests.
///
/// Steps are counted where the work of a request can grow faster than the request. A request of
/// more than 20 million steps, or that allocates more than 64 MiB, is refused with 413. A patch
/// that is retried because of a concurrent write may take as much each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// The counted steps.
    pub steps: u64,
    /// The estimated bytes of values that were allocated for it.
    pub bytes: u64,
    /// The counted steps of work that is bounded by the stored objects, and never refused: objects
    /// that are deleted with their owner, or whose schema changed after they were written.
    pub follow_up_steps: u64,
}

/// The cost of one request so far.
#[derive(Clone, Copy, Default)]
struct Meter {
    /// The cost that counts against the limits.
    spent: Cost,
    /// The cost of earlier attempts.
    earlier: Cost,
    /// Whether the present work is counted without a limit.
    is_follow_up: bool,
}

impl Meter {
    fn total(self) -> Cost {
        Cost {
            steps: self.spent.steps + self.earlier.steps,
            bytes: self.spent.bytes + self.earlier.bytes,
            follow_up_steps: self.spent.follow_up_steps,
        }
    }

    fn fits(self) -> bool {
        self.is_follow_up || (self.spent.steps <= STEPS_MAX && self.spent.bytes <= BYTES_MAX)
    }
}

thread_local! {
    static METER: Cell<Option<Meter>> = const { Cell::new(None) };
}

/// Restores the previous meter, also after a panic.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Counts the cost of `run`. Within another call of this function, that one counts.
pub(crate) fn metered<R>(run: impl FnOnce() -> R) -> (R, Cost) {
    if let Some(before) = METER.get() {
        return (run(), before.total());
    }
    METER.set(Some(Meter::default()));
    let _reset = OnDrop(|| METER.set(None));
    let result = run();
    (result, METER.get().unwrap_or_default().total())
}

/// Runs work that follows from a completed write, and is no longer refused. Its steps are counted
/// separately.
pub(crate) fn unmetered<R>(run: impl FnOnce() -> R) -> R {
    let set = |is_follow_up: bool| {
        let meter = METER.get();
        METER.set(meter.map(|meter| Meter { is_follow_up, ..meter }));
        meter.is_some_and(|meter| meter.is_follow_up)
    };
    let before = set(true);
    let _reset = OnDrop(|| {
        set(before);
    });
    run()
}

/// Whether this is the work of a request.
pub(crate) fn is_metered() -> bool {
    METER.get().is_some()
}

/// Runs work on one stored object that is not charged to the request: a list may have many of them.
/// The work has limits of its own, those of a request. Returns nothing if it exceeds them.
pub(crate) fn apart<R>(run: impl FnOnce() -> R) -> Option<R> {
    let outer = METER.replace(Some(Meter::default()));
    let _reset = OnDrop(|| {
        let Cost { steps, follow_up_steps, .. } = METER.get().unwrap_or_default().total();
        METER.set(outer.map(|mut meter| {
            meter.spent.follow_up_steps += steps + follow_up_steps;
            meter
        }));
    });
    let result = run();
    (!is_spent()).then_some(result)
}

/// The cost before the first of several attempts.
#[derive(Clone, Copy)]
pub(crate) struct Mark(Option<Cost>);

pub(crate) fn mark() -> Mark {
    Mark(METER.get().map(|meter| meter.spent))
}

/// Starts another attempt, which may cost as much as the first one.
pub(crate) fn try_again(Mark(mark): Mark) {
    let (Some(mark), Some(mut meter)) = (mark, METER.get()) else { return };
    meter.earlier.steps += meter.spent.steps - mark.steps;
    meter.earlier.bytes += meter.spent.bytes - mark.bytes;
    meter.spent = Cost { follow_up_steps: meter.spent.follow_up_steps, ..mark };
    METER.set(Some(meter));
}

/// Charges steps, and returns whether the request may take more of them.
pub(crate) fn step(steps: usize) -> bool {
    let Some(mut meter) = METER.get() else { return true };
    let counter = if meter.is_follow_up { &mut meter.spent.follow_up_steps } else { &mut meter.spent.steps };
    *counter = counter.saturating_add(steps as u64);
    METER.set(Some(meter));
    meter.fits()
}

/// Charges a copy or a comparison of text.
pub(crate) fn text(bytes: usize) -> bool {
    step(1 + bytes / TEXT_STEP)
}

/// Charges allocated values, and returns whether the request may allocate more of them.
pub(crate) fn make(bytes: usize) -> bool {
    let Some(mut meter) = METER.get().filter(|meter| !meter.is_follow_up) else { return true };
    meter.spent.bytes = meter.spent.bytes.saturating_add(bytes as u64);
    METER.set(Some(meter));
    meter.fits()
}

/// Whether the request has exceeded its limits.
pub(crate) fn is_spent() -> bool {
    METER.get().is_some_and(|meter| !meter.fits())
}

/// Refuses a request that has exceeded its limits.
pub(crate) fn check() -> Result<(), Status> {
    let Some(meter) = METER.get().filter(|meter| !meter.fits()) else { return Ok(()) };
    Err(Status::too_large(if meter.spent.bytes > BYTES_MAX {
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

/// The estimated memory of a value: its own size, and its heap memory, but not the values in it.
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

/// The estimated memory of a value, with all values in it.
pub(crate) fn deep(value: &Value) -> usize {
    let within: usize = match value {
        Value::Array(items) => items.iter().map(deep).sum(),
        Value::Object(members) => members.values().map(deep).sum(),
        _ => 0,
    };
    shallow(value) + within
}

/// The estimated memory of parsed JSON, without parsing it.
pub(crate) fn parsed(json: &[u8]) -> usize {
    let (mut size, mut in_text, mut is_escaped) = (json.len(), false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_text = !in_text,
            b'{' if !in_text => size += MAP_BYTES,
            b',' if !in_text => size += 2 * VALUE_BYTES,
            _ => {}
        }
    }
    size
}

/// Whether two values are equal. Charges the comparison.
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
        assert_eq!(cost, Cost { steps: 18, bytes: 7, follow_up_steps: 0 });
        let (refused, _) = metered(|| {
            assert!(check().is_ok());
            let fits = step(STEPS_MAX as usize + 1);
            (fits, check().unwrap_err().code, is_spent())
        });
        assert_eq!(refused, (false, 413, true));
        assert!(!is_spent(), "the next request begins with nothing spent");
    }

    #[test]
    fn what_follows_from_a_write_is_counted_and_not_refused() {
        let ((), cost) = metered(|| {
            assert!(step(1));
            unmetered(|| {
                assert!(step(STEPS_MAX as usize + 1) && make(BYTES_MAX as usize + 1));
                assert!(unmetered(|| step(1)) && step(1) && check().is_ok());
            });
            assert!(step(1) && check().is_ok());
        });
        assert_eq!(cost, Cost { steps: 2, bytes: 0, follow_up_steps: STEPS_MAX + 3 });
    }

    #[test]
    fn work_on_a_stored_object_has_limits_of_its_own() {
        let ((), cost) = metered(|| {
            assert!(step(1) && make(1));
            assert_eq!(apart(|| step(STEPS_MAX as usize)), Some(true));
            assert_eq!(apart(|| step(STEPS_MAX as usize + 1)), None);
            assert_eq!(unmetered(|| apart(|| make(BYTES_MAX as usize + 1))), None);
            assert!(step(1) && check().is_ok());
        });
        assert_eq!(cost, Cost { steps: 2, bytes: 1, follow_up_steps: 2 * STEPS_MAX + 1 });
        assert_eq!(apart(|| make(BYTES_MAX as usize + 1)), None, "outside of a request too");
        assert!(make(BYTES_MAX as usize + 1));
    }

    #[test]
    fn parsed_json_is_estimated() {
        let values = [
            json!([{"a": 1}, {"b": "{{{,,,\\\"{{"}, {"c": [1, 2, 3]}]),
            json!({"a": {"b": {"c": {"d": "e"}}}, "f": vec![json!({"a": 1}); 100]}),
            json!("x".repeat(10_000)),
        ];
        for value in values {
            let (estimated, size) = (parsed(value.to_string().as_bytes()), deep(&value));
            assert!(estimated >= size / 2 && estimated <= size * 2, "{estimated} for {size}: {value}");
        }
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
