//! A stored object: its bytes, and the fields that lists, watches and the garbage collector need.

pub(crate) mod template;

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::lifecycle::protection;
use crate::request::budget;
use crate::store::{Key, Revision};

/// The finalizer of an owner that is deleted after its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// An owner that an object names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: Box<str>,
    /// Whether the owner waits for this object.
    pub(crate) blocks: bool,
}

/// One state of one object. The body is encoded once; all its readers share it.
pub(crate) struct Object {
    key: Key,
    revision: Revision,
    uid: Box<str>,
    /// Sorted: a selector may have as many requirements as an object has labels.
    labels: Vec<(Box<str>, Box<str>)>,
    /// The selectable fields besides name and namespace.
    fields: Vec<(Arc<str>, Box<str>)>,
    owners: Box<[Owner]>,
    /// The claims that the volumes of a Pod on a node name.
    claims: Box<[Box<str>]>,
    deleting: bool,
    deletes_dependents: bool,
    /// Everything but kind and apiVersion, which depend on the request:
    /// `"metadata":{…},"spec":{…}}`.
    body: Bytes,
    /// The range of the managed fields in the body, as a member with its comma. Empty if there are
    /// none.
    managed_at: (usize, usize),
    /// The range of the resource version in the body.
    version_at: (usize, usize),
    /// The end of the metadata.
    metadata_end: usize,
}

impl Object {
    /// Encodes `value` as of `revision`, which becomes its `metadata.resourceVersion`. It has no
    /// managed fields.
    pub(crate) fn new(value: &Value, revision: Revision, fields: Vec<(Arc<str>, Box<str>)>) -> Self {
        Self::managed_by(value, &[], revision, fields)
    }

    /// The same with these managed fields: a JSON array, or nothing. They are no part of
    /// [`Self::value`], because nearly no write looks at them.
    pub(crate) fn managed_by(
        value: &Value,
        managed: &[u8],
        revision: Revision,
        fields: Vec<(Arc<str>, Box<str>)>,
    ) -> Self {
        let metadata = &value["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or_default();
        let key = Key { namespace: text("namespace").into(), name: text("name").into() };
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let labels = labels.filter_map(|(name, value)| Some((name.as_str().into(), value.as_str()?.into())));
        let mut labels: Vec<(Box<str>, Box<str>)> = labels.collect();
        labels.sort_unstable();
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let owners = owners.filter_map(|owner| {
            let uid = owner["uid"].as_str()?.into();
            Some(Owner { uid, blocks: owner["blockOwnerDeletion"] == true })
        });
        let deleting = !metadata["deletionTimestamp"].is_null();
        let foreground = || metadata["finalizers"].as_array().into_iter().flatten().any(|name| name == FOREGROUND);
        let Encoded { body, managed_at, version_at, metadata_end } = encode(value, managed, revision);
        Self {
            key,
            revision,
            uid: text("uid").into(),
            labels,
            fields,
            owners: owners.collect(),
            claims: protection::used_claims(value),
            deleting,
            deletes_dependents: deleting && foreground(),
            body,
            managed_at,
            version_at,
            metadata_end,
        }
    }

    /// The managed fields in an object as data, as text. Empty if it has none.
    pub(crate) fn own_managed(value: &Value) -> String {
        let managed = value["metadata"].get("managedFields").filter(|managed| managed.is_array());
        managed.map(Value::to_string).unwrap_or_default()
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn uid(&self) -> &str {
        &self.uid
    }

    pub(crate) fn owners(&self) -> &[Owner] {
        &self.owners
    }

    pub(crate) fn claims(&self) -> &[Box<str>] {
        &self.claims
    }

    /// Whether an owner in foreground deletion waits for this object.
    pub(crate) fn blocks(&self, owner: &str) -> bool {
        self.owners.iter().any(|reference| *reference.uid == *owner && reference.blocks)
    }

    /// Whether it is being deleted and waits for its dependents.
    pub(crate) fn deletes_dependents(&self) -> bool {
        self.deletes_dependents
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.deleting
    }

    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        let place = self.labels.binary_search_by(|(label, _)| (**label).cmp(name)).ok()?;
        Some(&self.labels[place].1)
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        match name {
            "metadata.name" => Some(&self.key.name),
            "metadata.namespace" => Some(&self.key.namespace),
            _ => self.fields.iter().find(|(field, _)| **field == *name).map(|(_, value)| &**value),
        }
    }

    /// The object without kind, apiVersion and the brace that opens it.
    pub(crate) fn body(&self) -> &Bytes {
        &self.body
    }

    /// The metadata alone, likewise: `"metadata":{…}`.
    pub(crate) fn metadata(&self) -> Bytes {
        self.body.slice(..self.metadata_end)
    }

    /// The managed fields: a JSON array, or nothing.
    pub(crate) fn managed(&self) -> &[u8] {
        let member = &self.body[self.managed_at.0..self.managed_at.1];
        let end = member.len().saturating_sub(1);
        member.get(MANAGED.len()..end).unwrap_or_default()
    }

    /// The object as data, without kind, apiVersion and managed fields.
    pub(crate) fn value(&self) -> Value {
        let (from, to) = self.managed_at;
        let size = self.body.len() - (to - from);
        budget::text(size);
        let mut text = Vec::with_capacity(size + 1);
        text.push(b'{');
        text.extend_from_slice(&self.body[..from]);
        text.extend_from_slice(&self.body[to..]);
        let mut reader = serde_json::Deserializer::from_slice(&text);
        // Bodies may be nested deeper than its default; they have a bound of ours.
        reader.disable_recursion_limit();
        Value::deserialize(&mut reader).expect("what we encoded can be decoded")
    }

    /// The body with another resource version.
    pub(crate) fn body_at(&self, revision: Revision) -> Bytes {
        let (from, to) = self.version_at;
        let mut body = Vec::with_capacity(self.body.len() + 4);
        body.extend_from_slice(&self.body[..from]);
        body.extend_from_slice(revision.to_string().as_bytes());
        body.extend_from_slice(&self.body[to..]);
        body.into()
    }

    /// The same state under another revision.
    pub(crate) fn at(&self, revision: Revision) -> Self {
        let body = self.body_at(revision);
        let (from, _) = self.version_at;
        Self {
            revision,
            uid: self.uid.clone(),
            version_at: (from, from + revision.to_string().len()),
            metadata_end: self.metadata_end + body.len() - self.body.len(),
            body,
            ..self.without_body()
        }
    }

    /// A copy for an object with another body.
    fn without_body(&self) -> Self {
        Self {
            key: self.key.clone(),
            revision: self.revision,
            uid: Box::default(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            owners: self.owners.clone(),
            claims: self.claims.clone(),
            deleting: self.deleting,
            deletes_dependents: self.deletes_dependents,
            body: Bytes::new(),
            version_at: self.version_at,
            metadata_end: self.metadata_end,
            managed_at: self.managed_at,
        }
    }
}

/// The name of the managed fields in the body.
const MANAGED: &[u8] = br#""managedFields":"#;

/// An encoded object, and the parts of it that are found again.
struct Encoded {
    body: Bytes,
    managed_at: (usize, usize),
    version_at: (usize, usize),
    metadata_end: usize,
}

fn encode(value: &Value, managed: &[u8], revision: Revision) -> Encoded {
    let empty = Map::new();
    let mut body = Vec::with_capacity(1024 + managed.len());
    body.extend_from_slice(br#""metadata":{"#);
    for (name, member) in value["metadata"].as_object().unwrap_or(&empty) {
        if !matches!(name.as_str(), "managedFields" | "resourceVersion") {
            write_name(&mut body, name);
            write(&mut body, member);
            body.push(b',');
        }
    }
    // Both come last, so that a change of the version moves nothing else.
    let managed_from = body.len();
    if !managed.is_empty() {
        body.extend_from_slice(MANAGED);
        body.extend_from_slice(managed);
        body.push(b',');
    }
    let managed_at = (managed_from, body.len());
    body.extend_from_slice(br#""resourceVersion":""#);
    let version_from = body.len();
    body.extend_from_slice(revision.to_string().as_bytes());
    let version_at = (version_from, body.len());
    body.extend_from_slice(br#""}"#);
    let metadata_end = body.len();
    for (name, member) in value.as_object().unwrap_or(&empty) {
        if !matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            body.push(b',');
            write_name(&mut body, name);
            write(&mut body, member);
        }
    }
    body.push(b'}');
    // The body lives as long as the object, so its spare capacity is freed.
    body.shrink_to_fit();
    budget::text(body.len());
    Encoded { body: body.into(), managed_at, version_at, metadata_end }
}

fn write_name(body: &mut Vec<u8>, name: &str) {
    serde_json::to_writer(&mut *body, name).expect("writing to memory does not fail");
    body.push(b':');
}

fn write(body: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(body, value).expect("writing to memory does not fail");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_resource_version_can_be_changed_in_place() {
        let value = json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": "a", "namespace": "b", "resourceVersion": "stale", "uid": "u", "labels": {"x": "y"}},
            "data": {"resourceVersion": "not this one"},
        });
        let object = Object::new(&value, 9, Vec::new());
        for (object, version) in [(object.at(10), "10"), (object.at(7), "7"), (object, "9")] {
            let decoded = object.value();
            assert_eq!(decoded["metadata"]["resourceVersion"], version);
            assert_eq!(decoded["data"]["resourceVersion"], "not this one");
            assert_eq!(decoded.get("kind"), None);
            let metadata = [b"{", &object.metadata()[..], b"}"].concat();
            let metadata: Value = serde_json::from_slice(&metadata).unwrap();
            assert_eq!(metadata["metadata"], decoded["metadata"]);
            assert_eq!((object.label("x"), object.field("metadata.name")), (Some("y"), Some("a")));
        }
    }

    #[test]
    fn managed_fields_are_in_the_body_and_not_in_the_value() {
        let value = json!({"metadata": {"name": "a", "managedFields": ["of the request"]}, "data": {"k": "v"}});
        let managed = br#"[{"manager":"m"}]"#;
        let object = Object::managed_by(&value, managed, 9, Vec::new());
        for object in [object.at(10_000), object] {
            assert_eq!(object.managed(), managed);
            let body: Value = serde_json::from_slice(&[b"{", &object.body()[..]].concat()).unwrap();
            assert_eq!(body["metadata"]["managedFields"], json!([{"manager": "m"}]));
            assert_eq!(body["metadata"]["resourceVersion"], object.revision().to_string());
            assert_eq!(object.value()["metadata"].get("managedFields"), None);
            assert_eq!(object.value()["data"], body["data"]);
        }
        let without = Object::new(&value, 9, Vec::new());
        assert_eq!((without.managed(), without.value()["metadata"].get("managedFields")), (&[][..], None));
    }
}
