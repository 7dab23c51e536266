//! The conventions of this repository as checks: `cargo xtask tidy`.
//!
//! Each file here has the rules of one subject. A rule is a function from text to complaints, so
//! that its unit test can plant a violation. A complaint names the place and the fix.

mod contracts;
mod documents;
mod names;
mod packages;
mod prose;
mod rust;
mod text;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{process, workspace};

/// What to check.
#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// List every wide line and every marker word of the prose, also while there are few of them
    #[arg(long)]
    prose: bool,
}

/// A text file of the checkout.
struct File {
    /// Relative to the root.
    path: PathBuf,
    text: String,
}

impl File {
    fn has_extension(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|found| found == extension)
    }

    /// Whether users compile it: a source of a crate, and no test.
    fn is_library(&self) -> bool {
        self.path.starts_with("crates") && self.path.iter().any(|part| part == "src")
    }

    /// A complaint about one line, counted from 1.
    fn complaint(&self, line: usize, what: &str) -> String {
        format!("{}:{line}: {what}", self.path.display())
    }

    #[cfg(test)]
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.to_owned() }
    }
}

/// Checks the whole tree.
pub(crate) fn run(args: &Args) -> Result<()> {
    let files = files()?;
    if args.prose {
        prose::list(&files).iter().for_each(|place| println!("{place}"));
        return Ok(());
    }
    let packages = workspace::metadata()?.packages;
    let mut complaints = Vec::new();
    for file in &files {
        complaints.extend(text::check(file));
        if file.has_extension("rs") {
            complaints.extend(rust::check(file));
        }
        if file.has_extension("md") {
            complaints.extend(documents::check_links(file, workspace::root()));
        }
    }
    for package in &packages {
        let manifest = fs::read_to_string(&package.manifest_path)
            .with_context(|| format!("reading {}", package.manifest_path.display()))?;
        complaints.extend(packages::check(package, &manifest));
    }
    complaints.extend(packages::check_map(&packages, page(&files, "ARCHITECTURE.md")?, workspace::root()));
    complaints.extend(rust::check_unsafe(&files, page(&files, "SECURITY.md")?));
    complaints.extend(documents::check_readme(page(&files, "README.md")?));
    complaints.extend(documents::check_mentions(&files));
    complaints.extend(contracts::check(&files));
    complaints.extend(names::check(&files));
    complaints.extend(prose::check(&files));

    if complaints.is_empty() {
        eprintln!("{} files are tidy", files.len());
        return Ok(());
    }
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    bail!("tidy: {} violations", complaints.len());
}

/// The text files that git tracks or would track, in the order of their paths.
fn files() -> Result<Vec<File>> {
    let mut git = Command::new("git");
    git.current_dir(workspace::root()).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = process::output(&mut git).context("listing the files of the checkout")?;
    let paths: BTreeSet<PathBuf> = listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(workspace::root().join(&path)).ok()?;
        Some(File { path, text })
    };
    Ok(paths.into_iter().filter_map(read).collect())
}

/// The text of a page that has to exist.
fn page<'a>(files: &'a [File], path: &str) -> Result<&'a str> {
    let file = files.iter().find(|file| file.path == Path::new(path));
    Ok(&file.with_context(|| format!("{path} is missing"))?.text)
}
