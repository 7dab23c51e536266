//! Everything but the schemas.

use serde_json::Value;

use super::change::{Changes, CrdChange, Direction};
use super::schema;

pub(super) fn compare(old: &Value, new: &Value, all: &mut Vec<CrdChange>) {
    let mut changes = Changes { path: "spec".to_owned(), all };
    let (old, new) = (&old["spec"], &new["spec"]);
    for (pointer, is_breaking) in [
        ("/group", true),
        ("/scope", true),
        ("/names/kind", true),
        ("/names/listKind", true),
        ("/names/plural", true),
        ("/names/singular", true),
        ("/conversion", true),
        ("/preserveUnknownFields", true),
    ] {
        let (old, new) = (at(old, pointer), at(new, pointer));
        let path = pointer.replace('/', ".");
        compare_values(&mut changes.below(&path), "value", old, new, is_breaking);
    }
    for list in ["shortNames", "categories"] {
        let (old, new) = (&old["names"][list], &new["names"][list]);
        compare_sets(&mut changes.below(&format!(".names.{list}")), "name", old, new, true);
    }

    let version = |spec: &'_ Value, name: &str| -> Value {
        versions(spec).find(|version| version["name"] == name).cloned().unwrap_or_default()
    };
    let stored =
        |spec: &Value| versions(spec).find(|version| version["storage"] == true).map(|version| version["name"].clone());
    let (was, is) = (stored(old).unwrap_or_default(), stored(new).unwrap_or_default());
    compare_values(&mut changes.below(".versions"), "storage version", &was, &is, true);
    for old in versions(old) {
        let name = old["name"].as_str().unwrap_or_default();
        let new = version(new, name);
        let mut changes = Changes { path: name.to_owned(), all: changes.all };
        if new.is_null() {
            let is_used = old["served"] == true || old["storage"] == true;
            changes.push("version", Direction::Removed, is_used, (&Value::Null, &Value::Null));
        } else {
            compare_version(&mut changes, old, &new);
        }
    }
    for new in versions(new) {
        let name = new["name"].as_str().unwrap_or_default();
        if version(old, name).is_null() {
            let mut changes = Changes { path: name.to_owned(), all: changes.all };
            changes.push("version", Direction::Added, false, (&Value::Null, &Value::Null));
        }
    }
}

fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

fn versions(spec: &Value) -> impl Iterator<Item = &Value> {
    spec["versions"].as_array().into_iter().flatten()
}

fn compare_version(changes: &mut Changes<'_>, old: &Value, new: &Value) {
    match (old["served"] == true, new["served"] == true) {
        (true, false) => changes.push("served", Direction::Removed, true, (&Value::Null, &Value::Null)),
        (false, true) => changes.push("served", Direction::Added, false, (&Value::Null, &Value::Null)),
        _ => {}
    }
    compare_values(changes, "deprecated", &old["deprecated"], &new["deprecated"], false);
    // With the subresource, writes of the object leave the status alone; without it, they set it.
    let (was, is) = (&old["subresources"]["status"], &new["subresources"]["status"]);
    compare_presence(changes, "status subresource", was, is, true);
    let (was, is) = (&old["subresources"]["scale"], &new["subresources"]["scale"]);
    compare_presence(changes, "scale subresource", was, is, false);
    if was.is_object() && is.is_object() {
        for path in ["specReplicasPath", "statusReplicasPath", "labelSelectorPath"] {
            compare_values(changes, path, &was[path], &is[path], true);
        }
    }
    let fields = |version: &Value| by_name(&version["selectableFields"], "jsonPath");
    compare_sets(changes, "selectable field", &fields(old), &fields(new), true);
    let columns = |version: &Value| by_name(&version["additionalPrinterColumns"], "name");
    compare_sets(changes, "column", &columns(old), &columns(new), false);
    schema::compare(changes, &old["schema"]["openAPIV3Schema"], &new["schema"]["openAPIV3Schema"]);
}

fn by_name(list: &Value, name: &str) -> Value {
    list.as_array().into_iter().flatten().map(|item| item[name].clone()).collect()
}

/// A value that is either the same or another one.
pub(super) fn compare_values(changes: &mut Changes<'_>, what: &str, old: &Value, new: &Value, is_breaking: bool) {
    if old == new {
        return;
    }
    let direction = match (old.is_null(), new.is_null()) {
        (true, _) => Direction::Added,
        (_, true) => Direction::Removed,
        _ => Direction::Changed,
    };
    changes.push(what, direction, is_breaking, (old, new));
}

fn compare_presence(changes: &mut Changes<'_>, what: &str, old: &Value, new: &Value, breaks_if_added: bool) {
    match (old.is_object(), new.is_object()) {
        (true, false) => changes.push(what, Direction::Removed, true, (&Value::Null, &Value::Null)),
        (false, true) => changes.push(what, Direction::Added, breaks_if_added, (&Value::Null, &Value::Null)),
        _ => {}
    }
}

/// Lists whose order has no meaning. To add a value breaks nothing.
fn compare_sets(changes: &mut Changes<'_>, what: &str, old: &Value, new: &Value, breaks_if_removed: bool) {
    let values = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let (old, new) = (values(old), values(new));
    for removed in old.iter().filter(|value| !new.contains(value)) {
        changes.push(what, Direction::Removed, breaks_if_removed, (removed, &Value::Null));
    }
    for added in new.iter().filter(|value| !old.contains(value)) {
        changes.push(what, Direction::Added, false, (&Value::Null, added));
    }
}
