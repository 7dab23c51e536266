//! The real kubectl on the embedded server, command by command.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use steersman_apiserver::{ApiServer, Serving};
use steersman_testing::Program;

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 1
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - {name: c, image: i}
";

/// A server on a socket, and kubectl pointed at it.
struct Server {
    serving: Serving,
    folder: tempfile::TempDir,
}

impl Server {
    async fn start() -> Self {
        let serving = ApiServer::new().serve().start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), serving.kubeconfig()).unwrap();
        std::fs::write(folder.path().join("deployment.yaml"), DEPLOYMENT).unwrap();
        Self { serving, folder }
    }

    fn run(&self, args: &str) -> Output {
        let mut kubectl = Command::new(Program::Kubectl.find().unwrap());
        kubectl
            .args(args.split(' '))
            .arg("--cache-dir")
            .arg(self.folder.path().join("cache"))
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        kubectl.output().unwrap()
    }

    /// What kubectl prints when all goes well.
    fn kubectl(&self, args: &str) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "kubectl {args}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// One field of the Deployment.
    fn deployment(&self, pointer: &str) -> Value {
        let object: Value = serde_json::from_str(&self.kubectl("get deployment web -o json")).unwrap();
        object.pointer(pointer).cloned().unwrap_or(Value::Null)
    }

    async fn stop(self) {
        self.serving.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_served_is_found() {
    let server = Server::start().await;
    let resources = server.kubectl("api-resources --no-headers");
    let line = |name: &str| resources.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace();
    let words: Vec<&str> = line("deployments ").collect();
    assert_eq!(words, ["deployments", "deploy", "apps/v1", "true", "Deployment"]);
    assert!(server.kubectl("api-versions").lines().any(|version| version == "autoscaling/v2"));
    let version: Value = serde_json::from_str(&server.kubectl("version -o json")).unwrap();
    assert_eq!(version["serverVersion"]["gitVersion"], version["clientVersion"]["gitVersion"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_changed_in_every_way() {
    let server = Server::start().await;
    assert_eq!(server.kubectl("create -f deployment.yaml --validate=false"), "deployment.apps/web created\n");
    assert!(server.kubectl("get deployments").contains("\nweb "));
    assert!(server.kubectl("get deployment web -o yaml").contains("\n  replicas: 1\n"));

    assert_eq!(server.kubectl("scale deployment web --replicas=3"), "deployment.apps/web scaled\n");
    assert_eq!(server.deployment("/spec/replicas"), 3);
    let refused = server.run("scale deployment web --replicas=9 --current-replicas=7");
    assert!(!refused.status.success(), "it has three, not seven");
    server.kubectl("label deployment web tier=front");
    server.kubectl("annotate deployment web note=text");
    assert_eq!(server.deployment("/metadata/labels/tier"), "front");
    assert_eq!(server.deployment("/metadata/annotations/note"), "text");
    server.kubectl(r#"patch deployment web --type=merge -p {"spec":{"replicas":5}}"#);
    assert_eq!(server.deployment("/spec/replicas"), 5);
    server.kubectl(r#"patch deployment web --type=json -p [{"op":"replace","path":"/spec/replicas","value":6}]"#);
    assert_eq!(server.deployment("/spec/replicas"), 6);
    assert_eq!(server.deployment("/metadata/generation"), 4);

    let deleted = server.kubectl("delete deployment web");
    assert_eq!(deleted, "deployment.apps \"web\" deleted from default namespace\n");
    let gone = server.run("get deployment web");
    assert!(String::from_utf8_lossy(&gone.stderr).contains("deployments.apps \"web\" not found"));
    server.stop().await;
}
