//! An API of a project: its names, and the edits and files that belong to it.

use super::edits::Edit;
use super::{names, template};

/// An API, as `steersman.toml` keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Api {
    /// The whole group.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
    pub(crate) controller: bool,
    /// The kind belongs to another project: its CRD is not in our manifests.
    pub(crate) external: bool,
}

/// Where the code of a project is edited.
pub(crate) const LIBRARY: &str = "src/lib.rs";
pub(crate) const VERSIONS: &str = "src/api/mod.rs";
pub(crate) const CONTROLLERS: &str = "src/controllers/mod.rs";

impl Api {
    pub(crate) fn module(&self) -> String {
        names::module(&self.kind)
    }

    /// The module of its version.
    pub(crate) fn version_file(&self) -> String {
        format!("src/api/{}/mod.rs", self.version)
    }

    /// Where the Rust types are.
    pub(crate) fn types_file(&self) -> String {
        format!("src/api/{}/{}.rs", self.version, self.module())
    }

    /// Where the CRD of an external kind is.
    pub(crate) fn external_crd_file(&self) -> String {
        format!("crds/{}.yaml", self.module())
    }

    /// The part of the template that it is made from.
    pub(crate) fn template(&self) -> &'static template::Kind {
        match (self.external, self.namespaced) {
            (true, _) => &template::EXTERNAL,
            (false, true) => &template::NAMESPACED,
            (false, false) => &template::CLUSTER_SCOPED,
        }
    }

    /// Whether `tests/rbac.rs` has something to test: the reconciler of the template writes.
    pub(crate) fn writes(&self) -> bool {
        self.controller && !self.external
    }

    /// The edits of existing files, in order, with the path of each file.
    pub(crate) fn edits(&self) -> Vec<(String, Edit)> {
        let (version, module) = (&self.version, self.module());
        let mut edits = vec![
            (VERSIONS.to_owned(), Edit::Module(version.clone())),
            (self.version_file(), Edit::Module(module.clone())),
        ];
        let mut library = |edit| edits.push((LIBRARY.to_owned(), edit));
        if self.external {
            library(Edit::Call(format!(".external_crd(include_str!(\"../{}\"))", self.external_crd_file())));
        } else {
            library(Edit::Call(format!(".crd(api::{version}::{module}::crd)")));
            library(Edit::Call(format!(".samples(include_str!(\"../samples/{module}.yaml\"))")));
        }
        if self.controller {
            library(Edit::Setup(format!("controllers::{module}::add")));
            edits.push((CONTROLLERS.to_owned(), Edit::Module(module.clone())));
        }
        edits
    }

    /// `Website in web.example.com/v1alpha1`.
    pub(crate) fn title(&self) -> String {
        format!("{} in {}/{}", self.kind, self.group, self.version)
    }
}
