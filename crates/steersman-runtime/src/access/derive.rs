//! From declarations to rules.

use steersman_manifests::operator::{Access, AccessReason, Verb};

use super::{Use, What, scope_of};

/// The accesses of these declarations and `others`, ordered by resource and reason. Equal ones of
/// several controllers are one.
pub(super) fn derive(uses: &[Use], others: &[Access], default_namespaces: &[String]) -> Vec<Access> {
    let mut all: Vec<Access> = Vec::new();
    let declared = uses.iter().flat_map(|used| accesses(used, default_namespaces));
    for access in declared.chain(others.iter().cloned()) {
        let is_same = |other: &&mut Access| {
            let but_for_controllers = |access: &Access| Access { by: Default::default(), ..access.clone() };
            but_for_controllers(other) == but_for_controllers(&access)
        };
        match all.iter_mut().find(is_same) {
            Some(same) => same.by.extend(access.by),
            None => all.push(access),
        }
    }
    all.sort_by(|a, b| {
        let order = |access: &Access| (access.resource.clone(), access.reason.clone());
        order(a).cmp(&order(b)).then_with(|| a.cmp(b))
    });
    all
}

/// What one declaration needs.
fn accesses(used: &Use, default_namespaces: &[String]) -> Vec<Access> {
    let access = |subresource: Option<&str>, verbs: &[Verb], reason: AccessReason| {
        let mut access = Access::new(used.target.resource(subresource), verbs.iter().copied(), reason).by(&used.by);
        let elsewhere = used.target.is_namespaced && used.target.namespaces != default_namespaces;
        access.scope = elsewhere.then(|| scope_of(&used.target.namespaces));
        access
    };
    match &used.what {
        What::Requests(requests) => {
            let verbs: Vec<Verb> = requests.verbs.iter().copied().collect();
            if verbs.is_empty() {
                return Vec::new();
            }
            // Rules for the others cannot have names.
            let has_names = |verb: &Verb| matches!(verb, Verb::Get | Verb::Update | Verb::Patch | Verb::Delete);
            let name = requests.name.as_ref().filter(|_| verbs.iter().all(has_names));
            vec![access(requests.subresource.as_deref(), &verbs, requests.reason.clone()).named(name)]
        }
        What::Cache { streaming: true, name } => vec![
            access(None, &[Verb::Watch], AccessReason::Watch).named(name),
            access(None, &[Verb::List], AccessReason::ListFallback).named(name),
        ],
        What::Cache { streaming: false, name } => {
            vec![access(None, &[Verb::List, Verb::Watch], AccessReason::Watch).named(name)]
        }
    }
}
