//! Rules for Rust sources.

use std::path::Path;

use super::File;

/// A longer file probably holds two ideas.
const LINES_MAX: usize = 700;

/// The rules for one file.
pub(super) fn check(file: &File) -> Vec<String> {
    let mut complaints = check_layout(file);
    complaints.extend(check_tests(file));
    complaints.extend(check_eventually(file));
    if file.is_library() {
        complaints.extend(check_select(file));
        complaints.extend(check_debug(file));
    }
    complaints
}

fn check_layout(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    // Tables of recorded responses may be longer.
    if file.text.lines().count() > LINES_MAX && !file.path.ends_with("tests.rs") {
        complaints.push(file.complaint(LINES_MAX, "the file is long: does it hold two ideas?"));
    }
    if file.path.ends_with("src/lib.rs") && !file.text.starts_with("//!") {
        complaints.push(file.complaint(1, "a crate begins with an essay that explains it (//!)"));
    }
    complaints
}

/// The files that may poll a condition by hand: the test kit, and tests of crates that the kit is
/// made of or that depend on none of this workspace.
const POLL_BY_HAND: [&str; 3] = [
    "crates/steersman-testing/src/eventually.rs",
    "crates/steersman-apiserver/src/serve/tests.rs",
    "examples/neutron/tests/support/mod.rs",
];

/// Tests run, and do not sleep. Paused time passes at once, and `eventually` polls; no other wait
/// is needed in a test.
fn check_tests(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    let in_test = file.path.iter().any(|part| part == "tests");
    let paused = file.text.contains("start_paused = true");
    let in_kit = POLL_BY_HAND.iter().any(|path| file.path == Path::new(path));
    let (mut in_test_module, mut in_eventually) = (file.path.ends_with("tests.rs"), false);
    for (index, line) in file.text.lines().enumerate() {
        in_test_module |= line.starts_with("mod tests {");
        let code = line.trim_start();
        if in_kit && declares_eventually(code) {
            in_eventually = true;
        } else if line.starts_with('}') {
            in_eventually = false;
        }
        if code.starts_with(concat!("#[ign", "ore")) || code.contains(concat!("```ign", "ore")) {
            complaints.push(file.complaint(index + 1, "a test or an example that never runs"));
        }
        let sleeps = code.contains("thread::sleep(") || (code.contains("time::sleep(") && !paused);
        if sleeps && (in_test || in_test_module) && !in_eventually {
            let what = "tests do not sleep: pause the time, or wait for a condition (`eventually`)";
            complaints.push(file.complaint(index + 1, what));
        }
    }
    complaints
}

/// A function `eventually` outside of the test kit only chooses the deadline, or the form of the
/// condition: it calls the kit's.
fn check_eventually(file: &File) -> Vec<String> {
    if POLL_BY_HAND.iter().any(|path| file.path == Path::new(path)) {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let calls =
        |line: &&str| ["eventually_within(", "steersman_testing::eventually("].iter().any(|call| line.contains(call));
    let by_hand = |index: &usize| {
        let body = lines[index + 1..].iter().take_while(|line| !line.trim_end().ends_with('}'));
        declares_eventually(lines[*index].trim_start()) && !body.copied().any(|line| calls(&line))
    };
    let found = (0..lines.len()).filter(by_hand);
    found.map(|index| file.complaint(index + 1, "polls by hand: use `eventually` of steersman-testing")).collect()
}

fn declares_eventually(code: &str) -> bool {
    let declared = code.split_once("fn eventually").filter(|(before, _)| !before.contains(['"', '/']));
    declared.is_some_and(|(_, after)| after.starts_with(['(', '<', '_']))
}

/// `select!` polls its branches in a random order unless it is `biased`, so that two runs of the
/// same simulation would differ.
fn check_select(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut lines = file.text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        // An example in a comment is the code of a program, not of a library.
        if !line.trim_end().ends_with("select! {") || line.trim_start().starts_with("//") {
            continue;
        }
        let first =
            lines.by_ref().map(|(_, line)| line.trim()).find(|line| !line.is_empty() && !line.starts_with("//"));
        if first != Some("biased;") {
            complaints.push(file.complaint(index + 1, "select! without `biased;`"));
        }
    }
    complaints
}

/// A derived `Debug` prints bytes, and the bytes of an object may be a Secret.
fn check_debug(file: &File) -> Vec<String> {
    const BYTES: [&str; 7] = [": Bytes", "(Bytes", ", Bytes)", "<Bytes", "Vec<u8>", "&'a [u8]", "[u8; "];
    let mut complaints = Vec::new();
    let lines: Vec<&str> = file.text.lines().collect();
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
            complaints.push(file.complaint(index + 1, what));
        }
    }
    complaints
}

/// `SECURITY.md` names each file that allows `unsafe` code.
pub(super) fn check_unsafe(files: &[File], security: &str) -> Vec<String> {
    // In two parts, so that this file passes.
    let allows = |file: &&File| file.has_extension("rs") && file.text.contains(concat!("allow(unsafe", "_code"));
    let named = |file: &&File| security.contains(&format!("`{}`", file.path.display()));
    let unnamed = files.iter().filter(allows).filter(|file| !named(file));
    unnamed.map(|file| file.complaint(1, "allows unsafe code, and SECURITY.md does not name it")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [&str; 0] = [];

    #[test]
    fn a_test_that_sleeps_is_found() {
        let sleeping = concat!("fn f() {\n    std::thread::sle", "ep(d);\n}\n");
        assert_eq!(check_tests(&File::new("crates/x/tests/y.rs", sleeping)).len(), 1);
        assert_eq!(check_tests(&File::new("crates/x/src/y.rs", sleeping)), NONE);
        // Only in the function that polls, and not after it.
        let polling = sleeping.replace("fn f", "async fn eventually");
        assert_eq!(check_tests(&File::new(POLL_BY_HAND[0], &polling)), NONE);
        assert_eq!(check_tests(&File::new(POLL_BY_HAND[1], &format!("{polling}{sleeping}"))).len(), 1);
        assert_eq!(check_tests(&File::new("crates/x/tests/y.rs", &polling)).len(), 1);
    }

    #[test]
    fn a_test_that_polls_by_hand_is_found() {
        let polling = "async fn eventually<T>(f: F) {\n    while !f() {\n        yield_now().await;\n    }\n}\n";
        let complaint = "crates/x/tests/y.rs:1: polls by hand: use `eventually` of steersman-testing";
        assert_eq!(check(&File::new("crates/x/tests/y.rs", polling)), [complaint]);
        assert_eq!(check(&File::new(POLL_BY_HAND[0], polling)), NONE);
        let calling = "async fn eventually(f: F) {\n    eventually_within(MINUTE, || ready(f())).await;\n}\n";
        assert_eq!(check(&File::new("crates/x/tests/y.rs", calling)), NONE);
        assert_eq!(check(&File::new("crates/x/tests/y.rs", "/// Unlike `fn eventually(`.\n")), NONE);
    }

    #[test]
    fn a_test_that_never_runs_is_found() {
        assert_eq!(check_tests(&File::new("crates/x/tests/y.rs", concat!("#[ign", "ore]\n"))).len(), 1);
    }

    #[test]
    fn long_files_and_crates_without_an_essay_are_found() {
        assert_eq!(check_layout(&File::new("crates/x/src/lib.rs", "mod y;\n")).len(), 1);
        assert_eq!(check_layout(&File::new("crates/x/src/lib.rs", "//! About x.\n")), NONE);
        assert_eq!(check_layout(&File::new("crates/x/src/y.rs", &"\n".repeat(LINES_MAX + 1))).len(), 1);
    }

    #[test]
    fn a_select_in_random_order_is_found() {
        let select = "tokio::select! {\n    // First.\n    () = a => {}\n}\n";
        assert_eq!(check(&File::new("crates/x/src/y.rs", select)).len(), 1);
        let biased = select.replace("() = a", "biased;\n    () = a");
        assert_eq!(check(&File::new("crates/x/src/y.rs", &biased)), NONE);
        let example = "/// tokio::select! {\n///     () = a => {}\n/// }\n";
        assert_eq!(check(&File::new("crates/x/src/y.rs", example)), NONE);
    }

    #[test]
    fn a_debug_that_prints_bytes_is_found() {
        let derived = "#[derive(Debug)]\nstruct Body {\n    bytes: Bytes,\n}\n";
        assert_eq!(check(&File::new("crates/x/src/y.rs", derived)).len(), 1);
        assert_eq!(check(&File::new("crates/x/src/y.rs", &derived.replace("Bytes", "Length"))), NONE);
    }

    #[test]
    fn unsafe_code_that_security_md_does_not_name_is_found() {
        let files = [File::new("crates/x/src/y.rs", concat!("#![allow(unsafe", "_code)]\n"))];
        assert_eq!(check_unsafe(&files, "").len(), 1);
        assert_eq!(check_unsafe(&files, "except in `crates/x/src/y.rs`"), NONE);
    }
}
