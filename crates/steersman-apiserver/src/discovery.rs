//! Discovery: which groups, versions and resources are served.

use http::StatusCode;
use serde_json::{Value, json};

use crate::answer::{self, Answer};
use crate::custom::Customs;
use crate::kinds::{Group, GroupVersion, Kind, api_version, builtin};
use crate::request::Route;
use crate::status::Status;

/// Answers a request for one of the discovery documents.
pub(crate) fn answer(route: &Route, customs: &Customs) -> Answer {
    let groups: Vec<Group> = builtin().groups.iter().cloned().chain(customs.groups()).collect();
    let find = |name: &str| groups.iter().find(|group| group.name == name);
    let document = match route {
        Route::Versions => json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        }),
        Route::Groups => {
            let groups: Vec<Value> = groups.iter().filter(|group| !group.name.is_empty()).map(group).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        Route::Group(name) => {
            let found = find(name).filter(|group| !group.name.is_empty()).ok_or_else(Status::no_such_path)?;
            let mut document = group(found);
            document["kind"] = "APIGroup".into();
            document["apiVersion"] = "v1".into();
            document
        }
        Route::Resources { group, version } => {
            let Some(found) = find(group) else {
                return Ok(answer::text(StatusCode::NOT_FOUND, "404 page not found\n"));
            };
            let found =
                found.versions.iter().find(|known| known.version == *version).ok_or_else(Status::no_such_path)?;
            resources(&api_version(group, version), found)
        }
        Route::Resource(_) | Route::Other(_) => return Err(Status::no_such_path()),
    };
    Ok(answer::json(StatusCode::OK, document.to_string()))
}

fn group(group: &Group) -> Value {
    let version = |version: &str| json!({"groupVersion": api_version(&group.name, version), "version": version});
    let versions: Vec<Value> = group.versions.iter().map(|known| version(&known.version)).collect();
    json!({"name": group.name, "versions": versions, "preferredVersion": version(&group.preferred)})
}

fn resources(group_version: &str, version: &GroupVersion) -> Value {
    let mut resources: Vec<Value> = version.kinds.iter().flat_map(|kind| with_subresources(kind)).collect();
    resources.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    let mut document = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    if group_version != "v1" {
        document["apiVersion"] = "v1".into();
    }
    document
}

fn with_subresources(kind: &Kind) -> Vec<Value> {
    let mut resource = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.verbs,
    });
    for (name, values) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
        if !values.is_empty() {
            resource[name] = json!(values);
        }
    }
    if let Some(hash) = &kind.storage_version_hash {
        resource["storageVersionHash"] = hash.as_str().into();
    }
    let subresources = kind.subresources.iter().map(|subresource| {
        let mut document = json!({
            "name": format!("{}/{}", kind.plural, subresource.name),
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": subresource.kind,
            "verbs": subresource.verbs,
        });
        if let Some((group, version)) = &subresource.of {
            if !group.is_empty() {
                document["group"] = group.as_str().into();
            }
            document["version"] = version.as_str().into();
        }
        document
    });
    std::iter::once(resource).chain(subresources).collect()
}
