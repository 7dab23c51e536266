//! Missing arguments: questions on a terminal, errors elsewhere.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use nix::pty::{OpenptyResult, openpty};

use super::{CREATE, Workplace, steersman};

#[test]
fn without_a_terminal_a_missing_argument_is_an_error_that_names_it() {
    let place = Workplace::with_project();
    place.refused("create api --version v1 --kind Page", "missing argument --group: the API group");
    place.refused("create api --group web --kind Page", "missing argument --version");
    place.refused("create api --group web --version v1", "missing argument --kind");
    place.done(CREATE);
    place.refused("delete api", "missing argument --kind");
    Workplace::empty().refused("init", "missing argument NAME: the name of the project");
}

/// Runs the command on a terminal, types the answers, and returns what the terminal shows.
fn on_a_terminal(place: &Workplace, arguments: &str, answers: &str) -> String {
    let OpenptyResult { master, slave } = openpty(None, None).unwrap();
    let shared = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
    let mut command = steersman();
    command.args(arguments.split_whitespace()).current_dir(place.root());
    command.stdin(shared(&slave)).stdout(shared(&slave)).stderr(shared(&slave));
    let mut child = command.spawn().unwrap();
    // Only the command holds the terminal open now.
    drop((command, slave));
    let mut master = File::from(master);
    master.write_all(answers.as_bytes()).unwrap();
    let mut shown = Vec::new();
    // The end of a terminal is an error on Linux.
    let _ = master.read_to_end(&mut shown);
    let shown = String::from_utf8_lossy(&shown).replace("\r\n", "\n");
    assert!(child.wait().unwrap().success(), "{shown}");
    shown
}

#[test]
fn on_a_terminal_a_missing_argument_is_asked_for() {
    let place = Workplace::with_project();
    let shown = on_a_terminal(&place, "create api", "Web\nweb\n\npage\nPage\nmaybe\nno\n\n");
    for line in [
        "the API group: ",
        "invalid group \"Web\"",
        "the version [v1alpha1]: ",
        "the kind, in PascalCase: ",
        "invalid kind \"page\"",
        "Are its objects in namespaces? (yes or no) [yes]: ",
        "\"maybe\" is neither yes nor no",
        "Does the kind get a controller? (yes or no) [yes]: ",
        "created src/controllers/page.rs\n",
    ] {
        assert!(shown.contains(line), "no {line:?} in:\n{shown}");
    }
    let file = place.read("steersman.toml");
    assert!(file.contains("version = \"v1alpha1\"") && file.contains("namespaced = false"), "{file}");
    on_a_terminal(&place, "delete api", "Book\nPage\n");
    assert!(!place.root().join("src/controllers/page.rs").exists());
    let place = Workplace::empty();
    on_a_terminal(&place, "init", "std\nweb\n");
    assert!(place.root().join("web/src/lib.rs").exists());
}

#[test]
fn given_arguments_are_not_asked_for() {
    let place = Workplace::with_project();
    let shown = on_a_terminal(&place, &format!("{CREATE} --namespaced true --controller false"), "");
    assert!(!shown.contains("(yes or no)") && !shown.contains("the kind, in"), "{shown}");
}
