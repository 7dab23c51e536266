//! Projects: what `steersman init`, `create api` and `delete api` share.
//!
//! A command reads the project ([`Project`]), collects its changes in memory ([`changes`]), and
//! applies all of them or none. New files come from a real project ([`template`]). Existing Rust
//! files are changed at places of their syntax tree ([`edits`]).

pub(crate) mod api;
pub(crate) mod changes;
pub(crate) mod edits;
pub(crate) mod format;
pub(crate) mod git;
pub(crate) mod manifest;
pub(crate) mod names;
pub(crate) mod project_file;
pub(crate) mod questions;
pub(crate) mod template;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

pub(crate) use api::Api;
pub(crate) use changes::Changes;
pub(crate) use project_file::{Generated, ProjectFile};

/// The first version of the layout of `steersman.toml`, and the only one yet.
pub(crate) const FORMAT: i64 = 1;

/// A project on disk.
pub(crate) struct Project {
    /// The folder with `steersman.toml`.
    pub(crate) root: PathBuf,
    pub(crate) file: ProjectFile,
}

impl Project {
    /// Finds the project of a folder: `steersman.toml` is in it or in a folder above.
    pub(crate) fn find(folder: &Path) -> Result<Self> {
        let root = folder.ancestors().find(|folder| folder.join(ProjectFile::NAME).is_file()).with_context(|| {
            format!(
                "no {} in {} or above: change to the folder of a project, or make one with `steersman init NAME`",
                ProjectFile::NAME,
                folder.display()
            )
        })?;
        let path = root.join(ProjectFile::NAME);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = ProjectFile::parse(&text).with_context(|| format!("cannot use {}", path.display()))?;
        Ok(Self { root: root.to_owned(), file })
    }

    /// Fails if the project has changes that git does not have yet.
    pub(crate) fn check_clean(&self) -> Result<()> {
        let changes = git::uncommitted(&self.root)?;
        ensure!(
            changes.is_empty(),
            "the project has changes that are not committed:\n{}\nCommit them (git add --all && git commit), so that you \
             can see and revert what this command changes, or use --force",
            git::listed(&changes)
        );
        Ok(())
    }
}
