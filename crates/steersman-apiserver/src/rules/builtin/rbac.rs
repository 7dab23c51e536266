//! Roles and role bindings.

use serde_json::{Value, json};
use steersman_wire::{is_dns1123_subdomain, is_path_segment_name};

use super::fields::{self, Default, each, each_wrong, fill_all, items, text};
use super::meta;
use crate::response::status::{Errors, FieldError};
use crate::rules::kinds::Kind;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn fill(kind: &Kind, value: &mut Value) {
    if !kind.kind.ends_with("Binding") {
        fields::fill(value, "rules", Value::Null);
        return;
    }
    let role = [
        ("roleRef.apiGroup", Default::Text(GROUP)),
        ("roleRef.kind", Default::Text("")),
        ("roleRef.name", Default::Text("")),
    ];
    fill_all(value, &role);
    each(value, "subjects", |subject| {
        if matches!(text(subject, "kind"), "User" | "Group") {
            fields::fill(subject, "apiGroup", GROUP);
        }
    });
}

pub(super) fn validate(kind: &Kind, value: &Value, errors: &mut Errors) {
    match kind.kind.as_str() {
        "Role" | "ClusterRole" => rules(value, kind.namespaced, errors),
        "RoleBinding" => binding(value, &["Role", "ClusterRole"], errors),
        "ClusterRoleBinding" => binding(value, &["ClusterRole"], errors),
        _ => {}
    }
}

fn rules(value: &Value, namespaced: bool, errors: &mut Errors) {
    for (index, rule) in items(value, "rules").iter().enumerate() {
        let at = format!("rules[{index}]");
        let mut require =
            |field: &str, detail: &str| errors.push(FieldError::required(format!("{at}.{field}"), detail));
        if items(rule, "verbs").is_empty() {
            require("verbs", "verbs must contain at least one value");
        }
        if items(rule, "nonResourceURLs").is_empty() {
            if items(rule, "apiGroups").is_empty() {
                require("apiGroups", "resource rules must supply at least one api group");
            }
            if items(rule, "resources").is_empty() {
                require("resources", "resource rules must supply at least one resource");
            }
            continue;
        }
        let mut refuse = |detail: &str| {
            let urls = rule["nonResourceURLs"].clone();
            errors.push(FieldError::invalid(format!("{at}.nonResourceURLs"), urls, detail));
        };
        if namespaced {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|field| !items(rule, field).is_empty()) {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
    }
    if value["aggregationRule"].is_object() {
        let at = "aggregationRule.clusterRoleSelectors";
        let selectors = items(value, at);
        if selectors.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(FieldError::required(at, detail));
        }
        for (index, selector) in selectors.iter().enumerate() {
            meta::selector(selector, &format!("{at}[{index}]"), errors);
        }
    }
}

fn binding(value: &Value, kinds: &[&str], errors: &mut Errors) {
    let role = &value["roleRef"];
    fields::one_of(role, "roleRef", "apiGroup", &[GROUP], errors);
    fields::one_of(role, "roleRef", "kind", kinds, errors);
    match text(role, "name") {
        "" => errors.push(FieldError::required("roleRef.name", "")),
        name => each_wrong(name, "roleRef.name", is_path_segment_name(name), errors),
    }
    for (index, subject) in items(value, "subjects").iter().enumerate() {
        let at = format!("subjects[{index}]");
        let name = text(subject, "name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{at}.name"), ""));
        }
        match text(subject, "kind") {
            "ServiceAccount" => {
                if !name.is_empty() {
                    each_wrong(name, &format!("{at}.name"), is_dns1123_subdomain(name), errors);
                }
                if !text(subject, "apiGroup").is_empty() {
                    fields::one_of(subject, &at, "apiGroup", &[""], errors);
                }
                // The default of a RoleBinding is its own namespace.
                if kinds.len() == 1 && text(subject, "namespace").is_empty() {
                    errors.push(FieldError::required(format!("{at}.namespace"), ""));
                }
            }
            "User" | "Group" => fields::one_of(subject, &at, "apiGroup", &[GROUP], errors),
            other => {
                let supported = ["ServiceAccount", "User", "Group"];
                errors.push(FieldError::not_supported(format!("{at}.kind"), other, &supported));
            }
        }
    }
}

/// The role of a binding is immutable.
pub(super) fn keep_role(value: &Value, old: &Value, errors: &mut Errors) {
    let role = &value["roleRef"];
    if *role != old["roleRef"] {
        let of_server = json!({"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]});
        errors.push(FieldError::invalid("roleRef", of_server, "cannot change roleRef"));
    }
}
