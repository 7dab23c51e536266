//! Several versions of one kind.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steersman::CustomResource;
use steersman_manifests::crd::CrdBuilder;

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Thing", root = "ThingV1", namespaced, shortname = "th")]
pub(crate) struct SpecV1 {
    size: i32,
}

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v2", kind = "Thing", root = "ThingV2", namespaced, shortname = "tg")]
pub(crate) struct SpecV2 {
    width: i32,
}

/// Two of the versions, without a storage version.
pub(crate) fn two_versions() -> CrdBuilder {
    CrdBuilder::new().version::<ThingV1>().version::<ThingV2>()
}
