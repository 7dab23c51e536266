//! A custom resource with everything that is hard to bring into a CRD.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::num::NonZeroU32;

use k8s_openapi::api::core::v1::{PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steersman::{CustomResource, KubeSchema};

/// Tortures the schema pass.
#[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, PartialEq, Serialize)]
#[kube(group = "torture.example.com", version = "v1", kind = "Torture", namespaced, status = "TortureStatus")]
#[kube(shortname = "tt", category = "all", derive = "PartialEq", selectable = ".spec.name")]
#[kube(printcolumn = r#"{"name": "Name", "type": "string", "jsonPath": ".spec.name"}"#)]
#[kube(
    scale = r#"{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}"#
)]
#[x_kube(validation = Rule::new("self.name != 'forbidden'").message("name must not be forbidden"))]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-steersman-at-most-one-of" = ["namespace", "poolName"]))]
pub(crate) struct TortureSpec {
    /// A name that stays.
    #[schemars(length(min = 1, max = 40), regex(pattern = "^[a-z]+$"), extend("x-steersman-immutable" = true))]
    pub(crate) name: String,
    /// A word that CEL reserves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-steersman-immutable" = true))]
    pub(crate) namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-steersman-immutable" = "once-set"))]
    pub(crate) pool_name: Option<String>,
    pub(crate) replicas: u16,
    pub(crate) counts: Counts,
    /// How addresses are assigned.
    pub(crate) addressing: Addressing,
    pub(crate) backend: Backend,
    pub(crate) strict: Vec<Strict>,
    pub(crate) action: Action,
    pub(crate) adjacent: Adjacent,
    #[serde(default)]
    pub(crate) level: Level,
    pub(crate) levels: BTreeSet<Level>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) optional_level: Option<Level>,
    /// Written as null.
    pub(crate) null_level: Option<Level>,
    pub(crate) rules: BTreeSet<Pair>,
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub(crate) listeners: Vec<Listener>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) sparse: BTreeMap<String, Option<i32>>,
    pub(crate) holes: Vec<Option<String>>,
    pub(crate) by_number: BTreeMap<u16, String>,
    pub(crate) any: Value,
    pub(crate) objects: HashMap<String, Value>,
    pub(crate) raw: RawExtension,
    /// A whole object of any kind.
    #[schemars(extend("x-kubernetes-embedded-resource" = true))]
    pub(crate) embedded: Value,
    pub(crate) address: IpAddr,
    pub(crate) pair: (i32, i32),
    pub(crate) fixed: [u8; 3],
    pub(crate) letter: char,
    pub(crate) port: IntOrString,
    pub(crate) port_or_name: PortOrName,
    pub(crate) memory: Quantity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_surge: Option<IntOrString>,
    pub(crate) since: Time,
    pub(crate) selector: LabelSelector,
    pub(crate) resources: ResourceRequirements,
    /// A pod, in few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-steersman-description-max" = 60))]
    pub(crate) template: Option<PodTemplateSpec>,
    #[schemars(extend("x-steersman-allow-float" = true))]
    pub(crate) ratio: f64,
    pub(crate) elapsed: std::time::Duration,
    #[serde(default)]
    pub(crate) defaults: Defaults,
    #[serde(flatten)]
    pub(crate) common: Common,
    #[serde(flatten)]
    pub(crate) choice: Choice,
    #[deprecated]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) old: Option<String>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub(crate) struct Counts {
    pub(crate) unsigned8: u8,
    pub(crate) signed16: i16,
    pub(crate) unsigned32: u32,
    pub(crate) signed32: i32,
    pub(crate) unsigned64: u64,
    pub(crate) size: usize,
    pub(crate) nonzero: NonZeroU32,
    #[schemars(range(min = 10, max = 20))]
    pub(crate) bounded: u64,
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 100, "multipleOf" = 5))]
    pub(crate) exclusive: i32,
    #[schemars(length(min = 1, max = 4))]
    pub(crate) bytes: Vec<u8>,
}

/// Internally tagged, with fields that variants share, need or leave out.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(crate) enum Addressing {
    /// Addresses are given.
    Static { cidr: String, gateway: Option<String> },
    /// Addresses come from a pool.
    Pool(PoolRef),
    /// No addresses.
    None,
}

#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[x_kube(validation = Rule::new("self.pool.size() > 1").message("pool must have a name"))]
pub(crate) struct PoolRef {
    pub(crate) pool: String,
    pub(crate) gateway: Option<String>,
    #[serde(default)]
    pub(crate) size: u8,
}

/// Internally tagged, with the same field in different types of restrictions, and closed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", deny_unknown_fields)]
pub(crate) enum Strict {
    Short {
        #[schemars(length(max = 3))]
        text: String,
    },
    Long {
        #[schemars(length(min = 4))]
        text: String,
        note: Option<String>,
    },
}

/// Externally tagged.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Backend {
    /// Over HTTP.
    Http { port: u16 },
    /// A command.
    Exec(Vec<String>),
}

/// Untagged.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Action {
    Move { to: String, speed: i32 },
    Stay { reason: String },
}

/// Adjacently tagged, with contents of different shapes.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "t", content = "c")]
pub(crate) enum Adjacent {
    One { left: i32 },
    Two { left: i32, right: i32 },
    Empty,
}

/// Integers or strings.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum PortOrName {
    Port(#[schemars(range(min = 1))] u16),
    Name(#[schemars(length(min = 1))] String),
}

/// How much.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) enum Level {
    /// Not much.
    #[default]
    Low,
    High,
}

#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Pair {
    pub(crate) from: String,
    pub(crate) to: String,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub(crate) struct Listener {
    pub(crate) name: String,
    /// Fixed within its listener.
    #[schemars(extend("x-steersman-immutable" = true))]
    pub(crate) port: u16,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct Defaults {
    pub(crate) retries: u32,
    pub(crate) name: Option<String>,
    pub(crate) nested: Inner,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub(crate) struct Inner {
    pub(crate) value: i64,
    pub(crate) note: Option<String>,
}

impl Default for Inner {
    fn default() -> Self {
        Self { value: 7, note: None }
    }
}

#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Common {
    pub(crate) owner: String,
    pub(crate) paused: bool,
}

/// A flattened enum.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Choice {
    Apple { weight: i32 },
    Pear { color: String },
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TortureStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) selector: Option<String>,
}
