//! Deployments, ReplicaSets, StatefulSets, DaemonSets and ReplicationControllers.

use serde_json::{Value, json};
use steersman_wire::is_dns1123_label;

use super::fields::{
    Default, each, each_wrong, fill_all, get, is_unset, items, not_negative, number, one_of, put, text,
};
use super::{fields, meta, pod_validation, pods, storage};
use crate::response::status::{Errors, FieldError};
use crate::rules::kinds::Kind;

const DEPLOYMENT: &[(&str, Default)] = &[
    ("spec.replicas", Default::Int(1)),
    ("spec.strategy.type", Default::Text("RollingUpdate")),
    ("spec.revisionHistoryLimit", Default::Int(10)),
    ("spec.progressDeadlineSeconds", Default::Int(600)),
    ("status", Default::Object),
];

const REPLICA_SET: &[(&str, Default)] = &[("spec.replicas", Default::Int(1)), ("status.replicas", Default::Int(0))];

const STATEFUL_SET: &[(&str, Default)] = &[
    ("spec.podManagementPolicy", Default::Text("OrderedReady")),
    ("spec.persistentVolumeClaimRetentionPolicy.whenDeleted", Default::Text("Retain")),
    ("spec.persistentVolumeClaimRetentionPolicy.whenScaled", Default::Text("Retain")),
    ("spec.replicas", Default::Int(1)),
    ("spec.revisionHistoryLimit", Default::Int(10)),
    ("spec.serviceName", Default::Text("")),
    ("status.replicas", Default::Int(0)),
    ("status.availableReplicas", Default::Int(0)),
];

const DAEMON_SET: &[(&str, Default)] = &[
    ("spec.updateStrategy.type", Default::Text("RollingUpdate")),
    ("spec.revisionHistoryLimit", Default::Int(10)),
    ("status.currentNumberScheduled", Default::Int(0)),
    ("status.numberMisscheduled", Default::Int(0)),
    ("status.desiredNumberScheduled", Default::Int(0)),
    ("status.numberReady", Default::Int(0)),
];

const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// The kinds of the group `apps`.
pub(super) fn fill(kind: &Kind, value: &mut Value) {
    match kind.kind.as_str() {
        "Deployment" => {
            fill_all(value, DEPLOYMENT);
            if text(value, "spec.strategy.type") == "RollingUpdate" {
                fields::fill(value, "spec.strategy.rollingUpdate.maxUnavailable", "25%");
                fields::fill(value, "spec.strategy.rollingUpdate.maxSurge", "25%");
            }
        }
        "ReplicaSet" => fill_all(value, REPLICA_SET),
        "StatefulSet" => {
            if text(value, "spec.updateStrategy.type").is_empty() {
                put(value, "spec.updateStrategy.type", "RollingUpdate");
                fields::fill(value, "spec.updateStrategy.rollingUpdate", fields::object());
            }
            if get(value, "spec.updateStrategy.rollingUpdate").is_object() {
                fields::fill(value, "spec.updateStrategy.rollingUpdate.partition", 0);
            }
            fill_all(value, STATEFUL_SET);
            each(value, "spec.volumeClaimTemplates", |claim| {
                fields::fill(claim, "kind", "PersistentVolumeClaim");
                fields::fill(claim, "apiVersion", "v1");
                storage::fill_claim(claim);
            });
        }
        "DaemonSet" => {
            fill_all(value, DAEMON_SET);
            if text(value, "spec.updateStrategy.type") == "RollingUpdate" {
                fields::fill(value, "spec.updateStrategy.rollingUpdate.maxUnavailable", 1);
                fields::fill(value, "spec.updateStrategy.rollingUpdate.maxSurge", 0);
            }
        }
        _ => return,
    }
    pods::fill_template(value, "spec.template");
}

pub(super) fn fill_replication_controller(value: &mut Value) {
    fields::fill(value, "spec.replicas", 1);
    fields::fill(value, "status.replicas", 0);
    if !get(value, "spec.template").is_object() {
        return;
    }
    let labels = get(value, "spec.template.metadata.labels").clone();
    if labels.is_object() {
        for path in ["spec.selector", "metadata.labels"] {
            if get(value, path).as_object().is_none_or(serde_json::Map::is_empty) {
                put(value, path, labels.clone());
            }
        }
    }
    pods::fill_template(value, "spec.template");
}

/// A DaemonSet has the annotation with the generation of its template even before that is known.
pub(super) fn annotate_generation(value: &mut Value) {
    fields::fill(value, "metadata.annotations", fields::object());
    if let Some(annotations) = fields::get_mut(value, "metadata.annotations").and_then(Value::as_object_mut) {
        annotations.entry(GENERATION_ANNOTATION).or_insert_with(|| "0".into());
    }
}

/// A write of the status keeps the generation of the template.
pub(super) fn keep_generation(value: &mut Value, old: &Value) {
    let before = old["metadata"]["annotations"].get(GENERATION_ANNOTATION);
    let annotations = fields::get_mut(value, "metadata.annotations").and_then(Value::as_object_mut);
    if let (Some(annotations), Some(before)) = (annotations, before) {
        annotations.insert(GENERATION_ANNOTATION.to_owned(), before.clone());
    }
}

/// Counts the changes of a DaemonSet's template in the annotation that old clients read.
pub(super) fn template_generation(value: &mut Value, old: Option<&Value>) {
    let annotation =
        |value: &Value| value["metadata"]["annotations"][GENERATION_ANNOTATION].as_str()?.parse::<i64>().ok();
    let generation = match old {
        None => 1,
        Some(old) => {
            let before = annotation(old).unwrap_or_default();
            before + i64::from(get(old, "spec.template") != get(value, "spec.template"))
        }
    };
    fields::fill(value, "metadata.annotations", fields::object());
    if let Some(annotations) = fields::get_mut(value, "metadata.annotations").and_then(Value::as_object_mut) {
        annotations.insert(GENERATION_ANNOTATION.to_owned(), generation.to_string().into());
    }
}

/// The selector must be set, valid and not empty.
fn selector(spec: &Value, of: &str, errors: &mut Errors) {
    let selector = &spec["selector"];
    if selector.is_null() {
        errors.push(FieldError::required("spec.selector", ""));
        return;
    }
    meta::selector(selector, "spec.selector", errors);
    if meta::is_empty(selector) {
        let detail = format!("empty selector is invalid for {of}");
        errors.push(FieldError::invalid("spec.selector", selector.clone(), detail));
    }
}

/// The template must match the selector, and its Pods must have the restart policy Always.
fn template(spec: &Value, deadline: &str, errors: &mut Errors) {
    let (labels, selector) = (get(spec, "template.metadata.labels"), &spec["selector"]);
    match meta::matches(selector, labels) {
        None => {
            errors.push(FieldError::invalid("spec.selector", selector.clone(), "invalid label selector"));
            return;
        }
        Some(true) => {}
        Some(false) => errors.push(mismatch("spec.template", labels)),
    }
    pod_validation::template(&spec["template"], "spec.template", errors);
    always(spec, deadline, errors);
}

fn always(spec: &Value, deadline: &str, errors: &mut Errors) {
    let policy = text(spec, "template.spec.restartPolicy");
    // Another error reports it already.
    if matches!(policy, "OnFailure" | "Never" | "Always") || items(spec, "template.spec.containers").is_empty() {
        one_of(spec, "spec", "template.spec.restartPolicy", &["Always"], errors);
    }
    if !get(spec, "template.spec.activeDeadlineSeconds").is_null() {
        let detail = format!("activeDeadlineSeconds in {deadline} is not Supported");
        errors.push(FieldError::forbidden("spec.template.spec.activeDeadlineSeconds", detail));
    }
}

/// The error for a template that the selector does not match.
pub(super) fn mismatch(at: &str, labels: &Value) -> FieldError {
    let labels = if labels.as_object().is_some_and(|labels| !labels.is_empty()) { labels.clone() } else { Value::Null };
    FieldError::invalid(format!("{at}.metadata.labels"), labels, "`selector` does not match template `labels`")
}

/// A count or a percentage: not negative, and at most 100 %.
fn count_or_percent(value: &Value, field: &str, errors: &mut Errors) {
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            match digits.parse::<u64>() {
                Ok(percent) if percent > 100 && field.ends_with("maxUnavailable") => {
                    errors.push(FieldError::invalid(field, text.as_str(), "must not be greater than 100%"));
                }
                Ok(_) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {}
                _ => {
                    let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                                  '93%', regex used for validation is '[0-9]+%')";
                    errors.push(FieldError::invalid(field, text.as_str(), detail));
                }
            }
        }
        other => {
            let number = other.as_i64().unwrap_or_default();
            if number < 0 {
                errors.push(FieldError::invalid(field, number, "must be greater than or equal to 0"));
            }
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse::<i64>().is_ok_and(|percent| percent == 0),
        other => other.as_i64().unwrap_or_default() == 0,
    }
}

/// A strategy as Go prints its type.
fn strategy(value: &Value) -> Value {
    json!({"Type": value["type"], "RollingUpdate": null})
}

pub(super) fn validate_deployment(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    not_negative(spec, "spec", &["replicas"], errors);
    selector(spec, "deployment", errors);
    template(spec, "ReplicaSet", errors);
    let rolling = get(spec, "strategy.rollingUpdate");
    match text(spec, "strategy.type") {
        "Recreate" => {
            if rolling.is_object() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errors.push(FieldError::forbidden("spec.strategy.rollingUpdate", detail));
            }
        }
        "RollingUpdate" => {
            let at = "spec.strategy.rollingUpdate";
            for field in ["maxUnavailable", "maxSurge"] {
                count_or_percent(&rolling[field], &format!("{at}.{field}"), errors);
            }
            if is_zero(&rolling["maxUnavailable"]) && is_zero(&rolling["maxSurge"]) {
                let detail = "may not be 0 when `maxSurge` is 0";
                let found = rolling["maxUnavailable"].clone();
                errors.push(FieldError::invalid(format!("{at}.maxUnavailable"), found, detail));
            }
        }
        _ => {
            let found = strategy(&spec["strategy"]);
            errors.push(FieldError::not_supported("spec.strategy", found, &["Recreate", "RollingUpdate"]));
        }
    }
    not_negative(spec, "spec", &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"], errors);
    let deadline = number(spec, "progressDeadlineSeconds");
    if deadline <= number(spec, "minReadySeconds") {
        let detail = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid("spec.progressDeadlineSeconds", deadline, detail));
    }
}

pub(super) fn validate_replica_set(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    not_negative(spec, "spec", &["replicas", "minReadySeconds"], errors);
    selector(spec, "deployment", errors);
    template(spec, "ReplicaSet", errors);
}

pub(super) fn validate_replication_controller(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    not_negative(spec, "spec", &["minReadySeconds"], errors);
    let selector = &spec["selector"];
    if selector.as_object().is_none_or(serde_json::Map::is_empty) {
        errors.push(FieldError::required("spec.selector", ""));
    }
    not_negative(spec, "spec", &["replicas"], errors);
    if !spec["template"].is_object() {
        errors.push(FieldError::required("spec.template", ""));
        return;
    }
    let labels = get(spec, "template.metadata.labels");
    if meta::matches(&json!({"matchLabels": selector}), labels) == Some(false) {
        errors.push(mismatch("spec.template", labels));
    }
    pod_validation::template(&spec["template"], "spec.template", errors);
    always(spec, "ReplicationController", errors);
}

pub(super) fn validate_stateful_set(value: &Value, is_update: bool, errors: &mut Errors) {
    let spec = &value["spec"];
    let policy = text(spec, "podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        let detail = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid("spec.podManagementPolicy", policy, detail));
    }
    let rolling = get(spec, "updateStrategy.rollingUpdate");
    match text(spec, "updateStrategy.type") {
        "OnDelete" if rolling.is_object() => {
            let found = json!({"Partition": rolling["partition"], "MaxUnavailable": rolling["maxUnavailable"]});
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(FieldError::invalid("spec.updateStrategy.rollingUpdate", found, detail));
        }
        "OnDelete" => {}
        "RollingUpdate" => not_negative(rolling, "spec.updateStrategy.rollingUpdate", &["partition"], errors),
        _ => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            errors.push(FieldError::invalid("spec.updateStrategy", strategy(&spec["updateStrategy"]), detail));
        }
    }
    let retention = &spec["persistentVolumeClaimRetentionPolicy"];
    for when in ["whenDeleted", "whenScaled"] {
        one_of(retention, "spec.persistentVolumeClaimRetentionPolicy", when, &["Retain", "Delete"], errors);
    }
    if !is_update {
        for (index, claim) in items(spec, "volumeClaimTemplates").iter().enumerate() {
            storage::claim_spec(&claim["spec"], &format!("spec.volumeClaimTemplates[{index}].spec"), errors);
        }
    }
    not_negative(spec, "spec", &["replicas", "minReadySeconds", "ordinals.start"], errors);
    let service = text(spec, "serviceName");
    if !is_update && !service.is_empty() {
        each_wrong(service, "spec.serviceName", is_dns1123_label(service), errors);
    }
    selector(spec, "statefulset", errors);
    template(spec, "StatefulSet", errors);
}

pub(super) fn validate_daemon_set(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let selector = &spec["selector"];
    meta::selector(selector, "spec.selector", errors);
    let labels = get(spec, "template.metadata.labels");
    if meta::matches(selector, labels) == Some(false) {
        errors.push(mismatch("spec.template", labels));
    }
    if selector.is_object() && meta::is_empty(selector) {
        errors.push(FieldError::invalid("spec.selector", selector.clone(), "empty selector is invalid for daemonset"));
    }
    pod_validation::template(&spec["template"], "spec.template", errors);
    always(spec, "DaemonSet", errors);
    not_negative(spec, "spec", &["minReadySeconds"], errors);
    match text(spec, "updateStrategy.type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let (at, rolling) = ("spec.updateStrategy.rollingUpdate", get(spec, "updateStrategy.rollingUpdate"));
            for field in ["maxUnavailable", "maxSurge"] {
                count_or_percent(&rolling[field], &format!("{at}.{field}"), errors);
            }
            match (is_zero(&rolling["maxUnavailable"]), is_zero(&rolling["maxSurge"])) {
                (true, true) => {
                    let detail = "cannot be 0 when maxSurge is 0";
                    errors.push(FieldError::required(format!("{at}.maxUnavailable"), detail));
                }
                (false, false) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.push(FieldError::invalid(format!("{at}.maxSurge"), rolling["maxSurge"].clone(), detail));
                }
                _ => {}
            }
        }
        _ => {
            let found = strategy(&spec["updateStrategy"]);
            errors.push(FieldError::not_supported("spec.updateStrategy", found, &["RollingUpdate", "OnDelete"]));
        }
    }
    not_negative(spec, "spec", &["revisionHistoryLimit"], errors);
}

pub(super) fn validate_daemon_set_update(value: &Value, old: &Value, errors: &mut Errors) {
    keep_selector(value, old, errors);
    validate_daemon_set(value, errors);
}

/// Fields of a StatefulSet's spec that may change.
const STATEFUL_SET_CHANGES: &[&str] = &[
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub(super) fn validate_stateful_set_update(value: &Value, old: &Value, errors: &mut Errors) {
    validate_stateful_set(value, true, errors);
    let rest = |value: &Value| {
        let mut spec = value["spec"].clone();
        for name in STATEFUL_SET_CHANGES {
            fields::remove(&mut spec, name);
        }
        spec
    };
    if rest(value) != rest(old) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                      'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                      'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden("spec", detail));
    }
}

/// A selector is immutable.
pub(super) fn keep_selector(value: &Value, old: &Value, errors: &mut Errors) {
    immutable(value, old, "spec.selector", errors);
}

/// Refuses to change a field.
pub(super) fn immutable(value: &Value, old: &Value, path: &str, errors: &mut Errors) {
    let (now, before) = (get(value, path), get(old, path));
    if now != before && !(is_unset(now) && is_unset(before)) {
        errors.push(FieldError::invalid(path, now.clone(), "field is immutable"));
    }
}
