//! The cells of Nodes, Events, configuration, policies and access.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::age;
use super::{NONE, Row, UNSET};

pub(super) fn cells(kind: &str, row: Row<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "APIService" => api_service(row),
        "Namespace" => vec![row.name(), row.text("/status/phase").into(), row.age()],
        "Node" => node(row),
        "Event" => event(row),
        "ConfigMap" => vec![row.name(), (row.count("/data") + row.count("/binaryData")).into(), row.age()],
        "Secret" => vec![row.name(), row.text("/type").into(), row.count("/data").into(), row.age()],
        "ServiceAccount" | "DeviceClass" | "ResourceClaimTemplate" => vec![row.name(), row.age()],
        "ComponentStatus" => component(row),
        "ResourceQuota" => quota(row),
        "RoleBinding" | "ClusterRoleBinding" => binding(row),
        "CertificateSigningRequest" => signing_request(row),
        "Lease" => vec![row.name(), row.text("/spec/holderIdentity").into(), row.age()],
        "PriorityClass" => {
            let (value, is_default) = (row.number("/value"), row.flag("/globalDefault", false));
            vec![row.name(), value.into(), is_default.into(), row.age(), row.text("/preemptionPolicy").into()]
        }
        "RuntimeClass" => vec![row.name(), row.text("/handler").into(), row.age()],
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            vec![row.name(), row.count("/webhooks").into(), row.age()]
        }
        "ValidatingAdmissionPolicy" => policy(row, "/spec/validations"),
        "MutatingAdmissionPolicy" => policy(row, "/spec/mutations"),
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => policy_binding(row),
        "FlowSchema" => flow_schema(row),
        "PriorityLevelConfiguration" => priority_level(row),
        "ResourceClaim" => vec![row.name(), claim_state(row).into(), row.age()],
        "ResourceSlice" => {
            let (node, driver) = (row.text("/spec/nodeName"), row.text("/spec/driver"));
            vec![row.name(), node.into(), driver.into(), row.text("/spec/pool/name").into(), row.age()]
        }
        _ => return None,
    })
}

fn api_service(row: Row<'_>) -> Vec<Value> {
    let service = if row.at("/spec/service").is_object() {
        format!("{}/{}", row.text("/spec/service/namespace"), row.text("/spec/service/name"))
    } else {
        "Local".to_owned()
    };
    let available = row.list("/status/conditions").iter().find(|condition| condition["type"] == "Available");
    let text = |field: &str| available.and_then(|condition| condition[field].as_str()).unwrap_or_default();
    let status = match (available.map(|_| text("status")), text("reason")) {
        (None, _) => "Unknown".to_owned(),
        (Some(status), reason) if status != "True" && !reason.is_empty() => format!("{status} ({reason})"),
        (Some(status), _) => status.to_owned(),
    };
    vec![row.name(), service.into(), status.into(), row.age()]
}

fn node(row: Row<'_>) -> Vec<Value> {
    const ROLE: &str = "node-role.kubernetes.io/";
    // Of conditions with the same type, the last one counts.
    let ready = row.list("/status/conditions").iter().rfind(|condition| condition["type"] == "Ready");
    let mut status = match ready.map(|condition| condition["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if row.flag("/spec/unschedulable", false) {
        status.push_str(",SchedulingDisabled");
    }
    let labels = row.at("/metadata/labels").as_object().into_iter().flatten();
    let roles: BTreeSet<&str> = labels
        .filter_map(|(name, value)| match name.strip_prefix(ROLE) {
            Some(role) => Some(role),
            None if name == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    let roles = roles.into_iter().collect::<Vec<_>>().join(",");
    let address = |kind: &str| {
        let found = row.list("/status/addresses").iter().find(|address| address["type"] == kind);
        Value::from(found.map_or(NONE, |address| address["address"].as_str().unwrap_or_default()))
    };
    let mut kernel = row.text_or("/status/nodeInfo/kernelVersion", "<unknown>").to_owned();
    let architecture = row.text("/status/nodeInfo/architecture");
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        row.name(),
        status.into(),
        if roles.is_empty() { NONE.into() } else { roles.into() },
        row.age(),
        row.text("/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP"),
        address("ExternalIP"),
        row.text_or("/status/nodeInfo/osImage", "<unknown>").into(),
        kernel.into(),
        row.text_or("/status/nodeInfo/containerRuntimeVersion", "<unknown>").into(),
    ]
}

fn event(row: Row<'_>) -> Vec<Value> {
    let since = |pointer: &str| age::parse(row.at(pointer)).map(|_| row.since(pointer));
    let first = since("/firstTimestamp").unwrap_or_else(|| row.since("/eventTime"));
    let mut last = since("/lastTimestamp").unwrap_or_else(|| first.clone());
    let mut count = row.number("/count");
    if row.at("/series").is_object() {
        last = row.since("/series/lastObservedTime");
        count = row.number("/series/count");
    } else if count == 0 {
        count = 1;
    }
    let kind = row.text("/involvedObject/kind").to_lowercase();
    let object = match row.text("/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = row.text_or("/source/component", row.text("/reportingComponent"));
    let source = match row.text_or("/source/host", row.text("/reportingInstance")) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    };
    vec![
        last,
        row.text("/type").into(),
        row.text("/reason").into(),
        object.into(),
        row.text("/involvedObject/fieldPath").into(),
        source.into(),
        row.text("/message").trim().into(),
        first,
        count.into(),
        row.name(),
    ]
}

fn component(row: Row<'_>) -> Vec<Value> {
    let healthy = row.list("/conditions").iter().find(|condition| condition["type"] == "Healthy");
    let text = |field: &str| Value::from(healthy.and_then(|condition| condition[field].as_str()).unwrap_or_default());
    let status = match healthy.map(|condition| condition["status"] == "True") {
        Some(true) => "Healthy",
        Some(false) => "Unhealthy",
        None => "Unknown",
    };
    vec![row.name(), status.into(), text("message"), text("error")]
}

fn quota(row: Row<'_>) -> Vec<Value> {
    let hard = row.at("/status/hard").as_object().into_iter().flatten();
    let (limits, requests): (Vec<_>, Vec<_>) = hard.partition(|(name, _)| name.starts_with("limits."));
    let column = |resources: Vec<(&String, &Value)>| {
        let used = |name: &str| row.object["status"]["used"][name].as_str().unwrap_or("0").to_owned();
        let texts =
            resources.iter().map(|(name, hard)| format!("{name}: {}/{}", used(name), hard.as_str().unwrap_or("0")));
        Value::from(texts.collect::<Vec<_>>().join(", "))
    };
    vec![row.name(), column(requests), column(limits), row.age()]
}

fn binding(row: Row<'_>) -> Vec<Value> {
    let role = format!("{}/{}", row.text("/roleRef/kind"), row.text("/roleRef/name"));
    let subjects = |kind: &str| {
        let found = row.list("/subjects").iter().filter(|subject| subject["kind"] == kind);
        let names = found.map(|subject| {
            let text = |field: &str| subject[field].as_str().unwrap_or_default();
            if kind == "ServiceAccount" {
                format!("{}/{}", text("namespace"), text("name"))
            } else {
                text("name").to_owned()
            }
        });
        Value::from(names.collect::<Vec<_>>().join(", "))
    };
    vec![row.name(), role.into(), row.age(), subjects("User"), subjects("Group"), subjects("ServiceAccount")]
}

fn signing_request(row: Row<'_>) -> Vec<Value> {
    let has = |kind: &str| row.list("/status/conditions").iter().any(|condition| condition["type"] == kind);
    let mut status = match () {
        () if has("Denied") => "Denied",
        () if has("Approved") => "Approved",
        () => "Pending",
    }
    .to_owned();
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !row.text("/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    let duration = row.at("/spec/expirationSeconds").as_i64();
    let duration = duration.map_or_else(|| NONE.to_owned(), |seconds| age::human(seconds.saturating_mul(1_000_000)));
    vec![
        row.name(),
        row.age(),
        row.text_or("/spec/signerName", NONE).into(),
        row.text("/spec/username").into(),
        duration.into(),
        status.into(),
    ]
}

fn policy(row: Row<'_>, rules: &str) -> Vec<Value> {
    let param = if row.at("/spec/paramKind").is_object() {
        format!("{}/{}", row.text("/spec/paramKind/apiVersion"), row.text("/spec/paramKind/kind"))
    } else {
        UNSET.to_owned()
    };
    vec![row.name(), row.count(rules).into(), param.into(), row.age()]
}

fn policy_binding(row: Row<'_>) -> Vec<Value> {
    let param = match (row.text("/spec/paramRef/name"), row.text("/spec/paramRef/namespace")) {
        ("", _) if row.at("/spec/paramRef/selector").is_object() => selector_in_go(row.at("/spec/paramRef/selector")),
        ("", _) => UNSET.to_owned(),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    };
    vec![row.name(), row.text("/spec/policyName").into(), param.into(), row.age()]
}

/// A label selector as Go prints its struct.
fn selector_in_go(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels: String = labels.map(|(name, value)| format!("{name}: {},", text(value))).collect();
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    let expressions: String = expressions
        .map(|one| {
            let values = one["values"].as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(" ");
            let (key, operator) = (text(&one["key"]), text(&one["operator"]));
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn flow_schema(row: Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text("/spec/priorityLevelConfiguration/name").into(),
        row.number("/spec/matchingPrecedence").into(),
        row.optional("/spec/distinguisherMethod/type", NONE).into(),
        row.age(),
        row.condition("Dangling").unwrap_or("?").into(),
    ]
}

fn priority_level(row: Row<'_>) -> Vec<Value> {
    let number = |holder: &str, field: &str| match row.at(holder) {
        Value::Object(limits) => limits.get(field).cloned().unwrap_or_else(|| 0.into()),
        _ => NONE.into(),
    };
    let (limited, queuing) = ("/spec/limited", "/spec/limited/limitResponse/queuing");
    vec![
        row.name(),
        row.text("/spec/type").into(),
        number(limited, "nominalConcurrencyShares"),
        number(queuing, "queues"),
        number(queuing, "handSize"),
        number(queuing, "queueLengthLimit"),
        row.age(),
    ]
}

fn claim_state(row: Row<'_>) -> String {
    let mut states = Vec::new();
    if row.is_deleting() {
        states.push("deleted");
    }
    if row.at("/status/allocation").is_object() {
        states.push("allocated");
        if row.count("/status/reservedFor") > 0 {
            states.push("reserved");
        }
    } else if !row.is_deleting() {
        states.push("pending");
    }
    states.join(",")
}
