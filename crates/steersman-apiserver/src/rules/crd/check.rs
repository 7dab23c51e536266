//! Validation of CustomResourceDefinitions, with the real server's messages.
//!
//! Some paths are unexpected: the real server first moves fields that all versions share to the
//! top, as in the first release of this API. So the schema of a single version is reported as
//! `spec.validation`.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;
use steersman_wire::{is_dns1035_label, is_dns1123_subdomain};

use super::{Patterns, go, list, structural, text, texts};
use crate::request::budget;
use crate::response::status::{Errors, FieldError};

/// The fields of versions that move to the top if all versions share them.
const COMMON: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];

/// The most selectable fields of a version.
const SELECTABLE_FIELDS_MAX: usize = 8;

/// Validates a definition with its defaults, and its change from `old`. Its name is checked
/// elsewhere. The patterns of its schemas are compiled into `patterns`.
pub(crate) fn check(crd: &Value, old: Option<&Value>, patterns: &mut Patterns) -> Errors {
    let mut errors = Errors::default();
    let spec = &crd["spec"];
    let (group, names) = (text(spec, "group"), &spec["names"]);
    let name = text(&crd["metadata"], "name");
    if old.is_none() && name != format!("{}.{group}", text(names, "plural")) {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name, detail));
    }
    check_spec(spec, &group, patterns, &mut errors);
    errors.extend(old.map(|old| check_update(crd, old)).unwrap_or_default());
    check_stored_versions(crd, &mut errors);
    if is_protected(&group) {
        check_approval(crd, &mut errors);
    }
    if spec["preserveUnknownFields"] == true {
        let detail =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    errors
}

/// Refuses changes of the fields that decide where objects are stored.
fn check_update(crd: &Value, old: &Value) -> Errors {
    let established = super::has_condition(old, "Established");
    let always = ["/spec/group", "/spec/names/plural"];
    let once_established = ["/spec/scope", "/spec/names/kind"];
    let fields = once_established.iter().filter(|_| established).chain(&always);
    let changed = fields.filter(|field| crd.pointer(field) != old.pointer(field));
    let error = |field: &&str| {
        let path = field.trim_start_matches('/').replace('/', ".");
        FieldError::invalid(path, crd.pointer(field).cloned().unwrap_or_default(), "field is immutable")
    };
    changed.map(error).collect()
}

fn check_spec(spec: &Value, group: &str, patterns: &mut Patterns, errors: &mut Errors) {
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else {
        let wrong = is_dns1123_subdomain(group);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid("spec.group", group, wrong.join(",")));
        } else if !group.contains('.') {
            errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
        }
    }
    one_of(&text(spec, "scope"), &["Cluster", "Namespaced"], "spec.scope", errors);
    let versions: Vec<&Value> = list(spec, "versions").collect();
    for (index, version) in versions.iter().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            errors.push(FieldError::required(format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
        }
    }
    // The fields that all versions share, each compared once.
    let alike = COMMON.map(|name| {
        let first = versions.first().map(|version| &version[name])?;
        versions.iter().all(|version| budget::same(&version[name], first)).then_some(first)
    });
    let common = |name: &str| COMMON.iter().position(|field| *field == name).and_then(|place| alike[place]);
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = text(version, "name");
        check_label(&name, &format!("{path}.name"), errors);
        check_deprecation(version, &path, errors);
        if common("schema").is_none() {
            let has_status = version["subresources"]["status"].is_object();
            let schema = &version["schema"]["openAPIV3Schema"];
            if schema.is_object() {
                let path = format!("{path}.schema.openAPIV3Schema");
                errors.extend(structural::check(schema, &path, has_status, patterns));
            }
        }
        if common("subresources").is_none() {
            check_scale(&version["subresources"], &format!("{path}.subresources"), errors);
        }
        if common("additionalPrinterColumns").is_none() {
            check_columns(version, &path, errors);
        }
        if common("selectableFields").is_none() {
            check_selectable(version, &path, errors);
        }
    }
    let shown = || {
        let without_common = |version: &&Value| {
            let mut version = (*version).clone();
            for name in COMMON {
                if common(name).is_some() {
                    version[name] = Value::Null;
                }
            }
            version
        };
        go::versions(&versions.iter().map(without_common).collect::<Vec<Value>>())
    };
    let mut names = HashSet::new();
    if !versions.iter().all(|version| names.insert(version["name"].as_str())) {
        errors.push(FieldError::invalid_literal("spec.versions", shown(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid_literal("spec.versions", shown(), detail));
    }
    if let Some(version) = versions.first() {
        check_label(&text(version, "name"), "spec.version", errors);
    }
    check_names(&spec["names"], errors);
    if let Some(schema) = common("schema").map(|schema| &schema["openAPIV3Schema"]).filter(|schema| schema.is_object())
    {
        let has_status = versions.iter().any(|version| version["subresources"]["status"].is_object());
        errors.extend(structural::check(schema, "spec.validation.openAPIV3Schema", has_status, patterns));
    }
    if let Some(subresources) = common("subresources") {
        check_scale(subresources, "spec.subresources", errors);
    }
    if let Some(version) = versions.first() {
        if common("additionalPrinterColumns").is_some() {
            check_columns(version, "spec", errors);
        }
        if common("selectableFields").is_some() {
            check_selectable(version, "spec", errors);
        }
    }
    check_conversion(&spec["conversion"], errors);
}

fn one_of(value: &str, accepted: &[&str], field: &str, errors: &mut Errors) {
    if value.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !accepted.contains(&value) {
        errors.push(FieldError::not_supported(field, value, accepted));
    }
}

fn check_label(label: &str, field: &str, errors: &mut Errors) {
    let wrong = is_dns1035_label(label);
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(field, label, wrong.join(",")));
    }
}

fn check_deprecation(version: &Value, path: &str, errors: &mut Errors) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let mut wrong = |why: String| errors.push(FieldError::invalid(format!("{path}.deprecationWarning"), warning, why));
    if version["deprecated"] != true {
        return wrong("can only be set for deprecated versions".to_owned());
    }
    if warning.len() > 256 {
        wrong("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        wrong("must not be an empty string".to_owned());
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, character)| character.is_control()) {
        let why = "must only contain printable UTF-8 characters; non-printable character found at index";
        wrong(format!("{why} {index}"));
    }
}

fn check_names(names: &Value, errors: &mut Errors) {
    let required = ["plural", "singular", "kind", "listKind"];
    for name in required.iter().filter(|name| text(names, name).is_empty()) {
        errors.push(FieldError::required(format!("spec.names.{name}"), ""));
    }
    for name in required {
        let value = text(names, name);
        let is_kind = name.ends_with("ind");
        let wrong = is_dns1035_label(&if is_kind { value.to_lowercase() } else { value.clone() });
        if !value.is_empty() && !wrong.is_empty() {
            let mixed = if is_kind { "may have mixed case, but should otherwise match: " } else { "" };
            let detail = format!("{mixed}{}", wrong.join(","));
            errors.push(FieldError::invalid(format!("spec.names.{name}"), value, detail));
        }
    }
    for (index, name) in texts(names, "shortNames").iter().enumerate() {
        check_label(name, &format!("spec.names.shortNames[{index}]"), errors);
    }
    let kind = text(names, "kind");
    if !kind.is_empty() && kind == text(names, "listKind") {
        errors.push(FieldError::invalid("spec.names.listKind", kind, "kind and listKind may not be the same"));
    }
    for (index, name) in texts(names, "categories").iter().enumerate() {
        check_label(name, &format!("spec.names.categories[{index}]"), errors);
    }
}

fn check_scale(subresources: &Value, path: &str, errors: &mut Errors) {
    let scale = &subresources["scale"];
    if !scale.is_object() {
        return;
    }
    let paths: [(&str, &[&str], &str); 3] = [
        ("specReplicasPath", &[".spec."], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."], "should be a json path under .status"),
        ("labelSelectorPath", &[".spec.", ".status."], "should be a json path under either .spec or .status"),
    ];
    for (name, under, detail) in paths {
        let field = format!("{path}.scale.{name}");
        let value = text(scale, name);
        if value.is_empty() {
            if name != "labelSelectorPath" {
                errors.push(FieldError::required(field, ""));
            }
        } else if !value.starts_with('.') {
            errors.push(FieldError::invalid(field, value, "must be a simple json path starting with ."));
        } else if !under.iter().any(|under| value.starts_with(under)) {
            errors.push(FieldError::invalid(field, value, detail));
        }
    }
}

fn check_columns(version: &Value, path: &str, errors: &mut Errors) {
    for (index, column) in list(version, "additionalPrinterColumns").enumerate() {
        let field = |name: &str| format!("{path}.additionalPrinterColumns[{index}].{name}");
        if text(column, "name").is_empty() {
            errors.push(FieldError::required(field("name"), ""));
        }
        let types = ["boolean", "date", "integer", "number", "string"];
        let formats = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
        let must_be = |known: &[&str]| format!("must be one of {}", known.join(","));
        match text(column, "type").as_str() {
            "" => errors.push(FieldError::required(field("type"), must_be(&types))),
            ty if !types.contains(&ty) => errors.push(FieldError::invalid(field("type"), ty, must_be(&types))),
            _ => {}
        }
        let format = text(column, "format");
        if !format.is_empty() && !formats.contains(&format.as_str()) {
            errors.push(FieldError::invalid(field("format"), format, must_be(&formats)));
        }
        match text(column, "jsonPath").as_str() {
            "" => errors.push(FieldError::required(field("JSONPath"), "")),
            json_path if !json_path.starts_with('.') => {
                let detail = "must be a simple json path starting with .";
                errors.push(FieldError::invalid(field("JSONPath"), json_path, detail));
            }
            _ => {}
        }
    }
}

fn check_selectable(version: &Value, path: &str, errors: &mut Errors) {
    let mut seen: HashSet<String> = HashSet::new();
    for (index, selectable) in list(version, "selectableFields").enumerate() {
        let field = format!("{path}.selectableFields[{index}].jsonPath");
        let json_path = text(selectable, "jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let found = match find(&version["schema"]["openAPIV3Schema"], &json_path) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(field, json_path, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if json_path.starts_with(".metadata.") || json_path == ".metadata" {
            errors.push(FieldError::invalid(&field, json_path.as_str(), "must not point to fields in metadata"));
        }
        if !["string", "boolean", "integer"].contains(&text(found, "type").as_str()) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                          formats are allowed.";
            errors.push(FieldError::invalid(&field, json_path.as_str(), detail));
        }
        budget::text(json_path.len());
        if !seen.insert(json_path.clone()) {
            errors.push(FieldError::duplicate(field, json_path));
        }
    }
    if seen.len() > SELECTABLE_FIELDS_MAX {
        errors.push(FieldError::too_many(format!("{path}.selectableFields"), seen.len(), SELECTABLE_FIELDS_MAX));
    }
}

/// The schema of the field at a dotted path.
fn find<'a>(schema: &'a Value, json_path: &str) -> Result<&'a Value, String> {
    let Some(names) = json_path.strip_prefix('.') else {
        let token = json_path.split(['.', '[', ']']).next().unwrap_or_default();
        return Err(format!("expected [ or . but got: {token}"));
    };
    let mut found = schema;
    for name in names.split('.') {
        let (name, index) = name.split_once('[').map_or((name, false), |(name, _)| (name, true));
        if name.is_empty() && !index {
            return Err("unexpected end of JSON path".to_owned());
        }
        let none = || "does not refer to a valid field".to_owned();
        found = if found["properties"].as_object().is_some_and(|properties| !properties.is_empty()) {
            found["properties"].get(name).ok_or_else(none)?
        } else {
            found.get("additionalProperties").filter(|schema| schema.is_object()).ok_or_else(none)?
        };
        if index {
            return Err("array notation is not allowed".to_owned());
        }
    }
    Ok(found)
}

fn check_conversion(conversion: &Value, errors: &mut Errors) {
    if !conversion.is_object() {
        return;
    }
    let strategy = text(conversion, "strategy");
    one_of(&strategy, &["None", "Webhook"], "spec.conversion.strategy", errors);
    let webhook = &conversion["webhook"];
    let config = &webhook["clientConfig"];
    let versions = texts(webhook, "conversionReviewVersions");
    let field = "spec.conversion.webhookClientConfig";
    let versions_field = "spec.conversion.conversionReviewVersions";
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_object() {
            errors.push(FieldError::forbidden(field, detail));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(versions_field, detail));
        }
        return;
    }
    if !config.is_object() {
        errors.push(FieldError::required(field, "required when strategy is set to Webhook"));
    } else if config["url"].is_null() == config["service"].is_null() {
        errors.push(FieldError::required(field, "exactly one of url or service is required"));
    }
    if versions.is_empty() {
        errors.push(FieldError::required(versions_field, ""));
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        let field = format!("{versions_field}[{index}]");
        if !seen.insert(version) {
            errors.push(FieldError::invalid(field, version.as_str(), "duplicate version"));
        } else {
            let wrong = is_dns1035_label(version);
            errors.extend(wrong.into_iter().map(|why| FieldError::invalid(&field, version.as_str(), why)));
        }
    }
    if !versions.iter().any(|version| version == "v1" || version == "v1beta1") {
        errors.push(FieldError::invalid(versions_field, versions, "must include at least one of v1, v1beta1"));
    }
}

fn check_stored_versions(crd: &Value, errors: &mut Errors) {
    let field = "status.storedVersions";
    let stored = texts(&crd["status"], "storedVersions");
    if stored.is_empty() {
        errors.push(FieldError::invalid(field, Value::Null, "must have at least one stored version"));
        return;
    }
    let mut places: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (index, name) in stored.iter().enumerate() {
        places.entry(name).or_default().push_back(index);
    }
    let mut left = vec![true; stored.len()];
    for version in list(&crd["spec"], "versions") {
        let name = text(version, "name");
        // Of two versions with the same name, the second is ignored, as on the real server.
        let found = places.get_mut(name.as_str()).and_then(VecDeque::pop_front);
        // Each error prints all stored versions.
        if version["storage"] == true && found.is_none() && !errors.is_full() {
            errors.push(FieldError::invalid(field, stored.clone(), format!("must have the storage version {name}")));
        }
        if let Some(index) = found {
            left[index] = false;
        }
    }
    let mut first: HashMap<&str, usize> = HashMap::new();
    for (place, name) in stored.iter().enumerate() {
        let index = *first.entry(name).or_insert(place);
        if !left[place] {
            continue;
        }
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a \
             storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid(format!("{field}[{index}]"), name.as_str(), detail));
    }
}

/// Groups that belong to the Kubernetes project.
fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|owned| group == *owned || group.ends_with(&format!(".{owned}")))
}

fn check_approval(crd: &Value, errors: &mut Errors) {
    let annotation = "api-approved.kubernetes.io";
    let field = format!("metadata.annotations[{annotation}]");
    let value = text(&crd["metadata"]["annotations"], annotation);
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let is_url = value.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
    if value.is_empty() {
        let detail = format!("protected groups must have approval annotation \"{annotation}\", {see}");
        errors.push(FieldError::required(field, detail));
    } else if !value.starts_with("unapproved") && !is_url {
        let detail = format!(
            "protected groups must have approval annotation \"{annotation}\" with either a URL or a reason starting with \
             \"unapproved\", {see}"
        );
        errors.push(FieldError::invalid(field, value, detail));
    }
}
