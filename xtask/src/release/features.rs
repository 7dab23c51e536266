//! Features: each compiles alone, and what is optional is not built by default.

use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::{self, Package};
use crate::{process, release};

/// Dependencies that only a feature brings, as their libraries are called. They compile C.
const OPTIONAL: [&str; 2] = ["zstd", "zstd_sys"];
/// The library that users depend on.
const FACADE: &str = "steersman";

/// Looks at the default dependencies, and compiles each library without features, with each one,
/// and with all.
pub(super) fn check(packages: &[Package]) -> Result<()> {
    release::conclude(&built_by_default(&process::output(&mut tree())?))?;
    for package in packages.iter().filter(|package| package.is_published_library()) {
        for features in combinations(package) {
            eprintln!("{}: {}", package.name, if features.is_empty() { "no feature" } else { &features });
            let mut command = workspace::cargo();
            command.args(["clippy", "--quiet", "--lib", "--package", &package.name, "--no-default-features"]);
            command.args(["--features", &features, "--", "-D", "warnings"]);
            process::run(&mut command).with_context(|| format!("{} with the features [{features}]", package.name))?;
        }
    }
    Ok(())
}

/// No feature, each alone, and all.
fn combinations(package: &Package) -> Vec<String> {
    let names: Vec<&String> = package.features.keys().filter(|name| *name != "default").collect();
    let mut combinations = vec![String::new()];
    combinations.extend(names.iter().map(|name| (*name).clone()));
    if names.len() > 1 {
        combinations.push(names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(","));
    }
    combinations
}

/// The libraries that a user of the default features compiles, one a line.
fn tree() -> Command {
    let mut command = workspace::cargo();
    command.args(["tree", "--package", FACADE, "--edges", "normal,build", "--prefix", "none", "--format", "{lib}"]);
    command
}

fn built_by_default(tree: &str) -> Vec<String> {
    let found = OPTIONAL.iter().filter(|name| tree.lines().any(|line| line.trim() == **name));
    found.map(|name| format!("{FACADE}: `{name}` is built by default: make it optional again")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_is_compiled_alone_and_with_all_others() {
        let package = |features| -> Package {
            serde_json::from_value(serde_json::json!({
                "name": "a", "version": "1.0.0", "manifest_path": "Cargo.toml", "dependencies": [], "targets": [], "publish": null,
                "rust_version": null, "features": features,
            }))
            .expect("this is a package of cargo metadata")
        };
        assert_eq!(combinations(&package(serde_json::json!({}))), [""]);
        let features = serde_json::json!({"default": ["b"], "b": [], "c": []});
        assert_eq!(combinations(&package(features)), ["", "b", "c", "b,c"]);
    }

    #[test]
    fn an_optional_dependency_that_is_built_by_default_is_found() {
        assert_eq!(built_by_default("steersman\nzstd_sys\nbytes\n").len(), 1);
        assert_eq!(built_by_default("steersman\nbytes\nmy_zstd\n"), [""; 0]);
    }
}
