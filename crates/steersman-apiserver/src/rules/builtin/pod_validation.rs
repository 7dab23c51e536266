//! Validation of Pods and of Pod templates in other kinds.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::Value;
use steersman_wire::{compare_quantity, is_dns1123_label, is_dns1123_subdomain, is_qualified_name};

use super::fields::{
    copy, each, each_wrong, get, items, members, number, one_of, port, port_name, port_number, put, remove, text,
};
use super::meta;
use super::pods::PROBES;
use crate::response::status::{Errors, FieldError};

/// A new Pod.
pub(super) fn validate(value: &Value, errors: &mut Errors) {
    spec(&value["spec"], "spec", errors);
    for list in ["containers", "initContainers"] {
        for (index, container) in items(value, &format!("spec.{list}")).iter().enumerate() {
            let image = text(container, "image");
            if image.trim() != image {
                let field = format!("spec.{list}[{index}].image");
                errors.push(FieldError::invalid(field, image, "must not have leading or trailing whitespace"));
            }
        }
    }
    if !items(value, "spec.ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
    if !items(value, "spec.schedulingGates").is_empty() && !text(value, "spec.nodeName").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden("spec.nodeName", detail));
    }
}

/// A Pod template.
pub(super) fn template(template: &Value, at: &str, errors: &mut Errors) {
    meta::labels(get(template, "metadata.labels"), &format!("{at}.labels"), errors);
    spec(&template["spec"], &format!("{at}.spec"), errors);
    if !items(template, "spec.ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(format!("{at}.spec.ephemeralContainers"), detail));
    }
}

fn spec(spec: &Value, at: &str, errors: &mut Errors) {
    volumes(spec, at, errors);
    containers(spec, at, errors);
    if spec["hostNetwork"] == true {
        for list in ["containers", "initContainers"] {
            for (index, container) in items(spec, list).iter().enumerate() {
                for (at_port, port) in items(container, "ports").iter().enumerate() {
                    let host = number(port, "hostPort");
                    if host != number(port, "containerPort") {
                        let field = format!("{at}.{list}[{index}].ports[{at_port}].hostPort");
                        let detail = "must match `containerPort` when `hostNetwork` is true";
                        errors.push(FieldError::invalid(field, host, detail));
                    }
                }
            }
        }
    }
    one_of(spec, at, "restartPolicy", &["Always", "OnFailure", "Never"], errors);
    one_of(spec, at, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], errors);
    meta::labels(&spec["nodeSelector"], &format!("{at}.nodeSelector"), errors);
    ids(&spec["securityContext"], &format!("{at}.securityContext"), &["fsGroup", "runAsGroup", "runAsUser"], errors);
    let terms = get(spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution");
    if terms.is_object() && items(terms, "nodeSelectorTerms").is_empty() {
        let field =
            format!("{at}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
        errors.push(FieldError::required(field, "must have at least one node selector term"));
    }
    let mut gates = HashSet::new();
    for (index, gate) in items(spec, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        each_wrong(name, &format!("{at}.schedulingGates[{index}]"), is_qualified_name(name), errors);
        if !gates.insert(name) {
            errors.push(FieldError::duplicate(format!("{at}.schedulingGates[{index}]"), name));
        }
    }
    for (field, check) in
        [("serviceAccountName", is_dns1123_subdomain as fn(&str) -> Vec<String>), ("nodeName", is_dns1123_subdomain)]
    {
        let found = text(spec, field);
        if !found.is_empty() {
            each_wrong(found, &format!("{at}.{field}"), check(found), errors);
        }
    }
    let deadline = spec["activeDeadlineSeconds"].as_i64();
    if let Some(deadline) = deadline.filter(|deadline| !(1..=i64::from(i32::MAX)).contains(deadline)) {
        let detail = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(format!("{at}.activeDeadlineSeconds"), deadline, detail));
    }
    for field in ["hostname", "subdomain"] {
        let found = text(spec, field);
        if !found.is_empty() {
            each_wrong(found, &format!("{at}.{field}"), is_dns1123_label(found), errors);
        }
    }
    tolerations(spec, at, errors);
    for (index, alias) in items(spec, "hostAliases").iter().enumerate() {
        let ip = text(alias, "ip");
        if ip.parse::<std::net::IpAddr>().is_err() {
            let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.push(FieldError::invalid(format!("{at}.hostAliases[{index}].ip"), ip, detail));
        }
    }
    let class = text(spec, "priorityClassName");
    if !class.is_empty() {
        each_wrong(class, &format!("{at}.priorityClassName"), is_dns1123_subdomain(class), errors);
    }
}

fn ids(context: &Value, at: &str, names: &[&str], errors: &mut Errors) {
    for name in names {
        if let Some(id) = context[*name].as_i64().filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
            let detail = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid(format!("{at}.{name}"), id, detail));
        }
    }
}

fn volumes(spec: &Value, at: &str, errors: &mut Errors) {
    let mut names = HashSet::new();
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let at = format!("{at}.volumes[{index}]");
        let sources: Vec<&String> = volume
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| *name != "name")
            .map(|(name, _)| name)
            .collect();
        for source in sources.iter().skip(1) {
            errors.push(FieldError::forbidden(format!("{at}.{source}"), "may not specify more than 1 volume type"));
        }
        for (source, field) in [
            ("secret", "secretName"),
            ("configMap", "name"),
            ("hostPath", "path"),
            ("persistentVolumeClaim", "claimName"),
            ("csi", "driver"),
        ] {
            if volume[source].is_object() && sources[0] == source && text(&volume[source], field).is_empty() {
                errors.push(FieldError::required(format!("{at}.{source}.{field}"), ""));
            }
        }
        let name = text(volume, "name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
            continue;
        }
        each_wrong(name, &format!("{at}.name"), is_dns1123_label(name), errors);
        if !names.insert(name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), name));
        }
    }
}

fn containers(spec: &Value, at: &str, errors: &mut Errors) {
    if items(spec, "containers").is_empty() {
        errors.push(FieldError::required(format!("{at}.containers"), ""));
    }
    let mut names = HashSet::new();
    for list in ["containers", "initContainers"] {
        let mut host_ports = HashSet::new();
        for (index, item) in items(spec, list).iter().enumerate() {
            let at = format!("{at}.{list}[{index}]");
            container(item, &at, errors);
            let name = text(item, "name");
            if !name.is_empty() && !names.insert(name) {
                errors.push(FieldError::duplicate(format!("{at}.name"), name));
            }
            let restarts = text(item, "restartPolicy") == "Always";
            if list == "containers" || restarts {
                handlers(item, &at, errors);
            } else {
                for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                    if item[field].is_object() {
                        let detail = "may not be set for init containers without restartPolicy=Always";
                        errors.push(FieldError::forbidden(format!("{at}.{field}"), detail));
                    }
                }
            }
            for (at_port, port) in items(item, "ports").iter().enumerate() {
                let host = number(port, "hostPort");
                let key = format!("{}/{}/{host}", text(port, "protocol"), text(port, "hostIP"));
                if host != 0 && !host_ports.insert(key.clone()) {
                    errors.push(FieldError::duplicate(format!("{at}.ports[{at_port}].hostPort"), key));
                }
            }
        }
    }
}

fn container(container: &Value, at: &str, errors: &mut Errors) {
    let name = text(container, "name");
    if name.is_empty() {
        errors.push(FieldError::required(format!("{at}.name"), ""));
    } else {
        each_wrong(name, &format!("{at}.name"), is_dns1123_label(name), errors);
    }
    if text(container, "image").is_empty() {
        errors.push(FieldError::required(format!("{at}.image"), ""));
    }
    one_of(container, at, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], errors);
    ports(container, at, errors);
    environment(container, at, errors);
    let mut paths = HashSet::new();
    for (index, mount) in items(container, "volumeMounts").iter().enumerate() {
        let at = format!("{at}.volumeMounts[{index}]");
        if text(mount, "name").is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        }
        let path = text(mount, "mountPath");
        if path.is_empty() {
            errors.push(FieldError::required(format!("{at}.mountPath"), ""));
        } else if !paths.insert(path) {
            errors.push(FieldError::invalid(format!("{at}.mountPath"), path, "must be unique"));
        }
    }
    one_of(container, at, "imagePullPolicy", &["Always", "IfNotPresent", "Never"], errors);
    resources(&container["resources"], &format!("{at}.resources"), errors);
    ids(&container["securityContext"], &format!("{at}.securityContext"), &["runAsUser", "runAsGroup"], errors);
}

fn ports(container: &Value, at: &str, errors: &mut Errors) {
    let mut names = HashSet::new();
    for (index, port) in items(container, "ports").iter().enumerate() {
        let at = format!("{at}.ports[{index}]");
        let name = text(port, "name");
        if !name.is_empty() {
            let before = errors.len();
            port_name(name, &format!("{at}.name"), errors);
            let is_new = names.insert(name);
            if errors.len() == before && !is_new {
                errors.push(FieldError::duplicate(format!("{at}.name"), name));
            }
        }
        match number(port, "containerPort") {
            0 => errors.push(FieldError::required(format!("{at}.containerPort"), "")),
            number => port_number(number, &format!("{at}.containerPort"), errors),
        }
        match number(port, "hostPort") {
            0 => {}
            number => port_number(number, &format!("{at}.hostPort"), errors),
        }
        one_of(port, &at, "protocol", &["SCTP", "TCP", "UDP"], errors);
    }
}

/// Fields of a Pod that `fieldRef` can pass to its containers.
const FIELD_PATHS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

fn environment(container: &Value, at: &str, errors: &mut Errors) {
    for (index, variable) in items(container, "env").iter().enumerate() {
        let at = format!("{at}.env[{index}]");
        let name = text(variable, "name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        } else if !name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
            let detail =
                "a valid environment variable name must consist only of printable ASCII characters other than '='";
            errors.push(FieldError::invalid(format!("{at}.name"), name, detail));
        }
        if let Some(source) = variable["valueFrom"].as_object() {
            let at = format!("{at}.valueFrom");
            let given = source.values().filter(|source| !source.is_null()).count();
            let wrong = if given == 0 {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            } else if !text(variable, "value").is_empty() {
                "may not be specified when `value` is not empty"
            } else if given > 1 {
                "may not have more than one field specified at a time"
            } else {
                ""
            };
            let path = get(&variable["valueFrom"], "fieldRef.fieldPath");
            if let Some(path) = path.as_str() {
                let subscript =
                    ["metadata.labels['", "metadata.annotations['"].iter().any(|start| path.starts_with(start));
                if !FIELD_PATHS.contains(&path) && !subscript {
                    let detail = format!("error converting fieldPath: field label not supported: {path}");
                    errors.push(FieldError::invalid(format!("{at}.fieldRef.fieldPath"), path, detail));
                }
            }
            for source in ["configMapKeyRef", "secretKeyRef"] {
                let reference = &variable["valueFrom"][source];
                if reference.is_object() && text(reference, "key").is_empty() {
                    errors.push(FieldError::required(format!("{at}.{source}.key"), ""));
                }
            }
            if !wrong.is_empty() {
                errors.push(FieldError::invalid(at, "", wrong));
            }
        }
    }
    for source in items(container, "envFrom") {
        let given = ["configMapRef", "secretRef"].iter().filter(|name| source[**name].is_object()).count();
        let wrong = match given {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(format!("{at}.envFrom"), "", wrong));
    }
}

/// Resource names without a prefix.
const STANDARD: &[&str] = &["cpu", "memory", "ephemeral-storage", "storage"];

fn resources(resources: &Value, at: &str, errors: &mut Errors) {
    for list in ["limits", "requests"] {
        for (name, amount) in members(resources, list) {
            let field = format!("{at}.{list}[{name}]");
            let standard = STANDARD.contains(&name.as_str()) || name.starts_with("hugepages-");
            if !standard && !name.contains('/') {
                let mut refuse = |what| errors.push(FieldError::invalid(field.as_str(), name.as_str(), what));
                refuse("must be a standard resource type or fully qualified");
                refuse("must be a standard resource for containers");
            }
            let amount = amount.as_str().unwrap_or_default();
            if compare_quantity(amount, "0").is_ok_and(Ordering::is_lt) {
                errors.push(FieldError::invalid(field, amount, "must be greater than or equal to 0"));
            }
        }
    }
    for (name, request) in members(resources, "requests") {
        let request = request.as_str().unwrap_or_default();
        let Some(limit) = get(resources, "limits")[name.as_str()].as_str() else { continue };
        if compare_quantity(request, limit).is_ok_and(Ordering::is_gt) {
            let detail = format!("must be less than or equal to {name} limit of {limit}");
            errors.push(FieldError::invalid(format!("{at}.requests"), request, detail));
        }
    }
}

fn handlers(container: &Value, at: &str, errors: &mut Errors) {
    for hook in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][hook];
        if handler.is_object() {
            self::handler(
                handler,
                &format!("{at}.lifecycle.{hook}"),
                &["exec", "httpGet", "tcpSocket", "sleep"],
                errors,
            );
        }
    }
    for name in PROBES {
        let probe = &container[name];
        if !probe.is_object() {
            continue;
        }
        let at = format!("{at}.{name}");
        handler(probe, &at, &["exec", "httpGet", "tcpSocket", "grpc"], errors);
        let numbers =
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
        super::fields::not_negative(probe, &at, &numbers, errors);
        let threshold = number(probe, "successThreshold");
        if name != "readinessProbe" && threshold != 1 {
            errors.push(FieldError::invalid(format!("{at}.successThreshold"), threshold, "must be 1"));
        }
    }
}

fn handler(handler: &Value, at: &str, kinds: &[&str], errors: &mut Errors) {
    let mut given = 0;
    for kind in kinds {
        let action = &handler[*kind];
        if !action.is_object() {
            continue;
        }
        given += 1;
        let at = format!("{at}.{kind}");
        if given > 1 {
            errors.push(FieldError::forbidden(at, "may not specify more than 1 handler type"));
            continue;
        }
        match *kind {
            "exec" if items(action, "command").is_empty() => {
                errors.push(FieldError::required(format!("{at}.command"), ""));
            }
            "httpGet" => {
                port(&action["port"], &format!("{at}.port"), errors);
                one_of(action, &at, "scheme", &["HTTP", "HTTPS"], errors);
            }
            "tcpSocket" | "grpc" => port(&action["port"], &format!("{at}.port"), errors),
            _ => {}
        }
    }
    if given == 0 {
        errors.push(FieldError::required(at, "must specify a handler type"));
    }
}

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn tolerations(spec: &Value, at: &str, errors: &mut Errors) {
    for (index, toleration) in items(spec, "tolerations").iter().enumerate() {
        let at = format!("{at}.tolerations[{index}]");
        let (key, operator, value) = (text(toleration, "key"), text(toleration, "operator"), text(toleration, "value"));
        if !key.is_empty() {
            each_wrong(key, &format!("{at}.key"), is_qualified_name(key), errors);
        }
        if key.is_empty() && operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(format!("{at}.operator"), operator, detail));
        }
        if !toleration["tolerationSeconds"].is_null() && text(toleration, "effect") != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(format!("{at}.effect"), text(toleration, "effect"), detail));
        }
        match operator {
            "" | "Equal" => {
                each_wrong(value, &format!("{at}.operator"), steersman_wire::is_valid_label_value(value), errors);
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(format!("{at}.operator"), value, detail));
            }
            "Exists" => {}
            other => {
                errors.push(FieldError::not_supported(format!("{at}.operator"), other, &["Equal", "Exists"]));
            }
        }
        if !text(toleration, "effect").is_empty() {
            one_of(toleration, &at, "effect", EFFECTS, errors);
        }
    }
}

/// An update of a Pod: few fields may change.
pub(super) fn validate_update(value: &Value, old: &Value, errors: &mut Errors) {
    spec(&value["spec"], "spec", errors);
    let (spec, before) = (&value["spec"], &old["spec"]);
    for list in ["containers", "initContainers"] {
        if items(spec, list).len() != items(before, list).len() {
            let detail = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(format!("spec.{list}"), detail));
            return;
        }
        for (index, container) in items(spec, list).iter().enumerate() {
            let (image, field) = (text(container, "image"), format!("spec.{list}[{index}].image"));
            if image.is_empty() {
                errors.push(FieldError::required(field, ""));
            } else if image.trim() != image {
                errors.push(FieldError::invalid(field, image, "must not have leading or trailing whitespace"));
            }
        }
    }
    let (deadline, deadline_before) = (&spec["activeDeadlineSeconds"], &before["activeDeadlineSeconds"]);
    let field = "spec.activeDeadlineSeconds";
    if deadline.is_null() && !deadline_before.is_null() {
        let detail = "must not update from a positive integer to nil value";
        errors.push(FieldError::invalid(field, Value::Null, detail));
    } else if deadline_before.as_i64().is_some_and(|before| before < deadline.as_i64().unwrap_or_default()) {
        let detail = "must be less than or equal to previous value";
        errors.push(FieldError::invalid(field, deadline.clone(), detail));
        return;
    }
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        remove(&mut toleration, "tolerationSeconds");
        toleration.to_string()
    };
    let now: HashSet<String> = items(spec, "tolerations").iter().map(without_seconds).collect();
    if items(before, "tolerations").iter().any(|toleration| !now.contains(&without_seconds(toleration))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden("spec.tolerations", detail));
    }
    let gates: HashSet<String> = items(before, "schedulingGates").iter().map(Value::to_string).collect();
    for (index, gate) in items(spec, "schedulingGates").iter().enumerate() {
        if !gates.contains(&gate.to_string()) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "name"));
            errors.push(FieldError::forbidden(format!("spec.schedulingGates[{index}].name"), detail));
        }
    }
    let mut same = spec.clone();
    for list in ["containers", "initContainers"] {
        let mut images = items(before, list).iter().map(|container| container["image"].clone());
        each(&mut same, list, |container| put(container, "image", images.next().unwrap_or_default()));
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        copy(&mut same, before, field);
    }
    if number(before, "terminationGracePeriodSeconds") < 0 && number(spec, "terminationGracePeriodSeconds") == 1 {
        copy(&mut same, before, "terminationGracePeriodSeconds");
    }
    if !items(before, "schedulingGates").is_empty() {
        for field in ["nodeSelector", "affinity"] {
            copy(&mut same, before, field);
        }
    }
    if same != *before {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,\
                      `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                      `spec.tolerations` (only additions to existing tolerations),\
                      `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        errors.push(FieldError::forbidden("spec", detail));
    }
}
