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

    /// The output of kubectl, which must succeed.
    fn kubectl(&self, args: &[&str]) -> String {
        printed(args, &self.command(args).output().unwrap())
    }

    /// The error output of kubectl, which must fail.
    fn error_output(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(!output.status.success(), "kubectl {}", args.join(" "));
        String::from_utf8(output.stderr).unwrap()
    }

    /// Creates a ConfigMap that kubectl makes, sent as JSON.
    fn create_config_map(&self, name: &str, literal: &str) -> String {
        let from = format!("--from-literal={literal}");
        let map = self.kubectl(&["create", "configmap", name, &from, "--dry-run=client", "-o", "json"]);
        let args = ["create", "-f", "-"];
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
    let missing = server.error_output(&["get", "configmap", "settings"]);
    assert_eq!(missing, "Error from server (NotFound): configmaps \"settings\" not found\n");
}

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: networks.example.com}
spec:
  group: example.com
  names: {kind: Network, plural: networks}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

fn config_map(colour: &str) -> String {
    format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: settings}}, data: {{colour: {colour}}}}}\n")
}

fn network(cidr: &str) -> String {
    format!("{{apiVersion: example.com/v1, kind: Network, metadata: {{name: demo}}, spec: {{cidr: {cidr}}}}}\n")
}

/// `steersman apiserver --help` lists what works with kubectl, and what does not.
#[test]
fn what_the_help_text_promises_works() {
    let server = Server::start();
    let file = |text: String| {
        let path = server.folder.path().join("file.yaml");
        std::fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let run = |verb: &str, path: &str| server.kubectl(&[verb, "-f", path]);

    run("create", &file(DEFINITION.to_owned()));
    assert_eq!(run("apply", &file(network("10.0.0.0/24"))), "network.example.com/demo created\n");
    assert_eq!(run("apply", &file(network("10.0.1.0/24"))), "network.example.com/demo configured\n");
    assert_eq!(run("diff", &file(network("10.0.1.0/24"))), "");
    assert!(server.kubectl(&["explain", "networks"]).contains("KIND:       Network"));
    assert_eq!(run("replace", &file(network("10.0.2.0/24"))), "network.example.com/demo replaced\n");
    let columns = server.kubectl(&["get", "networks", "-o", "custom-columns=NAME:.metadata.name,CIDR:.spec.cidr"]);
    assert_eq!(columns, "NAME   CIDR\ndemo   10.0.2.0/24\n");
    server.kubectl(&["delete", "-f", &file(network("10.0.2.0/24"))]);

    assert_eq!(run("apply", &file(config_map("red"))), "configmap/settings created\n");
    assert_eq!(run("replace", &file(config_map("blue"))), "configmap/settings replaced\n");
    assert_eq!(run("apply", &file(config_map("white"))), "configmap/settings configured\n");
    assert_eq!(run("diff", &file(config_map("white"))), "");
    server.kubectl(&["patch", "configmap", "settings", "-p", r#"{"data":{"colour":"red"}}"#]);

    let applied = ["apply", "--server-side", "--force-conflicts", "-f", &file(config_map("green"))];
    assert_eq!(server.kubectl(&applied), "configmap/settings serverside-applied\n");
}

#[test]
fn a_watch_does_not_keep_the_server_from_ending() {
    let mut server = Server::start();
    let others = "--field-selector=metadata.name!=kube-root-ca.crt";
    let mut watch = server.command(&["get", "configmaps", others, "--watch", "-o", "name"]);
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
