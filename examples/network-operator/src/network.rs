use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steersman::{CustomResource, KubeSchema};

/// The desired network in Neutron, with one subnet.
// The API server checks it by the patterns and rules below. The rules are CEL, which the embedded
// server does not evaluate, and so the operator checks the same again (`Desired::new`).
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Deserialize, Serialize)]
#[kube(group = "samplecrd.k8s.io", version = "v1", kind = "Network", namespaced, status = "NetworkStatus")]
#[kube(shortname = "net", doc = "A network in OpenStack Neutron, with one subnet.", derive = "PartialEq")]
// Groups under k8s.io are the Kubernetes project's: others need this. With a domain of your own,
// leave it out.
#[kube(annotation("api-approved.kubernetes.io", "unapproved, experimental-only"))]
#[kube(printcolumn = r#"{"name": "CIDR", "type": "string", "jsonPath": ".spec.cidr"}"#)]
#[kube(printcolumn = r#"{"name": "Gateway", "type": "string", "jsonPath": ".spec.gateway"}"#)]
#[kube(printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#)]
#[kube(
    printcolumn = r#"{"name": "Reason", "type": "string", "priority": 1, "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"}"#
)]
#[kube(printcolumn = r#"{"name": "Network", "type": "string", "priority": 1, "jsonPath": ".status.networkId"}"#)]
#[kube(printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#)]
#[x_kube(
    validation = Rule::new("!isCIDR(self.cidr) || !isIP(self.gateway) || cidr(self.cidr).containsIP(self.gateway)")
        .message("gateway must be an address within cidr"),
)]
#[serde(rename_all = "camelCase")]
pub struct NetworkSpec {
    /// The addresses of the subnet, such as 10.10.0.0/24. Another one means another subnet.
    #[schemars(regex(pattern = r"^[0-9a-fA-F:.]+/[0-9]{1,3}$"), length(max = 43), extend("format" = "cidr"))]
    #[x_kube(validation = Rule::new("isCIDR(self)").message("must be a CIDR, such as 10.10.0.0/24"))]
    pub cidr: String,

    /// The address of the gateway, within the CIDR.
    #[schemars(regex(pattern = r"^[0-9a-fA-F:.]+$"), length(max = 39))]
    #[x_kube(validation = Rule::new("isIP(self)").message("must be an IP address"))]
    pub gateway: String,

    /// The largest packet, in bytes. Neutron chooses if it is not given, and keeps what it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 68, max = 65535))]
    pub mtu: Option<i32>,

    /// Whether all projects may use the network. Neutron lets only administrators say yes.
    #[serde(default)]
    pub shared: bool,

    /// Whether addresses are given out by DHCP.
    #[serde(default = "yes")]
    pub dhcp: bool,

    /// The DNS servers that DHCP announces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), inner(regex(pattern = r"^[0-9a-fA-F:.]+$"), length(max = 39)))]
    #[x_kube(validation = Rule::new("self.all(server, isIP(server))").message("must be IP addresses"))]
    pub dns_servers: Vec<String>,
}

fn yes() -> bool {
    true
}

impl NetworkSpec {
    /// A network with these addresses, and everything else as is usual.
    pub fn new(cidr: impl Into<String>, gateway: impl Into<String>) -> Self {
        let (cidr, gateway) = (cidr.into(), gateway.into());
        Self { cidr, gateway, mtu: None, shared: false, dhcp: true, dns_servers: Vec::new() }
    }
}

/// The observed state of a Network.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkStatus {
    /// In one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The id of the network in Neutron. By it, concurrent operators agree which network to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_id: Option<String>,
    /// The id of the subnet in Neutron.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<String>,
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready` is true when Neutron matches the spec; otherwise reason and message explain why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// A status in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Deserialize, Serialize)]
pub enum Phase {
    /// On its way.
    Pending,
    /// As in the spec.
    Ready,
    /// Something is wrong: see the condition.
    Failed,
    /// On its way out.
    Deleting,
}
