//! Several versions of one kind.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steersman::CustomResource;
use steersman_manifests::crd::{CrdBuilder, Error};

use crate::things::{ThingV1, two_versions};

#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "example.com", version = "v3", kind = "Thing", root = "ThingV3", storage = false)]
struct SpecV3 {
    height: i32,
}

fn reason(builder: CrdBuilder) -> String {
    match builder.build() {
        Err(error @ Error::Versions { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_version_is_stored() {
    let both = two_versions;
    let definition = both().storage("v2").not_served("v1").build().unwrap();
    let versions: Vec<_> = definition
        .spec
        .versions
        .iter()
        .map(|version| (version.name.as_str(), version.storage, version.served))
        .collect();
    assert_eq!(versions, [("v1", false, false), ("v2", true, true)]);
    assert_eq!(definition.spec.names.short_names, Some(vec!["th".to_owned(), "tg".to_owned()]));

    let one = CrdBuilder::new().version::<ThingV3>().build().unwrap();
    assert!(one.spec.versions[0].storage, "the only version is the storage version");

    for (builder, expected) in [
        (both(), "v1, v2 are: name it with CrdBuilder::storage"),
        (both().storage("v4"), "there is no version v4: the versions are v1, v2"),
        (both().not_served("v4"), "there is no version v4"),
        (
            CrdBuilder::new().version::<ThingV1>().version::<ThingV1>(),
            "v1 is described by manifests::things::ThingV1 and by another",
        ),
        (
            CrdBuilder::new().version::<ThingV1>().version::<ThingV3>(),
            "the scope is Namespaced in one type and Cluster in another",
        ),
        (CrdBuilder::new(), "add one with CrdBuilder::version"),
    ] {
        let reason = reason(builder);
        assert!(reason.contains(expected), "{reason}");
    }
}
