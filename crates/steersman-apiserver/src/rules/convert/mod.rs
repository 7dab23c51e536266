//! Kinds that are served in two forms and stored in one: Events in two groups,
//! HorizontalPodAutoscalers in two versions.
//!
//! A request for such a kind is handled as one for the stored kind. This module converts what the
//! client reads and writes.

mod autoscaler;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::rules::kinds::{Kind, builtin};
use crate::rules::metadata;

/// The fields of an Event in both groups: the name in `events.k8s.io`, and the name in the core
/// group, which is stored.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Fields that an Event of `events.k8s.io` omits if they are empty.
const EVENT_OMITS: &[&str] = &["reportingController", "reportingInstance"];

/// The stored kind, and the kind that the client reads and writes, if the two differ.
pub(crate) fn served(kind: &Arc<Kind>) -> Option<(Arc<Kind>, &'static Kind)> {
    let view = builtin().kind(&kind.group, &kind.version, &kind.kind)?;
    match (kind.group.as_str(), kind.version.as_str(), kind.kind.as_str()) {
        ("events.k8s.io", _, "Event") => Some((Arc::clone(kind), view)),
        ("autoscaling", "v1", "HorizontalPodAutoscaler") => {
            let stored = builtin().kind("autoscaling", "v2", "HorizontalPodAutoscaler")?;
            Some((Arc::clone(stored), view))
        }
        _ => None,
    }
}

/// Converts what a client wrote as `view` to the stored form.
pub(crate) fn to_stored(view: &Kind, mut value: Value) -> Value {
    match (view.group.as_str(), view.kind.as_str()) {
        ("events.k8s.io", "Event") => rename(&mut value, EVENT_FIELDS.iter().copied()),
        ("autoscaling", "HorizontalPodAutoscaler") if view.version == "v1" => autoscaler::to_v2(&mut value),
        _ => return value,
    }
    if let Some(members) = value.as_object_mut() {
        members.remove("kind");
        members.remove("apiVersion");
    }
    value
}

/// Converts a stored object to `view`.
pub(crate) fn from_stored(view: &Kind, mut value: Value) -> Value {
    match (view.group.as_str(), view.kind.as_str()) {
        ("events.k8s.io", "Event") => {
            rename(&mut value, EVENT_FIELDS.iter().map(|(new, stored)| (*stored, *new)));
            if let Some(members) = value.as_object_mut() {
                members.retain(|name, member| !(EVENT_OMITS.contains(&name.as_str()) && *member == ""));
            }
        }
        ("autoscaling", "HorizontalPodAutoscaler") if view.version == "v1" => autoscaler::to_v1(&mut value),
        _ => {}
    }
    value
}

fn rename<'a>(value: &mut Value, names: impl Iterator<Item = (&'a str, &'a str)>) {
    let Some(members) = value.as_object_mut() else { return };
    let taken: Map<String, Value> =
        names.filter_map(|(from, to)| Some((to.to_owned(), members.remove(from)?))).collect();
    members.extend(taken);
}

/// The selectable fields of a stored object, under the names of all its forms.
pub(crate) fn selectable(kind: &Kind, value: &Value) -> Vec<(Arc<str>, Box<str>)> {
    if kind.kind != "Event" || !kind.is_built_in() {
        return metadata::selectable(kind, value);
    }
    let mut fields = Vec::new();
    for view in ["", "events.k8s.io"].iter().filter_map(|group| builtin().kind(group, "v1", "Event")) {
        fields.extend(metadata::selectable(view, &from_stored(view, value.clone())));
    }
    let source = value["source"]["component"].as_str().filter(|component| !component.is_empty());
    let source = source.or(value["reportingComponent"].as_str()).unwrap_or_default();
    fields.retain(|(name, _)| **name != *"source");
    fields.push(("source".into(), source.into()));
    fields
}
