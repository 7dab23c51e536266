//! Defaults and validation of built-in kinds beyond their schema. Fields that the client must not
//! set are reset. Every rule and every text is the real server's; `data/defaults` and
//! `data/refusals` hold its recorded responses.
//!
//! All functions depend on the object alone. They expect an object that fits its schema and whose
//! metadata is complete; fields of a wrong type are left alone. Rules that need other objects are
//! elsewhere: the caller provides the [`Addresses`] of Services.

mod batch;
mod cluster;
mod config;
mod fields;
mod meta;
mod networking;
mod pod_validation;
mod pods;
mod rbac;
mod scaling;
mod services;
mod storage;
mod workloads;

use serde_json::Value;

pub(crate) use services::{Addresses, allocate, release};

use crate::response::status::Errors;
use crate::rules::kinds::Kind;

/// Sets the defaults of its kind in a decoded object. A new one begins with an empty status.
/// Afterwards, the object has the fields that its writer manages.
pub(crate) fn complete(kind: &Kind, value: &mut Value, is_new: bool) {
    if is_new && kind.has_status() && !keeps_status(kind) {
        fields::remove(value, "status");
    }
    fill(kind, value);
    if (kind.group.as_str(), kind.kind.as_str()) == ("apps", "DaemonSet") {
        workloads::annotate_generation(value);
    }
}

/// Sets the fields of a new, completed object that the server decides.
pub(crate) fn prepare_for_create(kind: &Kind, value: &mut Value) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace") => config::reset_namespace(value),
        ("", "Pod") => {
            pods::admit(value, None);
            pods::reset_status(value);
        }
        ("", "Node") => cluster::taint_new(value),
        ("", "Service") => services::settle(value, None),
        ("", "ServiceAccount") => config::keep_names_of_secrets(value),
        ("", "PersistentVolumeClaim" | "PersistentVolume") => storage::start(kind, value),
        ("apps", "DaemonSet") => workloads::template_generation(value, None),
        ("batch", "Job") => batch::select_own_pods(value),
        _ => {}
    }
}

/// Sets the fields of a completed object that replaces `old` and that this request must not change.
/// `subresource` is empty if the object itself is written.
pub(crate) fn prepare_for_update(kind: &Kind, value: &mut Value, old: &Value, subresource: &str) {
    if !subresource.is_empty() {
        match (kind.group.as_str(), kind.kind.as_str()) {
            ("", "Pod") if subresource == "status" => pods::keep_quality(value, old),
            ("apps", "DaemonSet") => workloads::keep_generation(value, old),
            _ => {}
        }
        return;
    }
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pods::admit(value, Some(old)),
        ("", "Service") => services::settle(value, Some(old)),
        ("", "ServiceAccount") => config::keep_names_of_secrets(value),
        ("", "Namespace") => fields::copy(value, old, "spec.finalizers"),
        ("apps", "DaemonSet") => workloads::template_generation(value, Some(old)),
        ("batch", "Job") => batch::label(value),
        _ => {}
    }
}

/// Validates a new object after [`prepare_for_create`], except for its name, labels and
/// annotations.
pub(crate) fn validate_create(kind: &Kind, value: &Value) -> Errors {
    let mut errors = Errors::default();
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pod_validation::validate(value, &mut errors),
        ("", "ReplicationController") => workloads::validate_replication_controller(value, &mut errors),
        ("", "ConfigMap") => config::validate_config_map(value, &mut errors),
        ("", "Secret") => config::validate_secret(value, &mut errors),
        ("", "Namespace") => config::validate_namespace(value, &mut errors),
        ("", "Service") => services::validate(value, &mut errors),
        ("", "Event") => cluster::validate_event(value, "reportingComponent", &mut errors),
        ("events.k8s.io", "Event") => cluster::validate_new_event(value, &mut errors),
        ("", "Node") => cluster::validate_node(value, &mut errors),
        ("", "PersistentVolumeClaim") => storage::validate_claim(value, &mut errors),
        ("", "PersistentVolume") => storage::validate_volume(value, &mut errors),
        ("apps", "Deployment") => workloads::validate_deployment(value, &mut errors),
        ("apps", "ReplicaSet") => workloads::validate_replica_set(value, &mut errors),
        ("apps", "StatefulSet") => workloads::validate_stateful_set(value, false, &mut errors),
        ("apps", "DaemonSet") => workloads::validate_daemon_set(value, &mut errors),
        ("batch", "Job") => batch::validate_job(value, &mut errors),
        ("batch", "CronJob") => batch::validate_cron_job(value, &mut errors),
        ("coordination.k8s.io", "Lease") => cluster::validate_lease(value, &mut errors),
        ("networking.k8s.io", "Ingress") => networking::validate_ingress(value, true, &mut errors),
        ("networking.k8s.io", "NetworkPolicy") => networking::validate_network_policy(value, &mut errors),
        ("storage.k8s.io", "StorageClass") => storage::validate_class(value, &mut errors),
        ("rbac.authorization.k8s.io", _) => rbac::validate(kind, value, &mut errors),
        ("autoscaling" | "policy", _) => scaling::validate(kind, value, &mut errors),
        _ => {}
    }
    errors
}

/// Validates an object that replaces `old`, after [`prepare_for_update`].
pub(crate) fn validate_update(kind: &Kind, value: &Value, old: &Value) -> Errors {
    let mut errors = Errors::default();
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pod_validation::validate_update(value, old, &mut errors),
        ("", "ConfigMap") => config::validate_config_map_update(value, old, &mut errors),
        ("", "Secret") => config::validate_secret_update(value, old, &mut errors),
        ("", "Service") => services::validate_update(value, old, &mut errors),
        ("events.k8s.io", "Event") => cluster::validate_new_event_update(value, old, &mut errors),
        ("", "PersistentVolumeClaim") => storage::validate_claim_update(value, old, &mut errors),
        ("apps", "StatefulSet") => workloads::validate_stateful_set_update(value, old, &mut errors),
        ("apps", "DaemonSet") => workloads::validate_daemon_set_update(value, old, &mut errors),
        ("apps", "Deployment" | "ReplicaSet") => {
            errors = validate_create(kind, value);
            workloads::keep_selector(value, old, &mut errors);
        }
        ("batch", "Job") => batch::validate_job_update(value, old, &mut errors),
        ("networking.k8s.io", "Ingress") => networking::validate_ingress(value, false, &mut errors),
        ("rbac.authorization.k8s.io", _) => {
            errors = validate_create(kind, value);
            rbac::keep_role(value, old, &mut errors);
        }
        ("scheduling.k8s.io", "PriorityClass") => cluster::validate_priority_class_update(value, old, &mut errors),
        ("storage.k8s.io", "StorageClass") => {
            errors = validate_create(kind, value);
            storage::keep_class(value, old, &mut errors);
        }
        _ => errors = validate_create(kind, value),
    }
    errors
}

/// The kubelet creates a Node together with its status.
fn keeps_status(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.kind == "Node"
}

/// The defaults of a kind, which every write sets.
fn fill(kind: &Kind, value: &mut Value) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => pods::fill_pod(value),
        ("", "PodTemplate") => pods::fill_template(value, "template"),
        ("", "ReplicationController") => workloads::fill_replication_controller(value),
        ("", "Secret") => config::fill_secret(value),
        ("", "Namespace") => config::fill_namespace(value),
        ("", "LimitRange") => config::fill_limit_range(value),
        ("", "ResourceQuota") => fields::fill(value, "status", fields::object()),
        ("", "Service") => services::fill_service(value),
        ("", "Endpoints") => networking::fill_endpoints(value),
        ("", "Node") => cluster::fill_node(value),
        ("" | "events.k8s.io", "Event") => cluster::fill_event(value),
        ("", "PersistentVolumeClaim" | "PersistentVolume") | ("storage.k8s.io", "StorageClass") => {
            storage::fill(kind, value);
        }
        ("apps", _) => workloads::fill(kind, value),
        ("batch", "Job") => batch::fill_job(value),
        ("batch", "CronJob") => batch::fill_cron_job(value),
        ("coordination.k8s.io", "Lease") => fields::fill(value, "spec", fields::object()),
        ("scheduling.k8s.io", "PriorityClass") => fields::fill(value, "preemptionPolicy", "PreemptLowerPriority"),
        ("networking.k8s.io", _) => networking::fill_networking(kind, value),
        ("discovery.k8s.io", "EndpointSlice") => networking::fill_endpoint_slice(value),
        ("rbac.authorization.k8s.io", _) => rbac::fill(kind, value),
        ("autoscaling" | "policy", _) => scaling::fill(kind, value),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
