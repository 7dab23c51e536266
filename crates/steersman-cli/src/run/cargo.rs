//! The project, and what cargo reports about its build.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::core::Binary;

/// The file that `steersman init` writes.
const PROJECT_FILE: &str = "steersman.toml";

/// cargo. It sets `CARGO` to itself for the programs that it runs.
pub(super) fn cargo() -> OsString {
    std::env::var_os("CARGO").filter(|cargo| !cargo.is_empty()).unwrap_or_else(|| "cargo".into())
}

/// The project that is run.
#[derive(Debug, Clone)]
pub(super) struct Project {
    /// The folder of its root package.
    pub(super) folder: PathBuf,
    /// The name of that package.
    pub(super) package: String,
    /// The name of the operator's binary.
    pub(super) binary: String,
}

impl Project {
    /// The project in `start` or in the nearest folder above it.
    pub(super) fn find(start: &Path) -> Result<Self> {
        let folder = start.ancestors().find(|folder| folder.join(PROJECT_FILE).is_file()).with_context(|| {
            let place = start.display();
            format!(
                "no {PROJECT_FILE} in {place} or a folder above it: change to the folder of a project, or create \
                 one with `steersman init`"
            )
        })?;
        let output = Command::new(cargo())
            .args(["metadata", "--no-deps", "--format-version=1"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .output()
            .context("cannot run cargo: install Rust, or set CARGO to the path of cargo")?;
        let problem = || format!("cargo cannot read the project in {}", folder.display());
        ensure!(output.status.success(), "{}:\n{}", problem(), String::from_utf8_lossy(&output.stderr).trim_end());
        let metadata: Metadata = serde_json::from_slice(&output.stdout).with_context(problem)?;
        metadata.project(folder)
    }

    /// The arguments of cargo that build the operator.
    pub(super) fn build_arguments(&self, is_colored: bool) -> Vec<OsString> {
        let mut arguments = vec!["build", "--message-format=json-render-diagnostics"];
        arguments.extend(["--package", &self.package, "--bin", &self.binary]);
        if is_colored {
            // Its output is a pipe.
            arguments.extend(["--color", "always"]);
        }
        arguments.into_iter().map(OsString::from).collect()
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Metadata {
    fn project(self, folder: &Path) -> Result<Project> {
        let manifest = folder.join("Cargo.toml");
        let is_root =
            |package: &Package| package.manifest_path == manifest || same_file(&package.manifest_path, &manifest);
        let Some(package) = self.packages.into_iter().find(is_root) else {
            bail!("{} has no package: the operator is the root package of its workspace", manifest.display());
        };
        let binaries: Vec<&str> = package
            .targets
            .iter()
            .filter(|target| target.kind.iter().any(|kind| kind == "bin"))
            .map(|target| &*target.name)
            .collect();
        let binary = match binaries.as_slice() {
            [only] => *only,
            several if several.contains(&&*package.name) => &package.name,
            _ => bail!(
                "the package {} has no binary {}: its binaries are {binaries:?}; name one as the package",
                package.name,
                package.name
            ),
        };
        Ok(Project { folder: folder.to_owned(), binary: binary.to_owned(), package: package.name })
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// The messages of one build.
#[derive(Debug, Default)]
pub(super) struct Messages {
    executable: Option<PathBuf>,
}

impl Messages {
    /// Reads a line of the standard output. Returns it if it is not a message for programs.
    pub(super) fn read(&mut self, line: String, binary: &str) -> Option<String> {
        let Ok(message) = serde_json::from_str::<Message>(&line) else { return Some(line) };
        if message.reason == "compiler-artifact"
            && message
                .target
                .is_some_and(|target| target.name == binary && target.kind.iter().any(|kind| kind == "bin"))
            && message.executable.is_some()
        {
            self.executable = message.executable;
        }
        None
    }

    /// What was built.
    pub(super) fn binary(self) -> Result<Binary, String> {
        let path = self.executable.ok_or("cargo reported no executable")?;
        let stamp = stamp(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok(Binary { path, stamp })
    }
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

fn stamp(path: &Path) -> std::io::Result<String> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path)?;
    let (inode, size) = (metadata.ino(), metadata.size());
    Ok(format!("{inode}-{size}-{}.{:09}", metadata.mtime(), metadata.mtime_nsec()))
}

/// The files that the last build of a binary has read: cargo writes them beside it, in the format
/// of `make`. Empty if cargo has written none.
pub(super) fn files_read(binary: &Path) -> BTreeSet<PathBuf> {
    let text = fs::read_to_string(binary.with_extension("d")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    lines.flat_map(|(_, files)| make_words(files)).map(PathBuf::from).collect()
}

/// Splits at spaces that have no backslash before them.
fn make_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut characters) = (Vec::new(), String::new(), text.chars().peekable());
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.peek() == Some(&' ') => word.extend(characters.next()),
            ' ' => words.push(std::mem::take(&mut word)),
            _ => word.push(character),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn project(packages: &serde_json::Value) -> Result<Project> {
        let metadata: Metadata = serde_json::from_value(json!({"packages": packages})).unwrap();
        metadata.project(Path::new("/p"))
    }

    #[test]
    fn the_operator_is_the_binary_of_the_root_package() {
        let target = |name: &str, kind: &str| json!({"name": name, "kind": [kind]});
        let package = |name: &str, folder: &str, targets: &[serde_json::Value]| json!({"name": name, "manifest_path": format!("{folder}/Cargo.toml"), "targets": targets});
        let dev = package("guestbook-dev", "/p/dev", &[target("guestbook-dev", "bin")]);
        let root = package("guestbook", "/p", &[target("guestbook", "lib"), target("operator", "bin")]);
        let found = project(&json!([dev, root])).unwrap();
        assert_eq!((&*found.package, &*found.binary), ("guestbook", "operator"));
        let several = package("guestbook", "/p", &[target("tool", "bin"), target("guestbook", "bin")]);
        assert_eq!(project(&json!([several])).unwrap().binary, "guestbook");
        let none = package("guestbook", "/p", &[target("a", "bin"), target("b", "bin")]);
        let error = project(&json!([none])).unwrap_err().to_string();
        assert!(error.contains("has no binary guestbook") && error.contains(r#"["a", "b"]"#), "{error}");
        let error = project(&json!([dev])).unwrap_err().to_string();
        assert!(error.contains("/p/Cargo.toml has no package"), "{error}");
    }

    #[test]
    fn a_folder_without_a_project_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let error = Project::find(folder.path()).unwrap_err().to_string();
        assert!(error.contains("no steersman.toml in") && error.contains("`steersman init`"), "{error}");
    }

    #[test]
    fn the_executable_is_read_from_the_messages_and_other_lines_are_shown() {
        let artifact = |name: &str, kind: &str, executable: Option<&str>| {
            let target = json!({"name": name, "kind": [kind]});
            json!({"reason": "compiler-artifact", "target": target, "executable": executable}).to_string()
        };
        let mut messages = Messages::default();
        for line in [
            artifact("guestbook", "lib", None),
            artifact("guestbook", "bin", Some("/t/guestbook")),
            artifact("guestbook-dev", "bin", Some("/t/guestbook-dev")),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ] {
            assert_eq!(messages.read(line, "guestbook"), None);
        }
        assert_eq!(messages.read("no message".to_owned(), "guestbook").as_deref(), Some("no message"));
        assert_eq!(messages.executable.as_deref(), Some(Path::new("/t/guestbook")));
        assert_eq!(Messages::default().binary().unwrap_err(), "cargo reported no executable");
    }

    #[test]
    fn a_binary_has_another_stamp_after_it_is_linked_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("operator");
        let link = || {
            let built = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
            built.persist(&path).unwrap();
            stamp(&path).unwrap()
        };
        let first = link();
        assert_eq!(stamp(&path).unwrap(), first);
        assert_ne!(link(), first);
    }

    #[test]
    fn the_files_of_a_build_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("guestbook");
        assert_eq!(files_read(&binary), BTreeSet::new());
        fs::write(folder.path().join("guestbook.d"), "/t/guestbook: /p/src/lib.rs /p/a\\ b.rs\n").unwrap();
        assert_eq!(files_read(&binary), [PathBuf::from("/p/a b.rs"), PathBuf::from("/p/src/lib.rs")].into());
    }
}
