//! Kinds that are served in two forms and stored in one: Events of two groups, HorizontalPodAutoscalers of two versions.
//!
//! A request for such a kind is done to the stored kind; what is read and written by the client goes through here.

mod autoscaler;

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::kinds::{Kind, builtin};
use crate::metadata;

/// The fields of an Event as its two groups call them: that of `events.k8s.io`, and that of the core group, as it is stored.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Fields that an Event of `events.k8s.io` does not show when they are empty.
const EVENT_OMITS: &[&str] = &["reportingController", "reportingInstance"];

/// The kind that a request for this one is done to, and the kind that its client reads and writes, when its objects are
/// stored in another form.
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

/// What a client wrote as `view`, as it is stored.
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

/// What is stored, as a client of `view` sees it.
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

/// What objects of a stored kind can be selected by, under all the names that its forms have for it.
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
