//! Server-side apply: which manager has which fields of an object.
//!
//! `metadata.managedFields` has an entry for each manager and way of writing. Everything here is a
//! function of values: [`create`], [`update`] and [`apply`] compute the entries of a write from the
//! object before and after it. A [`FieldSet`] is the set of fields of an entry; types come from the
//! schemas of built-in kinds and of definitions alike. Rules and messages are those of the real
//! server's structured merge.

mod codec;
mod compare;
mod conflicts;
mod created;
mod element;
mod entries;
mod fields;
mod items;
mod merge;
mod reconcile;
mod resource;
mod scale;
mod set;
mod types;
mod update;
mod validate;

pub(crate) use self::conflicts::{KUBECTL, LAST_APPLIED, left_by_last_applied, refuse_conflicts};
pub(crate) use self::entries::{Managed, before, same_but_times};
pub(crate) use self::resource::Resource;
pub(crate) use self::scale::ScaleFields;
pub(crate) use self::update::{Applied, ApplyError, Writer, apply, create, update};

#[cfg(test)]
mod tests;
