//! `rust-version`: the oldest compiler that the libraries are built with.

use std::process::Command;

use anyhow::Result;

use crate::workspace::{self, Package};
use crate::{process, release};

/// Each library states the version of the toolchain that CI builds it with. A lower number would be
/// a guess.
pub(super) fn check(packages: &[Package]) -> Result<()> {
    let rustc = process::output(Command::new("rustc").arg("--version").current_dir(workspace::root()))?;
    let libraries = packages.iter().filter(|package| package.is_published_library());
    let complaints: Vec<String> = libraries
        .filter_map(|package| {
            mismatch(&rustc, package.rust_version.as_deref()).map(|why| format!("{}: {why}", package.name))
        })
        .collect();
    release::conclude(&complaints)
}

fn mismatch(rustc: &str, stated: Option<&str>) -> Option<String> {
    let Some(built) = rustc.split_whitespace().nth(1) else {
        return Some(format!("cannot read the version of {rustc:?}"));
    };
    let minor = |version: &str| version.split('.').take(2).collect::<Vec<_>>().join(".");
    match stated {
        None => Some(format!("rust-version is missing: it is built with {built}")),
        Some(stated) if minor(stated) != minor(built) => Some(format!(
            "rust-version is {stated}, but it is built with {built}: state that, or build with {stated} too"
        )),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_was_not_built_is_found() {
        let rustc = "rustc 1.95.0 (f2d3ce0bd 2026-03-21)";
        assert_eq!(mismatch(rustc, Some("1.95")), None);
        assert_eq!(mismatch(rustc, Some("1.95.0")), None);
        assert!(mismatch(rustc, Some("1.89")).unwrap().contains("built with 1.95.0"));
        assert!(mismatch(rustc, None).is_some());
    }
}
