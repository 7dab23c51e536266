//! Defaults of Pods and of Pod templates in other kinds.

use std::cmp::Ordering;

use serde_json::{Value, json};
use steersman_wire::compare_quantity;

use super::fields::{
    Default, copy, each, fill, fill_all, fill_zero, get, get_mut, items, members, number, object, put, text,
};

const SPEC: &[(&str, Default)] = &[
    ("dnsPolicy", Default::Text("ClusterFirst")),
    ("restartPolicy", Default::Text("Always")),
    ("securityContext", Default::Object),
    ("terminationGracePeriodSeconds", Default::Int(30)),
    ("schedulerName", Default::Text("default-scheduler")),
];

const CONTAINER: &[(&str, Default)] = &[
    ("resources", Default::Object),
    ("terminationMessagePath", Default::Text("/dev/termination-log")),
    ("terminationMessagePolicy", Default::Text("File")),
];

/// The defaults of a volume, by its source.
const VOLUMES: &[(&str, &[(&str, Default)])] = &[
    ("secret", &[("defaultMode", Default::Int(0o644))]),
    ("configMap", &[("defaultMode", Default::Int(0o644))]),
    ("downwardAPI", &[("defaultMode", Default::Int(0o644))]),
    ("projected", &[("defaultMode", Default::Int(0o644)), ("sources", Default::Null)]),
    ("hostPath", &[("type", Default::Text(""))]),
    ("iscsi", &[("iscsiInterface", Default::Text("default"))]),
    (
        "rbd",
        &[
            ("pool", Default::Text("rbd")),
            ("user", Default::Text("admin")),
            ("keyring", Default::Text("/etc/ceph/keyring")),
        ],
    ),
    (
        "azureDisk",
        &[
            ("cachingMode", Default::Text("ReadWrite")),
            ("fsType", Default::Text("ext4")),
            ("readOnly", Default::Bool(false)),
            ("kind", Default::Text("Shared")),
        ],
    ),
    ("scaleIO", &[("storageMode", Default::Text("ThinProvisioned")), ("fsType", Default::Text("xfs"))]),
];

const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
pub(super) const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// How long a Pod stays on an unreachable Node. Default for Pods that set no toleration.
const TOLERATION_SECONDS: i64 = 300;
/// The priorities of the two built-in classes.
const SYSTEM_PRIORITIES: &[(&str, i64)] =
    &[("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// The Pod template at a path.
pub(super) fn fill_template(value: &mut Value, path: &str) {
    fill(value, path, object());
    if let Some(template) = get_mut(value, path) {
        fill(template, "metadata", object());
        fill(template, "spec", object());
        if let Some(spec) = get_mut(template, "spec") {
            fill_spec(spec);
        }
    }
}

/// The defaults of a Pod that do not depend on admission.
pub(super) fn fill_pod(value: &mut Value) {
    fill(value, "spec", object());
    let Some(spec) = get_mut(value, "spec") else { return };
    fill_spec(spec);
    for list in ["containers", "initContainers"] {
        each(spec, list, |container| {
            for (name, limit) in members(&container.clone(), "resources.limits") {
                fill(container, "resources.requests", object());
                if let Some(requests) = get_mut(container, "resources.requests").and_then(Value::as_object_mut) {
                    requests.entry(name.as_str()).or_insert_with(|| limit.clone());
                }
            }
        });
    }
    fill(spec, "enableServiceLinks", true);
    if spec["hostNetwork"] == true {
        for list in ["containers", "initContainers"] {
            each(spec, list, |container| {
                each(container, "ports", |port| {
                    let number = number(port, "containerPort");
                    fill_zero(port, "hostPort", number);
                });
            });
        }
    }
}

fn fill_spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    fill_all(spec, SPEC);
    let account = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount").to_owned(),
        name => name.to_owned(),
    };
    if !account.is_empty() {
        put(spec, "serviceAccountName", account.as_str());
        put(spec, "serviceAccount", account);
    }
    for list in CONTAINER_LISTS {
        each(spec, list, fill_container);
    }
    each(spec, "volumes", fill_volume);
}

fn fill_container(container: &mut Value) {
    if !container.is_object() {
        return;
    }
    fill_all(container, CONTAINER);
    let policy = if is_latest(text(container, "image")) { "Always" } else { "IfNotPresent" };
    fill(container, "imagePullPolicy", policy);
    each(container, "ports", |port| fill(port, "protocol", "TCP"));
    each(container, "env", |variable| {
        if let Some(source) = get_mut(variable, "valueFrom") {
            if source["fieldRef"].is_object() {
                fill(source, "fieldRef.apiVersion", "v1");
            }
            if source["resourceFieldRef"].is_object() {
                fill(source, "resourceFieldRef.divisor", "0");
            }
        }
    });
    for name in PROBES {
        if let Some(probe) = get_mut(container, name).filter(|probe| probe.is_object()) {
            for (field, default) in
                [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
            {
                fill_zero(probe, field, default);
            }
            fill_handler(probe);
        }
    }
    for name in ["lifecycle.postStart", "lifecycle.preStop"] {
        if let Some(handler) = get_mut(container, name).filter(|handler| handler.is_object()) {
            fill_handler(handler);
        }
    }
}

fn fill_handler(handler: &mut Value) {
    if let Some(get) = get_mut(handler, "httpGet").filter(|get| get.is_object()) {
        fill(get, "path", "/");
        fill(get, "scheme", "HTTP");
    }
    if handler["grpc"].is_object() {
        fill(handler, "grpc.service", "");
    }
}

fn fill_volume(volume: &mut Value) {
    let Some(members) = volume.as_object_mut() else { return };
    if members.iter().all(|(name, value)| name == "name" || value.is_null()) {
        members.insert("emptyDir".to_owned(), object());
    }
    for (source, defaults) in VOLUMES {
        if let Some(source) = get_mut(volume, source).filter(|source| source.is_object()) {
            fill_all(source, defaults);
        }
    }
    let field_ref = |item: &mut Value| {
        if item["fieldRef"].is_object() {
            fill(item, "fieldRef.apiVersion", "v1");
        }
    };
    each(volume, "downwardAPI.items", field_ref);
    each(volume, "projected.sources", |source| {
        each(source, "downwardAPI.items", field_ref);
        if source["serviceAccountToken"].is_object() {
            fill(source, "serviceAccountToken.expirationSeconds", 3600);
        }
    });
    if let Some(template) = get_mut(volume, "ephemeral.volumeClaimTemplate").filter(|template| template.is_object()) {
        fill(template, "metadata", object());
        fill(template, "spec.volumeMode", "Filesystem");
    }
}

/// Whether an image has the tag `latest`, or no tag.
fn is_latest(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    let valid = !name.is_empty() && image.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase());
    match (name.contains('@'), name.split_once(':')) {
        (true, _) => false,
        (false, Some((_, tag))) => tag == "latest",
        (false, None) => valid,
    }
}

/// What admission adds to a Pod: tolerations of an unreachable Node, and the priority. Priority
/// classes that a user created are not known here; a Pod that names one keeps its own value.
pub(super) fn admit(value: &mut Value, old: Option<&Value>) {
    fill(value, "spec", object());
    let Some(spec) = get_mut(value, "spec").filter(|spec| spec.is_object()) else { return };
    let mut tolerations = items(spec, "tolerations").to_vec();
    for key in [NOT_READY, UNREACHABLE] {
        let tolerates = items(spec, "tolerations").iter().any(|toleration| {
            matches!(text(toleration, "effect"), "" | "NoExecute")
                && (text(toleration, "key").is_empty() || text(toleration, "key") == key)
        });
        if !tolerates {
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}),
            );
        }
    }
    if !tolerations.is_empty() {
        put(spec, "tolerations", tolerations);
    }
    match old {
        Some(old) => {
            for field in ["priority", "preemptionPolicy"] {
                if spec[field].is_null() && !old["spec"][field].is_null() {
                    copy(spec, &old["spec"], field);
                }
            }
        }
        None => {
            let class = text(spec, "priorityClassName");
            let known = SYSTEM_PRIORITIES.iter().find(|(name, _)| *name == class).map(|(_, priority)| *priority);
            if let Some(priority) = known.or_else(|| class.is_empty().then_some(0)) {
                fill(spec, "priority", priority);
                fill(spec, "preemptionPolicy", "PreemptLowerPriority");
            }
        }
    }
}

/// The status of a new Pod.
pub(super) fn reset_status(value: &mut Value) {
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(&value["spec"])});
    if !items(value, "spec.schedulingGates").is_empty() {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": value["metadata"]["creationTimestamp"],
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    put(value, "status", status);
}

/// A status without a quality of service keeps the old one.
pub(super) fn keep_quality(value: &mut Value, old: &Value) {
    if text(value, "status.qosClass").is_empty() && !text(old, "status.qosClass").is_empty() {
        put(value, "status.qosClass", get(old, "status.qosClass").clone());
    }
}

/// The quality of service: BestEffort Pods request nothing, Burstable Pods request less than their
/// limits, and Guaranteed Pods request all of them.
fn qos_class(spec: &Value) -> &'static str {
    let amount = |value: &Value| value.as_str().unwrap_or("0").to_owned();
    let (mut any, mut guaranteed) = (false, true);
    for container in items(spec, "containers").iter().chain(items(spec, "initContainers")) {
        for resource in ["cpu", "memory"] {
            let limit = amount(&get(container, "resources.limits")[resource]);
            let request = amount(&get(container, "resources.requests")[resource]);
            let set = |text: &str| compare_quantity(text, "0").is_ok_and(Ordering::is_gt);
            any |= set(&limit) || set(&request);
            guaranteed &= set(&limit) && compare_quantity(&limit, &request).is_ok_and(Ordering::is_eq);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
