//! What git does not have yet of a project.

use std::io;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// How many files an error lists.
const LISTED_MAX: usize = 10;

/// The files below `folder` with changes that are not committed, as git prints them. None if the
/// folder is in no repository, or if there is no git.
pub(crate) fn uncommitted(folder: &Path) -> Result<Vec<String>> {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["status", "--porcelain", "--untracked-files=all", "--", "."]).env("LC_ALL", "C");
    let output = match command.output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        result => result.context("cannot start git")?,
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains("not a git repository") {
        return Ok(Vec::new());
    }
    bail!(
        "cannot see whether the project has changes that are not committed, git status: {}: correct it, or use --force",
        message.trim()
    )
}

/// The changes for an error.
pub(crate) fn listed(changes: &[String]) -> String {
    let mut lines: Vec<String> = changes.iter().take(LISTED_MAX).map(|line| format!("  {line}")).collect();
    if changes.len() > LISTED_MAX {
        lines.push(format!("  and {} more", changes.len() - LISTED_MAX));
    }
    lines.join("\n")
}
