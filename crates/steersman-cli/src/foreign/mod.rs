//! Rust types of a kind of another project, from its CustomResourceDefinition.
//!
//! [`definition`] reads the file, [`types`] makes Rust types of the schema, and [`mod@print`]
//! writes them. The types keep what they do not know: an object that is read and written again
//! loses no field of its schema, no value of an enum that is newer than the file, and no unknown
//! field where the schema permits them. kopium is not used: as a library it depends on another
//! major version of kube and k8s-openapi and on the unmaintained serde_yaml, and its enums refuse
//! newer values.

mod definition;
mod names;
mod print;
mod types;

use std::path::Path;

use anyhow::{Context, Result};

use definition::Definition;

/// What the user has asked for; the file decides the rest.
pub(crate) struct Wanted<'a> {
    pub(crate) group: Option<&'a str>,
    pub(crate) version: Option<&'a str>,
    pub(crate) kind: Option<&'a str>,
    pub(crate) plural: Option<&'a str>,
    pub(crate) namespaced: Option<bool>,
}

/// A kind of another project.
pub(crate) struct Generated {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
    /// The Rust file.
    pub(crate) types: String,
    /// The CRD, as YAML or JSON.
    pub(crate) definition: String,
}

/// Reads a CRD, and makes Rust types of it.
pub(crate) fn generate(file: &Path, wanted: &Wanted<'_>) -> Result<Generated> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let definition = Definition::read(&text, wanted).with_context(|| format!("cannot use {}", file.display()))?;
    let types = types::of(&definition).with_context(|| format!("cannot use the schema in {}", file.display()))?;
    Ok(Generated {
        types: print::file(&definition, &types),
        group: definition.group,
        version: definition.version,
        kind: definition.kind,
        plural: definition.plural,
        namespaced: definition.namespaced,
        definition: definition.text,
    })
}

#[cfg(test)]
mod tests;
