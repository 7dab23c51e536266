//! The public API of each library, as a text file in `api/`: one item a line.
//!
//! A change of the API shows in the diff of a commit, where a reviewer sees it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::{self, Package};

/// The folder of the snapshots.
const FOLDER: &str = "api";
/// Lines of a difference that are printed.
const LINES_MAX: usize = 40;

/// The public API of a library with all its features, in the order of the text.
///
/// rustdoc writes JSON only on nightly or, as here, where `RUSTC_BOOTSTRAP` names the crate. Naming
/// crates leaves the builds of dependencies as they are.
pub(super) fn of(package: &Package, libraries: &[&Package], target_directory: &Path) -> Result<Vec<String>> {
    let crates: Vec<String> = libraries.iter().map(|library| crate_name(&library.name)).collect();
    let mut command = workspace::cargo();
    command.args(["rustdoc", "--package", &package.name, "--lib", "--all-features", "--"]);
    command.args(["-Z", "unstable-options", "--output-format", "json"]);
    // In a folder of its own, so that the documentation of other tasks is not built again.
    let folder = target_directory.join("api");
    command.env("RUSTC_BOOTSTRAP", crates.join(",")).env("CARGO_TARGET_DIR", &folder);
    process::output(&mut command).with_context(|| format!("reading the public API of {}", package.name))?;
    let json = folder.join("doc").join(format!("{}.json", crate_name(&package.name)));
    let api = public_api::Builder::from_rustdoc_json(&json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .with_context(|| format!("reading {}", json.display()))?;
    let lines: BTreeSet<String> = api.items().map(ToString::to_string).collect();
    Ok(lines.into_iter().collect())
}

/// The name of a package's library in paths.
pub(super) fn crate_name(package: &str) -> String {
    package.replace('-', "_")
}

fn file(package: &str) -> PathBuf {
    workspace::root().join(FOLDER).join(format!("{package}.txt"))
}

/// Takes the API over as the snapshot.
pub(super) fn write(package: &str, api: &[String]) -> Result<()> {
    let file = file(package);
    fs::create_dir_all(workspace::root().join(FOLDER))?;
    fs::write(&file, format!("{}\n", api.join("\n"))).with_context(|| format!("writing {}", file.display()))
}

/// A complaint if the API is not that of the snapshot.
pub(super) fn compare(package: &str, api: &[String]) -> Result<Option<String>> {
    let file = file(package);
    let snapshot = if file.exists() {
        fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?
    } else {
        String::new()
    };
    Ok(difference(package, &snapshot, api))
}

fn difference(package: &str, snapshot: &str, api: &[String]) -> Option<String> {
    let before: BTreeSet<&str> = snapshot.lines().collect();
    let after: BTreeSet<&str> = api.iter().map(String::as_str).collect();
    let removed: Vec<String> = before.difference(&after).map(|line| format!("- {line}")).collect();
    let added: Vec<String> = after.difference(&before).map(|line| format!("+ {line}")).collect();
    if removed.is_empty() && added.is_empty() {
        return None;
    }
    let (removals, additions) = (removed.len(), added.len());
    let mut lines: Vec<String> = removed.into_iter().chain(added).collect();
    if lines.len() > LINES_MAX {
        let more = lines.len() - LINES_MAX;
        lines.truncate(LINES_MAX);
        lines.push(format!("… and {more} more"));
    }
    Some(format!(
        "{package}: the public API differs from {FOLDER}/{package}.txt: {removals} items removed, {additions} added. If that \
         is intended, run `cargo xtask release-check api --accept-api`, and name it in CHANGELOG.md; removals are breaking\n{}",
        lines.join("\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn an_item_that_is_removed_or_added_is_found() {
        let snapshot = "pub fn a::one()\npub fn a::two()\n";
        assert_eq!(difference("a", snapshot, &api(&["pub fn a::one()", "pub fn a::two()"])), None);
        let complaint = difference("a", snapshot, &api(&["pub fn a::one()", "pub fn a::three()"])).unwrap();
        assert!(complaint.contains("1 items removed, 1 added"), "{complaint}");
        assert!(complaint.ends_with("- pub fn a::two()\n+ pub fn a::three()"), "{complaint}");
    }

    #[test]
    fn a_library_without_a_snapshot_is_found() {
        assert!(difference("a", "", &api(&["pub mod a"])).unwrap().contains("0 items removed, 1 added"));
    }

    #[test]
    fn a_long_difference_is_cut() {
        let many: Vec<String> = (0..100).map(|number| format!("pub fn a::f{number:03}()")).collect();
        assert!(difference("a", "", &many).unwrap().ends_with("… and 60 more"));
    }
}
