//! CustomResourceDefinitions: reading and validating them, and applying their schemas to objects.
//!
//! Everything here is a function of JSON values. A write of a definition calls [`fill`] (defaults),
//! [`prepare`] (status) and [`check`]. For a stored definition, [`establish`] computes the status
//! and [`Definition::read`] reads it. A write of an object calls [`Schema::default`],
//! [`Schema::prune`] and then [`Schema::validate`] or one of its siblings.

mod check;
mod contents;
mod format;
mod go;
mod limits;
mod merging;
mod paths;
mod pattern;
mod schema;
mod structural;
mod validate;
mod version;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

pub(crate) use self::check::check;
pub(crate) use self::limits::check_listed_names;
pub(crate) use self::merging::MoreFields;
pub(crate) use self::schema::{List, Node, PatternReader, Patterns, Schema};
pub(crate) use self::version::priority;
use crate::response::table::PrinterColumn;

/// A valid CustomResourceDefinition.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) group: String,
    pub(crate) names: Names,
    pub(crate) namespaced: bool,
    /// In the order of the definition, which is not that of discovery.
    pub(crate) versions: Vec<Version>,
    /// The places of the served versions, by name. There may be thousands, and each object of a
    /// list is shown by one of them.
    served: HashMap<String, usize>,
    /// The place of the storage version.
    stored: Option<usize>,
    /// The patterns of all versions, for the next change of the definition.
    pub(crate) patterns: Patterns,
}

/// The names of a custom resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
}

/// One version of a custom resource.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) served: bool,
    /// Whether objects are stored in this version.
    pub(crate) storage: bool,
    pub(crate) schema: Schema,
    /// Whether it has a status subresource.
    pub(crate) status: bool,
    pub(crate) scale: Option<Scale>,
    /// The paths of the selectable fields, as in field selectors: `spec.color`.
    pub(crate) selectable_fields: Vec<String>,
    pub(crate) printer_columns: Arc<[PrinterColumn]>,
    pub(crate) deprecated: bool,
    /// The warning for clients of a deprecated version.
    pub(crate) deprecation_warning: Option<String>,
}

/// Where the scale subresource finds its fields: paths that start with a dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) spec_replicas_path: String,
    pub(crate) status_replicas_path: String,
    pub(crate) label_selector_path: Option<String>,
}

/// The names that other definitions of the group have. Two definitions must not share a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken<'a> {
    /// Accepted plurals, singulars and short names.
    pub(crate) resources: &'a [String],
    /// Accepted kinds and list kinds.
    pub(crate) kinds: &'a [String],
}

impl Definition {
    /// Reads a definition that passed [`check`]. A large schema is not checked twice, and patterns
    /// in `known` are not compiled again.
    pub(crate) fn read(crd: &Value, known: Vec<&Patterns>) -> Self {
        let spec = &crd["spec"];
        let group = text(spec, "group");
        let names = Names::read(&spec["names"]);
        let patterns = PatternReader::new(known);
        let mut versions: Vec<Version> =
            list(spec, "versions").map(|version| Version::read(version, &patterns)).collect();
        warn_of_deprecated(&group, &names.kind, &mut versions);
        let served = versions.iter().enumerate().filter(|(_, version)| version.served);
        let served = served.map(|(index, version)| (version.name.clone(), index)).collect();
        let stored = versions.iter().position(|version| version.storage);
        let namespaced = spec["scope"] == "Namespaced";
        Self { names, namespaced, versions, served, stored, group, patterns: patterns.into_used() }
    }

    /// The version with this name, if it is served.
    pub(crate) fn served(&self, name: &str) -> Option<&Version> {
        self.served.get(name).map(|index| &self.versions[*index])
    }

    /// The version with this name, served or not.
    pub(crate) fn any(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The version that objects are stored in.
    pub(crate) fn stored(&self) -> Option<&Version> {
        self.stored.map(|index| &self.versions[index])
    }
}

impl Names {
    /// Reads `spec.names`, or `status.acceptedNames`.
    pub(crate) fn read(names: &Value) -> Self {
        Self {
            plural: text(names, "plural"),
            singular: text(names, "singular"),
            kind: text(names, "kind"),
            list_kind: text(names, "listKind"),
            short_names: texts(names, "shortNames"),
            categories: texts(names, "categories"),
        }
    }
}

impl Version {
    fn read(version: &Value, patterns: &PatternReader<'_>) -> Self {
        let name = text(version, "name");
        let scale = &version["subresources"]["scale"];
        let path = |field: &str| text(scale, field);
        let selectable = |field: &Value| text(field, "jsonPath").trim_start_matches('.').to_owned();
        Self {
            served: version["served"] == true,
            storage: version["storage"] == true,
            schema: Schema::compile(&version["schema"]["openAPIV3Schema"], patterns),
            status: version["subresources"]["status"].is_object(),
            scale: scale.is_object().then(|| Scale {
                spec_replicas_path: path("specReplicasPath"),
                status_replicas_path: path("statusReplicasPath"),
                label_selector_path: scale["labelSelectorPath"].as_str().map(str::to_owned),
            }),
            selectable_fields: list(version, "selectableFields").map(selectable).collect(),
            printer_columns: PrinterColumn::read(version),
            deprecated: version["deprecated"] == true,
            deprecation_warning: version["deprecationWarning"].as_str().map(str::to_owned),
            name,
        }
    }
}

/// Sets the default warning of deprecated versions. It names the best version to use instead.
fn warn_of_deprecated(group: &str, kind: &str, versions: &mut [Version]) {
    let recommended = versions.iter().filter(|version| version.served && !version.deprecated);
    let best = recommended.map(|version| &version.name).max_by(|one, other| priority(one).cmp(&priority(other)));
    let best = best.cloned();
    for version in versions.iter_mut().filter(|version| version.deprecated && version.deprecation_warning.is_none()) {
        let better = best.as_ref().filter(|best| priority(best) > priority(&version.name));
        let instead = better.map(|best| format!("; use {group}/{best} {kind}")).unwrap_or_default();
        version.deprecation_warning = Some(format!("{group}/{} {kind} is deprecated{instead}", version.name));
    }
}

/// Sets the defaults of a definition.
pub(crate) fn fill(crd: &mut Value) {
    if !crd["spec"].is_object() {
        return;
    }
    let spec = &mut crd["spec"];
    if spec["names"].is_object() {
        let names = &mut spec["names"];
        let kind = text(names, "kind");
        if !kind.is_empty() {
            if text(names, "singular").is_empty() {
                names["singular"] = kind.to_lowercase().into();
            }
            if text(names, "listKind").is_empty() {
                names["listKind"] = format!("{kind}List").into();
            }
        }
    }
    if !spec["conversion"].is_object() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    let service = spec["conversion"].pointer_mut("/webhook/clientConfig/service");
    if let Some(service) = service.filter(|service| service.is_object() && service["port"].is_null()) {
        service["port"] = 443.into();
    }
    // Absent and false are the same, and neither is stored.
    if spec["preserveUnknownFields"] != true {
        spec.as_object_mut().map(|spec| spec.remove("preserveUnknownFields"));
    }
}

/// A definition without stored versions gets its storage version as the only one.
pub(crate) fn fill_stored_versions(crd: &mut Value) {
    let storage = list(&crd["spec"], "versions").find(|version| version["storage"] == true);
    let Some(name) = storage.map(|version| text(version, "name")) else { return };
    if crd["status"].is_object() && texts(&crd["status"], "storedVersions").is_empty() {
        crd["status"]["storedVersions"] = vec![name].into();
    }
}

/// Sets the initial status of a created or updated definition: its old status, with the storage
/// version added to the stored versions.
pub(crate) fn prepare(crd: &mut Value, old: Option<&Value>) {
    let fresh = || json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}});
    let mut status = old.map(|old| old["status"].clone()).filter(Value::is_object).unwrap_or_else(fresh);
    let storage = list(&crd["spec"], "versions").find(|version| version["storage"] == true);
    let mut stored = texts(&status, "storedVersions");
    if let Some(name) = storage.map(|version| text(version, "name"))
        && !stored.contains(&name)
    {
        stored.push(name);
    }
    status["storedVersions"] = if stored.is_empty() { Value::Null } else { stored.into() };
    crd["status"] = status;
}

/// The status of a stored definition after its names were compared with those of others. `now` is
/// the time of conditions that change. An established definition stays established.
pub(crate) fn establish(crd: &Value, taken: Taken<'_>, now: &str) -> Value {
    let wanted = Names::read(&crd["spec"]["names"]);
    let held = Names::read(&crd["status"]["acceptedNames"]);
    let mut accepted = held.clone();
    let mut conflict = None;
    let mut settle = |wanted: &str, accepted: &mut String, taken: &[String], reason: &'static str| {
        if wanted == accepted || !taken.iter().any(|name| name == wanted) {
            wanted.clone_into(accepted);
        } else {
            conflict = Some((reason, in_use(wanted)));
        }
    };
    settle(&wanted.plural, &mut accepted.plural, taken.resources, "PluralConflict");
    settle(&wanted.singular, &mut accepted.singular, taken.resources, "SingularConflict");
    let (of_others, own): (HashSet<&String>, HashSet<&String>) =
        (taken.resources.iter().collect(), held.short_names.iter().collect());
    let is_taken = |name: &&String| !own.contains(name) && of_others.contains(name);
    let conflicts: Vec<String> = wanted.short_names.iter().filter(is_taken).map(|name| in_use(name)).collect();
    let short_names = match &conflicts[..] {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    };
    match short_names {
        None => accepted.short_names.clone_from(&wanted.short_names),
        Some(why) => conflict = Some(("ShortNamesConflict", why)),
    }
    let mut settle = |wanted: &str, accepted: &mut String, reason: &'static str| {
        if wanted == accepted || !taken.kinds.iter().any(|name| name == wanted) {
            wanted.clone_into(accepted);
        } else {
            conflict = Some((reason, in_use(wanted)));
        }
    };
    settle(&wanted.kind, &mut accepted.kind, "KindConflict");
    settle(&wanted.list_kind, &mut accepted.list_kind, "ListKindConflict");
    accepted.categories.clone_from(&wanted.categories);

    let names_accepted = match &conflict {
        None => condition("NamesAccepted", "True", now, "NoConflicts", "no conflicts found"),
        Some((reason, message)) => condition("NamesAccepted", "False", now, reason, message),
    };
    let before = |ty: &str| list(&crd["status"], "conditions").find(|condition| condition["type"] == ty);
    let established = match before("Established") {
        Some(held) if held["status"] == "True" => held.clone(),
        held if conflict.is_some() => held
            .cloned()
            .unwrap_or_else(|| condition("Established", "False", now, "NotAccepted", "not all names are accepted")),
        _ => condition("Established", "True", now, "InitialNamesAccepted", "the initial names have been accepted"),
    };
    let mut status = crd["status"].clone();
    status["acceptedNames"] = accepted.to_value();
    set_condition(&mut status, names_accepted);
    set_condition(&mut status, established);
    status
}

/// Whether a condition of a definition is true.
pub(crate) fn has_condition(crd: &Value, ty: &str) -> bool {
    list(&crd["status"], "conditions").any(|condition| condition["type"] == ty && condition["status"] == "True")
}

/// Sets a condition of a definition. Its transition time changes only with its status.
pub(crate) fn set_condition(status: &mut Value, mut condition: Value) {
    let mut conditions: Vec<Value> = list(status, "conditions").cloned().collect();
    match conditions.iter_mut().find(|held| held["type"] == condition["type"]) {
        Some(held) => {
            if held["status"] == condition["status"] {
                condition["lastTransitionTime"] = held["lastTransitionTime"].take();
            }
            *held = condition;
        }
        None => conditions.push(condition),
    }
    status["conditions"] = conditions.into();
}

impl Names {
    fn to_value(&self) -> Value {
        let mut names = Map::new();
        names.insert("plural".to_owned(), self.plural.as_str().into());
        names.insert("kind".to_owned(), self.kind.as_str().into());
        for (name, text) in [("singular", &self.singular), ("listKind", &self.list_kind)] {
            if !text.is_empty() {
                names.insert(name.to_owned(), text.as_str().into());
            }
        }
        for (name, texts) in [("shortNames", &self.short_names), ("categories", &self.categories)] {
            if !texts.is_empty() {
                names.insert(name.to_owned(), texts.clone().into());
            }
        }
        names.into()
    }
}

/// The warnings for a definition: its unchecked formats, sorted and without duplicates.
pub(crate) fn warnings(crd: &Value) -> Vec<String> {
    let mut formats = Vec::new();
    for version in list(&crd["spec"], "versions") {
        format::unknown(&version["schema"]["openAPIV3Schema"], &mut formats);
    }
    formats.sort();
    formats.dedup();
    formats.iter().map(|name| format!("unrecognized format {}", crate::response::status::quote(name))).collect()
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", crate::response::status::quote(name))
}

/// A condition of a definition.
pub(crate) fn condition(ty: &str, status: &str, now: &str, reason: &str, message: &str) -> Value {
    json!({"type": ty, "status": status, "lastTransitionTime": now, "reason": reason, "message": message})
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value, name: &str) -> Vec<String> {
    list(value, name).filter_map(Value::as_str).map(str::to_owned).collect()
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests;
