//! Discovery: which groups, versions and resources are served.

mod aggregated;

use http::StatusCode;
use serde_json::{Value, json};

use crate::request::Route;
use crate::request::negotiation::{self, MEDIA_TYPES};
use crate::response::status::Status;
use crate::response::{self, HandlerResult};
use crate::rules::custom::Customs;
use crate::rules::kinds::{Group, GroupVersion, Kind, api_version, builtin};

/// The paths of health checks.
pub(crate) const HEALTH: [&str; 6] = ["/healthz", "/healthz/ping", "/livez", "/livez/ping", "/readyz", "/readyz/ping"];

/// The memory that a document of all groups may take.
const LISTED_MAX: usize = 512 << 20;

fn groups(customs: &Customs) -> Vec<Group> {
    builtin().groups.iter().cloned().chain(customs.groups()).collect()
}

/// All paths of the server.
pub(crate) fn paths(customs: &Customs) -> HandlerResult {
    let mut paths: Vec<String> = ["/api", "/apis", "/apis/", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"]
        .iter()
        .chain(&HEALTH)
        .map(|path| (*path).to_owned())
        .collect();
    for group in groups(customs) {
        let root = if group.name.is_empty() { "/api".to_owned() } else { format!("/apis/{}", group.name) };
        paths.extend(group.versions.iter().map(|version| format!("{root}/{}", version.version)));
        if !group.name.is_empty() {
            paths.push(root);
        }
    }
    paths.sort();
    response::indented(response::json(StatusCode::OK, json!({ "paths": paths }).to_string()))
}

/// All groups in one document, if that is served and the client requests it.
pub(crate) fn aggregated(route: &Route, customs: &Customs, accept: Option<&str>) -> Option<HandlerResult> {
    let core = match route {
        Route::Versions => true,
        Route::Groups => false,
        _ => return None,
    };
    if !core && aggregated::is_accepted(accept) && customs.listed() > LISTED_MAX {
        return Some(Err(Status::too_large(format!(
            "Request entity too large: the kinds of all definitions take more than {LISTED_MAX} bytes of memory in one \
             document; ask for the documents of single groups"
        ))));
    }
    let groups = groups(customs);
    let wanted: Vec<&Group> = groups.iter().filter(|group| group.name.is_empty() == core).collect();
    aggregated::document(&wanted, accept)
}

/// Refuses a media type that does not exist there. The documents about groups leave this to the
/// aggregated check.
fn check_accept(route: &Route, accept: Option<&str>) -> Result<(), Status> {
    if !matches!(route, Route::Groups | Route::Group(_)) {
        negotiation::check_media_type(accept, MEDIA_TYPES)?;
    }
    let negotiated = negotiation::negotiate(accept, |conversion| conversion.is_none());
    negotiated.map(drop).ok_or_else(|| Status::not_acceptable(MEDIA_TYPES))
}

/// Handles a request for one of the discovery documents.
pub(crate) fn document(route: &Route, customs: &Customs, accept: Option<&str>) -> HandlerResult {
    let groups = groups(customs);
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
                return Ok(response::text(StatusCode::NOT_FOUND, "404 page not found\n"));
            };
            let found =
                found.versions.iter().find(|known| known.version == *version).ok_or_else(Status::no_such_path)?;
            resources(&api_version(group, version), found)
        }
        Route::Root | Route::Resource(_) | Route::Other(_) => return Err(Status::no_such_path()),
    };
    check_accept(route, accept)?;
    Ok(response::json(StatusCode::OK, document.to_string()))
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
            resource[name] = json!(values[..]);
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
