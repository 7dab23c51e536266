//! `steersman init`, `create api` and `delete api`. `cargo xtask project` builds what they make.

mod answers;
mod edits;
mod example;
mod force;
mod foreign;
mod names;
mod permissions;
mod trace;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A folder, and in it a project.
struct Workplace {
    folder: TempDir,
    name: &'static str,
}

impl Workplace {
    /// A folder without a project.
    fn empty() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), name: "" }
    }

    /// A new project.
    fn with_project() -> Self {
        let place = Self { name: "web-operator", ..Self::empty() };
        succeeds(&run(place.folder.path(), &["init", "web-operator", "--domain", "example.com"]));
        place
    }

    /// The folder of the project.
    fn root(&self) -> PathBuf {
        self.folder.path().join(self.name)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.root().join(path), text).unwrap();
    }

    /// Changes a file of the project.
    fn replace(&self, path: &str, from: &str, to: &str) {
        let text = self.read(path);
        assert!(text.contains(from), "{path} has no {from:?}:\n{text}");
        self.write(path, &text.replace(from, to));
    }

    /// Every file and folder of the project, with the text of the files.
    fn tree(&self) -> BTreeMap<PathBuf, String> {
        tree(&self.root())
    }

    /// Runs the command in the project. `arguments` are separated by spaces.
    fn run(&self, arguments: &str) -> Output {
        run(&self.root(), &arguments.split_whitespace().collect::<Vec<_>>())
    }

    /// Runs the command, which has to succeed, and returns what it prints.
    fn done(&self, arguments: &str) -> String {
        succeeds(&self.run(arguments))
    }

    /// Runs the command, which has to fail with this message and to leave everything as it is.
    #[track_caller]
    fn refused(&self, arguments: &str, message: &str) -> String {
        let before = self.tree();
        let error = fails(&self.run(arguments), message);
        self.is_as(&before, &format!("a refused command has changed something: {arguments}"));
        error
    }

    /// Fails if the project differs, and names the files.
    #[track_caller]
    fn is_as(&self, expected: &BTreeMap<PathBuf, String>, problem: &str) {
        let now = self.tree();
        let paths: BTreeSet<&PathBuf> = now.keys().chain(expected.keys()).collect();
        for path in paths {
            assert_eq!(now.get(path), expected.get(path), "{problem}: {}", path.display());
        }
    }

    /// Runs git in the project.
    fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.current_dir(self.root()).args(["-c", "user.name=a", "-c", "user.email=a@example.com"]).args(arguments);
        let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn steersman() -> Command {
    Command::new(env!("CARGO_BIN_EXE_steersman"))
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    steersman().args(arguments).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && stderr.is_empty(), "{stdout}{stderr}");
    stdout.into_owned()
}

#[track_caller]
fn fails(output: &Output, message: &str) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "it succeeds: {}", String::from_utf8_lossy(&output.stdout));
    assert!(stderr.starts_with("error: ") && stderr.contains(message), "expected {message:?} in: {stderr}");
    stderr
}

/// Every file and folder below a folder, with the text of the files. The data of git is left out.
fn tree(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            if name == Path::new(".git") {
                continue;
            }
            if path.is_dir() {
                found.insert(name, String::new());
                folders.push(path);
            } else {
                found.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

const CREATE: &str = "create api --group web --version v1 --kind Page";
