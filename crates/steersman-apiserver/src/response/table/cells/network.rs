//! The cells of Services and of what is around them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{NONE, Row, UNSET, few};

pub(super) fn cells(kind: &str, row: Row<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "Service" => service(row),
        "Ingress" => ingress(row),
        "IngressClass" => ingress_class(row),
        "Endpoints" => vec![row.name(), endpoints(row).into(), row.age()],
        "EndpointSlice" => endpoint_slice(row),
        "NetworkPolicy" => vec![row.name(), row.selector_cell("/spec/podSelector"), row.age()],
        "ServiceCIDR" => vec![row.name(), row.joined("/spec/cidrs").into(), row.age()],
        "IPAddress" => vec![row.name(), parent(row).into(), row.age()],
        _ => return None,
    })
}

fn service(row: Row<'_>) -> Vec<Value> {
    let port = |port: &Value| {
        let (number, protocol) =
            (port["port"].as_i64().unwrap_or_default(), port["protocol"].as_str().unwrap_or_default());
        match port["nodePort"].as_i64().unwrap_or_default() {
            0 => format!("{number}/{protocol}"),
            node => format!("{number}:{node}/{protocol}"),
        }
    };
    let ports = row.list("/spec/ports").iter().map(port).collect::<Vec<_>>().join(",");
    vec![
        row.name(),
        row.text("/spec/type").into(),
        row.optional("/spec/clusterIPs/0", NONE).into(),
        external_address(row).into(),
        if ports.is_empty() { NONE.into() } else { ports.into() },
        row.age(),
        row.labels("/spec/selector"),
    ]
}

fn external_address(row: Row<'_>) -> String {
    let given = row.joined("/spec/externalIPs");
    let or_none = |text: String, none: &str| if text.is_empty() { none.to_owned() } else { text };
    match row.text("/spec/type") {
        "ClusterIP" | "NodePort" => or_none(given, NONE),
        "LoadBalancer" => {
            let both = [balancer(row), given].into_iter().filter(|text| !text.is_empty());
            or_none(both.collect::<Vec<_>>().join(","), "<pending>")
        }
        "ExternalName" => row.text("/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses of a load balancer.
fn balancer(row: Row<'_>) -> String {
    let address = |ingress: &Value| {
        let text = |field: &str| ingress[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        text("ip").or_else(|| text("hostname"))
    };
    let addresses: BTreeSet<String> = row.list("/status/loadBalancer/ingress").iter().filter_map(address).collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn ingress(row: Row<'_>) -> Vec<Value> {
    const SHOWN: usize = 3;
    let rules = row.list("/spec/rules");
    let named = |rule: &Value| rule["host"].as_str().filter(|host| !host.is_empty()).map(str::to_owned);
    let hosts: Vec<(usize, String)> =
        rules.iter().enumerate().filter_map(|(index, rule)| Some((index, named(rule)?))).take(SHOWN).collect();
    let shown = hosts.iter().map(|(_, host)| host.as_str()).collect::<Vec<_>>().join(",");
    let has_more = hosts.len() == SHOWN && hosts.last().is_some_and(|(index, _)| index + 1 < rules.len());
    let hosts = match shown {
        shown if has_more => format!("{shown} + {} more...", rules.len() - SHOWN),
        shown if shown.is_empty() => "*".to_owned(),
        shown => shown,
    };
    let ports = if row.list("/spec/tls").is_empty() { "80" } else { "80, 443" };
    let class = row.optional("/spec/ingressClassName", NONE);
    vec![row.name(), class.into(), hosts.into(), balancer(row).into(), ports.into(), row.age()]
}

fn ingress_class(row: Row<'_>) -> Vec<Value> {
    let is_default = row.annotation("ingressclass.kubernetes.io/is-default-class") == Some("true");
    let mut name = row.text("/metadata/name").to_owned();
    if is_default {
        name.push_str(" (default)");
    }
    let parameters = if row.at("/spec/parameters").is_object() {
        let group = row.at("/spec/parameters/apiGroup").as_str().map(|group| format!(".{group}")).unwrap_or_default();
        format!("{}{group}/{}", row.text("/spec/parameters/kind"), row.text("/spec/parameters/name"))
    } else {
        NONE.to_owned()
    };
    vec![name.into(), row.text("/spec/controller").into(), parameters.into(), row.age()]
}

fn endpoints(row: Row<'_>) -> String {
    let subsets = row.list("/subsets");
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let mut shown = Vec::new();
    let mut total = 0;
    for subset in subsets {
        let addresses = subset["addresses"].as_array().map_or(&[][..], Vec::as_slice);
        let ports = subset["ports"].as_array().map_or(&[][..], Vec::as_slice);
        let address = |address: &Value| address["ip"].as_str().unwrap_or_default().to_owned();
        if ports.is_empty() {
            total += addresses.len();
            shown.extend(addresses.iter().take(3).map(address));
        }
        for port in ports {
            total += addresses.len();
            let port = port["port"].as_i64().unwrap_or_default();
            shown.extend(addresses.iter().take(3).map(address).map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            }));
        }
    }
    few(&shown, total, "")
}

fn endpoint_slice(row: Row<'_>) -> Vec<Value> {
    let port = |port: &Value| match (port["port"].as_i64(), port["name"].as_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    };
    let ports: Vec<String> = row.list("/ports").iter().map(port).collect();
    let addresses =
        row.list("/endpoints").iter().flat_map(|endpoint| endpoint["addresses"].as_array().into_iter().flatten());
    let addresses: Vec<String> = addresses.filter_map(Value::as_str).map(str::to_owned).collect();
    vec![
        row.name(),
        row.text("/addressType").into(),
        few(&ports, ports.len(), UNSET).into(),
        few(&addresses, addresses.len(), UNSET).into(),
        row.age(),
    ]
}

/// What an address belongs to.
fn parent(row: Row<'_>) -> String {
    if !row.at("/spec/parentRef").is_object() {
        return NONE.to_owned();
    }
    let (group, resource) = (row.text("/spec/parentRef/group"), row.text("/spec/parentRef/resource"));
    let mut parent = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }.to_lowercase();
    let namespace = row.text("/spec/parentRef/namespace");
    if !namespace.is_empty() {
        parent.push('/');
        parent.push_str(namespace);
    }
    format!("{parent}/{}", row.text("/spec/parentRef/name"))
}
