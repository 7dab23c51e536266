//! A real Neutron and Keystone in the cache: a virtual environment of Python with pinned packages,
//! and the data of freshly installed servers.
//!
//! Like the other servers they are complete or absent: they are installed in a folder beside their
//! place, which is then renamed. So no file below it may contain its own path. That is why only the
//! Python of `venv/bin` is used, and not the programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::cache::Entry;
use crate::process;
use crate::step::Progress;
use crate::workspace;

/// The releases and their paths: the same file that the tests use.
#[allow(unreachable_pub)]
#[path = "../../../examples/neutron/src/real/home.rs"]
mod home;

/// The file that is written last; its checksum shows that the entry is complete.
const RECEIPT: &str = "installed";
/// The WSGI server, which is not a dependency of either.
const WSGI_SERVER: &str = "waitress";

/// The folder with the virtual environment and the data, installed if it is missing.
pub(crate) fn provide() -> Result<PathBuf> {
    let folder = home::folder().context("neither XDG_CACHE_HOME nor HOME is set: no place for the servers")?;
    if folder.exists() && !runs(&folder) {
        eprintln!("the Python of {} no longer runs: Neutron is installed again", folder.display());
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Entry::new(folder.clone(), RECEIPT).provide(install)?;
    Ok(folder)
}

/// A virtual environment stops working when the system replaces the Python that created it.
fn runs(folder: &Path) -> bool {
    process::output(Command::new(python(folder)).args(["-c", &format!("import {WSGI_SERVER}")])).is_ok()
}

fn install(receipt: &Path) -> Result<()> {
    let folder = receipt.parent().context("the receipt lies in a folder")?;
    let server = workspace::root().join("examples/neutron/server");
    let label = format!("Neutron {} and Keystone {}", home::NEUTRON_VERSION, home::KEYSTONE_VERSION);

    let progress = Progress::start(format!("{label}: installing"), None);
    make_environment(&folder.join("venv"))?;
    let packages = [
        format!("neutron=={}", home::NEUTRON_VERSION),
        format!("keystone=={}", home::KEYSTONE_VERSION),
        WSGI_SERVER.to_owned(),
    ];
    let mut pip = Command::new(python(folder));
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--constraint"]);
    process::output(pip.arg(server.join("constraints.txt")).args(&packages)).context("installing with pip")?;
    progress.finish();

    let progress = Progress::start(format!("{label}: making their tables"), None);
    let mut prepare = Command::new(python(folder));
    prepare.arg(server.join("prepare.py")).arg(folder.join("data")).env("PYTHONWARNINGS", "ignore");
    process::output(&mut prepare).context("making the tables")?;
    progress.finish();
    fs::write(receipt, packages.join("\n")).context("writing the receipt")
}

pub(super) fn make_environment(folder: &Path) -> Result<()> {
    if process::output(Command::new("python3").arg("--version")).is_err() {
        bail!(
            "a package of Python is not in the cache, and there is no python3 to install it with: install Python (3.11 is known to do)"
        );
    }
    let made = process::output(Command::new("python3").args(["-m", "venv"]).arg(folder));
    made.map(drop).context("python3 cannot make a virtual environment (Debian has that in the package python3-venv)")
}

pub(super) fn python(folder: &Path) -> PathBuf {
    folder.join("venv/bin/python")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neutron_is_kept_with_the_other_servers() {
        let cache = super::super::cache_dir().unwrap().join("servers");
        assert_eq!(home::folder().unwrap().parent(), Some(cache.as_path()));
    }
}
