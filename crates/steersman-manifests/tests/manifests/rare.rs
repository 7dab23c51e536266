//! Types that are rare, and their definition.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steersman::CustomResource;
use steersman_manifests::crd::{crd, manifest};

/// Types that are rare, or that schemars describes in an unusual way.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Rare")]
struct RareSpec {
    unit: Unit,
    only: Only,
    hashed: HashSet<String>,
    maps: BTreeMap<String, BTreeMap<String, bool>>,
    boxed: Box<Cow<'static, str>>,
    #[schemars(extend("nullable" = true))]
    nullable: Option<i64>,
    optional: Option<Outer>,
    open: Open,
    repeated: Vec<Outer>,
    outcome: Result<u8, String>,
    marked: Marked,
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    atomic: Only,
    #[schemars(range(min = 0.5, max = 10.0), extend("x-steersman-allow-float" = true))]
    float: f32,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
struct Unit {}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(tag = "type")]
enum Only {
    One { a: Option<String> },
}

/// Internally tagged around an untagged enum.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(tag = "type")]
enum Outer {
    Nested(Nested),
    Plain,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(untagged)]
enum Nested {
    A { a: i32 },
    B { b: i32 },
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
struct Open {
    known: String,
    #[serde(flatten)]
    maybe: Option<Known>,
    #[serde(flatten)]
    unknown: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
struct Known {
    other: i32,
}

#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(extend("x-steersman-exactly-one-of" = [["a", "b-c"]], "x-steersman-at-least-one-of" = ["a", "d"]))]
struct Marked {
    a: Option<i32>,
    #[serde(rename = "b-c")]
    b: Option<i32>,
    d: Option<i32>,
}

pub(crate) fn rare() -> Value {
    manifest(&crd::<Rare>().unwrap()).unwrap()
}
