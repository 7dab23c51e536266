//! Rules for packages: their layer, their manifest, and their place on the map.

use std::path::Path;

use crate::workspace::Package;

/// Which of our crates a crate may depend on: dependencies point downwards only (ARCHITECTURE.md).
const LAYERS: &[(&str, &[&str])] = &[
    ("steersman-world", &[]),
    ("steersman-wire", &[]),
    ("steersman-http", &[]),
    ("steersman-workqueue", &[]),
    ("steersman-derive", &[]),
    ("steersman-manifests", &[]),
    ("steersman-client", &["steersman-wire", "steersman-world"]),
    ("steersman-cache", &["steersman-client", "steersman-wire", "steersman-world"]),
    (
        "steersman",
        &[
            "steersman-cache",
            "steersman-client",
            "steersman-derive",
            "steersman-http",
            "steersman-manifests",
            "steersman-runtime",
            "steersman-wire",
            "steersman-workqueue",
        ],
    ),
    (
        "steersman-runtime",
        &[
            "steersman-cache",
            "steersman-client",
            "steersman-http",
            "steersman-manifests",
            "steersman-wire",
            "steersman-workqueue",
            "steersman-world",
        ],
    ),
    ("steersman-apiserver", &["steersman-http", "steersman-wire", "steersman-world"]),
    (
        "steersman-program",
        &[
            "steersman-apiserver",
            "steersman-cache",
            "steersman-client",
            "steersman-http",
            "steersman-manifests",
            "steersman-runtime",
        ],
    ),
    (
        "steersman-testing",
        &[
            "steersman-apiserver",
            "steersman-client",
            "steersman-manifests",
            "steersman-runtime",
            "steersman-wire",
            "steersman-world",
        ],
    ),
    (
        "steersman-cli",
        &["steersman-apiserver", "steersman-client", "steersman-http", "steersman-runtime", "steersman-wire"],
    ),
    (
        "steersman-bench",
        &[
            "steersman-cache",
            "steersman-client",
            "steersman-runtime",
            "steersman-wire",
            "steersman-workqueue",
            "steersman-apiserver",
            "steersman-testing",
        ],
    ),
    ("labs", &["steersman", "steersman-testing"]),
    ("ingress-manager", &["steersman", "steersman-program", "steersman-testing"]),
    ("network-operator", &["neutron", "steersman", "steersman-program"]),
    ("website-operator", &["steersman", "steersman-program", "steersman-testing"]),
    ("website-operator-dev", &["steersman-program", "website-operator"]),
    ("neutron", &[]),
    ("xtask", &[]),
];
/// Packages that are programs or benchmarks: they may choose a Kubernetes version, and print.
const PROGRAMS: &[&str] =
    &["xtask", "steersman-bench", "steersman-cli", "labs", "ingress-manager", "network-operator", "website-operator"];

/// A package depends only on lower layers, uses the workspace's lints, and leaves the Kubernetes
/// version to programs.
pub(super) fn check(package: &Package, manifest: &str) -> Vec<String> {
    let name = package.name.as_str();
    let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
        return vec![format!("{name}: not in LAYERS of xtask/src/tidy/packages.rs: add what it may depend on")];
    };
    let mut complaints = Vec::new();
    let mut complain = |what: String| complaints.push(format!("{name}: {what}"));
    for dependency in &package.dependencies {
        let dev = dependency.kind.as_deref() == Some("dev");
        let ours = LAYERS.iter().any(|(layer, _)| *layer == dependency.name);
        if ours && !dev && !allowed.contains(&dependency.name.as_str()) {
            complain(format!("must not depend on {}: dependencies point downwards only", dependency.name));
        }
        let version = dependency.features.iter().any(|feature| feature.starts_with("v1_") || feature == "latest");
        if dependency.name == "k8s-openapi" && version && !dev && !PROGRAMS.contains(&name) {
            complain("only programs and tests choose a Kubernetes version (a feature of k8s-openapi)".to_owned());
        }
    }
    if !manifest.contains("[lints]\nworkspace = true") {
        complain("its Cargo.toml does not take the workspace's lints".to_owned());
    }
    if package.is_published_library() {
        for field in ["rust-version.workspace", "license.workspace", "description", "readme"] {
            if !manifest.lines().any(|line| line.starts_with(field)) {
                complain(format!("its Cargo.toml has no {field}"));
            }
        }
    }
    complaints
}

/// The code map names every package, and each path that it names exists below `root`.
pub(super) fn check_map(packages: &[Package], map: &str, root: &Path) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in packages {
        if !map.contains(&format!("`{}`", package.name)) {
            complaints.push(format!("ARCHITECTURE.md: `{}` is missing from the map", package.name));
        }
    }
    for place in map.split('`').skip(1).step_by(2) {
        let is_place =
            ["crates/", "bench/", "xtask/", "examples/", ".ci/"].iter().any(|folder| place.starts_with(folder));
        if is_place && !place.contains(['*', ' ', '…']) && !root.join(place).exists() {
            complaints.push(format!("ARCHITECTURE.md: `{place}` does not exist"));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Target;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    fn package(name: &str, dependency: &str, features: &[&str]) -> Package {
        serde_json::from_value(serde_json::json!({
            "name": name,
            "version": "1.0.0",
            "manifest_path": "Cargo.toml",
            "dependencies": [{"name": dependency, "kind": null, "features": features}],
            "targets": [],
            "publish": [],
            "features": {},
        }))
        .expect("this is a package of cargo metadata")
    }

    #[test]
    fn a_dependency_that_points_upwards_is_found() {
        assert_eq!(check(&package("steersman-wire", "steersman-client", &[]), LINTS).len(), 1);
        assert_eq!(check(&package("steersman-client", "steersman-wire", &[]), LINTS), [""; 0]);
        assert_eq!(check(&package("steersman-new", "serde", &[]), LINTS).len(), 1);
    }

    #[test]
    fn a_library_that_chooses_a_kubernetes_version_is_found() {
        assert_eq!(check(&package("steersman-wire", "k8s-openapi", &["v1_36"]), LINTS).len(), 1);
        assert_eq!(check(&package("steersman-cli", "k8s-openapi", &["v1_36"]), LINTS), [""; 0]);
    }

    #[test]
    fn a_package_without_the_workspace_s_lints_is_found() {
        assert_eq!(check(&package("steersman-wire", "serde", &[]), "").len(), 1);
    }

    #[test]
    fn a_library_without_the_fields_of_a_published_package_is_found() {
        let mut library = package("steersman-wire", "serde", &[]);
        library.publish = None;
        library.targets.push(Target { name: "steersman_wire".to_owned(), kind: vec!["lib".to_owned()] });
        let fields = "rust-version.workspace = true\nlicense.workspace = true\ndescription = \"\"\nreadme = \"\"\n";
        assert_eq!(check(&library, &format!("{fields}{LINTS}")), [""; 0]);
        for field in fields.lines() {
            let manifest = format!("{}{LINTS}", fields.replace(field, ""));
            assert_eq!(check(&library, &manifest).len(), 1, "without {field}");
        }
    }

    #[test]
    fn the_map_names_each_package_and_only_places_that_exist() {
        let (packages, root) = ([package("xtask", "serde", &[])], tempfile::tempdir().unwrap());
        assert_eq!(check_map(&packages, "`xtask` is in `xtask/src/main.rs`", root.path()).len(), 1);
        assert_eq!(check_map(&packages, "nothing", root.path()).len(), 1);
        assert_eq!(check_map(&packages, "`xtask`", root.path()), [""; 0]);
    }
}
