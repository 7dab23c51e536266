//! The verbs of the generated roles, one by one.

use std::fmt;

use serde_json::{Value, json};
use steersman::Verb;
use steersman::manifests::operator::{Access, AccessReason, Operator, roles};
use steersman_testing::AuditEvent;

/// One verb on one resource, in one role.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grant {
    /// `None` for a ClusterRole.
    pub(crate) namespace: Option<String>,
    pub(crate) role: String,
    pub(crate) group: String,
    /// With the subresource behind a slash.
    pub(crate) resource: String,
    pub(crate) names: Vec<String>,
    pub(crate) verb: String,
    pub(crate) reason: AccessReason,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, group, resource, names, verb, reason, .. } = self;
        write!(f, "{verb} on {resource}.{group} {names:?} in {role} ({reason:?})")
    }
}

/// A request that the server refused.
pub(crate) struct Refused {
    pub(crate) line: String,
    group: String,
    resource: String,
    verb: String,
}

impl Refused {
    /// `None` for a request that was not refused.
    pub(crate) fn of(event: &AuditEvent) -> Option<Self> {
        let object = &event.object_ref;
        let slash = if object.subresource.is_empty() { "" } else { "/" };
        let resource = format!("{}{slash}{}", object.resource, object.subresource);
        let (group, verb) = (object.api_group.clone(), event.verb.clone());
        let line = format!("{verb} {resource}.{group} {}/{}", object.namespace, object.name);
        (event.response_status.code == 403).then_some(Self { line, group, resource, verb })
    }
}

impl Grant {
    /// Whether the request is refused without this grant.
    pub(crate) fn is_refused_as(&self, request: &Refused) -> bool {
        if self.reason == AccessReason::OwnerReferences {
            // The plugin asks for this right when an object gets the owner.
            return request.resource == "configmaps" && ["create", "update"].contains(&&*request.verb);
        }
        (&request.group, &request.resource, &request.verb) == (&self.group, &self.resource, &self.verb)
    }

    /// A question to the server whether a user has it.
    pub(crate) fn review(&self, user: &str) -> Value {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        json!({"spec": {"user": user, "resourceAttributes": {
            "verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource,
            "namespace": self.namespace.as_deref().unwrap_or_default(),
            "name": self.names.first().map(String::as_str).unwrap_or_default(),
        }}})
    }

    fn rule(&self) -> Value {
        let mut rule = json!({"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb]});
        if !self.names.is_empty() {
            rule["resourceNames"] = json!(self.names);
        }
        rule
    }
}

/// The rules of a role that has these grants.
pub(crate) fn rules<'a>(grants: impl IntoIterator<Item = &'a Grant>) -> Vec<Value> {
    grants.into_iter().map(Grant::rule).collect()
}

/// All verbs of the generated roles.
pub(crate) fn of(operator: &Operator) -> Vec<Grant> {
    let mut all = Vec::new();
    for role in roles(operator).iter().filter(|object| !object["rules"].is_null()) {
        let texts = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap_or_default() };
        for rule in role["rules"].as_array().unwrap() {
            for (group, resource) in texts(&rule["apiGroups"])
                .iter()
                .flat_map(|group| texts(&rule["resources"]).into_iter().map(move |resource| (group.clone(), resource)))
            {
                let names = texts(&rule["resourceNames"]);
                for verb in texts(&rule["verbs"]) {
                    let reason = reason(operator, &group, &resource, &names, &verb);
                    all.push(Grant {
                        namespace: role["metadata"]["namespace"].as_str().map(str::to_owned),
                        role: role["metadata"]["name"].as_str().unwrap().to_owned(),
                        group: group.clone(),
                        resource: resource.clone(),
                        names: names.clone(),
                        verb,
                        reason,
                    });
                }
            }
        }
    }
    all
}

fn reason(operator: &Operator, group: &str, resource: &str, names: &[String], verb: &str) -> AccessReason {
    let derived = operator.lease.as_deref().map(Access::of_lease).into_iter().flatten();
    let mut all = operator.access.iter().cloned().chain(derived).chain(Access::of_metrics_reviews());
    let found = all.find(|access| {
        (access.resource.group.as_str(), access.resource.name.as_str()) == (group, resource)
            && access.names.iter().eq(names)
            && access.verbs.iter().any(|other| Verb::as_str(*other) == verb)
    });
    found.unwrap_or_else(|| panic!("no reason for {verb} on {resource}.{group}")).reason
}
