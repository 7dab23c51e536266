//! Jobs and CronJobs.

use serde_json::{Map, Value};

use super::fields::{Default, each, fill_all, get, get_mut, items, not_negative, object, one_of, put, text};
use super::workloads::{immutable, mismatch};
use super::{fields, meta, pod_validation, pods};
use crate::response::status::{Errors, FieldError};

const JOB: &[(&str, Default)] = &[
    ("spec.parallelism", Default::Int(1)),
    ("spec.completionMode", Default::Text("NonIndexed")),
    ("spec.suspend", Default::Bool(false)),
    ("spec.manualSelector", Default::Bool(false)),
    ("status", Default::Object),
];

const CRON_JOB: &[(&str, Default)] = &[
    ("spec.concurrencyPolicy", Default::Text("Allow")),
    ("spec.suspend", Default::Bool(false)),
    ("spec.successfulJobsHistoryLimit", Default::Int(3)),
    ("spec.failedJobsHistoryLimit", Default::Int(1)),
    ("spec.jobTemplate.metadata", Default::Object),
    ("status", Default::Object),
];

const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

pub(super) fn fill_job(value: &mut Value) {
    if get(value, "spec.completions").is_null() && get(value, "spec.parallelism").is_null() {
        put(value, "spec.completions", 1);
    }
    let per_index = !get(value, "spec.backoffLimitPerIndex").is_null();
    fields::fill(value, "spec.backoffLimit", if per_index { i64::from(i32::MAX) } else { 6 });
    let policy = if get(value, "spec.podFailurePolicy").is_null() { "TerminatingOrFailed" } else { "Failed" };
    fields::fill(value, "spec.podReplacementPolicy", policy);
    fill_all(value, JOB);
    each(value, "spec.podFailurePolicy.rules", |rule| {
        each(rule, "onPodConditions", |condition| fields::fill(condition, "status", "True"));
    });
    pods::fill_template(value, "spec.template");
}

pub(super) fn fill_cron_job(value: &mut Value) {
    fill_all(value, CRON_JOB);
    pods::fill_template(value, "spec.jobTemplate.spec.template");
}

/// Adds unique labels to the Pods of a new Job and selects the Pods by them, unless
/// `manualSelector` is set.
pub(super) fn select_own_pods(value: &mut Value) {
    if get(value, "spec.manualSelector") != true {
        let (uid, name) = (value["metadata"]["uid"].clone(), value["metadata"]["name"].clone());
        for path in ["spec.template.metadata.labels", "spec.selector.matchLabels"] {
            fields::fill(value, path, object());
        }
        if let Some(labels) = get_mut(value, "spec.template.metadata.labels").and_then(Value::as_object_mut) {
            for label in NAME_LABELS {
                labels.entry(label).or_insert_with(|| name.clone());
            }
            for label in UID_LABELS {
                labels.entry(label).or_insert_with(|| uid.clone());
            }
        }
        if let Some(labels) = get_mut(value, "spec.selector.matchLabels").and_then(Value::as_object_mut) {
            labels.entry(UID_LABELS[0]).or_insert(uid);
        }
    }
    label(value);
}

/// A Job without labels gets those of its template.
pub(super) fn label(value: &mut Value) {
    let labels = get(value, "spec.template.metadata.labels").clone();
    let none = |labels: &Value| labels.as_object().is_none_or(Map::is_empty);
    if !none(&labels) && none(get(value, "metadata.labels")) {
        put(value, "metadata.labels", labels);
    }
}

pub(super) fn validate_job(value: &Value, errors: &mut Errors) {
    if get(value, "spec.manualSelector") != true {
        generated(value, errors);
    }
    job_with_selector(value, errors);
}

/// The generated selector must not be combined with another one.
fn generated(value: &Value, errors: &mut Errors) {
    let selector = get(value, "spec.selector");
    let own = selector["matchLabels"].as_object().is_some_and(|labels| labels.len() == 1);
    if !own || !items(selector, "matchExpressions").is_empty() {
        errors.push(FieldError::invalid("spec.selector", selector.clone(), "`selector` not auto-generated"));
    }
}

fn job_with_selector(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    job(spec, "spec", errors);
    if spec["selector"].is_null() {
        errors.push(FieldError::required("spec.selector", ""));
    }
    meta::selector(&spec["selector"], "spec.selector", errors);
    let labels = get(spec, "template.metadata.labels");
    if meta::matches(&spec["selector"], labels) == Some(false) {
        errors.push(mismatch("spec.template", labels));
    }
}

fn job(spec: &Value, at: &str, errors: &mut Errors) {
    let numbers = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    not_negative(spec, at, &numbers, errors);
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(format!("{at}.backoffLimitPerIndex"), detail));
    }
    let mode = text(spec, "completionMode");
    if !mode.is_empty() {
        one_of(spec, at, "completionMode", &["NonIndexed", "Indexed"], errors);
    }
    if mode == "Indexed" && spec["completions"].is_null() {
        errors.push(FieldError::required(format!("{at}.completions"), "when completion mode is Indexed"));
    }
    if matches!(mode, "" | "NonIndexed") {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if !spec[field].is_null() {
                let detail = "requires indexed completion mode";
                errors.push(FieldError::invalid(format!("{at}.{field}"), spec[field].clone(), detail));
            }
        }
    }
    if !spec["podReplacementPolicy"].is_null() {
        let supported: &[&str] =
            if spec["podFailurePolicy"].is_null() { &["Failed", "TerminatingOrFailed"] } else { &["Failed"] };
        one_of(spec, at, "podReplacementPolicy", supported, errors);
    }
    pod_validation::template(&spec["template"], &format!("{at}.template"), errors);
    let field = format!("{at}.template.spec.restartPolicy");
    match text(spec, "template.spec.restartPolicy") {
        "" | "Always" => errors.push(FieldError::required(field, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if !spec["podFailurePolicy"].is_null() => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(FieldError::invalid(field, "OnFailure", detail));
        }
        "OnFailure" | "Never" => {}
        other => errors.push(FieldError::not_supported(field, other, &["OnFailure", "Never"])),
    }
}

pub(super) fn validate_job_update(value: &Value, old: &Value, errors: &mut Errors) {
    // The real server runs the checks of a new Job, and then those of its spec a second time.
    validate_job(value, errors);
    job_with_selector(value, errors);
    let indexed_together = text(value, "spec.completionMode") == "Indexed"
        && get(value, "spec.completions") == get(value, "spec.parallelism");
    if !indexed_together {
        immutable(value, old, "spec.completions", errors);
    }
    immutable(value, old, "spec.selector", errors);
    let suspended = get(old, "spec.suspend") == true && get(old, "status.startTime").is_null();
    if !suspended {
        immutable(value, old, "spec.template", errors);
    }
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        immutable(value, old, &format!("spec.{field}"), errors);
    }
}

pub(super) fn validate_cron_job(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    match text(spec, "schedule") {
        "" => errors.push(FieldError::required("spec.schedule", "")),
        given => {
            if let Err(detail) = schedule(given) {
                errors.push(FieldError::invalid("spec.schedule", given, detail));
            }
            if given.contains("TZ") {
                let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                errors.push(FieldError::invalid("spec.schedule", given, detail));
            }
        }
    }
    not_negative(spec, "spec", &["startingDeadlineSeconds"], errors);
    if spec["timeZone"] == "" {
        errors.push(FieldError::invalid("spec.timeZone", "", "timeZone must be nil or non-empty string"));
    }
    one_of(spec, "spec", "concurrencyPolicy", &["Allow", "Forbid", "Replace"], errors);
    let template = get(spec, "jobTemplate.spec");
    if template["manualSelector"] == true {
        let field = "spec.jobTemplate.spec.manualSelector";
        errors.push(FieldError::not_supported(field, true, &["nil", "false"]));
    }
    job(template, "spec.jobTemplate.spec", errors);
    not_negative(spec, "spec", &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], errors);
    let name = text(value, "metadata.name");
    if name.len() > 52 {
        errors.push(FieldError::invalid("metadata.name", name, "must be no more than 52 characters"));
    }
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Parses a schedule. Returns the error if that fails.
fn schedule(given: &str) -> Result<(), String> {
    const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
    let given = match given.strip_prefix("TZ=").or_else(|| given.strip_prefix("CRON_TZ=")) {
        Some(rest) => rest.split_once(' ').map_or("", |(_, rest)| rest.trim()),
        None => given,
    };
    if given.starts_with('@') {
        let known = DESCRIPTORS.contains(&given) || given.starts_with("@every ");
        return if known { Ok(()) } else { Err(format!("unrecognized descriptor: {given}")) };
    }
    let parts: Vec<&str> = given.split_whitespace().collect();
    if parts.len() != 5 {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", parts.len(), parts.join(" ")));
    }
    let bounds: [(u32, u32, &[&str]); 5] = [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, MONTHS), (0, 6, DAYS)];
    for (part, (min, max, names)) in parts.iter().zip(bounds) {
        for expression in part.split(',') {
            range(expression, min, max, names)?;
        }
    }
    Ok(())
}

fn range(expression: &str, min: u32, max: u32, names: &[&str]) -> Result<(), String> {
    let number = |text: &str| {
        if let Some(index) = names.iter().position(|name| *name == text.to_lowercase()) {
            return Ok(min + u32::try_from(index).unwrap_or_default());
        }
        text.parse::<u32>()
            .map_err(|_| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))
    };
    let (bounds, step) = expression.split_once('/').map_or((expression, None), |(bounds, step)| (bounds, Some(step)));
    let (start, end) = match bounds.split_once('-') {
        _ if matches!(bounds, "*" | "?") => (min, max),
        Some((start, end)) => (number(start)?, number(end)?),
        None => {
            let start = number(bounds)?;
            (start, if step.is_some() { max } else { start })
        }
    };
    if let Some(step) = step
        && number(step)? == 0
    {
        return Err(format!("step of range should be a positive number: {expression}"));
    }
    if start < min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {expression}"));
    }
    if end > max {
        return Err(format!("end of range ({end}) above maximum ({max}): {expression}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {expression}"));
    }
    Ok(())
}
