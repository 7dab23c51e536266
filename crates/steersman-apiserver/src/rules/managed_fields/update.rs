//! Which manager has which fields after a write: an update, or an apply.

use serde_json::Value;

use super::compare::{Comparison, compare};
use super::created;
use super::entries::{Entry, Managed, Manager, Operation};
use super::fields::{fields_of, without};
use super::merge::merge;
use super::resource::Resource;
use super::set::FieldSet;
use super::validate::validate;
use crate::request::budget;

/// The manager of the fields of an object that had no managers before it was applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Who writes an object, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    /// The time in the form of objects.
    pub(crate) now: &'a str,
    /// Whether an apply takes fields from other managers.
    pub(crate) force: bool,
}

/// An object before and after a write, in the version of the request.
#[derive(Clone, Copy)]
struct Change<'a> {
    live: &'a Value,
    value: &'a Value,
}

/// A version of the kind, and what changed in it. `None` if the object has no such version.
type Compared = (Box<str>, Option<(Comparison, FieldSet)>);

impl Writer<'_> {
    fn manager(&self, resource: &Resource<'_>, operation: Operation) -> Manager {
        let name = if self.manager.is_empty() { "unknown" } else { self.manager };
        let api_version = if operation == Operation::Apply { "" } else { resource.api_version() };
        Manager {
            name: name.into(),
            operation,
            api_version: api_version.into(),
            subresource: resource.subresource().into(),
        }
    }
}

/// The fields that one applier would take from another manager.
#[derive(Clone, Debug)]
pub(crate) struct Conflict {
    pub(crate) manager: Manager,
    pub(crate) fields: FieldSet,
}

/// Why an apply was refused.
#[derive(Clone, Debug)]
pub(crate) enum ApplyError {
    /// Other managers have other values.
    Conflicts(Vec<Conflict>),
    /// The configuration does not fit the type.
    Patch(String),
    /// The object does not fit the type.
    Live(String),
    Other(String),
}

/// The entries of a new object. `given` are those that the request itself has.
pub(crate) fn create(resource: &Resource<'_>, value: &Value, given: Managed, writer: Writer<'_>) -> Managed {
    let Some(ty) = resource.schema(resource.api_version()) else { return Managed::default() };
    if resource.may_misfit() && validate(ty, value, true).is_err() {
        return Managed::default();
    }
    let manager = writer.manager(resource, Operation::Update);
    let time = Some(writer.now.into());
    if given.is_empty()
        && let Some(excluded) = resource.excluded_names()
    {
        let fields = created::fields_of_new(ty, value, excluded);
        let entry = |text| Entry::encoded(manager, resource.api_version(), time, text);
        return Managed { entries: fields.map(entry).into_iter().collect(), ..Managed::default() };
    }
    update_checked(resource, &resource.empty(), value, given, writer).unwrap_or_default()
}

/// The entries after an update of `live` to `value`. If they cannot be computed there are none.
pub(crate) fn update(
    resource: &Resource<'_>,
    live: &Value,
    value: &Value,
    managed: Managed,
    writer: Writer<'_>,
) -> Managed {
    // The fields of such an object are not tracked.
    if managed.is_empty() {
        return managed;
    }
    update_checked(resource, live, value, managed, writer).unwrap_or_default()
}

fn update_checked(
    resource: &Resource<'_>,
    live: &Value,
    value: &Value,
    mut managed: Managed,
    writer: Writer<'_>,
) -> Result<Managed, String> {
    let version = resource.api_version();
    let ty = resource.schema(version).ok_or("no schema")?;
    if resource.may_misfit() {
        validate(ty, value, true)?;
        validate(ty, live, true)?;
    }
    reconcile(resource, live, &mut managed)?;
    let comparison = take_over(resource, Change { live, value }, &mut managed, None).map_err(|error| match error {
        ApplyError::Patch(text) | ApplyError::Live(text) | ApplyError::Other(text) => text,
        ApplyError::Conflicts(_) => "conflicts".to_owned(),
    })?;
    let written = stripped(&comparison.written());
    if !written.is_empty() {
        let manager = writer.manager(resource, Operation::Update);
        let time = Some(writer.now.into());
        match managed.get(&manager) {
            Some(entry) => {
                let all = written.union(entry.set());
                entry.replace(all);
                entry.time = time;
            }
            None => managed.entries.push(Entry::new(manager, version, time, written)),
        }
    }
    managed.cap();
    Ok(managed)
}

/// Takes the fields that a write changes from all other managers, and returns the changes. An
/// applier keeps its own fields, and takes others only by force.
fn take_over(
    resource: &Resource<'_>,
    change: Change<'_>,
    managed: &mut Managed,
    applier: Option<(&Manager, bool)>,
) -> Result<Comparison, ApplyError> {
    let Change { live, value } = change;
    let (own, force) = applier.map_or((None, true), |(manager, force)| (Some(manager), force));
    let version = resource.api_version();
    let compared = |version: &str, live: &Value, value: &Value| -> Result<Option<Comparison>, ApplyError> {
        let Some(ty) = resource.schema(version) else { return Ok(None) };
        let comparison = compare(ty, Some(live), Some(value))
            .map_err(|error| ApplyError::Other(format!("failed to compare objects: {error}")))?;
        Ok(Some(comparison.without(&resource.excluded(version))))
    };
    let main = compared(version, live, value)?.unwrap_or_default();
    let mut others: Vec<Compared> = Vec::new();
    let written = main.written();
    let mut conflicts = Vec::new();
    let mut taken: Vec<(usize, FieldSet)> = Vec::new();
    let mut missing = Vec::new();
    for (place, entry) in managed.entries.iter_mut().enumerate() {
        if own == Some(&entry.manager) || !budget::step(1) {
            continue;
        }
        let (comparison, written) = if *entry.api_version == *version {
            (&main, &written)
        } else {
            if !budget::step(others.len()) {
                break;
            }
            let known = others.iter().position(|(other, _)| *other == entry.api_version);
            let known = match known {
                Some(known) => known,
                None => {
                    let other = entry.api_version.clone();
                    let convert = |value, what: &str| {
                        let converted = resource.converted(value, &other);
                        converted
                            .map_err(|error| ApplyError::Other(format!("failed to convert {what} object: {error}")))
                    };
                    let both = (convert(live, "old")?, convert(value, "new")?);
                    let comparison = match both {
                        (Some(live), Some(value)) => compared(&other, &live, &value)?,
                        _ => None,
                    };
                    let with_written = comparison.map(|comparison| {
                        let written = comparison.written();
                        (comparison, written)
                    });
                    others.push((other, with_written));
                    others.len() - 1
                }
            };
            let Some((comparison, written)) = &others[known].1 else {
                missing.push(place);
                continue;
            };
            (comparison, written)
        };
        if comparison.is_empty() {
            continue;
        }
        let conflict = entry.set().intersection(written);
        let mut left = entry.set().difference(&conflict);
        if !comparison.removed.is_empty() {
            left = left.difference(&comparison.removed);
        }
        if !conflict.is_empty() {
            conflicts.push(Conflict { manager: entry.manager.clone(), fields: conflict });
        }
        if left != *entry.set() {
            taken.push((place, left));
        }
    }
    if !force && !conflicts.is_empty() {
        return Err(ApplyError::Conflicts(conflicts));
    }
    for (place, left) in taken {
        managed.entries[place].replace(left);
    }
    let mut missing = missing.into_iter().peekable();
    let mut place = 0;
    managed.entries.retain(|entry| {
        let is_missing = missing.next_if_eq(&place).is_some();
        place += 1;
        !is_missing && !entry.is_empty()
    });
    Ok(main)
}

/// The set without the fields that belong to no manager.
fn stripped(set: &FieldSet) -> FieldSet {
    let mut strip = FieldSet::of(&[&["metadata"]]);
    for name in created::STRIPPED {
        strip.insert_fields(&[name]);
    }
    for name in created::STRIPPED_METADATA {
        strip.insert_fields(&["metadata", name]);
    }
    set.difference(&strip)
}

/// The result of an apply.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    /// The object, in the version of the request; `None` if it is unchanged.
    pub(crate) value: Option<Value>,
    pub(crate) managed: Managed,
}

/// Applies a configuration to an object.
pub(crate) fn apply(
    resource: &Resource<'_>,
    live: &Value,
    config: &Value,
    mut managed: Managed,
    writer: Writer<'_>,
) -> Result<Applied, ApplyError> {
    if managed.is_empty() {
        let before = Writer { manager: BEFORE_FIRST_APPLY, ..writer };
        managed = update_checked(resource, &resource.empty(), live, managed, before).map_err(ApplyError::Other)?;
    }
    let version = resource.api_version();
    let Some(ty) = resource.schema(version) else {
        return Err(ApplyError::Other(format!("no corresponding type for {version}")));
    };
    validate(ty, config, false).map_err(ApplyError::Patch)?;
    if resource.may_misfit() {
        validate(ty, live, true).map_err(ApplyError::Live)?;
    }
    reconcile(resource, live, &mut managed).map_err(ApplyError::Other)?;
    let mut value =
        merge(ty, live, config).map_err(|error| ApplyError::Other(format!("failed to merge config: {error}")))?;
    let manager = writer.manager(resource, Operation::Apply);
    let last = managed.take(&manager);
    let time = last.as_ref().and_then(|last| last.time.clone());
    let set = fields_of(ty, config).recursive_difference(&resource.excluded(version));
    managed.entries.push(Entry::new(manager.clone(), version, time, set));
    if let Some(mut last) = last {
        value = prune(resource, value, &mut managed, &mut last)?;
    }
    take_over(resource, Change { live, value: &value }, &mut managed, Some((&manager, writer.force)))?;
    let is_same = super::element::same(live, &value);
    if let Some(entry) = managed.get(&manager) {
        let set = stripped(entry.set());
        entry.replace(set);
        if !is_same {
            entry.time = Some(writer.now.into());
        }
    }
    managed.entries.retain(|entry| !entry.is_empty());
    Ok(Applied { value: (!is_same).then_some(value), managed })
}

/// Removes the fields that the manager has applied before, does not apply now, and that no other
/// manager has.
fn prune(resource: &Resource<'_>, merged: Value, managed: &mut Managed, last: &mut Entry) -> Result<Value, ApplyError> {
    if last.set().is_empty() {
        return Ok(merged);
    }
    let version = last.api_version.clone();
    let failed = |error| ApplyError::Other(format!("failed to prune fields: {error}"));
    let then = resource.converted(&merged, &version).map_err(failed)?;
    let (Some(ty), Some(merged_then)) = (resource.schema(&version), then) else { return Ok(merged) };
    let merged_then = merged_then.into_owned();
    let last_set = last.set().with_named_fields(Some(ty));
    let mut pruned = without(ty, merged_then.clone(), &last_set);
    // The fields of each version that some manager has.
    let mut kept: Vec<(Box<str>, FieldSet)> = Vec::new();
    for entry in &mut managed.entries {
        let set = entry.set().clone();
        if !budget::step(set.size() + kept.len()) {
            break;
        }
        match kept.iter_mut().find(|(version, _)| *version == entry.api_version) {
            Some((_, all)) => *all = all.union(&set),
            None => kept.push((entry.api_version.clone(), set)),
        }
    }
    kept.sort_by_key(|(of, _)| *of != version);
    let mut merged_now = merged_then.clone();
    let mut at = version.clone();
    for (of, kept) in kept {
        let Some(ty) = resource.schema(&of) else { continue };
        let new_merged = resource.between(&merged_now, &at, &of).map_err(failed)?;
        let new_pruned = resource.between(&pruned, &at, &of).map_err(failed)?;
        let (Some(new_merged), Some(new_pruned)) = (new_merged, new_pruned) else { continue };
        (merged_now, pruned) = (new_merged.into_owned(), new_pruned.into_owned());
        at = of;
        let all = fields_of(ty, &merged_now).with_named_fields(Some(ty));
        let left = fields_of(ty, &pruned).with_named_fields(Some(ty));
        let removed = all.difference(&left.union(&kept.with_named_fields(Some(ty))));
        pruned = without(ty, merged_now.clone(), &removed);
    }
    // Only what this manager had is removed.
    let Some(pruned_then) = resource.between(&pruned, &at, &version).map_err(failed)? else { return Ok(merged) };
    let left = fields_of(ty, &pruned_then).with_named_fields(Some(ty));
    let all = fields_of(ty, &merged_then).with_named_fields(Some(ty));
    let removed = all.difference(&left).intersection(&last_set);
    let result = without(ty, merged_then, &removed);
    let back = resource.between(&result, &version, resource.api_version()).map_err(failed)?;
    Ok(back.map_or(merged, std::borrow::Cow::into_owned))
}

/// Adapts the entries to a schema in which lists or maps became atomic after they were written. The
/// schemas of built-in kinds do not change, so only entries of a request can differ from them.
fn reconcile(resource: &Resource<'_>, live: &Value, managed: &mut Managed) -> Result<(), String> {
    if !resource.may_misfit() && !managed.is_given {
        return Ok(());
    }
    for entry in &mut managed.entries {
        let Some(ty) = resource.schema(&entry.api_version) else { continue };
        if resource.converted(live, &entry.api_version)?.is_none() {
            continue;
        }
        if let Some(set) = super::reconcile::reconciled(ty, entry.set()) {
            entry.replace(set);
        }
    }
    Ok(())
}
