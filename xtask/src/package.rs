//! The packages that would be published.
//!
//! Cargo takes a version that it has seen once for unchanged, but ours change without a new
//! version: what it kept of them is removed before each build. This is done in a folder of its own,
//! so that the other builds keep theirs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::{self, Package};

/// Builds each library from the package that would be published.
pub(crate) fn build(packages: &[Package], target_directory: &Path) -> Result<()> {
    let mut command = fresh(packages, target_directory, &["package", "--quiet", "--allow-dirty"])?;
    for package in packages.iter().filter(|package| package.is_published_library()) {
        command.args(["--package", &package.name]);
    }
    process::run(&mut command)
}

/// Does all that publishing does, except the upload. Files that are not committed are an error.
pub(crate) fn publish_dry_run(packages: &[Package], target_directory: &Path) -> Result<()> {
    process::run(&mut fresh(packages, target_directory, &["publish", "--quiet", "--workspace", "--dry-run"])?)
}

/// Makes the package of each crate that would be published, and returns the archives.
pub(crate) fn archives(packages: &[Package], target_directory: &Path) -> Result<Vec<PathBuf>> {
    let published: Vec<&Package> = packages.iter().filter(|package| package.publish.is_none()).collect();
    let mut command = fresh(packages, target_directory, &["package", "--quiet", "--allow-dirty", "--no-verify"])?;
    for package in &published {
        command.args(["--package", &package.name]);
    }
    process::run(&mut command)?;
    let folder = target_directory.join("packages/package");
    Ok(published.iter().map(|package| folder.join(format!("{}-{}.crate", package.name, package.version))).collect())
}

/// A command of Cargo that has seen no version of our packages.
fn fresh(packages: &[Package], target_directory: &Path, arguments: &[&str]) -> Result<Command> {
    let folder = target_directory.join("packages");
    let sources = cargo_home()?.join("registry/src");
    for package in packages.iter().filter(|package| package.publish.is_none()) {
        remove_named(&folder.join("debug/.fingerprint"), &package.name)?;
        for registry in folders(&sources)? {
            // Those of packages that are only on this machine have no host in their name.
            if registry.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"-")) {
                remove_named(&registry, &package.name)?;
            }
        }
    }
    let mut command = workspace::cargo();
    command.args(arguments).env("CARGO_TARGET_DIR", &folder);
    Ok(command)
}

fn cargo_home() -> Result<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| Some(env::home_dir()?.join(".cargo"))).context("there is neither CARGO_HOME nor a home folder")
}

/// What is in `folder`; nothing if there is no such folder.
fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

/// Removes the folders of a package in `folder`: its name and a dash, then a version or a hash.
fn remove_named(folder: &Path, package: &str) -> Result<()> {
    for path in folders(folder)? {
        let rest = path.file_name().and_then(|name| name.to_str()?.strip_prefix(package)?.strip_prefix('-'));
        if rest.is_some_and(|rest| !rest.contains('-')) {
            fs::remove_dir_all(&path).with_context(|| format!("removing {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_folders_of_one_package_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["steersman-0.1.0", "steersman-cache-0.1.0", "other-0.1.0"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        remove_named(folder.path(), "steersman").unwrap();
        let mut left: Vec<_> = folders(folder.path()).unwrap();
        left.sort();
        assert_eq!(left, ["other-0.1.0", "steersman-cache-0.1.0"].map(|name| folder.path().join(name)));
    }
}
