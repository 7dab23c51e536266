//! What the record of a server shows about the roles of an operator.

use std::fmt;

use steersman_apiserver::RecordedRequest;
use steersman_runtime::{Access, AccessReason, Manager, Verb};

/// What [`check`](super::check) found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RbacReport {
    /// The verbs of rules that no run needed, with the resource and the reason.
    pub unused: Vec<String>,
}

/// Why the roles of an operator are not right, or why that cannot be found out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RbacError {
    /// The run that failed. Empty for what all runs together show.
    pub run: &'static str,
    /// What is wrong, a line each.
    pub problems: Vec<String>,
}

impl RbacError {
    pub(super) fn in_run(run: &'static str, problems: Vec<String>) -> Self {
        Self { run, problems }
    }

    pub(super) fn unused(rules: Vec<String>) -> Self {
        let problems = rules.into_iter().map(|rule| format!("a rule was not used in any run: {rule}"));
        Self { run: "", problems: problems.collect() }
    }
}

impl fmt::Display for RbacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = if self.run.is_empty() { String::new() } else { format!(" (run {})", self.run) };
        write!(f, "the roles of the operator are not right{run}:")?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n- {problem}"))
    }
}

impl std::error::Error for RbacError {}

/// The resource of a request, as rules name it.
fn resource(request: &RecordedRequest) -> String {
    match request.subresource.as_str() {
        "" => request.resource.clone(),
        subresource => format!("{}/{subresource}", request.resource),
    }
}

/// The line that a user adds for a request that was forbidden.
pub(super) fn forbidden(manager: &Manager, request: &RecordedRequest) -> String {
    if !request.path.is_empty() {
        return format!("forbidden: {} {}: a rule of an operator is for resources only", request.verb, request.path);
    }
    let resource = resource(request);
    let group = if request.group.is_empty() { String::new() } else { format!(".{}", request.group) };
    let place = match request.namespace.as_str() {
        "" => "in all namespaces".to_owned(),
        namespace => format!("in namespace {namespace}"),
    };
    let plugin = match (request.admission, request.verb.as_str()) {
        (false, _) => "",
        (true, "delete") => {
            ", which OwnerReferencesPermissionEnforcement wants for a new owner of an object that exists"
        }
        (true, _) => {
            ", which OwnerReferencesPermissionEnforcement wants for an owner reference that blocks the deletion"
        }
    };
    let fix = match Verb::parse(&request.verb) {
        Some(verb) => manager.declaration_for(verb, &request.group, &resource),
        None => "no declaration has this verb: add an Access to the operator".to_owned(),
    };
    format!("forbidden: {} {resource}{group} {place}{plugin}: {fix}", request.verb)
}

/// The verbs of the declared access that none of these requests needed.
pub(super) fn unused(access: &[Access], seen: &[RecordedRequest]) -> Vec<String> {
    let mut unused = Vec::new();
    for access in access {
        let is_used = |verb: &Verb| {
            let is_admission = access.reason == AccessReason::OwnerReferences;
            seen.iter().any(|request| {
                (&*request.verb, &request.group) == (verb.as_str(), &access.resource.group)
                    && request.admission == is_admission
                    && resource(request) == access.resource.name
            })
        };
        let missing: Vec<&str> = access.verbs.iter().filter(|verb| !is_used(verb)).map(|verb| verb.as_str()).collect();
        // The framework needs all verbs of these, some of them rarely: its own tests show it.
        let is_one_feature =
            matches!(access.reason, AccessReason::Events | AccessReason::Lease | AccessReason::MetricsReview);
        let is_proved_elsewhere = matches!(access.reason, AccessReason::Lease | AccessReason::MetricsReview);
        if missing.is_empty() || is_proved_elsewhere || (is_one_feature && missing.len() < access.verbs.len()) {
            continue;
        }
        let by: Vec<&str> = access.by.iter().map(String::as_str).collect();
        let by = if by.is_empty() { String::new() } else { format!(", by {}", by.join(", ")) };
        let group =
            if access.resource.group.is_empty() { String::new() } else { format!(".{}", access.resource.group) };
        unused.push(format!("{} {}{group} ({}{by})", missing.join(", "), access.resource.name, access.reason));
    }
    unused
}
