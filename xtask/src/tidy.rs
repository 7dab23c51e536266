//! What a person would otherwise have to remember. Each rule names the place and what to do about it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::{self, Package};

/// Which of our crates a crate may depend on: dependencies point downwards only (ARCHITECTURE.md).
const LAYERS: &[(&str, &[&str])] = &[
    ("steersman-world", &[]),
    ("steersman-wire", &[]),
    ("steersman-workqueue", &[]),
    ("steersman-client", &["steersman-wire", "steersman-world"]),
    ("steersman-cache", &["steersman-client", "steersman-wire", "steersman-world"]),
    (
        "steersman",
        &["steersman-cache", "steersman-client", "steersman-runtime", "steersman-wire", "steersman-workqueue"],
    ),
    (
        "steersman-runtime",
        &["steersman-cache", "steersman-client", "steersman-wire", "steersman-workqueue", "steersman-world"],
    ),
    ("steersman-apiserver", &["steersman-wire", "steersman-world"]),
    ("steersman-testing", &["steersman-apiserver", "steersman-wire", "steersman-world"]),
    ("steersman-cli", &["steersman-apiserver", "steersman-client"]),
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
    ("ingress-manager", &["steersman", "steersman-testing"]),
    ("network-operator", &["neutron", "steersman", "steersman-apiserver"]),
    ("neutron", &[]),
    ("xtask", &[]),
];
/// Packages that are programs or measurements: they may choose a Kubernetes version, and print.
const PROGRAMS: &[&str] = &["xtask", "steersman-bench", "steersman-cli", "labs", "ingress-manager", "network-operator"];
/// Past this length a file probably holds two ideas.
const LINES_MAX: usize = 700;

/// Checks the whole tree.
pub(crate) fn run() -> Result<()> {
    let mut complaints = Vec::new();
    let files = files()?;
    for path in &files {
        let Ok(text) = fs::read_to_string(workspace::root().join(path)) else { continue };
        check_text(path, &text, &mut complaints);
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => {
                check_rust(path, &text, &mut complaints);
                let library = path.starts_with("crates") && path.iter().any(|part| part == "src");
                if library {
                    check_select(path, &text, &mut complaints);
                    check_debug(path, &text, &mut complaints);
                }
            }
            Some("md") => check_links(path, &text, &mut complaints),
            _ => {}
        }
    }
    let packages = workspace::metadata()?.packages;
    for package in &packages {
        check_package(package, &mut complaints)?;
    }
    check_map(&packages, &mut complaints)?;
    check_unsafe(&files, &mut complaints)?;
    check_readme(&mut complaints)?;
    if complaints.is_empty() {
        eprintln!("{} files are tidy", files.len());
        return Ok(());
    }
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    bail!("{} things are untidy", complaints.len());
}

/// The files that git tracks or would track.
fn files() -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.current_dir(workspace::root()).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = process::output(&mut git).context("asking git for the files of the checkout")?;
    let files: BTreeSet<PathBuf> = listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    Ok(files.into_iter().filter(|path| workspace::root().join(path).is_file()).collect())
}

/// SECURITY.md names each file that allows `unsafe` code.
fn check_unsafe(files: &[PathBuf], complaints: &mut Vec<String>) -> Result<()> {
    let security = fs::read_to_string(workspace::root().join("SECURITY.md")).context("reading SECURITY.md")?;
    for path in files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let text = fs::read_to_string(workspace::root().join(path)).unwrap_or_default();
        // Written in two parts, so that this file does not complain of itself.
        let allowed = text.contains(concat!("allow(unsafe", "_code"));
        if allowed && !security.contains(&format!("`{}`", path.display())) {
            complaints.push(format!("{}: allows unsafe code, and SECURITY.md does not name it", path.display()));
        }
    }
    Ok(())
}

/// `Debug` of bytes prints them, and the bytes of an object may be a Secret: such types have a `Debug` of their own.
fn check_debug(path: &Path, text: &str, complaints: &mut Vec<String>) {
    const BYTES: [&str; 7] = [": Bytes", "(Bytes", ", Bytes)", "<Bytes", "Vec<u8>", "&'a [u8]", "[u8; "];
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        if !(line.trim_start().starts_with("#[derive(") && line.contains("Debug")) {
            continue;
        }
        // Up to the bracket that closes the type, or the line of a type without a body.
        let indent = line.len() - line.trim_start().len();
        let end = |line: &str| {
            let inner = line.trim_start();
            line.len() - inner.len() == indent && (inner.starts_with('}') || inner.ends_with(';'))
        };
        let body =
            lines[index + 1..].iter().take_while(|line| !end(line)).filter(|line| !line.trim().starts_with("//"));
        let last = lines[index + 1..].iter().find(|line| end(line));
        if body.chain(last).any(|line| BYTES.iter().any(|bytes| line.contains(bytes))) {
            let what = "derives Debug, which prints its bytes: implement it, and print their length";
            complaints.push(format!("{}:{}: {what}", path.display(), index + 1));
        }
    }
}

/// `select!` polls its branches in a random order unless it is `biased`, and the same run of a simulation would differ.
fn check_select(path: &Path, text: &str, complaints: &mut Vec<String>) {
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if !line.trim_end().ends_with("select! {") {
            continue;
        }
        let first =
            lines.by_ref().map(|(_, line)| line.trim()).find(|line| !line.is_empty() && !line.starts_with("//"));
        if first != Some("biased;") {
            complaints.push(format!("{}:{}: select! without `biased;`", path.display(), index + 1));
        }
    }
}

/// Rules for every text file.
fn check_text(path: &Path, text: &str, complaints: &mut Vec<String>) {
    let generated = path.extension().is_some_and(|extension| extension == "lock" || extension == "sum");
    if generated || path == Path::new("LICENSE") {
        return;
    }
    let mut complain = |line: usize, what: &str| complaints.push(format!("{}:{line}: {what}", path.display()));
    for (index, line) in text.lines().enumerate() {
        if line.ends_with([' ', '\t']) {
            complain(index + 1, "white space at the end of the line");
        }
        // Written in two parts, so that this file does not complain of itself.
        if [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")]
            .iter()
            .any(|folder| line.contains(folder))
        {
            complain(index + 1, "a path of somebody's machine");
        }
        let unfinished = [concat!("TO", "DO"), concat!("FIX", "ME")];
        if unfinished.iter().any(|word| line.contains(word) && !line.contains(&format!("{word}(#"))) {
            complain(index + 1, "unfinished work without the number of its issue");
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        complain(text.lines().count(), "no newline at the end of the file");
    }
}

/// Rules for Rust.
fn check_rust(path: &Path, text: &str, complaints: &mut Vec<String>) {
    let mut complain = |line: usize, what: &str| complaints.push(format!("{}:{line}: {what}", path.display()));
    // Tables of recorded answers are as long as they are.
    if text.lines().count() > LINES_MAX && !path.ends_with("tests.rs") {
        complain(LINES_MAX, "the file is long: does it hold two ideas?");
    }
    if path.ends_with("src/lib.rs") && !text.starts_with("//!") {
        complain(1, "a crate begins with an essay that explains it (//!)");
    }
    let in_test = path.components().any(|part| part.as_os_str() == "tests");
    let paused = text.contains("start_paused = true");
    let mut in_test_module = false;
    for (index, line) in text.lines().enumerate() {
        in_test_module |= line.starts_with("mod tests {");
        let code = line.trim_start();
        if code.starts_with(concat!("#[ign", "ore")) || code.contains(concat!("```ign", "ore")) {
            complain(index + 1, "a test or an example that never runs");
        }
        // Waiting for a condition polls, and paused time passes at once; nothing else in a test has a reason to wait.
        let sleeps = code.contains("thread::sleep(") || (code.contains("time::sleep(") && !paused);
        if sleeps
            && (in_test || in_test_module)
            && !["async fn eventually(", "async fn eventually<"]
                .iter()
                .any(|named| text[..offset(text, index)].contains(named))
        {
            complain(index + 1, "tests do not sleep: pause the time, or wait for a condition (`eventually`)");
        }
    }
}

fn offset(text: &str, line: usize) -> usize {
    text.lines().take(line).map(|line| line.len() + 1).sum()
}

/// A link to a file leads to one.
fn check_links(path: &Path, text: &str, complaints: &mut Vec<String>) {
    for (index, line) in text.lines().enumerate() {
        for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let folder = workspace::root().join(path.parent().unwrap_or(Path::new("")));
            if !folder.join(target).exists() {
                complaints.push(format!("{}:{}: no such file: {target}", path.display(), index + 1));
            }
        }
    }
}

/// A package keeps to its layer, to the workspace's lints, and leaves the Kubernetes version to programs.
fn check_package(package: &Package, complaints: &mut Vec<String>) -> Result<()> {
    let name = package.name.as_str();
    let mut complain = |what: String| complaints.push(format!("{name}: {what}"));
    let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
        complain("not in the layers of xtask/src/tidy.rs: say there what it may depend on".to_owned());
        return Ok(());
    };
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
    let manifest = fs::read_to_string(&package.manifest_path)?;
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
    Ok(())
}

/// The map names every package, and nothing that is gone.
fn check_map(packages: &[Package], complaints: &mut Vec<String>) -> Result<()> {
    let map = fs::read_to_string(workspace::root().join("ARCHITECTURE.md")).context("reading ARCHITECTURE.md")?;
    for package in packages {
        if !map.contains(&format!("`{}`", package.name)) {
            complaints.push(format!("ARCHITECTURE.md: `{}` is missing from the map", package.name));
        }
    }
    // `crates/x/src/y.rs` in backquotes is a place that must exist.
    for place in map.split('`').skip(1).step_by(2) {
        let is_place =
            ["crates/", "bench/", "xtask/", "examples/", ".ci/"].iter().any(|folder| place.starts_with(folder));
        if is_place && !place.contains(['*', ' ', '…']) && !workspace::root().join(place).exists() {
            complaints.push(format!("ARCHITECTURE.md: `{place}` does not exist"));
        }
    }
    Ok(())
}

/// The README has the two commands that a newcomer needs.
fn check_readme(complaints: &mut Vec<String>) -> Result<()> {
    let readme = fs::read_to_string(workspace::root().join("README.md")).context("reading README.md")?;
    for command in ["\ncargo run\n", "\ncargo xtask test\n"] {
        if readme.matches(command).count() != 1 {
            complaints.push(format!("README.md: `{}` must stand in it once, on a line of its own", command.trim()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints_of(check: impl FnOnce(&mut Vec<String>)) -> Vec<String> {
        let mut complaints = Vec::new();
        check(&mut complaints);
        complaints
    }

    #[test]
    fn what_is_wrong_is_found_and_what_is_right_is_not() {
        let path = Path::new("crates/x/tests/y.rs");
        let sleeping = concat!("fn f() {\n    std::thread::sle", "ep(d);\n}\n");
        assert_eq!(complaints_of(|found| check_rust(path, sleeping, found)).len(), 1);
        assert_eq!(complaints_of(|found| check_rust(Path::new("crates/x/src/y.rs"), sleeping, found)), [""; 0]);
        assert_eq!(complaints_of(|found| check_text(path, concat!("// TO", "DO\n"), found)).len(), 1);
        assert_eq!(complaints_of(|found| check_text(path, concat!("// TO", "DO(#12)\n"), found)), [""; 0]);
        assert_eq!(complaints_of(|found| check_text(path, "x \ny", found)).len(), 2);
        assert_eq!(complaints_of(|found| check_links(Path::new("README.md"), "[x](no-such-file.md)", found)).len(), 1);
        assert_eq!(complaints_of(|found| check_links(Path::new("README.md"), "[x](LICENSE#top)", found)), [""; 0]);
        assert_eq!(complaints_of(|found| check_rust(Path::new("crates/x/src/lib.rs"), "mod y;\n", found)).len(), 1);
        let select = "tokio::select! {\n    // First.\n    () = a => {}\n}\n";
        assert_eq!(complaints_of(|found| check_select(path, select, found)).len(), 1);
        let biased = select.replace("() = a", "biased;\n    () = a");
        assert_eq!(complaints_of(|found| check_select(path, &biased, found)), [""; 0]);
    }
}
