//! SubjectAccessReview and its relatives: whether a user may do something.

use http::StatusCode;
use serde_json::{Map, Value, json};
use steersman_wire::{FieldSelector, LabelSelector, is_qualified_name, is_valid_label_value};

use super::Review;
use crate::access::action::{Action, Resource};
use crate::request::RequestContext;
use crate::request::identity::Identity;
use crate::request::write_options::{field_validation, is_dry_run};
use crate::response::status::{Errors, FieldError, Named, Status};
use crate::response::warnings::Warnings;
use crate::response::{self, HandlerResult};
use crate::server::Shared;

/// The members of the attributes of a path, as the real server prints them.
const PATH_ATTRIBUTES: [(&str, &str); 2] = [("Path", "path"), ("Verb", "verb")];

impl Shared {
    pub(super) fn review_subject_access(&self, review: Review, request: &RequestContext<'_>) -> HandlerResult {
        let RequestContext { identity, kind, target, query, .. } = *request;
        is_dry_run(query, "CreateOptions")?;
        let mut decoded = self.decode(kind, request, field_validation(query, "CreateOptions")?)?;
        super::settle(&mut decoded.value, kind, &target.namespace)?;
        let value = &mut decoded.value;
        let errors = validate(review, value);
        if !errors.is_empty() {
            // The kind is not known any more where the real server finds this.
            return Err(Status::invalid(Named { group: "authorization.k8s.io", resource: "" }, "", &errors));
        }
        self.set_managed(request, kind, value);
        let spec = &value["spec"];
        let user = match review {
            Review::OwnAccess => identity.clone(),
            _ => user(spec),
        };
        let decision = self.review_access(&user, &action(spec));
        let mut status = Map::new();
        status.insert("allowed".to_owned(), decision.allowed.into());
        if !decision.reason.is_empty() {
            status.insert("reason".to_owned(), decision.reason.into());
        }
        let faults = selector_faults(&spec["resourceAttributes"]);
        if !faults.is_empty() {
            status.insert("evaluationError".to_owned(), faults.join("; ").into());
        }
        value["status"] = status.into();
        Ok(response::json(StatusCode::CREATED, value.to_string()).warning(&decoded.warnings))
    }
}

/// The user that a review names.
fn user(spec: &Value) -> Identity {
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = spec["extra"].as_object().into_iter().flatten();
    let extra = extra.map(|(name, values)| (name.clone(), texts(values))).collect();
    Identity::exact(text("user"), text("uid"), texts(&spec["groups"]), extra)
}

/// The action that a review asks about.
fn action(spec: &Value) -> Action {
    let of = |attributes: &Value, field: &str| attributes[field].as_str().unwrap_or_default().to_owned();
    let attributes = &spec["resourceAttributes"];
    if attributes.is_null() {
        let attributes = &spec["nonResourceAttributes"];
        return Action::on_path(of(attributes, "verb"), of(attributes, "path"));
    }
    let resource = Resource {
        group: of(attributes, "group"),
        resource: of(attributes, "resource"),
        subresource: of(attributes, "subresource"),
        namespace: of(attributes, "namespace"),
        name: of(attributes, "name"),
    };
    Action::on_resource(of(attributes, "verb"), resource)
}

fn validate(review: Review, value: &Value) -> Errors {
    let mut errors = Errors::default();
    let spec = &value["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if !resource.is_null() && !path.is_null() {
        let why = "cannot be specified in combination with resourceAttributes";
        errors.push(FieldError::invalid_literal("spec.nonResourceAttributes", printed_path(path), why));
    }
    if resource.is_null() && path.is_null() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid("spec.resourceAttributes", Value::Null, why));
    }
    let has_groups = spec["groups"].as_array().is_some_and(|groups| !groups.is_empty());
    let is_of_other = !matches!(review, Review::OwnAccess);
    if is_of_other && spec["user"].as_str().unwrap_or_default().is_empty() && !has_groups {
        errors.push(FieldError::invalid("spec.user", "", "at least one of user or group must be specified"));
    }
    validate_selectors(resource, &mut errors);
    let is_here = matches!(review, Review::AccessHere);
    let metadata = value["metadata"].as_object();
    let is_extra = |(name, value): (&String, &Value)| {
        !(name == "managedFields" || (is_here && name == "namespace") || value.is_null())
    };
    if metadata.is_some_and(|metadata| metadata.iter().any(is_extra)) {
        let why = if is_here { "must be empty except for namespace" } else { "must be empty" };
        errors.push(FieldError::invalid("metadata", value["metadata"].clone(), why));
    }
    if is_here {
        let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default();
        let of_resource = resource["namespace"].as_str().unwrap_or_default();
        if !resource.is_null() && of_resource != namespace {
            let why = "must match metadata.namespace";
            errors.push(FieldError::invalid("spec.resourceAttributes.namespace", of_resource, why));
        }
        if !path.is_null() {
            let why = "disallowed on this kind of request";
            errors.push(FieldError::invalid_literal("spec.nonResourceAttributes", printed_path(path), why));
        }
    }
    errors
}

/// The attributes of a path in Go's names and order.
fn printed_path(attributes: &Value) -> String {
    let member = |(shown, field): (&str, &str)| {
        let text = attributes[field].as_str().unwrap_or_default();
        format!("\"{shown}\":{}", Value::from(text))
    };
    format!("{{{}}}", PATH_ATTRIBUTES.map(member).join(","))
}

fn validate_selectors(attributes: &Value, errors: &mut Errors) {
    for field in ["fieldSelector", "labelSelector"] {
        let selector = &attributes[field];
        if selector.is_null() {
            continue;
        }
        let at = format!("spec.resourceAttributes.{field}");
        let raw = selector["rawSelector"].as_str().unwrap_or_default();
        let requirements = selector["requirements"].as_array().map_or(&[][..], Vec::as_slice);
        if !raw.is_empty() && !requirements.is_empty() {
            let why = "may not specified at the same time as requirements";
            errors.push(FieldError::invalid(format!("{at}.rawSelector"), raw, why));
        }
        if raw.is_empty() && requirements.is_empty() {
            let why = format!("when {at} is specified, requirements or rawSelector is required");
            errors.push(FieldError::required(format!("{at}.requirements"), why));
        }
        for (index, requirement) in requirements.iter().enumerate() {
            let at = format!("{at}.requirements[{index}]");
            validate_requirement(requirement, field == "labelSelector", &at, errors);
        }
    }
}

/// Unlike those of stored objects, these requirements may have operators that are not known.
fn validate_requirement(requirement: &Value, is_label: bool, at: &str, errors: &mut Errors) {
    let key = requirement["key"].as_str().unwrap_or_default();
    if !is_label && key.is_empty() {
        errors.push(FieldError::required(format!("{at}.key"), "must be specified"));
    }
    let values = requirement["values"].as_array().map_or(&[][..], Vec::as_slice);
    match requirement["operator"].as_str().unwrap_or_default() {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(format!("{at}.values"), why));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(format!("{at}.values"), why));
        }
        _ => {}
    }
    if is_label {
        let wrong = is_qualified_name(key);
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid(format!("{at}.key"), key, why)));
        for (index, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            let field = format!("{at}.values[{index}]");
            let wrong = is_valid_label_value(value);
            errors.extend(wrong.into_iter().map(|why| FieldError::invalid(&*field, value, why)));
        }
    }
}

/// The selectors that are not understood. Rules of roles do not depend on selectors, so that the
/// others are not used either.
fn selector_faults(attributes: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for field in ["fieldSelector", "labelSelector"] {
        let selector = &attributes[field];
        let requirements = selector["requirements"].as_array().map_or(&[][..], Vec::as_slice);
        let understood = requirements.iter().filter(|requirement| match field {
            "fieldSelector" => is_field_requirement(requirement),
            _ => LabelSelector::from_json(&json!({"matchExpressions": [requirement]})).is_ok(),
        });
        let understood = understood.count();
        let raw = selector["rawSelector"].as_str().unwrap_or_default();
        let is_raw_bad = requirements.is_empty()
            && match field {
                "fieldSelector" => FieldSelector::parse(raw).is_err(),
                _ => LabelSelector::parse(raw).is_err(),
            };
        if is_raw_bad || understood < requirements.len() {
            let how = if understood > 0 { "partially ignored" } else { "ignored" };
            faults.push(format!("spec.resourceAttributes.{field} {how} due to parse error"));
        }
    }
    faults
}

fn is_field_requirement(requirement: &Value) -> bool {
    let is_known = matches!(requirement["operator"].as_str(), Some("In" | "NotIn"));
    is_known && requirement["values"].as_array().is_some_and(|values| values.len() == 1)
}
