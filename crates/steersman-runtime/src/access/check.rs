//! Compares a request with the declared access.

use std::borrow::Cow;

use steersman_client::WriteAction;
use steersman_manifests::operator::{Access, AccessReason, Verb, WatchScope};

/// Reviews of oneself, which every user may create.
const SELF_REVIEWS: [(&str, &str); 3] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
];

/// A request. Fields that do not apply are empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) verb: Verb,
    pub(super) group: &'a str,
    pub(super) resource: &'a str,
    pub(super) subresource: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// Whether a request is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Permitted,
    /// For other namespaces only.
    Elsewhere,
    Missing,
}

impl<'a> Asked<'a> {
    /// `None` for what needs no declaration.
    pub(super) fn of(write: &'a WriteAction) -> Option<Self> {
        if SELF_REVIEWS.contains(&(&*write.group, &*write.resource)) {
            return None;
        }
        Some(Self {
            verb: Verb::parse(write.verb)?,
            group: &write.group,
            resource: &write.resource,
            subresource: &write.subresource,
            namespace: &write.namespace,
            name: &write.name,
        })
    }

    /// The resource with its subresource, as rules name it.
    pub(super) fn combined(&self) -> Cow<'a, str> {
        match self.subresource {
            "" => Cow::Borrowed(self.resource),
            subresource => Cow::Owned(format!("{}/{subresource}", self.resource)),
        }
    }
}

pub(super) fn find(all: &[Access], default_namespaces: &[String], asked: &Asked<'_>) -> Found {
    let resource = asked.combined();
    let mut found = Found::Missing;
    for access in all {
        let is_resource = access.resource.group == asked.group && access.resource.name == resource;
        let is_named = access.names.is_empty() || access.names.contains(asked.name);
        if !is_resource || !is_named || !access.verbs.contains(&asked.verb) {
            continue;
        }
        let is_within = match &access.scope {
            _ if !access.resource.is_namespaced => true,
            None => default_namespaces.is_empty() || default_namespaces.iter().any(|name| name == asked.namespace),
            Some(WatchScope::Cluster) => true,
            Some(WatchScope::Namespaces(names)) => names.iter().any(|name| name == asked.namespace),
        };
        if is_within {
            return Found::Permitted;
        }
        // The Events of leader election are no declaration of the program.
        if access.reason != AccessReason::Lease {
            found = Found::Elsewhere;
        }
    }
    found
}

/// The call that declares an access to `(group, plural, subresource)`. `call` is the expression of
/// a kind that the manager knows.
pub(super) fn declaration(verb: Verb, (group, plural, subresource): (&str, &str, &str), call: Option<&str>) -> String {
    if (group, plural) == ("events.k8s.io", "events") && verb.is_write() {
        return "add .records_events() to the controller".to_owned();
    }
    let word = format!("Verb::{verb:?}");
    let method = match subresource {
        "" if verb.is_write() => format!(".writes([{word}])"),
        "" => format!(".live([{word}])"),
        "status" if verb.is_write() => format!(".writes_status([{word}])"),
        _ => format!(".writes_subresource({subresource:?}, [{word}])"),
    };
    match call {
        Some(call) => format!("add {method} to {call}"),
        None => format!("add .uses(kind::<…>(){method}) to the controller, with the type of {plural}"),
    }
}
