//! Prometheus' own parser in the cache: a virtual environment of Python with the package
//! `prometheus_client`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::cache::Entry;
use super::neutron::{make_environment, python};
use crate::process;
use crate::step::Progress;

/// Which release, and where the tests look for it: the very file that the tests use.
#[path = "../../../crates/steersman-runtime/tests/prometheus/home.rs"]
mod home;

/// The file that is written last; its checksum says that the entry is whole.
const RECEIPT: &str = "installed";

/// The folder with the virtual environment, installed if it is not there.
pub(crate) fn provide() -> Result<PathBuf> {
    let folder = home::folder().context("neither XDG_CACHE_HOME nor HOME is set: no place for the servers")?;
    let runs = || process::output(Command::new(python(&folder)).args(["-c", "import prometheus_client"])).is_ok();
    if folder.exists() && !runs() {
        eprintln!("the Python of {} no longer runs: it is installed again", folder.display());
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Entry::new(folder.clone(), RECEIPT).provide(install)?;
    Ok(folder)
}

fn install(receipt: &Path) -> Result<()> {
    let folder = receipt.parent().context("the receipt lies in a folder")?;
    let package = format!("prometheus_client=={}", home::VERSION);
    let progress = Progress::start(format!("{package}: installing"), None);
    make_environment(&folder.join("venv"))?;
    let mut pip = Command::new(python(folder));
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", &package]);
    process::output(&mut pip).context("installing with pip")?;
    progress.finish();
    fs::write(receipt, package).context("writing the receipt")
}
