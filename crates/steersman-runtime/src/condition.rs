//! Conditions of an object: the list in `status.conditions`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Creates a condition with the status `True` or `False`. `observed_generation` is the
/// `metadata.generation` that the controller has reconciled. [`set_condition`] sets the transition
/// time.
pub fn new_condition(
    type_: impl Into<String>,
    status: bool,
    reason: impl Into<String>,
    message: impl Into<String>,
    observed_generation: Option<i64>,
) -> Condition {
    Condition {
        type_: type_.into(),
        status: if status { "True" } else { "False" }.to_owned(),
        reason: reason.into(),
        message: message.into(),
        observed_generation,
        last_transition_time: Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
    }
}

/// Adds a condition to a list, or replaces the one of the same type. Returns `true` if the list has
/// changed. The transition time becomes `now` only if the status changes, as the API conventions
/// require. In a reconcile, take `now` from [`Context::now`](crate::Context::now).
///
/// ```
/// use k8s_openapi::jiff::Timestamp;
/// use steersman_runtime::condition::{new_condition, set_condition};
///
/// let mut conditions = Vec::new();
/// let start = Timestamp::UNIX_EPOCH;
/// assert!(set_condition(&mut conditions, new_condition("Ready", true, "Created", "all is well", Some(1)), start));
/// let later = Timestamp::now();
/// assert!(!set_condition(&mut conditions, new_condition("Ready", true, "Created", "all is well", Some(1)), later));
/// assert!(set_condition(&mut conditions, new_condition("Ready", true, "Created", "all is well", Some(2)), later));
/// assert_eq!(conditions[0].last_transition_time.0, start);
/// ```
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    mut condition: Condition,
    now: k8s_openapi::jiff::Timestamp,
) -> bool {
    let Some(existing) = conditions.iter_mut().find(|existing| existing.type_ == condition.type_) else {
        condition.last_transition_time = Time(now);
        conditions.push(condition);
        return true;
    };
    let is_same_status = existing.status == condition.status;
    condition.last_transition_time = if is_same_status { existing.last_transition_time.clone() } else { Time(now) };
    let changed = *existing != condition;
    *existing = condition;
    changed
}

/// Removes the condition of a type from a list. Returns `true` if the list had one.
pub fn remove_condition(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

/// Returns `true` if a list has a condition of a type, and its status is `True`.
pub fn is_condition_true(conditions: &[Condition], type_: &str) -> bool {
    conditions.iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}
