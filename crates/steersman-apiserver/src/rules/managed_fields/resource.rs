//! The kind of an object as its managers see it: its versions, their schemas, and the fields that a
//! request cannot change.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::set::FieldSet;
use super::types::TypeRef;
use super::validate::validate;
use crate::rules::convert;
use crate::rules::custom::Custom;
use crate::rules::kinds::{Kind, builtin};
use crate::rules::schema::{FieldValidation, decode_value};

/// The kind of a request.
pub(crate) struct Resource<'a> {
    /// The kind that the client reads and writes.
    kind: &'a Kind,
    custom: Option<&'a Custom>,
    subresource: &'a str,
    api_version: String,
}

impl<'a> Resource<'a> {
    pub(crate) fn new(kind: &'a Kind, custom: Option<&'a Custom>, subresource: &'a str) -> Self {
        Self { kind, custom, subresource, api_version: kind.api_version() }
    }

    /// The kind that the client reads and writes.
    pub(crate) fn kind(&self) -> &Kind {
        self.kind
    }

    pub(crate) fn api_version(&self) -> &str {
        &self.api_version
    }

    pub(crate) fn subresource(&self) -> &str {
        self.subresource
    }

    /// Whether an object may differ from its schema. Those of built-in kinds cannot.
    pub(super) fn may_misfit(&self) -> bool {
        self.custom.is_some()
    }

    /// The kind in this version. Versions of another group do not count, even if the kind has some.
    fn builtin(&self, api_version: &str) -> Option<&'static Kind> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        if group != self.kind.group {
            return None;
        }
        builtin().kind(group, version, &self.kind.kind).map(AsRef::as_ref)
    }

    /// The type of objects of this version.
    pub(super) fn schema(&self, api_version: &str) -> Option<TypeRef<'_>> {
        if api_version == self.api_version
            && let Some(fields) = self.kind.fields
        {
            return Some(TypeRef::Struct(fields));
        }
        match self.custom {
            Some(custom) => {
                let (group, version) = api_version.rsplit_once('/')?;
                let version = custom.any_version(version).filter(|_| group == self.kind.group)?;
                Some(TypeRef::Root(version.schema.root()))
            }
            None => Some(TypeRef::Struct(self.builtin(api_version)?.fields?)),
        }
    }

    /// A value of the request's version in another one.
    pub(super) fn converted<'v>(&self, value: &'v Value, to: &str) -> Result<Option<Cow<'v, Value>>, String> {
        self.between(value, &self.api_version, to)
    }

    /// A value in another version; `None` if there is no such version. Fails if the value does not
    /// fit the schema there.
    pub(super) fn between<'v>(&self, value: &'v Value, from: &str, to: &str) -> Result<Option<Cow<'v, Value>>, String> {
        if from == to {
            return Ok(Some(Cow::Borrowed(value)));
        }
        let Some(ty) = self.schema(to) else { return Ok(None) };
        let converted = if self.custom.is_some() {
            Cow::Borrowed(value)
        } else {
            let (Some(from), Some(to)) = (self.builtin(from), self.builtin(to)) else { return Ok(None) };
            Cow::Owned(convert::from_stored(to, convert::to_stored(from, value.clone())))
        };
        validate(ty, &converted, false)?;
        Ok(Some(converted))
    }

    /// The fields that a request cannot change.
    pub(super) fn excluded(&self, api_version: &str) -> FieldSet {
        if self.custom.is_some() && self.subresource.is_empty() && api_version != self.api_version {
            return FieldSet::default();
        }
        FieldSet::of(self.excluded_paths())
    }

    /// The same in the version of the request, if all of them are fields of the object itself.
    pub(super) fn excluded_names(&self) -> Option<&'static [&'static str]> {
        match self.excluded_paths() {
            [] => Some(&[]),
            [["status"]] => Some(&["status"]),
            [["spec"], ["status"]] => Some(&["spec", "status"]),
            _ => None,
        }
    }

    fn excluded_paths(&self) -> &'static [&'static [&'static str]] {
        let own = (self.kind.group.as_str(), self.kind.plural.as_str());
        let is_csr = own == ("certificates.k8s.io", "certificatesigningrequests");
        match self.subresource {
            "" if is_csr => &[&["spec"], &["status"]],
            "" if own == ("certificates.k8s.io", "podcertificaterequests") => &[],
            "" if self.kind.has_status() => &[&["status"]],
            "finalize" => &[&["status"]],
            "approval" => &[&["spec"], &["status", "certificate"]],
            "status" if is_csr => &[&["spec"], &["status", "conditions"]],
            "status" => match own {
                _ if self.custom.is_some() => &[&["metadata"], &["spec"]],
                _ if self.kind.is_definition() => &[&["spec"]],
                _ if self.kind.metadata_kept_by_status().is_none() => &[&["metadata"], &["spec"]],
                ("apps", "deployments") => &[&["metadata", "labels"], &["spec"]],
                ("", "pods") => &[&["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"], &["spec"]],
                _ => &[&["spec"]],
            },
            _ => &[],
        }
    }

    /// An object of the kind without any field.
    pub(crate) fn empty(&self) -> Value {
        let named = json!({"apiVersion": self.api_version, "kind": self.kind.kind});
        match self.kind.fields {
            Some(fields) => {
                decode_value(named, fields, FieldValidation::Ignore).map_or(Value::Null, |decoded| decoded.value)
            }
            None => named,
        }
    }
}
