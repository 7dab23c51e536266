//! Ingresses, their classes, network policies, and the endpoints of Services.

use std::net::IpAddr;

use serde_json::{Value, json};
use steersman_wire::is_dns1123_subdomain;

use super::fields::{self, each, each_wrong, get, items, number, object, one_of, port, port_number, put, text};
use super::meta;
use crate::response::status::{Errors, FieldError};
use crate::rules::kinds::Kind;

pub(super) fn fill_networking(kind: &Kind, value: &mut Value) {
    match kind.kind.as_str() {
        "Ingress" => {
            fields::fill(value, "spec", object());
            fields::fill(value, "status.loadBalancer", object());
        }
        "IngressClass" if get(value, "spec.parameters").is_object() => {
            fields::fill(value, "spec.parameters.scope", "Cluster");
        }
        "NetworkPolicy" => {
            fields::fill(value, "spec.podSelector", object());
            if items(value, "spec.policyTypes").is_empty() {
                let both = !items(value, "spec.egress").is_empty();
                put(value, "spec.policyTypes", if both { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
            }
            for rules in ["spec.ingress", "spec.egress"] {
                each(value, rules, |rule| each(rule, "ports", |port| fields::fill(port, "protocol", "TCP")));
            }
        }
        _ => {}
    }
}

pub(super) fn fill_endpoints(value: &mut Value) {
    each(value, "subsets", |subset| each(subset, "ports", |port| fields::fill(port, "protocol", "TCP")));
}

pub(super) fn fill_endpoint_slice(value: &mut Value) {
    fields::fill(value, "endpoints", Value::Null);
    fields::fill(value, "ports", Value::Null);
    each(value, "endpoints", |endpoint| fields::fill(endpoint, "conditions", object()));
    each(value, "ports", |port| {
        fields::fill(port, "name", "");
        fields::fill(port, "protocol", "TCP");
    });
}

/// Segments that a path must not contain.
const BAD_PATHS: &[&str] = &["//", "/./", "/../", "%2f", "%2F"];

pub(super) fn validate_ingress(value: &Value, is_new: bool, errors: &mut Errors) {
    let spec = &value["spec"];
    let class = "kubernetes.io/ingress.class";
    if let (true, Some(annotation), Some(name)) =
        (is_new, value["metadata"]["annotations"][class].as_str(), spec["ingressClassName"].as_str())
        && annotation != name
    {
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(format!("annotations.{class}"), annotation, detail));
    }
    if items(spec, "rules").is_empty() && spec["defaultBackend"].is_null() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid("spec", Value::Null, detail));
    }
    if spec["defaultBackend"].is_object() {
        backend(&spec["defaultBackend"], "spec.defaultBackend", errors);
    }
    for (index, rule) in items(spec, "rules").iter().enumerate() {
        let at = format!("spec.rules[{index}]");
        let host = text(rule, "host");
        if !host.is_empty() {
            if host.parse::<IpAddr>().is_ok() {
                errors.push(FieldError::invalid(format!("{at}.host"), host, "must be a DNS name, not an IP address"));
            } else {
                let name = host.strip_prefix("*.").unwrap_or(host);
                let wrong = is_dns1123_subdomain(name);
                each_wrong(host, &format!("{at}.host"), wrong, errors);
            }
        }
        if rule["http"].is_object() {
            let at = format!("{at}.http.paths");
            if items(rule, "http.paths").is_empty() {
                errors.push(FieldError::required(at.as_str(), ""));
            }
            for (index, path) in items(rule, "http.paths").iter().enumerate() {
                ingress_path(path, &format!("{at}[{index}]"), errors);
            }
        }
    }
    for (index, tls) in items(spec, "tls").iter().enumerate() {
        for (at, host) in items(tls, "hosts").iter().enumerate() {
            let host = host.as_str().unwrap_or_default();
            let name = host.strip_prefix("*.").unwrap_or(host);
            each_wrong(host, &format!("spec.tls[{index}].hosts[{at}]"), is_dns1123_subdomain(name), errors);
        }
    }
    if let Some(name) = spec["ingressClassName"].as_str() {
        each_wrong(name, "spec.ingressClassName", is_dns1123_subdomain(name), errors);
    }
}

fn ingress_path(item: &Value, at: &str, errors: &mut Errors) {
    let path = text(item, "path");
    let field = format!("{at}.path");
    match text(item, "pathType") {
        "" => errors.push(FieldError::required(format!("{at}.pathType"), "pathType must be specified")),
        "Exact" | "Prefix" => {
            if !path.starts_with('/') {
                errors.push(FieldError::invalid(field.as_str(), path, "must be an absolute path"));
            }
            for bad in BAD_PATHS.iter().filter(|bad| path.contains(**bad)) {
                errors.push(FieldError::invalid(field.as_str(), path, format!("must not contain '{bad}'")));
            }
            for bad in ["/..", "/."].iter().filter(|bad| path.ends_with(**bad)) {
                errors.push(FieldError::invalid(field.as_str(), path, format!("cannot end with '{bad}'")));
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !path.starts_with('/') {
                errors.push(FieldError::invalid(field, path, "must be an absolute path"));
            }
        }
        _ => one_of(item, at, "pathType", &["Exact", "ImplementationSpecific", "Prefix"], errors),
    }
    backend(&item["backend"], &format!("{at}.backend"), errors);
}

fn backend(backend: &Value, at: &str, errors: &mut Errors) {
    let service = &backend["service"];
    match (backend["resource"].is_object(), service.is_object()) {
        (true, true) => errors.push(FieldError::invalid(at, "", "cannot set both resource and service backends")),
        (false, false) => errors.push(FieldError::invalid(at, "", "resource or service backend is required")),
        (true, false) => {}
        (false, true) => {
            let name = text(service, "name");
            if name.is_empty() {
                errors.push(FieldError::required(format!("{at}.service.name"), ""));
            } else {
                each_wrong(name, &format!("{at}.service.name"), steersman_wire::is_dns1035_label(name), errors);
            }
            let (by_name, by_number) = (text(service, "port.name"), number(service, "port.number"));
            if !by_name.is_empty() && by_number != 0 {
                errors.push(FieldError::invalid(at, "", "cannot set both port name & port number"));
            } else if !by_name.is_empty() {
                fields::port_name(by_name, &format!("{at}.service.port.name"), errors);
            } else if by_number != 0 {
                port_number(by_number, &format!("{at}.service.port.number"), errors);
            } else {
                errors.push(FieldError::required(at, "port name or number is required"));
            }
        }
    }
}

pub(super) fn validate_network_policy(value: &Value, errors: &mut Errors) {
    meta::selector(get(value, "spec.podSelector"), "spec.podSelector", errors);
    for direction in ["ingress", "egress"] {
        for (index, rule) in items(value, &format!("spec.{direction}")).iter().enumerate() {
            for (at, item) in items(rule, "ports").iter().enumerate() {
                if !item["port"].is_null() {
                    port(&item["port"], &format!("spec.{direction}[{index}].ports[{at}].port"), errors);
                }
            }
        }
    }
    for (index, kind) in items(value, "spec.policyTypes").iter().enumerate() {
        let kind = kind.as_str().unwrap_or_default();
        if !matches!(kind, "Ingress" | "Egress") {
            let field = format!("spec.policyTypes[{index}]");
            errors.push(FieldError::not_supported(field, kind, &["Ingress", "Egress"]));
        }
    }
}
