//! The options of a delete request.

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::request::Query;
use crate::request::body::unregistered;
use crate::response::status::{FieldError, Named, Status};
use crate::rules::kinds::{Kind, builtin};
use crate::rules::schema::{FieldValidation, RequestBody};
use crate::store::object::{FOREGROUND, Object};

/// The finalizer of an owner whose dependents are orphaned first.
pub(crate) const ORPHAN: &str = "orphan";

const OPTIONS: Named<'static> = Named { group: "meta.k8s.io", resource: "DeleteOptions" };

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay, without the reference to it.
    Orphan,
}

/// The options of a delete request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DeleteOptions {
    /// The grace period in seconds.
    pub(crate) grace: Option<i64>,
    pub(crate) propagation: Option<Propagation>,
    /// The older option to keep the dependents.
    pub(crate) orphan: Option<bool>,
    /// A precondition: its uid.
    pub(crate) uid: Option<String>,
    /// A precondition: its version.
    pub(crate) version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// From the body, or from the query if there is no body.
    pub(crate) fn read(query: &Query, body: &Bytes) -> Result<Self, Status> {
        if !body.is_empty() {
            return Self::from_value(&decode(body)?);
        }
        let mut given = json!({});
        if let Some(seconds) = query.number("gracePeriodSeconds")? {
            given["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(policy) = query.get("propagationPolicy") {
            given["propagationPolicy"] = policy.into();
        }
        if query.get("orphanDependents").is_some() {
            given["orphanDependents"] = query.is_on("orphanDependents").into();
        }
        for precondition in ["uid", "resourceVersion"] {
            if let Some(text) = query.get(precondition).filter(|text| !text.is_empty()) {
                given["preconditions"][precondition] = text.into();
            }
        }
        given["dryRun"] = query.all("dryRun").filter(|value| !value.is_empty()).collect();
        Self::from_value(&given)
    }

    /// From decoded options, which an eviction has, too.
    pub(crate) fn from_value(given: &Value) -> Result<Self, Status> {
        let policy = given["propagationPolicy"].as_str();
        let orphan = given["orphanDependents"].as_bool();
        let mut errors = Vec::new();
        if let (Some(policy), Some(_)) = (policy, orphan) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", policy, detail));
        }
        let propagation = match policy {
            None => None,
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported("propagationPolicy", other, &supported));
                None
            }
        };
        let dry_run = given["dryRun"].as_array().map_or(&[][..], Vec::as_slice);
        if dry_run.iter().any(|value| value != "All") {
            errors.push(FieldError::not_supported("dryRun", given["dryRun"].clone(), &["All"]));
        }
        if !errors.is_empty() {
            return Err(Status::invalid(OPTIONS, "", &errors));
        }
        let precondition = |name: &str| given["preconditions"][name].as_str().map(str::to_owned);
        Ok(Self {
            grace: given["gracePeriodSeconds"].as_i64(),
            propagation,
            orphan,
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
            dry_run: !dry_run.is_empty(),
        })
    }

    /// Refuses an object that does not satisfy the preconditions.
    pub(crate) fn check(&self, kind: &Kind, object: &Object) -> Result<(), Status> {
        let name = &object.key().name;
        let refuse = |what: &str, wanted: &str, found: &str, might: &str| {
            if kind.is_namespace() || kind.is_definition() {
                let why =
                    format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
                return Err(Status::conflict(kind.named(), name, &why));
            }
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might \
                 have been {might}"
            );
            Err(Status::conflict(kind.named_kind(), name, &why))
        };
        if let Some(uid) = self.uid.as_ref().filter(|uid| **uid != object.uid()) {
            return refuse("UID", uid, object.uid(), "deleted and then recreated");
        }
        let current = object.revision().to_string();
        if let Some(version) = self.version.as_ref().filter(|version| **version != current) {
            return refuse("ResourceVersion", version, &current, "modified");
        }
        Ok(())
    }

    /// The finalizers of an object from its deletion on: those that do not belong to the garbage
    /// collector, and those of the collector by these options, the present finalizers or the kind.
    /// `None` if they do not change.
    pub(crate) fn finalizers(&self, kind: &Kind, current: &[Value]) -> Option<Vec<Value>> {
        let collector = self.collector_finalizer(kind, current);
        let mut wanted: Vec<Value> = current.iter().filter(|name| !is_collectors(name)).cloned().collect();
        wanted.extend(collector.map(Value::from));
        let names = |all: &[Value]| all.iter().map(Value::to_string).collect::<HashSet<_>>();
        (names(&wanted) != names(current)).then_some(wanted)
    }

    fn collector_finalizer(&self, kind: &Kind, current: &[Value]) -> Option<&'static str> {
        if kind.is_event() {
            return None;
        }
        match (self.orphan, self.propagation) {
            (Some(true), _) | (None, Some(Propagation::Orphan)) => return Some(ORPHAN),
            // A namespace always follows the old option.
            (Some(false), _) if kind.is_namespace() => return Some(FOREGROUND),
            (Some(false), _) | (None, Some(Propagation::Background)) => return None,
            (None, Some(Propagation::Foreground)) => return Some(FOREGROUND),
            (None, None) => {}
        }
        match current.iter().find(|name| is_collectors(name)) {
            Some(name) if *name == ORPHAN => Some(ORPHAN),
            Some(_) => Some(FOREGROUND),
            None => orphans_by_default(kind).then_some(ORPHAN),
        }
    }

    /// The warnings for the client.
    pub(crate) fn warnings(&self, kind: &Kind) -> Vec<String> {
        let is_job = kind.group == "batch" && kind.plural == "jobs";
        if !is_job || self.propagation.is_some() || self.orphan.is_some() {
            return Vec::new();
        }
        let text = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                    remove them or set propagationPolicy=Orphan to suppress this warning";
        vec![text.to_owned()]
    }
}

fn decode(body: &Bytes) -> Result<Value, Status> {
    let parsed = RequestBody::parse(body).map_err(|error| Status::bad_request(error.to_string()))?;
    if !matches!(parsed.kind.as_str(), "" | "DeleteOptions") {
        return Err(Status::bad_request(unregistered(&parsed.kind, &parsed.api_version)));
    }
    let decoded = match builtin().types.find("meta.v1.DeleteOptions") {
        Some(fields) => parsed.decode(fields, FieldValidation::Ignore),
        None => parsed.into_value(FieldValidation::Ignore),
    };
    decoded.map(|decoded| decoded.value).map_err(|error| Status::bad_request(error.to_string()))
}

/// Whether a finalizer belongs to the garbage collector.
fn is_collectors(name: &Value) -> bool {
    *name == ORPHAN || *name == FOREGROUND
}

/// Kinds that are older than the collector orphan their Pods by default.
fn orphans_by_default(kind: &Kind) -> bool {
    matches!((kind.group.as_str(), kind.plural.as_str()), ("batch", "jobs") | ("", "replicationcontrollers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(options: &Value, plural: (&str, &str), current: &[&str]) -> Option<Vec<Value>> {
        let kind = builtin().resource(plural.0, "v1", plural.1).unwrap();
        let current: Vec<Value> = current.iter().map(|name| Value::from(*name)).collect();
        DeleteOptions::from_value(options).unwrap().finalizers(kind, &current)
    }

    #[test]
    fn options_finalizers_and_the_kind_decide_in_this_order() {
        let maps = ("", "configmaps");
        let list = |names: &[&str]| Some(names.iter().map(|name| Value::from(*name)).collect::<Vec<_>>());
        let policy = |name: &str| json!({ "propagationPolicy": name });
        assert_eq!(wanted(&json!({}), maps, &["a/b"]), None);
        assert_eq!(wanted(&policy("Orphan"), maps, &["a/b", FOREGROUND]), list(&["a/b", ORPHAN]));
        assert_eq!(wanted(&policy("Foreground"), maps, &[FOREGROUND]), None);
        assert_eq!(wanted(&policy("Background"), maps, &[ORPHAN]), list(&[]));
        assert_eq!(wanted(&json!({}), maps, &[ORPHAN]), None);
        assert_eq!(wanted(&json!({"orphanDependents": false}), maps, &[FOREGROUND]), list(&[]));
        assert_eq!(wanted(&json!({}), ("batch", "jobs"), &[]), list(&[ORPHAN]));
        assert_eq!(wanted(&policy("Background"), ("batch", "jobs"), &[]), None);
        assert_eq!(wanted(&policy("Orphan"), ("", "events"), &[]), None);
        assert_eq!(wanted(&json!({"orphanDependents": false}), ("", "namespaces"), &[]), list(&[FOREGROUND]));
    }
}
