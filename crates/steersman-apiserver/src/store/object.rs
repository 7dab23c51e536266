//! A stored object: its bytes, and the fields that lists, watches and the garbage collector need.

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
    /// The range of the resource version in the body.
    version_at: (usize, usize),
    /// The end of the metadata.
    metadata_end: usize,
}

impl Object {
    /// Encodes `value` as of `revision`, which becomes its `metadata.resourceVersion`.
    pub(crate) fn new(value: &Value, revision: Revision, fields: Vec<(Arc<str>, Box<str>)>) -> Self {
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
        let (body, version_at, metadata_end) = encode(value, revision);
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
            version_at,
            metadata_end,
        }
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

    /// The object as data, without kind and apiVersion.
    pub(crate) fn value(&self) -> Value {
        budget::text(self.body.len());
        let mut text = Vec::with_capacity(self.body.len() + 1);
        text.push(b'{');
        text.extend_from_slice(&self.body);
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
            key: self.key.clone(),
            revision,
            uid: self.uid.clone(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            owners: self.owners.clone(),
            claims: self.claims.clone(),
            deleting: self.deleting,
            deletes_dependents: self.deletes_dependents,
            version_at: (from, from + revision.to_string().len()),
            metadata_end: self.metadata_end + body.len() - self.body.len(),
            body,
        }
    }
}

/// Encodes the object. Returns the range of its resource version and the end of its metadata.
fn encode(value: &Value, revision: Revision) -> (Bytes, (usize, usize), usize) {
    let empty = Map::new();
    let mut body = Vec::with_capacity(1024);
    body.extend_from_slice(br#""metadata":{"#);
    for (name, member) in value["metadata"].as_object().unwrap_or(&empty) {
        if name != "resourceVersion" {
            write_name(&mut body, name);
            write(&mut body, member);
            body.push(b',');
        }
    }
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
    (body.into(), version_at, metadata_end)
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
}
