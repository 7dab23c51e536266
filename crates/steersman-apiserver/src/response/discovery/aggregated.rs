//! Aggregated discovery: all groups with all their resources in one document, for clients that
//! request it.

use http::header::{CONTENT_TYPE, VARY};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::request::negotiation::{self, Conversion, Encoding};
use crate::response::{self, HandlerResult};
use crate::rules::kinds::{Group, Kind, Subresource};

const GROUP: &str = "apidiscovery.k8s.io";
const VERSION: &str = "v2";
const KIND: &str = "APIGroupDiscoveryList";

/// Whether the client requests this document. A client that also accepts the plain documents gets
/// this one.
fn is_aggregated(conversion: Option<&Conversion>) -> bool {
    conversion.is_some_and(|wanted| wanted.group == GROUP && wanted.version == VERSION && wanted.kind == KIND)
}

/// Whether the client requests this document.
pub(super) fn is_accepted(accept: Option<&str>) -> bool {
    negotiation::negotiate(accept, is_aggregated).is_some_and(|negotiated| negotiated.conversion.is_some())
}

/// The document for these groups, if the client asks for it.
pub(super) fn document(groups: &[&Group], accept: Option<&str>) -> Option<HandlerResult> {
    let negotiated =
        negotiation::negotiate(accept, is_aggregated).filter(|negotiated| negotiated.conversion.is_some())?;
    let document = json!({
        "kind": KIND,
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": {},
        "items": groups.iter().map(|one| group(one)).collect::<Vec<_>>(),
    });
    let mut response = response::json(StatusCode::OK, document.to_string());
    if negotiated.encoding == Encoding::Yaml {
        match response::in_yaml(response) {
            Ok(yaml) => response = yaml,
            Err(too_large) => return Some(Err(too_large)),
        }
    }
    let media_type = format!("{};g={GROUP};v={VERSION};as={KIND}", negotiated.encoding.media_type());
    if let Ok(media_type) = HeaderValue::from_str(&media_type) {
        response.headers_mut().insert(CONTENT_TYPE, media_type);
    }
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    Some(Ok(response))
}

fn group(group: &Group) -> Value {
    let versions = group.versions.iter().map(|version| {
        let resources: Vec<Value> = version.kinds.iter().map(|kind| resource(kind)).collect();
        json!({"version": version.version, "resources": resources, "freshness": "Current"})
    });
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions.collect::<Vec<_>>()})
}

fn resource(kind: &Kind) -> Value {
    let mut resource = json!({
        "resource": kind.plural,
        "responseKind": response_kind(kind, &kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    });
    for (name, values) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
        if !values.is_empty() {
            resource[name] = json!(values[..]);
        }
    }
    let mut subresources: Vec<Value> = kind.subresources.iter().map(|one| subresource(kind, one)).collect();
    if !kind.is_built_in() {
        // Those of custom resources are not sorted: the status comes before the scale.
        subresources.reverse();
    }
    if !subresources.is_empty() {
        resource["subresources"] = subresources.into();
    }
    resource
}

fn subresource(kind: &Kind, subresource: &Subresource) -> Value {
    let response_kind = match &subresource.of {
        Some((group, version)) => json!({"group": group, "version": version, "kind": subresource.kind}),
        None => response_kind(kind, &subresource.kind),
    };
    json!({"subresource": subresource.name, "responseKind": response_kind, "verbs": subresource.verbs})
}

/// Built-in kinds have the group and version they are listed under, and do not repeat them.
fn response_kind(kind: &Kind, name: &str) -> Value {
    let (group, version) = if kind.is_built_in() { ("", "") } else { (kind.group.as_str(), kind.version.as_str()) };
    json!({"group": group, "version": version, "kind": name})
}
