//! The packages that would be published, in a directory registry: the command is installed from
//! there, and a project that it makes takes our crates from there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::project::{self, Crates};
use crate::workspace::{self, Package};
use crate::{package, process};

/// The package with the command.
const COMMAND: &str = "steersman-cli";

/// Installs the command, and makes a project with it.
pub(super) fn check(packages: &[Package], target_directory: &Path) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("steersman-registry-").tempdir().context("creating a folder")?;
    let registry = folder.path().join("registry");
    // The dependencies, also those of other systems. What is not there yet is downloaded.
    let mut vendor = workspace::cargo();
    process::output(vendor.args(["vendor", "--quiet", "--locked", "--versioned-dirs"]).arg(&registry))?;
    for archive in package::archives(packages, target_directory)? {
        unpack(&archive, &registry)?;
    }
    let settings = vec![
        "source.crates-io.replace-with='packaged'".to_owned(),
        format!("source.packaged.directory='{}'", registry.display()),
    ];
    let installed = folder.path().join("installed");
    process::run(&mut install(&installed, &settings, target_directory))?;
    let crates = Crates::Registry { steersman: installed.join("bin/steersman"), settings };
    project::check(&crates, &target_directory.join("packages")).map(drop)
}

/// `cargo install` of the command. In a folder without settings of Cargo, as a user's.
fn install(root: &Path, settings: &[String], target_directory: &Path) -> Command {
    let mut command = workspace::cargo_outside(&std::env::temp_dir(), &target_directory.join("packages"));
    for setting in settings {
        command.args(["--config", setting]);
    }
    command.args(["install", COMMAND, "--debug", "--offline", "--root"]).arg(root);
    command
}

/// Adds a package to the registry.
fn unpack(archive: &Path, registry: &Path) -> Result<()> {
    process::run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(registry))?;
    // No file has a recorded checksum.
    let folder: PathBuf = registry.join(archive.file_stem().context("an archive without a name")?);
    fs::write(folder.join(".cargo-checksum.json"), "{\"files\":{}}\n")
        .with_context(|| format!("writing to {}", folder.display()))
}
