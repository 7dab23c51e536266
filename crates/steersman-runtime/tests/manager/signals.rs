//! Signals, in a process of their own: this test binary, started again to run one test as the
//! program.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use steersman_runtime::{Manager, ReconcileError, StopSignal, shutdown_signal};
use steersman_testing::Embedded;

use crate::support::eventually;

/// Set in the program's process: how long its runnable takes to stop, in seconds.
const TAKES: &str = "STEERSMAN_TEST_TAKES_SECONDS";

#[tokio::test]
async fn the_program_that_is_sent_signals() {
    // Without the variable it is a test like any other.
    let Some(takes) = std::env::var(TAKES).ok().and_then(|text| text.parse().ok()) else { return };
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stdout).init();
    let manager = Manager::new(Embedded::empty().client());
    let runnable = move |stop: StopSignal| async move {
        println!("program: runs");
        stop.stopped().await;
        println!("program: stop requested");
        let _ = tokio::time::timeout(Duration::from_secs(takes), std::future::pending::<()>()).await;
        println!("program: has cleaned up");
        Ok::<_, ReconcileError>(())
    };
    manager.add("runnable", runnable).unwrap();
    manager.start(shutdown_signal()).await.unwrap();
    println!("program: ends");
}

struct Program {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Program {
    fn start(takes_seconds: u32) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "signals::the_program_that_is_sent_signals", "--nocapture"])
            .env(TAKES, takes_seconds.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.process.id()).unwrap()), signal).unwrap();
    }

    /// Reads on to the line with this text. Returns `false` at the end of the output.
    fn reads_line(&mut self, words: &str) -> bool {
        self.lines.by_ref().map_while(Result::ok).any(|line| line.contains(words))
    }

    /// How it ended, and the rest of its output.
    fn end(mut self) -> (ExitStatus, Vec<String>) {
        let output = self.lines.by_ref().map_while(Result::ok).collect();
        (self.process.wait().unwrap(), output)
    }
}

#[test]
fn a_signal_stops_the_manager_in_order() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut program = Program::start(0);
        assert!(program.reads_line("program: runs"), "it starts");
        program.send(signal);
        let (status, output) = program.end();
        assert!(status.success(), "{signal}: {status}");
        let steps = ["program: stop requested", "program: has cleaned up", "program: ends"];
        let all = output.join("\n");
        let places: Vec<_> = steps.iter().map(|step| all.find(step)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{signal}: {all}");
    }
}

#[tokio::test]
async fn a_second_signal_ends_the_process_at_once() {
    let mut program = Program::start(3_600);
    assert!(program.reads_line("program: runs"), "it starts");
    program.send(Signal::SIGTERM);
    assert!(program.reads_line("program: stop requested"));
    // The first of these may come too early to count as a second request.
    eventually("it ends", || {
        let has_ended = program.process.try_wait().unwrap().is_some();
        if !has_ended {
            program.send(Signal::SIGINT);
        }
        has_ended
    })
    .await;
    let (status, output) = program.end();
    assert_eq!(status.code(), Some(1), "{status}");
    assert!(output.iter().any(|line| line.contains("second request to stop: the process exits now")), "{output:?}");
    assert!(!output.iter().any(|line| line.contains("cleaned up")), "{output:?}");
}
