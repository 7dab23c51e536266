//! Compares recorded responses of the real server with ours.

use crate::store::addresses::{DryRun, Pool};
use serde_json::{Value, json};

use super::*;
use crate::response::status::{Named, Status};
use crate::rules::kinds::builtin;
use crate::rules::schema::{FieldValidation, decode_value};

const DEFAULTS: &[(&str, &str)] = &[
    ("batch", include_str!("../../../data/defaults/batch.json")),
    ("cluster", include_str!("../../../data/defaults/cluster.json")),
    ("config", include_str!("../../../data/defaults/config.json")),
    ("pods", include_str!("../../../data/defaults/pods.json")),
    ("rbac", include_str!("../../../data/defaults/rbac.json")),
    ("scaling", include_str!("../../../data/defaults/scaling.json")),
    ("services", include_str!("../../../data/defaults/services.json")),
    ("storage", include_str!("../../../data/defaults/storage.json")),
    ("workloads", include_str!("../../../data/defaults/workloads.json")),
];

const REFUSALS: &[(&str, &str)] = &[
    ("batch", include_str!("../../../data/refusals/batch.json")),
    ("cluster", include_str!("../../../data/refusals/cluster.json")),
    ("config", include_str!("../../../data/refusals/config.json")),
    ("pods", include_str!("../../../data/refusals/pods.json")),
    ("rbac", include_str!("../../../data/refusals/rbac.json")),
    ("scaling", include_str!("../../../data/refusals/scaling.json")),
    ("services", include_str!("../../../data/refusals/services.json")),
    ("storage", include_str!("../../../data/refusals/storage.json")),
    ("workloads", include_str!("../../../data/refusals/workloads.json")),
];

fn cases(recorded: &str) -> Vec<Value> {
    serde_json::from_str(recorded).expect("recorded by this project")
}

fn kind_of(case: &Value) -> &'static Kind {
    let (api_version, kind) = (case["apiVersion"].as_str().unwrap(), case["kind"].as_str().unwrap());
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    builtin().kind(group, version, kind).unwrap_or_else(|| panic!("{api_version} {kind} is not served"))
}

/// The object with its defaults, after it was decoded by the schema of its kind.
fn decoded(kind: &Kind, sent: &Value) -> Value {
    let Some(fields) = kind.fields else { return sent.clone() };
    decode_value(sent.clone(), fields, FieldValidation::Ignore).expect("the real server took it").value
}

/// Allocates what the recorded server allocated.
struct Recorded {
    node_port: i64,
}

impl Addresses for Recorded {
    fn cluster_ip(&mut self, wanted: Option<&str>) -> Result<String, String> {
        Ok(wanted.unwrap_or("10.0.0.0").to_owned())
    }

    fn node_port(&mut self, wanted: Option<i64>) -> Result<i64, String> {
        self.node_port += 1;
        Ok(wanted.unwrap_or(self.node_port))
    }

    fn release_cluster_ip(&mut self, _: &str) {}

    fn release_node_port(&mut self, _: i64) {}
}

/// Values that differ between two runs of the recorder.
fn settle(text: &str, uid: &str) -> String {
    text.replace(uid, "u-1")
}

fn uid_in(case: &Value) -> String {
    let text = case.to_string();
    let labelled = text.split("controller-uid\":\"").nth(1).or_else(|| text.split("controller-uid\\\":\\\"").nth(1));
    labelled.and_then(|rest| rest.split(['"', '\\']).next()).unwrap_or("u-1").to_owned()
}

#[test]
fn what_is_left_out_is_filled_as_the_real_server_fills_it() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (file, recorded) in DEFAULTS {
        for case in cases(recorded) {
            let kind = kind_of(&case);
            let (mut value, came) = (decoded(kind, &case["sent"]), &case["came"]);
            let status = &came["status"];
            let time = [&status["conditions"][0]["lastTransitionTime"], &status["lastPhaseTransitionTime"]];
            let time = time.into_iter().find(|time| time.is_string()).cloned().unwrap_or(json!("now"));
            value["metadata"]["creationTimestamp"] = time;
            value["metadata"]["uid"] = uid_in(&case).into();
            if kind.namespaced {
                value["metadata"]["namespace"] = "default".into();
            }
            complete(kind, &mut value, true);
            prepare_for_create(kind, &mut value);
            assert_eq!(*validate_create(kind, &value), [], "{file}: {}", case["sent"]);
            allocate(kind, &mut value, None, &mut DryRun::of(&Pool::default())).unwrap();
            let filled = value.clone();
            for field in ["creationTimestamp", "namespace", "uid"] {
                fields::remove(&mut value, &format!("metadata.{field}"));
            }
            if value != *came {
                wrong.push(format!("{file} {}:\n  ours   {value}\n  theirs {came}", kind.kind));
            }
            // Defaulting is idempotent.
            let mut again = filled.clone();
            complete(kind, &mut again, false);
            prepare_for_update(kind, &mut again, &filled, "");
            assert_eq!(again, filled, "{file}: {}", case["sent"]);
            assert_eq!(*validate_update(kind, &again, &filled), [], "{file}: {}", case["sent"]);
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 60, "{count}");
}

/// Errors that are not reported here, by a part of their text: `metadata` checks the names of
/// objects; time zones are not known; mounts of unknown volumes and JSON inside Secrets are not
/// checked.
const ELSEWHERE: &[&str] = &["metadata.name", "unknown time zone", "Not found", "<secret contents redacted>"];

/// Where texts end that print Go types: the difference between two specs, a whole template, or a
/// detail of a duplicate.
const SHOWN: &[&str] = &["\n", "{\"labels\"", "{\"metadata\"", ": taints must be unique"];

/// The text with the members of each value sorted: the real server prints them in the order of its
/// Go types.
fn sorted(text: &str) -> String {
    let Some(start) = text.find("value: {").map(|at| at + "value: ".len()) else { return text.to_owned() };
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    match values.next() {
        Some(Ok(value)) => format!("{}{value}{}", &text[..start], &text[start + values.byte_offset()..]),
        _ => text.to_owned(),
    }
}

#[test]
fn what_is_wrong_is_refused_in_the_words_of_the_real_server() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (file, recorded) in REFUSALS {
        for case in cases(recorded) {
            let kind = kind_of(&case);
            let uid = uid_in(&case);
            let mut value = case["sent"].clone();
            if kind.namespaced {
                value["metadata"]["namespace"] = "default".into();
            }
            let mut errors = if case["old"].is_null() {
                value["metadata"]["uid"] = "u-1".into();
                complete(kind, &mut value, true);
                prepare_for_create(kind, &mut value);
                validate_create(kind, &value)
            } else {
                complete(kind, &mut value, false);
                prepare_for_update(kind, &mut value, &case["old"], "");
                validate_update(kind, &value, &case["old"])
            };
            if errors.is_empty() {
                errors = allocate(kind, &mut value, None, &mut DryRun::of(&Pool::default())).err().unwrap_or_default();
            }
            let cut = |text: &str| {
                let text = settle(text, &uid);
                let end = SHOWN.iter().filter_map(|shown| text.find(shown)).min().unwrap_or(text.len());
                sorted(&text[..end])
            };
            let status = Status::invalid(Named { group: "", resource: "" }, "", &errors).object();
            let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
            let line = |field: &Value, reason: &Value, message: &Value| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                format!("{}: {}: {}", text(field), text(reason), cut(&text(message)))
            };
            let ours: Vec<String> =
                causes.iter().map(|cause| line(&cause["field"], &cause["reason"], &cause["message"])).collect();
            let theirs = case["causes"].as_array().unwrap().iter().map(|cause| line(&cause[0], &cause[1], &cause[2]));
            let theirs: Vec<String> =
                theirs.filter(|line| !ELSEWHERE.iter().any(|elsewhere| line.contains(elsewhere))).collect();
            let known = |line: &String| !ELSEWHERE.iter().any(|elsewhere| line.contains(elsewhere));
            let ours: Vec<String> = ours.into_iter().filter(known).collect();
            if ours != theirs {
                wrong.push(format!("{file} {}: {}\n  ours   {ours:#?}\n  theirs {theirs:#?}", kind.kind, case["sent"]));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 250, "{count}");
}

#[test]
fn values_of_wrong_types_are_left_alone() {
    for case in DEFAULTS.iter().flat_map(|(_, recorded)| cases(recorded)) {
        let kind = kind_of(&case);
        for odd in [
            json!({"metadata": 1, "spec": "x"}),
            json!({"spec": {"template": 3, "containers": {}, "ports": [1]}}),
            json!([]),
        ] {
            let mut value = odd;
            complete(kind, &mut value, true);
            prepare_for_create(kind, &mut value);
            let old = value.clone();
            complete(kind, &mut value, false);
            prepare_for_update(kind, &mut value, &old, "");
            drop(validate_create(kind, &value));
            drop(validate_update(kind, &value, &old));
        }
    }
}

#[test]
fn an_update_keeps_what_the_real_server_keeps() {
    let (mut wrong, recorded) = (Vec::new(), cases(include_str!("../../../data/defaults/updates.json")));
    for case in &recorded {
        let kind = kind_of(case);
        let (mut value, old, came) = (case["sent"].clone(), &case["old"], &case["came"]);
        if kind.has_status() {
            value["status"] = old["status"].clone();
        }
        complete(kind, &mut value, false);
        prepare_for_update(kind, &mut value, old, "");
        assert_eq!(*validate_update(kind, &value, old), [], "{}", case["sent"]);
        let first = came["spec"]["ports"][0]["nodePort"].as_i64().unwrap_or_default();
        allocate(kind, &mut value, Some(old), &mut Recorded { node_port: first - 1 }).unwrap();
        if value != *came {
            wrong.push(format!("{}: {}\n  ours   {value}\n  theirs {came}", kind.kind, case["sent"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), recorded.len(), wrong.join("\n"));
    assert!(recorded.len() > 15);
}
