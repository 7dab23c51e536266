//! The example `examples/website-operator` is what the commands make.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Workplace, run, succeeds, tree};

/// The commands that make the example.
const COMMANDS: [&str; 3] = [
    "create api --group web --version v1alpha1 --kind Website",
    "create api --group web --version v1alpha1 --kind Tenant --namespaced false",
    "create api --from-crd ../backup.yaml",
];

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/website-operator")
}

/// The files without folders, and without those that the example cannot have: the project file has
/// digests of every file.
fn files(mut tree: BTreeMap<PathBuf, String>) -> BTreeMap<PathBuf, String> {
    let is_generated = |path: &Path| path.starts_with("target") || path.starts_with("deploy");
    let other = ["Cargo.lock", "steersman.toml", "Cargo.toml", "dev/Cargo.toml"];
    tree.retain(|path, text| !text.is_empty() && !is_generated(path) && !other.contains(&path.to_str().unwrap()));
    tree
}

#[test]
fn the_example_is_what_the_commands_make() {
    let place = Workplace { name: "website-operator", ..Workplace::empty() };
    let folder = place.folder.path();
    fs::copy(example().join("crds/backup.yaml"), folder.join("backup.yaml")).unwrap();
    succeeds(&run(folder, &["init", "website-operator", "--domain", "example.com"]));
    for command in COMMANDS {
        place.done(command);
    }
    let (made, expected) = (files(place.tree()), files(tree(&example())));
    assert_eq!(made.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "the same files");
    for (path, text) in &expected {
        assert_eq!(made[path], *text, "{}", path.display());
    }
}

/// What differs between the manifests: where our crates come from, and the workspace.
#[test]
fn the_manifests_of_the_example_differ_only_in_the_crates_and_the_workspace() {
    let place = Workplace { name: "website-operator", ..Workplace::empty() };
    succeeds(&run(place.folder.path(), &["init", "website-operator"]));
    for (path, workspace) in [("Cargo.toml", true), ("dev/Cargo.toml", false)] {
        let made = place.read(path);
        let made = match made.split_once("\n[package]\n") {
            Some((before, rest)) if workspace => {
                assert!(before.contains("[workspace]") && before.contains("default-members = [\".\", \"dev\"]"));
                format!("[package]\n{rest}")
            }
            _ => made,
        };
        let expected = fs::read_to_string(example().join(path)).unwrap();
        let is_ours = |line: &&str| line.starts_with("steersman");
        let others = |text: &str| text.lines().filter(|line| !is_ours(line)).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(others(&made), others(&expected), "{path}");
        let version = env!("CARGO_PKG_VERSION");
        let name = |line: &str| line.split(' ').next().unwrap().to_owned();
        let (made, expected): (Vec<&str>, Vec<&str>) =
            (made.lines().filter(is_ours).collect(), expected.lines().filter(is_ours).collect());
        assert_eq!(made.len(), expected.len(), "{path}");
        for (made, expected) in made.iter().zip(expected) {
            assert!(name(made) == name(expected) && made.contains(version) && !made.contains("path"), "{made}");
        }
    }
}

#[test]
fn every_file_of_the_example_is_a_link_of_the_package() {
    // `cargo package` takes the files behind the links: none may be missing.
    let links = tree(&Path::new(env!("CARGO_MANIFEST_DIR")).join("template"));
    let mut linked: Vec<&String> = links.values().filter(|text| !text.is_empty()).collect();
    linked.sort();
    for (path, text) in files(tree(&example())) {
        let generated = ["crds/backup.yaml", "src/api/v1/backup.rs", "src/api/v1/mod.rs"];
        if !generated.contains(&path.to_str().unwrap()) {
            assert!(linked.binary_search(&&text).is_ok(), "{} has no link in template", path.display());
        }
    }
}

#[test]
fn a_checkout_replaces_the_released_crates() {
    let place = Workplace::empty();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let checkout = fs::canonicalize(checkout).unwrap();
    let absolute = checkout.to_str().unwrap();
    succeeds(&run(place.folder.path(), &["init", "one", "--steersman-path", absolute]));
    let manifest = fs::read_to_string(place.folder.path().join("one/dev/Cargo.toml")).unwrap();
    assert!(manifest.contains(&format!("path = \"{absolute}/crates/steersman-program\"")), "{manifest}");

    std::os::unix::fs::symlink(&checkout, place.folder.path().join("checkout")).unwrap();
    succeeds(&run(place.folder.path(), &["init", "two", "--steersman-path", "checkout"]));
    let read = |path: &str| fs::read_to_string(place.folder.path().join("two").join(path)).unwrap();
    assert!(read("Cargo.toml").contains("path = \"../checkout/crates/steersman\""));
    assert!(read("dev/Cargo.toml").contains("path = \"../../checkout/crates/steersman-program\""));

    let refused = run(place.folder.path(), &["init", "three", "--steersman-path", "two"]);
    super::fails(&refused, "two is no checkout of steersman, two/crates/steersman/Cargo.toml is missing");
    assert!(!place.folder.path().join("three").exists());
}
