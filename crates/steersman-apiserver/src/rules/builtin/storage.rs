//! PersistentVolumes, PersistentVolumeClaims and StorageClasses.

use std::cmp::Ordering;

use serde_json::{Value, json};
use steersman_wire::compare_quantity;

use super::fields::{self, Default, fill_all, get, items, put, text};
use super::workloads::immutable;
use crate::response::status::{Errors, FieldError};
use crate::rules::kinds::Kind;

const CLAIM: &[(&str, Default)] = &[
    ("metadata", Default::Object),
    ("spec.resources", Default::Object),
    ("spec.volumeMode", Default::Text("Filesystem")),
    ("status.phase", Default::Text("Pending")),
];

const VOLUME: &[(&str, Default)] = &[
    ("spec.persistentVolumeReclaimPolicy", Default::Text("Retain")),
    ("spec.volumeMode", Default::Text("Filesystem")),
    ("status.phase", Default::Text("Pending")),
];

const CLASS: &[(&str, Default)] = &[
    ("provisioner", Default::Text("")),
    ("reclaimPolicy", Default::Text("Delete")),
    ("volumeBindingMode", Default::Text("Immediate")),
];

pub(super) fn fill(kind: &Kind, value: &mut Value) {
    match kind.kind.as_str() {
        "PersistentVolumeClaim" => fill_claim(value),
        "PersistentVolume" => {
            fill_all(value, VOLUME);
            if get(value, "spec.hostPath").is_object() {
                fields::fill(value, "spec.hostPath.type", "");
            }
        }
        _ => fill_all(value, CLASS),
    }
}

pub(super) fn fill_claim(value: &mut Value) {
    fill_all(value, CLAIM);
    for field in ["dataSource", "dataSourceRef"] {
        if get(value, &format!("spec.{field}")).is_object() {
            fields::fill(value, &format!("spec.{field}.apiGroup"), Value::Null);
        }
    }
    for (from, to) in [("spec.dataSource", "spec.dataSourceRef"), ("spec.dataSourceRef", "spec.dataSource")] {
        let found = get(value, from).clone();
        if found.is_object() && found["namespace"].is_null() && get(value, to).is_null() {
            put(value, to, found);
        }
    }
}

/// A new volume or claim gets the finalizer that protects it while it is in use.
pub(super) fn start(kind: &Kind, value: &mut Value) {
    let finalizer = if kind.kind == "PersistentVolume" { "pv-protection" } else { "pvc-protection" };
    let finalizer = json!(format!("kubernetes.io/{finalizer}"));
    let mut finalizers = items(value, "metadata.finalizers").to_vec();
    if !finalizers.contains(&finalizer) {
        finalizers.push(finalizer);
    }
    put(value, "metadata.finalizers", finalizers);
    if kind.kind == "PersistentVolume" {
        let now = value["metadata"]["creationTimestamp"].clone();
        put(value, "status.lastPhaseTransitionTime", now);
    }
}

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn validate_claim(value: &Value, errors: &mut Errors) {
    claim_spec(&value["spec"], "spec", errors);
}

pub(super) fn claim_spec(spec: &Value, at: &str, errors: &mut Errors) {
    if items(spec, "accessModes").is_empty() {
        errors.push(FieldError::required(format!("{at}.accessModes"), "at least 1 access mode is required"));
    }
    super::meta::selector(&spec["selector"], &format!("{at}.selector"), errors);
    access_modes(spec, at, errors);
    let field = format!("{at}.resources[storage]");
    match get(spec, "resources.requests.storage").as_str() {
        None => errors.push(FieldError::required(field, "")),
        Some(amount) if compare_quantity(amount, "0").is_ok_and(Ordering::is_le) => {
            errors.push(FieldError::invalid(field, amount, "must be greater than zero"));
        }
        Some(_) => {}
    }
}

fn access_modes(spec: &Value, at: &str, errors: &mut Errors) {
    for mode in items(spec, "accessModes") {
        let mode = mode.as_str().unwrap_or_default();
        if !ACCESS_MODES.contains(&mode) {
            errors.push(FieldError::not_supported(format!("{at}.accessModes"), mode, ACCESS_MODES));
        }
    }
}

pub(super) fn validate_volume(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    if items(spec, "accessModes").is_empty() {
        errors.push(FieldError::required("spec.accessModes", ""));
    }
    access_modes(spec, "spec", errors);
    if spec["capacity"].as_object().is_none_or(serde_json::Map::is_empty) {
        errors.push(FieldError::required("spec.capacity", ""));
    }
    if get(spec, "capacity.storage").is_null() {
        errors.push(FieldError::not_supported("spec.capacity", spec["capacity"].clone(), &["storage"]));
    }
    const OTHERS: &[&str] = &[
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    if fields::members(value, "spec").all(|(name, _)| OTHERS.contains(&name.as_str())) {
        errors.push(FieldError::required("spec", "must specify a volume type"));
    }
}

pub(super) fn validate_claim_update(value: &Value, old: &Value, errors: &mut Errors) {
    validate_claim(value, errors);
    let bound = text(old, "status.phase") == "Bound";
    let rest = |value: &Value| {
        let mut spec = value["spec"].clone();
        fields::remove(&mut spec, "volumeAttributesClassName");
        if bound {
            fields::remove(&mut spec, "resources.requests");
        }
        if get(old, "spec.volumeName").is_null() {
            fields::remove(&mut spec, "volumeName");
        }
        if get(old, "spec.storageClassName").is_null() {
            fields::remove(&mut spec, "storageClassName");
        }
        spec
    };
    if rest(value) != rest(old) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for \
                      bound claims";
        errors.push(FieldError::forbidden("spec", detail));
    }
}

pub(super) fn validate_class(value: &Value, errors: &mut Errors) {
    if text(value, "provisioner").is_empty() {
        errors.push(FieldError::required("provisioner", ""));
    }
}

/// A class is immutable.
pub(super) fn keep_class(value: &Value, old: &Value, errors: &mut Errors) {
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        immutable(value, old, field, errors);
    }
}
