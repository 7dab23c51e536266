//! The definitions that documents are made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha512};
use steersman_wire::{FieldPath, Json, Value};

use super::content::{Definitions, Served, hexadecimal};
use super::custom::{CustomPart, part};
use super::schema::Version;
use super::table::table;
use crate::request::budget;
use crate::rules::kinds::builtin;
use crate::server::Shared;
use crate::store::Key;
use crate::store::object::Object;

/// A definition and one of its served versions.
pub(super) struct Source {
    definition: Arc<Object>,
    version: String,
}

impl Source {
    /// The routes and schemas of this version.
    pub(super) fn part(&self, of_document: Version) -> Option<CustomPart> {
        part(&self.definition.value(), &self.version, of_document)
    }
}

impl Shared {
    /// The documents of version 3 with their hashes.
    pub(super) fn openapi_documents(&self) -> BTreeMap<String, String> {
        let mut documents: BTreeMap<String, String> =
            table().documents().map(|(document, hash)| (document.to_owned(), hash.to_owned())).collect();
        let mut hashes = SpecHashes::default();
        for (document, sources) in self.sources() {
            documents.entry(document).or_insert_with(|| hashes.of_document(&sources));
        }
        documents
    }

    /// The document of this name.
    pub(super) fn openapi_source(&self, document: &str) -> Option<Served> {
        let (version, sources) = if document == "v2" {
            (Version::V2, self.sources().into_values().flatten().collect())
        } else if table().hash(document).is_some() {
            (Version::V3, Vec::new())
        } else {
            (Version::V3, self.sources().remove(document)?)
        };
        if sources.is_empty() {
            return Served::built_in(document);
        }
        let hash = SpecHashes::default().of_document(&sources);
        Some(Served::custom(Definitions { document: document.to_owned(), version, sources }, hash))
    }

    /// The definitions of each document of version 3 that has custom resources.
    fn sources(&self) -> BTreeMap<String, Vec<Source>> {
        let mut sources: BTreeMap<String, Vec<Source>> = BTreeMap::new();
        let Some(definitions) = builtin().resource("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
            return sources;
        };
        for (name, group, versions) in self.customs.served() {
            budget::step(1 + versions.len());
            let key = Key { namespace: "".into(), name: name.as_str().into() };
            let Some(definition) = self.store.get(&definitions.id(), &key) else { continue };
            for version in versions {
                let source = Source { definition: Arc::clone(&definition), version: version.clone() };
                sources.entry(format!("apis/{group}/{version}")).or_default().push(source);
            }
        }
        sources
    }
}

/// The hashes of the specs of definitions, by uid.
#[derive(Default)]
struct SpecHashes(BTreeMap<String, Vec<u8>>);

impl SpecHashes {
    /// The hash of the document that is made of these definitions. It changes with their specs, so
    /// that the document need not be made to know it.
    fn of_document(&mut self, sources: &[Source]) -> String {
        let mut hash = Sha512::new();
        hash.update(table().hash("v2").unwrap_or_default());
        for Source { definition, version } in sources {
            let of_spec = self.0.entry(definition.uid().to_owned()).or_insert_with(|| spec_hash(definition));
            hash.update(version);
            hash.update([0]);
            hash.update(of_spec);
        }
        hexadecimal(&hash.finalize())
    }
}

fn spec_hash(definition: &Object) -> Vec<u8> {
    let object = [b"{", &**definition.body()].concat();
    budget::text(object.len());
    let spec = FieldPath::new(["spec"]).and_then(|path| Json.read(&object, &path).ok().flatten());
    let spec = match spec {
        Some(Value::Raw(spec)) => spec,
        _ => &object,
    };
    Sha512::digest(spec).to_vec()
}
