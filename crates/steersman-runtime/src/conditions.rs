//! `status.conditions`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Sets a condition in a list, and says whether that changed anything. The time of its last transition becomes `now` only when its
/// status changes, as the API conventions ask.
///
/// ```
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
/// use k8s_openapi::jiff::Timestamp;
/// use steersman_runtime::{condition, set_condition};
///
/// let mut conditions = Vec::new();
/// let start = Time(Timestamp::UNIX_EPOCH);
/// assert!(set_condition(&mut conditions, condition("Ready", true, "Created", "all is well", Some(1)), &start));
/// let later = Time(Timestamp::now());
/// assert!(!set_condition(&mut conditions, condition("Ready", true, "Created", "all is well", Some(1)), &later));
/// assert!(set_condition(&mut conditions, condition("Ready", true, "Created", "all is well", Some(2)), &later));
/// assert_eq!(conditions[0].last_transition_time, start);
/// ```
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition, now: &Time) -> bool {
    let Some(existing) = conditions.iter_mut().find(|existing| existing.type_ == condition.type_) else {
        condition.last_transition_time = now.clone();
        conditions.push(condition);
        return true;
    };
    condition.last_transition_time =
        if existing.status == condition.status { existing.last_transition_time.clone() } else { now.clone() };
    let changed = *existing != condition;
    *existing = condition;
    changed
}

/// A condition that is true or false, of the generation that was looked at. Its time is set by [`set_condition`].
pub fn condition(
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

/// Takes a condition away, and says whether it was there.
pub fn remove_condition(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

/// Whether a condition is there and true.
pub fn is_condition_true(conditions: &[Condition], type_: &str) -> bool {
    conditions.iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}
