//! `crd` and `crd diff`: the definitions of custom resources.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use steersman_manifests::crd::{diff, manifest};

use crate::report::Report;
use crate::{Error, Program};

/// The flags of `crd`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CrdFlags {
    #[command(subcommand)]
    command: Option<CrdCommand>,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum CrdCommand {
    /// List the changes since older CRDs, and exit with 1 if one of them is breaking
    Diff {
        /// A YAML file that has the older CRDs, or a folder of such files. Other objects in it are
        /// ignored
        old: PathBuf,
    },
}

impl<A: Args + Send + Sync + 'static> Program<A> {
    pub(crate) fn print_crds(&self, flags: &CrdFlags) -> Report {
        match &flags.command {
            None => self.crds_as_yaml().map(Report::of).into(),
            Some(CrdCommand::Diff { old }) => self.crd_changes(old).into(),
        }
    }

    fn crds_as_yaml(&self) -> Result<String, Error> {
        let mut text = String::new();
        for crd in &self.crds()? {
            let yaml = |error: serde_saphyr::ser::Error| Error::Yaml { name: name(crd), reason: error.to_string() };
            if !text.is_empty() {
                text.push_str("---\n");
            }
            text.push_str(&serde_saphyr::to_string(&manifest(crd)?).map_err(yaml)?);
        }
        Ok(text)
    }

    fn crd_changes(&self, path: &Path) -> Result<Report, Error> {
        let mut old = read(path)?;
        let mut text = String::new();
        let mut breaking = 0;
        // Writing to a String cannot fail.
        for new in &self.crds()? {
            let name = name(new);
            let Some(old) = old.remove(&name) else {
                let _ = writeln!(text, "{name}: compatible: it is new");
                continue;
            };
            let diff = diff(&old, new)?;
            breaking += diff.breaking().count();
            for change in &diff.changes {
                let _ = writeln!(text, "{name}: {change}");
            }
        }
        for name in old.keys() {
            breaking += 1;
            let _ = writeln!(text, "{name}: breaking: it does not exist any more");
        }
        match breaking {
            0 if text.is_empty() => Ok(Report::of("no changes\n")),
            0 => Ok(Report::of(text)),
            1 => Ok(Report::found(text, "1 change is breaking".to_owned())),
            many => Ok(Report::found(text, format!("{many} changes are breaking"))),
        }
    }
}

fn name(crd: &CustomResourceDefinition) -> String {
    crd.metadata.name.clone().unwrap_or_default()
}

/// The CRDs of a file or of the files in a folder, by their names.
fn read(path: &Path) -> Result<BTreeMap<String, CustomResourceDefinition>, Error> {
    let old = |path: &Path, reason: String| Error::Old { path: path.to_owned(), reason };
    let mut found = BTreeMap::new();
    for file in files(path).map_err(|error| old(path, error.to_string()))? {
        let text = fs::read_to_string(&file).map_err(|error| old(&file, error.to_string()))?;
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
            .map_err(|error| old(&file, format!("it is no YAML, which the plain manifests are: {error}")))?;
        for document in documents.into_iter().filter(|document| document["kind"] == "CustomResourceDefinition") {
            let crd: CustomResourceDefinition = serde_json::from_value(document)
                .map_err(|error| old(&file, format!("it has no valid CRD: {error}")))?;
            found.insert(name(&crd), crd);
        }
    }
    if found.is_empty() {
        return Err(old(path, "it has no CRD".to_owned()));
    }
    Ok(found)
}

fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
