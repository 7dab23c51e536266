//! Nodes, Leases, Events and PriorityClasses.

use std::collections::HashSet;

use serde_json::{Value, json};
use steersman_wire::{is_qualified_name, is_valid_label_value};

use super::fields::{Default, each_wrong, fill_all, get, items, not_negative, number, one_of, put, text};
use crate::response::status::{Errors, FieldError};

const NODE: &[(&str, Default)] = &[
    ("spec", Default::Object),
    ("status.daemonEndpoints.kubeletEndpoint.Port", Default::Int(0)),
    ("status.nodeInfo.machineID", Default::Text("")),
    ("status.nodeInfo.systemUUID", Default::Text("")),
    ("status.nodeInfo.bootID", Default::Text("")),
    ("status.nodeInfo.kernelVersion", Default::Text("")),
    ("status.nodeInfo.osImage", Default::Text("")),
    ("status.nodeInfo.containerRuntimeVersion", Default::Text("")),
    ("status.nodeInfo.kubeletVersion", Default::Text("")),
    ("status.nodeInfo.kubeProxyVersion", Default::Text("")),
    ("status.nodeInfo.operatingSystem", Default::Text("")),
    ("status.nodeInfo.architecture", Default::Text("")),
];

const EVENT: &[(&str, Default)] = &[
    ("involvedObject", Default::Object),
    ("source", Default::Object),
    ("firstTimestamp", Default::Null),
    ("lastTimestamp", Default::Null),
    ("eventTime", Default::Null),
    ("reportingComponent", Default::Text("")),
    ("reportingInstance", Default::Text("")),
];

pub(super) fn fill_node(value: &mut Value) {
    fill_all(value, NODE);
    match (text(value, "spec.podCIDR").to_owned(), items(value, "spec.podCIDRs").first().cloned()) {
        (first, None) if !first.is_empty() => put(value, "spec.podCIDRs", json!([first])),
        (first, Some(of_list)) if first.is_empty() => put(value, "spec.podCIDR", of_list),
        _ => {}
    }
    let capacity = get(value, "status.capacity").clone();
    if capacity.is_object() && get(value, "status.allocatable").is_null() {
        put(value, "status.allocatable", capacity);
    }
}

/// A new Node has a taint until it reports that it is ready.
pub(super) fn taint_new(value: &mut Value) {
    let mut taints = items(value, "spec.taints").to_vec();
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    if !taints.iter().any(|found| found["key"] == taint["key"] && found["effect"] == taint["effect"]) {
        taints.push(taint);
    }
    put(value, "spec.taints", taints);
}

pub(super) fn fill_event(value: &mut Value) {
    fill_all(value, EVENT);
}

pub(super) fn validate_node(value: &Value, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (index, taint) in items(value, "spec.taints").iter().enumerate() {
        let at = format!("metadata.taints[{index}]");
        let (key, content, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        each_wrong(key, &format!("{at}.key"), is_qualified_name(key), errors);
        each_wrong(content, &format!("{at}.value"), is_valid_label_value(content), errors);
        if effect.is_empty() {
            errors.push(FieldError::required(format!("{at}.effect"), ""));
        } else {
            one_of(taint, &at, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        }
        if !seen.insert((key, effect)) {
            let of_server = json!({"Key": key, "Value": content, "Effect": effect, "TimeAdded": taint["timeAdded"]});
            errors.push(FieldError::duplicate(at, of_server));
        }
    }
    for (index, range) in items(value, "spec.podCIDRs").iter().enumerate() {
        let range = range.as_str().unwrap_or_default();
        if !is_cidr(range) {
            let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            errors.push(FieldError::invalid(format!("spec.podCIDRs[{index}]"), range, detail));
        }
    }
}

fn is_cidr(range: &str) -> bool {
    let Some((address, bits)) = range.split_once('/') else { return false };
    let Ok(address) = address.parse::<std::net::IpAddr>() else { return false };
    bits.parse::<u8>().is_ok_and(|bits| bits <= if address.is_ipv4() { 32 } else { 128 })
}

pub(super) fn validate_lease(value: &Value, errors: &mut Errors) {
    if let Some(seconds) = get(value, "spec.leaseDurationSeconds").as_i64().filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
    not_negative(&value["spec"], "spec", &["leaseTransitions"], errors);
}

/// Events with an `eventTime` are of the newer kind and are checked more strictly. `component` is
/// the name of the reporting controller's field in the group of the request.
pub(super) fn validate_event(value: &Value, component: &str, errors: &mut Errors) {
    let (namespace, of) = (text(value, "metadata.namespace"), text(value, "involvedObject.namespace"));
    let cluster_wide = of.is_empty() && matches!(namespace, "" | "default");
    if value["eventTime"].is_null() {
        if namespace != of && !cluster_wide {
            let detail = "does not match event.namespace";
            errors.push(FieldError::invalid("involvedObject.namespace", of, detail));
        }
        return;
    }
    if namespace != of && !cluster_wide {
        errors.push(FieldError::invalid("involvedObject.namespace", of, "does not match event.namespace"));
    }
    let reporting = text(value, "reportingComponent");
    if reporting.is_empty() {
        errors.push(FieldError::required(component, ""));
    }
    each_wrong(reporting, component, is_qualified_name(reporting), errors);
    for (field, max) in [("reportingInstance", 128), ("action", 128), ("reason", 128)] {
        let found = text(value, field);
        if found.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if found.len() > max {
            errors.push(FieldError::invalid(field, "", format!("can have at most {max} characters")));
        }
    }
    if text(value, "message").len() > 1024 {
        errors.push(FieldError::invalid("message", "", "can have at most 1024 characters"));
    }
}

/// Events that are written through `events.k8s.io` must be of the newer kind.
pub(super) fn validate_new_event(value: &Value, errors: &mut Errors) {
    validate_event(value, "reportingController", errors);
    validate_series(value, errors);
    if value["eventTime"].is_null() {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = text(value, "type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", "", format!("has invalid value: {kind}")));
    }
    let source = &value["source"];
    let set = [
        ("firstTimestamp", !value["firstTimestamp"].is_null()),
        ("lastTimestamp", !value["lastTimestamp"].is_null()),
        ("count", number(value, "count") != 0),
        ("source", !text(source, "component").is_empty() || !text(source, "host").is_empty()),
    ];
    for (field, _) in set.iter().filter(|(_, is_set)| *is_set) {
        errors.push(FieldError::invalid(*field, "", "needs to be unset"));
    }
}

/// Events are immutable, except for their series.
pub(super) fn validate_new_event_update(value: &Value, old: &Value, errors: &mut Errors) {
    validate_event(value, "reportingController", errors);
    if value["series"] != old["series"] {
        validate_series(value, errors);
    }
    let fields = [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ];
    for (field, name) in fields {
        if value[field] != old[field] {
            errors.push(FieldError::invalid(name, value[field].clone(), "field is immutable"));
        }
    }
}

fn validate_series(value: &Value, errors: &mut Errors) {
    let series = &value["series"];
    if series.is_object() {
        if number(series, "count") < 2 {
            errors.push(FieldError::invalid("series.count", "", "should be at least 2"));
        }
        if series["lastObservedTime"].is_null() {
            errors.push(FieldError::required("series.lastObservedTime", ""));
        }
    }
}

pub(super) fn validate_priority_class_update(value: &Value, old: &Value, errors: &mut Errors) {
    for field in ["value", "preemptionPolicy"] {
        if value[field] != old[field] {
            errors.push(FieldError::forbidden(field, "may not be changed in an update."));
        }
    }
}
