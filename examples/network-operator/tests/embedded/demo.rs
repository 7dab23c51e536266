//! The program with no flags.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use network_operator::Network;
use neutron::NetworkFilter;
use neutron::embedded::EmbeddedNeutron;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use steersman::Client;
use steersman::client::ListParams;
use steersman::client::config_from_flags;
use tokio::sync::mpsc;

use crate::common::{PATIENCE, ready};

/// The program while it runs. It is killed when this is dropped.
struct Program {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
    seen: Vec<String>,
    started: Instant,
}

impl Program {
    fn start(flags: &[&str]) -> Self {
        let started = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_network-operator"))
            .args(flags)
            .stdout(Stdio::piped())
            .env("KUBECONFIG", "/nowhere/in/particular")
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::unbounded_channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, seen: Vec::new(), started }
    }

    /// The next line.
    async fn line(&mut self) -> Option<String> {
        let line = tokio::time::timeout(PATIENCE, self.lines.recv()).await.expect("it goes on printing")?;
        self.seen.push(line.clone());
        Some(line)
    }

    /// Waits for a line that contains all of these.
    async fn until(&mut self, parts: &[&str]) -> String {
        let is_it = |line: &String| parts.iter().all(|part| line.contains(part));
        if let Some(line) = self.seen.iter().find(|line| is_it(line)) {
            return line.clone();
        }
        while let Some(line) = self.line().await {
            if is_it(&line) {
                return line;
            }
        }
        panic!("no line has {parts:?}:\n{}", self.seen.join("\n"));
    }

    async fn client(&mut self) -> Client {
        let line = self.until(&["export KUBECONFIG="]).await;
        let path = PathBuf::from(line.trim().strip_prefix("export KUBECONFIG=").unwrap());
        Client::builder(config_from_flags(None, Some(&path)).await.unwrap()).build().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output of the program with these flags and variables.
fn printed(flags: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_network-operator"));
    command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(variables.iter().copied());
    let output = command.args(flags).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_help_names_the_choices() {
    let help = printed(&["--help"], &[]);
    for choice in
        ["--master", "--kubeconfig", "--neutron-url", "--os-cloud", "--os-env", "--duration", "--all-deployments"]
    {
        assert!(help.contains(choice), "{choice}:\n{help}");
    }
}

#[test]
fn colours_are_for_terminals_and_for_those_who_insist() {
    let coloured = |variables| {
        let shown = printed(&["--duration", "1s"], variables);
        assert!(shown.contains("applied"), "{shown}");
        shown.contains("\x1b[")
    };
    assert!(!coloured(&[]), "this is no terminal");
    assert!(coloured(&[("CLICOLOR_FORCE", "1")]));
    assert!(!coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

#[tokio::test]
async fn it_prints_the_message_of_the_server() {
    let mut program = Program::start(&[]);
    let client = program.client().await;
    let networks = client.namespaced::<Network>("default");
    let mut ids = BTreeMap::new();
    for name in ["blue", "green", "web"] {
        let status = ready(&networks, name).await;
        let (network, subnet) = (status.network_id.unwrap(), status.subnet_id.unwrap());
        let object = format!("network default/{name}");
        program.until(&["applied", &object]).await;
        program.until(&["finalizer", &object, "added"]).await;
        program.until(&["created the network in Neutron", &object, &network]).await;
        program.until(&["created the subnet in Neutron", &object, &subnet]).await;
        program.until(&["status", &object, "Ready"]).await;
        program.until(&["reconciled", &object]).await;
        ids.insert(name, network);
    }
    let cidr = networks.get("web").await.unwrap().spec.cidr;
    program.until(&["created a Network for the Deployment", "deployment default/web", &cidr]).await;

    program.until(&["changed", "network default/blue", "10.10.0.254"]).await;
    program.until(&["changed the subnet in Neutron", "gateway 10.10.0.1 → 10.10.0.254"]).await;
    program.until(&["deleting", "network default/green", "samplecrd.k8s.io/neutron"]).await;
    program.until(&["deleted the network in Neutron", &ids["green"]]).await;
    program.until(&["deleted", "network default/green", "finalizer removed: samplecrd.k8s.io/neutron"]).await;
    assert!(networks.get_opt("green").await.unwrap().is_none());
    program.until(&["changed the network in Neutron", "name renamed by hand → default/blue"]).await;

    // Every object in a line exists, or has existed.
    let left: Vec<_> = networks.list(&ListParams::default()).await.unwrap().items;
    let mut left: Vec<_> = left.into_iter().filter_map(|network| network.metadata.name).collect();
    left.sort();
    assert_eq!(left, ["blue", "web"]);
    for line in program.seen.iter().filter(|line| line.contains("network default/")) {
        assert!(["blue", "green", "web"].iter().any(|name| line.contains(&format!("default/{name}"))), "{line}");
    }
    assert!(!program.seen.iter().any(|line| line.contains('\x1b')), "no colours where there is no terminal");

    kill(Pid::from_raw(program.child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let summary = program.until(&["reconciles", "errors", "p50", "p99"]).await;
    assert!(summary.contains(" 0 errors"), "{summary}");
    assert!(program.child.wait().unwrap().success());
}

#[tokio::test]
async fn it_prints_the_addresses_of_the_live_page_and_the_probes() {
    let mut program = Program::start(&[]);
    let page = program.until(&["In a browser: http://127.0.0.1:", "/debug"]).await;
    let probes = program.until(&["curl 'http://127.0.0.1:", "/readyz?verbose'"]).await;
    let (page, probes) = (between(&page, "http://", "/debug"), between(&probes, "http://", "/readyz"));
    let response = http_get(page, "/debug");
    assert!(response.starts_with("HTTP/1.1 200") && response.contains("<html"), "{response}");
    assert!(http_get(page, "/metrics").contains("controller_runtime_reconcile_total{"));
    assert!(http_get(probes, "/readyz?verbose").contains("caches"));
}

fn between<'a>(line: &'a str, before: &str, after: &str) -> &'a str {
    line.split_once(before).and_then(|(_, rest)| rest.split_once(after)).expect(line).0
}

/// The response to a request without TLS and without a token.
fn http_get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[tokio::test]
async fn it_stops_by_itself_when_its_time_is_over() {
    let mut program = Program::start(&["--duration", "1s"]);
    program.until(&["reconciled"]).await;
    let kubeconfig = program.until(&["export KUBECONFIG="]).await;
    program.until(&["reconciles", "errors", "p50", "p99"]).await;
    assert!(program.child.wait().unwrap().success());
    assert!(program.started.elapsed() >= Duration::from_secs(1));
    let path = PathBuf::from(kubeconfig.trim().strip_prefix("export KUBECONFIG=").unwrap());
    assert!(!path.exists(), "its files go with it");
}

#[tokio::test]
async fn in_a_neutron_that_was_named_nothing_is_left_over() {
    let neutron = EmbeddedNeutron::start().await.unwrap();
    let mut program = Program::start(&["--neutron-url", &neutron.url(), "--duration", "1s"]);
    program.until(&["reconciled", "network default/web"]).await;
    program.until(&["reconciles", "errors", "p50", "p99"]).await;
    assert!(program.child.wait().unwrap().success());
    assert!(neutron.client().networks(&NetworkFilter::default()).await.unwrap().is_empty());
    assert!(neutron.take_log().iter().any(|exchange| exchange.method == "POST"), "there was something");
}

#[test]
fn without_a_neutron_it_does_nothing_in_a_cluster() {
    let output = Command::new(env!("CARGO_BIN_EXE_network-operator"))
        .args(["--kubeconfig", "/nowhere/in/particular"])
        .env("OS_AUTH_URL", "http://keystone.test")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("--neutron-url, --os-cloud or --os-env"), "{stderr}");
}
