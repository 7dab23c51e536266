//! Definitions of one or more versions.

use std::any::type_name;
use std::panic::{AssertUnwindSafe, catch_unwind};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion, CustomResourceValidation,
};
use kube_core::CustomResourceExt;
use schemars::JsonSchema;
use serde_json::Value;

use super::error::Error;
use super::kube_core::with_metadata_only;
use super::schema::{self, SchemaOptions};
use super::{description, manifest};

/// The largest definition that `kubectl apply` without `--server-side` takes: it stores a copy in
/// an annotation, and all annotations have 262,144 bytes together.
const SIZE_MAX: usize = 250_000;
/// The largest object that a server stores, by etcd's default limit of 1.5 MiB for a request.
const STORED_MAX: usize = 1_500_000;

/// The definition of a custom resource with one version.
///
/// See [`CrdBuilder`] for several versions and for options.
///
/// # Errors
///
/// [`Error::Schema`] lists the fields that cannot be in a CRD.
pub fn crd<K: CustomResourceExt + JsonSchema>() -> Result<CustomResourceDefinition, Error> {
    CrdBuilder::new().version::<K>().build()
}

/// Builds the definition of a custom resource from Rust types, one for each version.
///
/// Exactly one version is the storage version: name it with [`storage`](Self::storage), or mark all
/// others with `#[kube(storage = false)]`.
#[derive(Debug, Default)]
pub struct CrdBuilder {
    types: Vec<VersionType>,
    storage: Option<String>,
    not_served: Vec<String>,
    conversion: Option<CustomResourceConversion>,
    options: SchemaOptions,
    description_max: Option<usize>,
    size_max: Option<usize>,
}

/// A type, by the functions that describe it.
#[derive(Debug)]
struct VersionType {
    type_name: &'static str,
    definition: fn() -> CustomResourceDefinition,
    schema: fn() -> Value,
}

impl CrdBuilder {
    /// A definition without versions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the version that `K` describes.
    #[must_use]
    pub fn version<K: CustomResourceExt + JsonSchema>(mut self) -> Self {
        let version = VersionType { type_name: type_name::<K>(), definition: K::crd, schema: schema::raw::<K> };
        self.types.push(version);
        self
    }

    /// Names the version in which the server stores the objects.
    #[must_use]
    pub fn storage(mut self, version: impl Into<String>) -> Self {
        self.storage = Some(version.into());
        self
    }

    /// Stops serving a version, for instance before it is removed.
    #[must_use]
    pub fn not_served(mut self, version: impl Into<String>) -> Self {
        self.not_served.push(version.into());
        self
    }

    /// How the server converts objects between the versions. Default: it changes `apiVersion` only.
    #[must_use]
    pub fn conversion(mut self, conversion: CustomResourceConversion) -> Self {
        self.conversion = Some(conversion);
        self
    }

    /// Allows floats. By default a float is an error, because clients in other languages may round
    /// or print it in another way.
    #[must_use]
    pub fn allow_floats(mut self) -> Self {
        self.options.floats = true;
        self
    }

    /// Cuts each description to this number of bytes. Default: no limit. Zero removes all.
    #[must_use]
    pub fn description_max(mut self, bytes: usize) -> Self {
        self.description_max = Some(bytes);
        self
    }

    /// Cuts descriptions until the definition has this number of bytes as JSON. Default: 250,000,
    /// which `kubectl apply` without `--server-side` takes. Without any description the definition
    /// may still be larger.
    #[must_use]
    pub fn size_max(mut self, bytes: usize) -> Self {
        self.size_max = Some(bytes);
        self
    }

    /// Builds the definition.
    ///
    /// # Errors
    ///
    /// A field cannot be in a CRD, the versions contradict each other, or the definition is too
    /// large for a server.
    pub fn build(self) -> Result<CustomResourceDefinition, Error> {
        let mut definitions = Vec::new();
        for version in &self.types {
            definitions.push(version.describe(self.options, self.description_max)?);
        }
        let definition = self.merge(definitions)?;
        let name = definition.metadata.name.clone().unwrap_or_default();
        let json = |source| Error::Json { name: name.clone(), source };
        let mut value = manifest(&definition)?;
        let size = description::fit(&mut value, self.size_max.unwrap_or(SIZE_MAX));
        if size > STORED_MAX {
            return Err(Error::TooLarge { name, size, max: STORED_MAX });
        }
        serde_json::from_value(value).map_err(json)
    }

    fn merge(&self, definitions: Vec<Described>) -> Result<Described, Error> {
        let mut definitions = definitions.into_iter();
        let invalid = |name: &str, reason: String| Error::Versions { name: name.to_owned(), reason };
        let Some(mut merged) = definitions.next() else {
            return Err(invalid("a CRD", "there is none: add one with CrdBuilder::version".to_owned()));
        };
        let name = merged.metadata.name.clone().unwrap_or_default();
        for other in definitions {
            if let Some((property, one, two)) = difference(&merged.spec, &other.spec) {
                let reason = format!("{property} is {one} in one type and {two} in another: make them equal");
                return Err(invalid(&name, reason));
            }
            merge_names(&mut merged.spec.names, other.spec.names);
            for (into, from) in [
                (&mut merged.metadata.annotations, other.metadata.annotations),
                (&mut merged.metadata.labels, other.metadata.labels),
            ] {
                for (key, value) in from.into_iter().flatten() {
                    into.get_or_insert_default().entry(key).or_insert(value);
                }
            }
            merged.spec.versions.extend(other.spec.versions);
        }
        let versions = &mut merged.spec.versions;
        let names: Vec<String> = versions.iter().map(|version| version.name.clone()).collect();
        if let Some((index, twice)) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
            let reason =
                format!("the version {twice} is described by {} and by another type", self.types[index].type_name);
            return Err(invalid(&name, format!("{reason}: rename one of them")));
        }
        if let Some(unknown) = self.storage.iter().chain(&self.not_served).find(|version| !names.contains(version)) {
            let reason = format!("there is no version {unknown}: the versions are {}", names.join(", "));
            return Err(invalid(&name, reason));
        }
        for version in versions.iter_mut() {
            version.served &= !self.not_served.contains(&version.name);
            if let Some(storage) = &self.storage {
                version.storage = version.name == *storage;
            } else if names.len() == 1 {
                version.storage = true;
            }
        }
        let stored: Vec<&str> =
            versions.iter().filter(|version| version.storage).map(|version| version.name.as_str()).collect();
        if stored.len() != 1 {
            let marked = if stored.is_empty() { "none is".to_owned() } else { format!("{} are", stored.join(", ")) };
            let reason = format!("exactly one is the storage version, and {marked}: name it with CrdBuilder::storage");
            return Err(invalid(&name, reason));
        }
        merged.spec.conversion = self.conversion.clone();
        Ok(merged)
    }
}

/// A definition of one version, with its structural schema.
type Described = CustomResourceDefinition;

impl VersionType {
    fn describe(&self, options: SchemaOptions, description_max: Option<usize>) -> Result<Described, Error> {
        // With the macros of steersman, `crd()` does not build a schema here, and cannot panic.
        // With those of kube, it may.
        let read = || with_metadata_only(self.definition);
        let mut definition = catch_unwind(AssertUnwindSafe(read)).map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let reason = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned();
            Error::Derive { type_name: self.type_name.to_owned(), reason }
        })?;
        let name = definition.metadata.name.clone().unwrap_or_default();
        let has_status = |version: &CustomResourceDefinitionVersion| {
            version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some())
        };
        for version in &mut definition.spec.versions {
            let structural = schema::structural(self.type_name, (self.schema)(), has_status(version), options)
                .map_err(|problems| Error::Schema { type_name: self.type_name.to_owned(), problems })?;
            let mut structural = Value::Object(structural);
            description::limit(&mut structural, description_max.unwrap_or(usize::MAX));
            description::strip_markers(&mut structural, false);
            let schema =
                serde_json::from_value(structural).map_err(|source| Error::Json { name: name.clone(), source })?;
            version.schema = Some(CustomResourceValidation { open_api_v3_schema: Some(schema) });
        }
        Ok(definition)
    }
}

/// What must be the same in all versions, where it differs.
fn difference(
    one: &CustomResourceDefinitionSpec,
    other: &CustomResourceDefinitionSpec,
) -> Option<(&'static str, String, String)> {
    let compared = [
        ("the group", &one.group, &other.group),
        ("the scope", &one.scope, &other.scope),
        ("the kind", &one.names.kind, &other.names.kind),
        ("the plural", &one.names.plural, &other.names.plural),
    ];
    compared
        .into_iter()
        .find(|(_, one, other)| one != other)
        .map(|(name, one, other)| (name, one.clone(), other.clone()))
}

fn merge_names(names: &mut CustomResourceDefinitionNames, other: CustomResourceDefinitionNames) {
    for (into, from) in [(&mut names.short_names, other.short_names), (&mut names.categories, other.categories)] {
        for name in from.into_iter().flatten() {
            let known = into.get_or_insert_default();
            if !known.contains(&name) {
                known.push(name);
            }
        }
    }
}
