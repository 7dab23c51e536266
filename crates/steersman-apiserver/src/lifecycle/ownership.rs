//! Validation of owner references and finalizers.

use serde_json::{Map, Value, json};

use crate::request::delete_options::ORPHAN;
use crate::response::status::{Errors, FieldError};
use crate::rules::kinds::Kind;
use crate::store::object::FOREGROUND;

/// The members of an owner reference in the order in which messages show them.
const MEMBERS: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];

/// The errors in the owner references and the finalizers of an object.
pub(crate) fn check(kind: &Kind, meta: &Value) -> Errors {
    let mut errors = owner_references(meta["ownerReferences"].as_array().map_or(&[], Vec::as_slice));
    errors.extend(finalizers(kind, meta["finalizers"].as_array().map_or(&[], Vec::as_slice)));
    errors
}

fn owner_references(references: &[Value]) -> Errors {
    const FIELD: &str = "metadata.ownerReferences";
    let mut errors = Errors::default();
    let mut controller: Option<String> = None;
    for reference in references {
        let text = |member: &str| reference[member].as_str().unwrap_or_default();
        let version = text("apiVersion").rsplit('/').next().unwrap_or_default();
        if version.is_empty() {
            let detail = "version must not be empty";
            errors.push(FieldError::invalid(format!("{FIELD}.apiVersion"), text("apiVersion"), detail));
        }
        for member in ["kind", "name", "uid"] {
            if text(member).is_empty() {
                errors.push(FieldError::invalid(format!("{FIELD}.{member}"), "", "must not be empty"));
            }
        }
        if (text("apiVersion"), text("kind")) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid_literal(FIELD, literal(reference), detail));
        }
        if reference["controller"] == true {
            let name = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                None => controller = Some(name),
                Some(_) if errors.is_full() => {}
                Some(first) => {
                    let all: Vec<String> = references.iter().map(literal).collect();
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
                         {name}"
                    );
                    errors.push(FieldError::invalid_literal(FIELD, format!("[{}]", all.join(",")), detail));
                }
            }
        }
    }
    errors
}

/// A reference as JSON, in the order of the real server's members.
fn literal(reference: &Value) -> String {
    let empty = Map::new();
    let given = reference.as_object().unwrap_or(&empty);
    let members = MEMBERS.iter().filter_map(|name| Some(format!("\"{name}\":{}", given.get(*name)?)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn finalizers(kind: &Kind, names: &[Value]) -> Errors {
    const FIELD: &str = "metadata.finalizers";
    let mut errors = Errors::default();
    let texts = || names.iter().map(|name| name.as_str().unwrap_or_default());
    for name in texts() {
        let wrong = steersman_wire::is_qualified_name(name);
        errors.extend(wrong.into_iter().map(|what| FieldError::invalid(FIELD, name, what)));
    }
    if texts().any(|name| name == ORPHAN) && texts().any(|name| name == FOREGROUND) {
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid(FIELD, json!(names), detail));
    }
    if kind.is_built_in() {
        errors
            .extend(texts().enumerate().filter_map(|(place, name)| not_qualified(name, &format!("{FIELD}[{place}]"))));
    }
    errors
}

/// A finalizer of the server's own has a plain name, any other one a domain.
fn not_qualified(name: &str, field: &str) -> Option<FieldError> {
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    let fine = name.contains('/') || matches!(name, "kubernetes" | ORPHAN | FOREGROUND);
    (!fine).then(|| FieldError::invalid(field, name, detail))
}

/// The errors in the finalizers in the spec of a Namespace.
pub(crate) fn check_namespace_finalizers(value: &Value) -> Errors {
    let mut errors = Errors::default();
    for (place, name) in value["spec"]["finalizers"].as_array().into_iter().flatten().enumerate() {
        let name = name.as_str().unwrap_or_default();
        let field = format!("spec.finalizers[{place}]");
        let wrong = steersman_wire::is_qualified_name(name);
        errors.extend(wrong.into_iter().map(|what| FieldError::invalid(field.clone(), name, what)));
        errors.extend(not_qualified(name, &field));
    }
    errors
}
