//! Paths of the workspace: the root of the checkout, the user's cache folder, and the data of
//! `cargo metadata`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process;

/// The root of the checkout this program was built from.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is one folder below the root")
}

/// The cargo that started this program, so that a toolchain chosen with `cargo +…` is used, without
/// the variables about our own package: build scripts read those, and everything would be built
/// again with each build without xtask.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    for (variable, _) in std::env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_") {
            command.env_remove(&variable);
        }
    }
    command
}

/// The workspace's own choice of a Kubernetes version (`.cargo/config.toml`). Other projects have
/// to make their own.
const KUBERNETES_VERSION: &str = "K8S_OPENAPI_ENABLED_VERSION";

/// A command of Cargo for a project outside the workspace, with the settings of the workspace's
/// builds, so that dependencies are not built twice.
pub(crate) fn cargo_outside(folder: &Path, target_directory: &Path) -> Command {
    let mut command = cargo();
    command.current_dir(folder).env("CARGO_TARGET_DIR", target_directory).env_remove(KUBERNETES_VERSION);
    for setting in ["profile.dev.debug='line-tables-only'", "profile.dev.package.'*'.debug=false"] {
        command.args(["--config", setting]);
    }
    command
}

/// The output of `cargo metadata` that the tasks use.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    /// The members of the workspace.
    pub(crate) packages: Vec<Package>,
    /// The target folder.
    pub(crate) target_directory: PathBuf,
}

/// One member of the workspace.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    /// What each feature turns on.
    pub(crate) features: BTreeMap<String, Vec<String>>,
    pub(crate) rust_version: Option<String>,
    pub(crate) targets: Vec<Target>,
    /// `Some([])` for a package that must not be published.
    pub(crate) publish: Option<Vec<String>>,
}

/// One dependency of a member.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
    pub(crate) features: Vec<String>,
}

/// One target of a member.
#[derive(Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

impl Package {
    /// Whether this is a library that users depend on, directly or through another of ours.
    pub(crate) fn is_published_library(&self) -> bool {
        let is_library = |target: &Target| target.kind.iter().any(|kind| kind == "lib" || kind == "proc-macro");
        self.publish.is_none() && self.targets.iter().any(is_library)
    }

    /// The integration tests of this package.
    pub(crate) fn integration_tests(&self) -> impl Iterator<Item = &str> {
        self.targets.iter().filter(|target| target.kind == ["test"]).map(|target| target.name.as_str())
    }
}

/// Reads the metadata of the workspace, its own members only.
pub(crate) fn metadata() -> Result<Metadata> {
    let output =
        process::output(cargo().args(["metadata", "--format-version", "1", "--no-deps"])).context("cargo metadata")?;
    serde_json::from_str(&output).context("reading the answer of cargo metadata")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(kind: &str, publish: Option<Vec<String>>) -> Package {
        let targets = vec![Target { name: "it".to_owned(), kind: vec![kind.to_owned()] }];
        Package {
            name: "it".to_owned(),
            version: "1.0.0".to_owned(),
            manifest_path: PathBuf::new(),
            dependencies: Vec::new(),
            features: BTreeMap::new(),
            rust_version: None,
            targets,
            publish,
        }
    }

    #[test]
    fn libraries_and_procedural_macros_are_published() {
        assert!(package("lib", None).is_published_library());
        assert!(package("proc-macro", None).is_published_library());
        assert!(!package("bin", None).is_published_library());
        assert!(!package("lib", Some(Vec::new())).is_published_library());
    }
}
