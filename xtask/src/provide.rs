//! Programs of the system that tests need beyond Rust, Go and Python. They are installed where that
//! is possible without a prompt (Debian, root). Elsewhere a missing program is an error with the
//! command that installs it, never a skipped test.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use nix::unistd::geteuid;

use crate::process;
use crate::step::Progress;

/// A program, and the Debian package that has it.
struct Program {
    /// The names under which distributions install it. The tests use the same names.
    names: &'static [&'static str],
    package: &'static str,
    /// What needs it, in the plural.
    needed_by: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program {
        names: &["chromium", "chromium-browser", "google-chrome", "chrome"],
        package: "chromium",
        needed_by: "the tests of `steersman proxy` in a browser",
    },
    Program {
        names: &["faketime"],
        package: "faketime",
        needed_by: "the tests of leader election with wrong wall clocks",
    },
    Program { names: &["valgrind"], package: "valgrind", needed_by: "the recorded instruction counts" },
];

/// Provides every program and prints where each is.
pub(crate) fn programs() -> Result<()> {
    for program in PROGRAMS {
        let path = match program.find() {
            Some(path) => path,
            None => program.install()?,
        };
        eprintln!("{} {}", program.package, path.display());
    }
    Ok(())
}

impl Program {
    fn find(&self) -> Option<PathBuf> {
        find(self.names, path_folders().into_iter())
    }

    fn install(&self) -> Result<PathBuf> {
        if !Path::new("/etc/debian_version").exists() || !geteuid().is_root() {
            bail!("{}", self.missing());
        }
        let progress = Progress::start(format!("{}: installing with apt-get", self.package), None);
        let apt = |arguments: &[&str]| {
            let mut command = Command::new("apt-get");
            command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
            process::output(&mut command).with_context(|| self.missing())
        };
        apt(&["update"])?;
        apt(&["install", "--yes", "--no-install-recommends", self.package])?;
        progress.finish();
        self.find().with_context(|| format!("apt-get installed {}, and it is not in PATH", self.package))
    }

    fn missing(&self) -> String {
        format!(
            "{} is not installed, and {} need it. On Debian: sudo apt-get install {}. Elsewhere, install one of {} into \
             PATH. `cargo xtask test --fast` runs without it",
            self.names[0],
            self.needed_by,
            self.package,
            self.names.join(", "),
        )
    }
}

/// Where the program of this name is, if it is in PATH.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    find(&[name], path_folders().into_iter())
}

fn path_folders() -> Vec<PathBuf> {
    env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect()
}

/// The first program of these names in these folders.
fn find(names: &[&str], mut folders: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    folders.find_map(|folder| names.iter().map(|name| folder.join(name)).find(|path| path.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_under_any_of_its_names() {
        let (empty, full) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = || [empty.path().to_owned(), full.path().to_owned()].into_iter();
        assert_eq!(find(&["one", "two"], folders()), None);
        let path = full.path().join("two");
        std::fs::write(&path, "").unwrap();
        assert_eq!(find(&["one", "two"], folders()), Some(path));
    }

    #[test]
    fn a_missing_program_is_an_error_with_the_command_that_installs_it() {
        for program in PROGRAMS {
            let missing = program.missing();
            assert!(missing.contains(&format!("sudo apt-get install {}", program.package)), "{missing}");
        }
    }
}
