//! The real kubectl on `steersman apiserver`.

mod common;

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Lines, Running, steersman};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use steersman_testing::Program;

/// A server, and kubectl pointed at it.
struct Server {
    running: Running,
    folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        Self { running: Running::start(steersman().args(["apiserver", "--kubeconfig"]).arg(path)), folder }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut kubectl = Command::new(Program::Kubectl.find().unwrap());
        kubectl
            .args(args)
            .arg("--cache-dir")
            .arg(self.folder.path().join("cache"))
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .stdin(Stdio::null());
        kubectl
    }

    /// What kubectl prints when all goes well.
    fn kubectl(&self, args: &[&str]) -> String {
        printed(args, &self.command(args).output().unwrap())
    }

    /// What kubectl complains of when it does not.
    fn complaint(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(!output.status.success(), "kubectl {}", args.join(" "));
        String::from_utf8(output.stderr).unwrap()
    }

    /// Creates a ConfigMap as kubectl makes one, sent as JSON.
    fn create_config_map(&self, name: &str, literal: &str) -> String {
        let from = format!("--from-literal={literal}");
        let map = self.kubectl(&["create", "configmap", name, &from, "--dry-run=client", "-o", "json"]);
        let args = ["create", "--validate=false", "-f", "-"];
        let mut command = self.command(&args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(map.as_bytes()).unwrap();
        printed(&args, &child.wait_with_output().unwrap())
    }
}

fn printed(args: &[&str], output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {}: {error}", args.join(" "));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn an_object_lives_its_whole_life() {
    let server = Server::start();
    let namespaces = server.kubectl(&["get", "namespaces", "-o", "name"]);
    let wanted = "namespace/default\nnamespace/kube-node-lease\nnamespace/kube-public\nnamespace/kube-system\n";
    assert_eq!(namespaces, wanted);
    assert!(server.kubectl(&["get", "namespaces"]).starts_with("NAME "));

    assert_eq!(server.create_config_map("settings", "colour=red"), "configmap/settings created\n");
    let map: Value = serde_json::from_str(&server.kubectl(&["get", "configmap", "settings", "-o", "json"])).unwrap();
    assert_eq!((&map["kind"], &map["data"]["colour"]), (&"ConfigMap".into(), &"red".into()));

    server.kubectl(&["label", "configmap", "settings", "tier=web"]);
    server.kubectl(&["patch", "configmap", "settings", "--type=merge", "-p", r#"{"data":{"colour":"blue"}}"#]);
    let colour = ["get", "cm", "-l", "tier=web", "-o", "jsonpath={.items[*].data.colour}"];
    assert_eq!(server.kubectl(&colour), "blue");

    let deleted = server.kubectl(&["delete", "configmap", "settings"]);
    assert_eq!(deleted, "configmap \"settings\" deleted from default namespace\n");
    let gone = server.complaint(&["get", "configmap", "settings"]);
    assert_eq!(gone, "Error from server (NotFound): configmaps \"settings\" not found\n");
}

#[test]
fn a_watch_does_not_keep_the_server_from_ending() {
    let mut server = Server::start();
    let mut watch = server.command(&["get", "configmaps", "--watch", "-o", "name"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let lines = Lines::of(watch.stdout.take().unwrap());
    server.create_config_map("first", "a=b");
    assert_eq!(lines.next().unwrap(), "configmap/first");

    let began = Instant::now();
    kill(server.running.pid(), Signal::SIGINT).unwrap();
    assert_eq!(server.running.wait().code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(2), "it took {:?}", began.elapsed());
    assert!(lines.next().is_none(), "kubectl's watch ends too");
    watch.wait().unwrap();
}
