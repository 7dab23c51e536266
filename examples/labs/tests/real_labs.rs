//! The labs on a cluster: they read and do not write. Those that watch continue until Ctrl-C.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use steersman::Client;
use steersman::client::PostParams;
use steersman_testing::RealServer;

/// The limit of every wait, on a busy machine, too.
const PATIENCE: Duration = Duration::from_secs(60);

/// The flags that name the server.
async fn flags() -> [String; 2] {
    let server = RealServer::shared().await.unwrap();
    ["--kubeconfig".to_owned(), server.kubeconfig().display().to_string()]
}

/// Creates a Pod that waits for a Node.
async fn create_pod(name: &str) {
    let server = RealServer::shared().await.unwrap();
    let client = Client::builder(server.config().await.unwrap()).build().unwrap();
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}});
    let pods = client.namespaced::<Pod>("default");
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
}

/// A lab that runs, and is killed when a test fails.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    async fn start(program: &str) -> Self {
        let mut child = Command::new(program).args(flags().await).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    /// Waits for a line that begins like this.
    fn line(&self, start: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no line begins with {start:?}"));
            if line.starts_with(start) {
                return line;
            }
        }
    }

    /// Ends it as Ctrl-C does.
    fn interrupt(mut self) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
        while self.lines.recv_timeout(PATIENCE).is_ok() {}
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn labs_that_only_look_end_by_themselves() {
    for (program, words) in [
        (env!("CARGO_BIN_EXE_rest_client"), "200 OK application/json"),
        (env!("CARGO_BIN_EXE_typed_running_pods"), "Pods are running"),
        (env!("CARGO_BIN_EXE_discovery"), "networking.k8s.io/v1"),
    ] {
        let Output { status, stdout, .. } = Command::new(program).args(flags().await).output().unwrap();
        let stdout = String::from_utf8(stdout).unwrap();
        assert!(status.success() && stdout.contains(words), "{program}: {stdout}");
    }
}

#[tokio::test]
async fn a_kind_that_is_not_installed_is_named() {
    let Output { status, stderr, .. } =
        Command::new(env!("CARGO_BIN_EXE_dynamic_client")).args(flags().await).output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(!status.success() && stderr.contains("Network"), "{stderr}");
}

#[tokio::test]
async fn the_informer_shows_what_others_do_until_it_is_interrupted() {
    let lab = Running::start(env!("CARGO_BIN_EXE_informer")).await;
    lab.line("(Ctrl-C ends this)");
    create_pod("for-the-informer").await;
    lab.line("add     default/for-the-informer");
    lab.interrupt();
}

#[tokio::test]
async fn the_watch_shows_what_others_do_until_it_is_interrupted() {
    let lab = Running::start(env!("CARGO_BIN_EXE_list_watch")).await;
    lab.line("(Ctrl-C ends this)");
    create_pod("for-the-watch").await;
    lab.line("ADDED     for-the-watch, version");
    lab.interrupt();
}
