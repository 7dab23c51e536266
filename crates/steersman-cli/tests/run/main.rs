//! `steersman run` with a project whose cargo is a script, so that a build takes no time.

#[path = "../common/mod.rs"]
mod common;
mod operator;
mod project;

use std::process::Command;

use common::steersman;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use project::{Project, Session, data, is_gone};
use steersman_testing::eventually;

const READY: &str = "steersman: ready: API server https://127.0.0.1:";

#[tokio::test(flavor = "multi_thread")]
async fn a_change_replaces_the_operator_and_the_objects_stay() {
    let project = Project::new("version 1");
    let mut session = Session::start(&project, &[]);
    session.until(READY);
    let client = session.client().await;
    session.until("steersman: building guestbook");
    session.until("   Compiling guestbook");
    session.until("steersman: built guestbook in ");
    session.until("steersman: applied CustomResourceDefinition widgets.example.com");
    session.until("steersman: started guestbook, process ");
    session.until_all(&[
        "steersman: applied Widget default/sample (samples/widget.yaml)",
        "steersman: live page: http://127.0.0.1:",
        "guestbook: the operator runs version 1",
        " | create ConfigMap default/sample",
    ]);
    // Controller, key, trigger, result, duration and writes. The sample may be older than the
    // cache.
    let line = session.seen(" | create ConfigMap default/sample");
    assert!(line.starts_with("reconcile: ") && line.contains(" widgets default/sample | "), "{line}");
    assert!(line.contains("ed Widget default/sample, version ") || line.contains("initial Widget default/sample"));
    assert!(line.contains(" (primary) | done after "), "{line}");
    project.create_map(&client, "kept").await;

    project.write("src/main.rs", "version 2");
    session.until("steersman: changed: src/main.rs");
    session.until("steersman: building guestbook");
    session.until("steersman: guestbook stopped: exit status: 0");
    session.until("steersman: started guestbook, process ");
    session.until("guestbook: the operator runs version 2");
    eventually("the new operator reconciles", || async {
        data(&client, "sample").await.is_some_and(|data| data == "version 2")
    })
    .await;
    assert!(data(&client, "kept").await.is_some(), "the server kept its objects");
    assert!(session.lines().iter().all(|line| !line.contains('\x1b')), "plain output: {:#?}", session.lines());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_error_is_shown_and_keeps_the_old_operator() {
    let project = Project::new("version 1");
    let mut session = Session::start(&project, &[]);
    session.until(READY);
    let client = session.client().await;
    session.until("create ConfigMap default/sample");
    project.write("src/main.rs", "a syntax error");
    session.until("error: expected one of `!` or `::`");
    session.until("steersman: the build failed: cargo ended with exit status: 101");
    session.until("steersman: the old guestbook goes on; waiting for a change");
    // Its answer to a new object.
    project.write("samples/other.yaml", &project::sample("other"));
    session.until("steersman: applied Widget default/other (samples/other.yaml)");
    session.until("widgets default/other | added Widget");
    assert_eq!(data(&client, "other").await.as_deref(), Some("version 1"));
    project.write("src/main.rs", "version 2");
    session.until("guestbook: the operator runs version 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_that_the_server_refuses_keep_the_old_operator() {
    let project = Project::new("version 1");
    let mut session = Session::start(&project, &[]);
    session.until("guestbook: the operator runs version 1");
    project.write("src/main.rs", "version 2, invalid CRD");
    session.until("steersman: cannot apply CustomResourceDefinition widgets.example.com: ");
    session.until("steersman: the old guestbook goes on; waiting for a change");
    project.write("src/main.rs", "version 3, no CRD");
    session.until("guestbook: error: it has no CRD");
    session.until("steersman: `guestbook crd` failed: it ended with exit status: 1");
    session.until("steersman: the old guestbook goes on; waiting for a change");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_ends_is_shown_and_started_after_the_next_change() {
    let project = Project::new("version 1, ends");
    let mut session = Session::start(&project, &[]);
    session.until("guestbook: error: the operator ends");
    session.until("steersman: guestbook ended: exit status: 3; waiting for a change");
    project.write("src/main.rs", "version 2");
    session.until("guestbook: the operator runs version 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_samples_are_applied_without_a_build() {
    let project = Project::new("version 1");
    let mut session = Session::start(&project, &[]);
    session.until("steersman: applied Widget default/sample");
    session.until("guestbook: the operator runs version 1");
    project.write("samples/widget.yaml", &project::sample("sample").replace("size: 1", "size: 2"));
    session.until("steersman: changed: samples/widget.yaml");
    let lines = session.until("steersman: applied Widget default/sample (samples/widget.yaml)");
    assert!(!lines.iter().any(|line| line.contains("building")), "{lines:#?}");
    project.write("samples/widget.yaml", &project::sample("sample").replace("size: 1", "size: many"));
    let refused = session.until("steersman: cannot apply Widget default/sample (samples/widget.yaml): ");
    assert!(refused.iter().any(|line| line.contains("spec.size")), "{refused:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_signals_stop_the_operator_and_leave_nothing_behind() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let project = Project::new("version 1");
        let mut session = Session::start(&project, &["--no-samples"]);
        session.until("steersman: started guestbook, process ");
        let operator = session.operator();
        session.until("guestbook: the operator runs version 1");
        assert!(!is_gone(operator));
        kill(session.pid(), signal).unwrap();
        session.until("steersman: stopping guestbook");
        session.until("steersman: guestbook stopped: exit status: 0");
        let folder = session.folder();
        assert_eq!(session.end().code(), Some(0), "{signal}");
        let is_clean = async || is_gone(operator) && !folder.exists();
        eventually(&format!("nothing is left after {signal}"), is_clean).await;
        assert!(!session.lines().iter().any(|line| line.contains("applied Widget")), "--no-samples");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_ignores_sigterm_is_killed_after_the_grace_period() {
    let project = Project::new("version 1, ignores SIGTERM");
    let mut session = Session::start(&project, &["--grace-period=1"]);
    session.until("steersman: started guestbook, process ");
    let operator = session.operator();
    session.until("guestbook: the operator ignores SIGTERM");
    project.write("src/main.rs", "version 2, ignores SIGTERM");
    session.until("steersman: guestbook did not stop within the grace period of 1 s: killed with SIGKILL");
    session.until("steersman: guestbook stopped: signal: 9 (SIGKILL)");
    session.until("guestbook: the operator ignores SIGTERM");
    assert!(is_gone(operator));
    // The next one ignores SIGTERM, too.
    kill(session.pid(), Signal::SIGINT).unwrap();
    assert_eq!(session.end().code(), Some(0));
    assert!(is_gone(session.operator()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_does_not_wait() {
    let project = Project::new("version 1, ignores SIGTERM");
    let mut session = Session::start(&project, &["--grace-period=600"]);
    session.until("guestbook: the operator ignores SIGTERM");
    let operator = session.operator();
    kill(session.pid(), Signal::SIGINT).unwrap();
    session.until("steersman: stopping guestbook; Ctrl-C again kills it");
    kill(session.pid(), Signal::SIGINT).unwrap();
    assert_eq!(session.end().code(), Some(0));
    assert!(is_gone(operator));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_command_leaves_no_process_and_no_file_behind() {
    let project = Project::new("version 1");
    let mut session = Session::start(&project, &[]);
    session.until("guestbook: the operator runs version 1");
    let (operator, folder) = (session.operator(), session.folder());
    // A build runs, too.
    project.write("src/main.rs", "a build without an end");
    let line = session.until("the build is process ").pop().unwrap();
    let build = Pid::from_raw(line.rsplit(' ').next().unwrap().parse().unwrap());
    assert!(!is_gone(operator) && !is_gone(build) && folder.exists());
    kill(session.pid(), Signal::SIGKILL).unwrap();
    assert_eq!(session.end().code(), None);
    eventually("the operator ends", || async { is_gone(operator) }).await;
    eventually("the build ends", || async { is_gone(build) }).await;
    eventually("the folder is removed", || async { !folder.exists() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_runs_ends_with_the_command() {
    let project = Project::new("a build without an end");
    let mut session = Session::start(&project, &[]);
    let line = session.until("the build is process ").pop().unwrap();
    let build = Pid::from_raw(line.rsplit(' ').next().unwrap().parse().unwrap());
    kill(session.pid(), Signal::SIGINT).unwrap();
    assert_eq!(session.end().code(), Some(0));
    assert!(is_gone(build));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_cluster_is_used_when_a_kubeconfig_names_it() {
    let project = Project::new("version 1");
    let path = project.folder().join("other.kubeconfig");
    let server = common::Running::start(steersman().args(["apiserver", "--kubeconfig"]).arg(&path));
    let flags = [vec!["--kubeconfig", path.to_str().unwrap()], vec!["--current-context"]];
    for (flags, name) in flags.into_iter().zip(["one", "two"]) {
        project.write("samples/widget.yaml", &project::sample(name));
        let mut session = Session::start_with(&project, &flags, |command| {
            command.env("KUBECONFIG", &path);
        });
        session.until(&format!("steersman: ready: cluster {}", server.url));
        session
            .until_all(&[&format!("steersman: applied Widget default/{name} "), &format!("widgets default/{name} | ")]);
        let client = project::client(&path).await;
        eventually("the operator writes there", || async { data(&client, name).await.is_some() }).await;
    }
}

#[test]
fn what_cannot_run_is_explained() {
    let failure = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let error = failure(steersman().arg("run").current_dir(folder.path()));
    assert!(error.starts_with("error: no steersman.toml in ") && error.contains("`steersman init`"), "{error}");
    let project = Project::new("version 1");
    let error = failure(project.command().env("CARGO", "/nothing/cargo"));
    assert!(error.contains("cannot run cargo: install Rust, or set CARGO"), "{error}");
    project.write("Cargo.toml", "broken");
    let error = failure(&mut project.command());
    assert!(error.contains("cargo cannot read the project in ") && error.contains("error: broken"), "{error}");
    project.write("Cargo.toml", "");
    let error = failure(project.command().arg("--kubeconfig=/nothing/kubeconfig"));
    assert!(error.contains("/nothing/kubeconfig"), "{error}");
    let error = failure(project.command().args(["--current-context", "--port=1"]));
    assert!(error.contains("cannot be used with"), "{error}");
}

#[test]
fn the_help_text_names_the_folders_and_the_flags_of_the_operator() {
    let output = steersman().args(["run", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    for part in ["samples/*.yaml", "--metrics-bind-address", "[-- <ARGS>...]", "--grace-period"] {
        assert!(help.contains(part), "{part:?} is missing in:\n{help}");
    }
}
