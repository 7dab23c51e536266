//! Services: their addresses and ports, defaults and checks.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use serde_json::{Value, json};
use steersman_wire::{is_dns1123_label, is_dns1123_subdomain};

use super::fields::{
    self, Default, copy, each, each_wrong, fill_all, fill_zero, get, is_unset, items, number, one_of, port,
    port_number, put, remove, text,
};
use super::meta;
use crate::response::status::{Errors, FieldError};
use crate::rules::kinds::Kind;

/// Allocates addresses and ports, each to one Service at a time. An allocation lasts until it is
/// released.
pub(crate) trait Addresses {
    /// Allocates the wanted address, or any free one. The error states why that is not possible.
    fn cluster_ip(&mut self, wanted: Option<&str>) -> Result<String, String>;
    /// Allocates the wanted port, or any free one. The error states why that is not possible.
    fn node_port(&mut self, wanted: Option<i64>) -> Result<i64, String>;
    fn release_cluster_ip(&mut self, address: &str);
    fn release_node_port(&mut self, port: i64);
}

/// Allocates the addresses that a validated Service lacks. `old` is the Service before the update:
/// its addresses are not allocated again.
pub(crate) fn allocate(
    kind: &Kind,
    value: &mut Value,
    old: Option<&Value>,
    addresses: &mut dyn Addresses,
) -> Result<(), Errors> {
    if !is_service(kind) || text(value, "spec.type") == "ExternalName" {
        return Ok(());
    }
    let mut taken = Taken::default();
    let held_ip = old.map(|old| text(old, "spec.clusterIP")).unwrap_or_default();
    let wanted = text(value, "spec.clusterIP").to_owned();
    if wanted != "None" && (wanted.is_empty() || wanted != held_ip) {
        let given = addresses.cluster_ip((!wanted.is_empty()).then_some(wanted.as_str())).map_err(|why| {
            let detail = format!("failed to allocate IP {wanted}: {why}");
            let error = FieldError::invalid("spec.clusterIPs", json!([wanted]), detail);
            [error].into_iter().collect::<Errors>()
        })?;
        taken.address = Some(given.clone());
        put(value, "spec.clusterIPs", json!([given]));
        put(value, "spec.clusterIP", given);
    }
    let held: Vec<i64> = old.map(node_ports).unwrap_or_default();
    let mut errors = Errors::default();
    if needs_node_ports(value) {
        let mut index = 0;
        // Ports of different protocols may share a node port.
        let mut given: HashMap<i64, HashSet<String>> = HashMap::new();
        each(value, "spec.ports", |port| {
            let wanted = number(port, "nodePort");
            let protocol = text(port, "protocol").to_owned();
            let shared = given.get(&wanted).is_some_and(|others| others.iter().any(|other| *other != protocol));
            if wanted == 0 || !(held.binary_search(&wanted).is_ok() || shared) {
                match addresses.node_port((wanted != 0).then_some(wanted)) {
                    Ok(number) => {
                        taken.ports.push(number);
                        put(port, "nodePort", number);
                    }
                    Err(why) => {
                        let field = format!("spec.ports[{index}].nodePort");
                        errors.push(FieldError::invalid(field, wanted, why));
                    }
                }
            }
            given.entry(number(port, "nodePort")).or_default().insert(protocol);
            index += 1;
        });
    }
    if needs_health_port(value) {
        let wanted = number(value, "spec.healthCheckNodePort");
        if wanted == 0 || held.binary_search(&wanted).is_err() {
            match addresses.node_port((wanted != 0).then_some(wanted)) {
                Ok(number) => {
                    taken.ports.push(number);
                    put(value, "spec.healthCheckNodePort", number);
                }
                Err(why) => errors.push(FieldError::invalid("spec.healthCheckNodePort", wanted, why)),
            }
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    // A refused Service keeps no allocation.
    taken.address.iter().for_each(|address| addresses.release_cluster_ip(address));
    taken.ports.iter().for_each(|port| addresses.release_node_port(*port));
    Err(errors)
}

/// The allocations of one Service.
#[derive(Default)]
struct Taken {
    address: Option<String>,
    ports: Vec<i64>,
}

/// Releases the allocations of a Service, except for those that its update keeps.
pub(crate) fn release(kind: &Kind, old: &Value, new: Option<&Value>, addresses: &mut dyn Addresses) {
    if !is_service(kind) {
        return;
    }
    let address = text(old, "spec.clusterIP");
    if !matches!(address, "" | "None") && new.is_none_or(|new| text(new, "spec.clusterIP") != address) {
        addresses.release_cluster_ip(address);
    }
    let kept = new.map(node_ports).unwrap_or_default();
    let mut released: Vec<i64> = node_ports(old).into_iter().filter(|port| kept.binary_search(port).is_err()).collect();
    released.dedup();
    for port in released {
        addresses.release_node_port(port);
    }
}

fn is_service(kind: &Kind) -> bool {
    kind.group.is_empty() && kind.kind == "Service"
}

fn node_ports(value: &Value) -> Vec<i64> {
    let ports = items(value, "spec.ports").iter().map(|port| number(port, "nodePort"));
    let mut ports: Vec<i64> =
        ports.chain([number(value, "spec.healthCheckNodePort")]).filter(|port| *port != 0).collect();
    ports.sort_unstable();
    ports
}

fn needs_node_ports(value: &Value) -> bool {
    match text(value, "spec.type") {
        "NodePort" => true,
        "LoadBalancer" => get(value, "spec.allocateLoadBalancerNodePorts") != false,
        _ => false,
    }
}

fn needs_health_port(value: &Value) -> bool {
    text(value, "spec.type") == "LoadBalancer" && text(value, "spec.externalTrafficPolicy") == "Local"
}

fn is_external(value: &Value) -> bool {
    matches!(text(value, "spec.type"), "NodePort" | "LoadBalancer")
        || text(value, "spec.type") == "ClusterIP" && !items(value, "spec.externalIPs").is_empty()
}

const SERVICE: &[(&str, Default)] = &[
    ("spec.sessionAffinity", Default::Text("None")),
    ("spec.type", Default::Text("ClusterIP")),
    ("status.loadBalancer", Default::Object),
];

pub(super) fn fill_service(value: &mut Value) {
    fill_all(value, SERVICE);
    match text(value, "spec.sessionAffinity") {
        "None" => remove(value, "spec.sessionAffinityConfig"),
        "ClientIP" => fields::fill(value, "spec.sessionAffinityConfig.clientIP.timeoutSeconds", 10800),
        _ => {}
    }
    each(value, "spec.ports", |port| {
        fields::fill(port, "protocol", "TCP");
        let number = number(port, "port");
        fields::fill(port, "targetPort", number);
        fill_zero(port, "targetPort", number);
    });
    if is_external(value) {
        fields::fill(value, "spec.externalTrafficPolicy", "Cluster");
    }
    if matches!(text(value, "spec.type"), "NodePort" | "LoadBalancer" | "ClusterIP") {
        fields::fill(value, "spec.internalTrafficPolicy", "Cluster");
    }
    if text(value, "spec.type") == "LoadBalancer" {
        fields::fill(value, "spec.allocateLoadBalancerNodePorts", true);
        each(value, "status.loadBalancer.ingress", |ingress| {
            if !text(ingress, "ip").is_empty() {
                fields::fill(ingress, "ipMode", "VIP");
            }
        });
    }
}

/// Makes redundant fields agree, keeps the addresses of the old Service, and drops fields that the
/// type of the Service does not use. The addresses of this server are IPv4 only.
pub(super) fn settle(value: &mut Value, old: Option<&Value>) {
    let external_name = text(value, "spec.type") == "ExternalName";
    if let Some(old) = old {
        keep_addresses(value, old);
    }
    let (one, list) = (text(value, "spec.clusterIP").to_owned(), items(value, "spec.clusterIPs").to_vec());
    let before = old.map(|old| text(old, "spec.clusterIP")).unwrap_or_default();
    if old.is_some() && one != before && list.first().is_some_and(|first| first == before) {
        // A client that changes one of the two fields and does not know the other means both.
        if one.is_empty() {
            remove(value, "spec.clusterIPs");
        } else {
            put(value, "spec.clusterIPs", json!([one]));
        }
    } else if !one.is_empty() && list.is_empty() {
        put(value, "spec.clusterIPs", json!([one]));
    } else if one.is_empty() && old.is_none() && !list.is_empty() {
        put(value, "spec.clusterIP", list[0].clone());
    }
    if external_name {
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            remove(value, &format!("spec.{field}"));
        }
        if old.is_some_and(|old| text(old, "spec.type") != "ExternalName") {
            for field in ["clusterIP", "clusterIPs", "internalTrafficPolicy"] {
                remove(value, &format!("spec.{field}"));
            }
        }
        return;
    }
    let free_headless = text(value, "spec.clusterIP") == "None"
        && get(value, "spec.selector").as_object().is_none_or(serde_json::Map::is_empty);
    if is_unset(get(value, "spec.ipFamilyPolicy")) {
        put(value, "spec.ipFamilyPolicy", if free_headless { "RequireDualStack" } else { "SingleStack" });
    }
    if is_unset(get(value, "spec.ipFamilies")) {
        let both = free_headless && text(value, "spec.ipFamilyPolicy") != "SingleStack";
        put(value, "spec.ipFamilies", if both { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) });
    }
    if old.is_some() {
        if !needs_health_port(value) {
            remove(value, "spec.healthCheckNodePort");
        }
        if !is_external(value) {
            remove(value, "spec.externalTrafficPolicy");
        }
        if text(value, "spec.type") != "LoadBalancer" {
            remove(value, "spec.allocateLoadBalancerNodePorts");
            remove(value, "spec.loadBalancerClass");
        }
    }
}

/// An update that omits allocated fields keeps them.
fn keep_addresses(value: &mut Value, old: &Value) {
    let has_ip = |value: &Value| text(value, "spec.type") != "ExternalName";
    if has_ip(value) && has_ip(old) {
        if text(value, "spec.clusterIP").is_empty() {
            copy(value, old, "spec.clusterIP");
        }
        if items(value, "spec.clusterIPs").is_empty() && text(value, "spec.clusterIP") == text(old, "spec.clusterIP") {
            copy(value, old, "spec.clusterIPs");
        }
    }
    if needs_node_ports(value) && needs_node_ports(old) {
        let mut used: HashSet<i64> = node_ports(value).into_iter().collect();
        let mut of_name: HashMap<&str, i64> = HashMap::new();
        for port in items(old, "spec.ports") {
            of_name.entry(text(port, "name")).or_insert_with(|| number(port, "nodePort"));
        }
        each(value, "spec.ports", |port| {
            // A port is identified by its name.
            let before = of_name.get(text(port, "name")).copied();
            if let Some(before) = before.filter(|before| number(port, "nodePort") == 0 && !used.contains(before)) {
                put(port, "nodePort", before);
                used.insert(before);
            }
        });
    }
    if !needs_node_ports(value) && needs_node_ports(old) && text(value, "spec.type") == "ClusterIP" {
        let before = node_ports(old);
        each(value, "spec.ports", |port| {
            if before.binary_search(&number(port, "nodePort")).is_ok() {
                remove(port, "nodePort");
            }
        });
    }
    if needs_health_port(value) && needs_health_port(old) && number(value, "spec.healthCheckNodePort") == 0 {
        copy(value, old, "spec.healthCheckNodePort");
    }
}

const NO_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

pub(super) fn validate(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let kind = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None";
    if items(spec, "ports").is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    match kind {
        "NodePort" | "LoadBalancer" if headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid("spec.clusterIPs[0]", "None", detail));
        }
        "ExternalName" => {
            if !items(spec, "clusterIPs").is_empty() {
                let detail = "may not be set for ExternalName services";
                errors.push(FieldError::forbidden("spec.clusterIPs", detail));
            }
            let name = text(spec, "externalName").trim_end_matches('.');
            if name.is_empty() {
                errors.push(FieldError::required("spec.externalName", ""));
            } else {
                each_wrong(name, "spec.externalName", is_dns1123_subdomain(name), errors);
            }
        }
        _ => {}
    }
    ports(spec, errors);
    meta::labels(&spec["selector"], "spec.selector", errors);
    one_of(spec, "spec", "sessionAffinity", &["ClientIP", "None"], errors);
    if text(spec, "sessionAffinity") == "ClientIP" {
        let seconds = number(spec, "sessionAffinityConfig.clientIP.timeoutSeconds");
        if !(1..=86400).contains(&seconds) {
            let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
            errors.push(FieldError::invalid(field, seconds, "must be greater than 0 and less than 86400"));
        }
    }
    addresses(spec, errors);
    for (index, address) in items(spec, "externalIPs").iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        let field = format!("spec.externalIPs[{index}]");
        match address.parse::<IpAddr>() {
            Err(_) => errors.push(FieldError::invalid(field, address, NO_IP)),
            Ok(ip) if ip.is_loopback() => {
                let detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
                errors.push(FieldError::invalid(field, address, detail));
            }
            Ok(ip) if ip.is_unspecified() => {
                let detail = format!("may not be unspecified ({address})");
                errors.push(FieldError::invalid(field, address, detail));
            }
            Ok(_) => {}
        }
    }
    one_of(spec, "spec", "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], errors);
    if kind == "ClusterIP" {
        for (index, port) in items(spec, "ports").iter().enumerate() {
            if number(port, "nodePort") != 0 {
                let detail = "may not be used when `type` is 'ClusterIP'";
                errors.push(FieldError::forbidden(format!("spec.ports[{index}].nodePort"), detail));
            }
        }
    }
    if kind != "LoadBalancer" && !items(spec, "loadBalancerSourceRanges").is_empty() {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden("spec.LoadBalancerSourceRanges", detail));
    }
    if kind != "LoadBalancer" && !spec["loadBalancerClass"].is_null() {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden("spec.loadBalancerClass", detail));
    }
    policies(value, errors);
}

fn policies(value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    let external = text(spec, "externalTrafficPolicy");
    if is_external(value) {
        one_of(spec, "spec", "externalTrafficPolicy", &["Cluster", "Local"], errors);
    } else if !external.is_empty() {
        let detail = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid("spec.externalTrafficPolicy", external, detail));
    }
    let health = number(spec, "healthCheckNodePort");
    if health != 0 && !needs_health_port(value) {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid("spec.healthCheckNodePort", health, detail));
    }
    let internal = text(spec, "internalTrafficPolicy");
    if text(spec, "type") == "ClusterIP" || text(spec, "type") != "ExternalName" && !internal.is_empty() {
        one_of(spec, "spec", "internalTrafficPolicy", &["Cluster", "Local"], errors);
    }
}

fn addresses(spec: &Value, errors: &mut Errors) {
    if text(spec, "type") == "ExternalName" {
        return;
    }
    let (one, list) = (text(spec, "clusterIP"), items(spec, "clusterIPs"));
    if list.first().is_some_and(|first| *first != one) {
        let detail = "first value must match `clusterIP`";
        errors.push(FieldError::invalid("spec.clusterIPs", spec["clusterIPs"].clone(), detail));
    }
    let families = ["IPv4", "IPv6"];
    for (index, family) in items(spec, "ipFamilies").iter().enumerate() {
        let field = format!("spec.ipFamilies[{index}]");
        let family = family.as_str().unwrap_or_default();
        if !families.contains(&family) {
            errors.push(FieldError::not_supported(field, family, &families));
        } else if family == "IPv6" && list.first().is_none_or(|first| first != "None") && list.is_empty() {
            errors.push(FieldError::invalid(field, family, "not configured on this cluster"));
        }
    }
    let policy = text(spec, "ipFamilyPolicy");
    one_of(spec, "spec", "ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"], errors);
    let free_headless = one == "None" && spec["selector"].as_object().is_none_or(serde_json::Map::is_empty);
    if policy == "RequireDualStack" && !free_headless {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid("spec.ipFamilyPolicy", policy, detail));
    }
    for (index, address) in list.iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        let field = format!("spec.clusterIPs[{index}]");
        let expected = items(spec, "ipFamilies").get(index).and_then(Value::as_str).unwrap_or_default();
        match address.parse::<IpAddr>() {
            _ if address == "None" && index == 0 => {}
            Err(_) => errors.push(FieldError::invalid(field, address, NO_IP)),
            Ok(ip) if families.contains(&expected) && ip.is_ipv4() != (expected == "IPv4") => {
                let detail = format!("expected an {expected} value as indicated by `ipFamilies[{index}]`");
                errors.push(FieldError::invalid(field, address, detail));
            }
            Ok(_) => {}
        }
    }
}

fn ports(spec: &Value, errors: &mut Errors) {
    let all = items(spec, "ports");
    let mut names = HashSet::new();
    for (index, item) in all.iter().enumerate() {
        let at = format!("spec.ports[{index}]");
        let name = text(item, "name");
        if name.is_empty() {
            if all.len() > 1 {
                errors.push(FieldError::required(format!("{at}.name"), ""));
            }
        } else {
            each_wrong(name, &format!("{at}.name"), is_dns1123_label(name), errors);
            if !names.insert(name) {
                errors.push(FieldError::duplicate(format!("{at}.name"), name));
            }
        }
        port_number(number(item, "port"), &format!("{at}.port"), errors);
        one_of(item, &at, "protocol", &["SCTP", "TCP", "UDP"], errors);
        port(&item["targetPort"], &format!("{at}.targetPort"), errors);
    }
    let mut seen = HashSet::new();
    for (index, port) in all.iter().enumerate() {
        let (protocol, number) = (text(port, "protocol"), number(port, "port"));
        if !seen.insert((protocol, number)) {
            let of_server = json!({
                "Name": "",
                "Protocol": protocol,
                "AppProtocol": null,
                "Port": number,
                "TargetPort": 0,
                "NodePort": 0,
            });
            errors.push(FieldError::duplicate(format!("spec.ports[{index}]"), of_server));
        }
    }
}

pub(super) fn validate_update(value: &Value, old: &Value, errors: &mut Errors) {
    let (now, before) = (items(value, "spec.clusterIPs"), items(old, "spec.clusterIPs"));
    let named = |value: &Value| text(value, "spec.type") == "ExternalName";
    if !named(value) && !named(old) && !now.is_empty() && !before.is_empty() && text(value, "spec.clusterIP") == now[0]
    {
        for (index, _) in before.iter().enumerate().filter(|(index, before)| now.get(*index) != Some(before)) {
            let field = format!("spec.clusterIPs[{index}]");
            errors.push(FieldError::invalid(field, now.to_vec(), "may not change once set"));
        }
    }
    validate(value, errors);
}
