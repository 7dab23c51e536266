//! `cargo deny`: licences, sources and bans of every dependency, and known vulnerabilities if their
//! database is reachable.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::servers::cache_dir;
use crate::step::Progress;
use crate::workspace;

const VERSION: &str = "0.20.2";

/// Whether known vulnerabilities were checked.
pub(crate) enum Advisories {
    /// They were checked, and none affects us.
    Checked,
    /// The database could not be reached: known vulnerabilities were not checked.
    NoData {
        /// Why, on one line.
        reason: String,
    },
}

/// Checks every dependency by the rules in `deny.toml`.
pub(crate) fn check() -> Result<Advisories> {
    let program = provide()?;
    let deny = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(workspace::root()).args(["--log-level", "error"]).args(arguments);
        command
    };
    process::run(&mut deny(&["check", "bans", "licenses", "sources"]))?;
    if let Err(unreachable) = process::output(&mut deny(&["fetch", "db"])) {
        eprintln!("advisories not checked, their database cannot be reached: {unreachable:#}");
        return Ok(Advisories::NoData { reason: last_line(&format!("{unreachable:#}")) });
    }
    process::run(&mut deny(&["check", "--disable-fetch", "advisories"]))?;
    Ok(Advisories::Checked)
}

/// The last line with text: programs print the cause last.
fn last_line(text: &str) -> String {
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

/// The pinned version of the program, installed into the cache if it is missing. `cargo install`
/// moves a program into place only when it is finished, and serializes two runs by itself.
fn provide() -> Result<PathBuf> {
    let cache = cache_dir().context("neither XDG_CACHE_HOME nor HOME is set: no place for cargo-deny")?;
    let root = cache.join("tools").join(format!("cargo-deny-{VERSION}"));
    let program = root.join("bin").join("cargo-deny");
    if !program.is_file() {
        let installing = Progress::start(format!("cargo-deny {VERSION}: installing"), None);
        // A debug build: compiling with optimizations takes longer than it would save.
        let mut command = workspace::cargo();
        command.args(["install", "--quiet", "--locked", "--debug", "--no-track", "--version", VERSION, "--root"]);
        process::output(command.arg(&root).arg("cargo-deny")).context("installing cargo-deny")?;
        installing.finish();
    }
    Ok(program)
}
