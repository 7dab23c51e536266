//! Graceful deletion: a running Pod has some time to end.

use serde_json::Value;

use crate::clock;
use crate::rules::kinds::Kind;
use crate::rules::metadata;

/// The effect of a deletion on the remaining time of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grace {
    /// The kind has no grace period, or the time is over.
    None,
    /// It had a grace period before, and this deletion does not shorten it.
    Pending,
    /// It has this number of seconds from now on, as in its metadata.
    Given(i64),
}

/// Sets the remaining time of `pod` when it is deleted at `now`, with `wanted` seconds of grace.
pub(crate) fn begin(kind: &Kind, pod: &mut Value, wanted: Option<i64>, now: u64) -> Grace {
    if !kind.is_pod() {
        return Grace::None;
    }
    let wanted = wanted.map(|seconds| if seconds < 0 { 1 } else { seconds });
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return shorten(pod, wanted, now);
    }
    let seconds = wanted.or(pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(0);
    let scheduled = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let seconds = match seconds {
        _ if !scheduled || ended => 0,
        negative if negative < 0 => 1,
        seconds => seconds,
    };
    give(pod, now.saturating_add(seconds.unsigned_abs()), seconds);
    let meta = metadata::of(pod);
    if let Some(generation) = meta.get("generation").and_then(Value::as_i64).filter(|generation| *generation > 0) {
        meta.insert("generation".to_owned(), (generation + 1).into());
    }
    Grace::Given(seconds)
}

/// A grace period can become shorter, never longer.
fn shorten(pod: &mut Value, wanted: Option<i64>, now: u64) -> Grace {
    let given = pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let given = if given < 0 { 1 } else { given };
    if given == 0 {
        return Grace::None;
    }
    let Some(mut seconds) = wanted.filter(|seconds| *seconds < given) else { return Grace::Pending };
    let ends = pod["metadata"]["deletionTimestamp"].as_str().and_then(clock::seconds).unwrap_or(now);
    let mut ends = ends.saturating_sub(given.unsigned_abs()).saturating_add(seconds.unsigned_abs());
    if ends < now {
        ends = now;
        seconds = seconds.min(1);
    }
    give(pod, ends, seconds);
    Grace::Given(seconds)
}

fn give(pod: &mut Value, ends: u64, seconds: i64) {
    let meta = metadata::of(pod);
    meta.insert("deletionTimestamp".to_owned(), clock::rfc3339(ends).into());
    meta.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::kinds::builtin;

    const NOW: u64 = 1_767_225_600;

    fn begin_pod(pod: &mut Value, wanted: Option<i64>, now: u64) -> Grace {
        begin(builtin().resource("", "v1", "pods").unwrap(), pod, wanted, now)
    }

    fn running() -> Value {
        json!({"metadata": {"generation": 1}, "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}})
    }

    #[test]
    fn the_end_lies_in_the_future() {
        let mut pod = running();
        assert_eq!(begin_pod(&mut pod, None, NOW), Grace::Given(30));
        assert_eq!(
            pod["metadata"],
            json!({"generation": 2, "deletionGracePeriodSeconds": 30,
            "deletionTimestamp": clock::rfc3339(NOW + 30)})
        );
    }

    #[test]
    fn a_pod_that_does_not_run_has_no_grace() {
        let mut waiting = json!({"metadata": {}, "spec": {"terminationGracePeriodSeconds": 30}});
        assert_eq!(begin_pod(&mut waiting, Some(7), NOW), Grace::Given(0));
        let mut ended = running();
        ended["status"] = json!({"phase": "Failed"});
        assert_eq!(begin_pod(&mut ended, None, NOW), Grace::Given(0));
        let mut broken = running();
        broken["spec"]["terminationGracePeriodSeconds"] = (-4).into();
        assert_eq!(begin_pod(&mut broken, None, NOW), Grace::Given(1));
        assert_eq!(begin_pod(&mut running(), Some(-4), NOW), Grace::Given(1));
    }

    #[test]
    fn grace_becomes_less_and_never_more() {
        let mut pod = running();
        begin_pod(&mut pod, Some(20), NOW);
        assert_eq!(begin_pod(&mut pod, None, NOW + 1), Grace::Pending);
        assert_eq!(begin_pod(&mut pod, Some(20), NOW + 1), Grace::Pending);
        assert_eq!(begin_pod(&mut pod, Some(15), NOW + 1), Grace::Given(15));
        // Counted from the first deletion.
        assert_eq!(pod["metadata"]["deletionTimestamp"], clock::rfc3339(NOW + 15));
        assert_eq!(begin_pod(&mut pod, Some(5), NOW + 10), Grace::Given(1));
        assert_eq!(pod["metadata"]["deletionTimestamp"], clock::rfc3339(NOW + 10));
        assert_eq!(begin_pod(&mut pod, Some(0), NOW + 10), Grace::Given(0));
        assert_eq!(begin_pod(&mut pod, Some(0), NOW + 10), Grace::None);
    }

    #[test]
    fn other_kinds_know_no_grace() {
        let mut map = json!({"metadata": {}});
        let kind = builtin().resource("", "v1", "configmaps").unwrap();
        assert_eq!((begin(kind, &mut map, Some(5), NOW), map), (Grace::None, json!({"metadata": {}})));
    }
}
