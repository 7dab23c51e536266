//! The real kube-controller-manager beside an embedded server that leaves its work to it.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use steersman_apiserver::{KubeconfigFile, Serving};
use steersman_client::Client;
use steersman_testing::{Embedded, Program, eventually};

/// A server on a socket with the program beside it.
struct Cluster {
    server: Embedded,
    serving: Serving,
    _kubeconfig: KubeconfigFile,
    program: Running,
}

impl Cluster {
    async fn start() -> Self {
        let server = Embedded::builder().controllers(false).start();
        let serving = server.server().serve().start().await.unwrap();
        let kubeconfig = serving.kubeconfig_file().unwrap();
        let program = Running::start(kubeconfig.path());
        Self { server, serving, _kubeconfig: kubeconfig, program }
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    async fn stop(mut self) {
        assert_eq!(self.program.child.try_wait().unwrap(), None, "it ended:\n{}", self.program.log());
        assert_eq!(self.server.server().panics(), 0);
        drop(self.program);
        self.serving.stop().await;
    }
}

/// The program, which ends when this is dropped.
struct Running {
    child: Child,
    folder: tempfile::TempDir,
}

impl Running {
    /// With leader election, the program also ends when this process is killed: it cannot renew its
    /// lease.
    fn start(kubeconfig: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(Program::KubeControllerManager.find().unwrap());
        command.arg("--kubeconfig").arg(kubeconfig).args([
            "--leader-elect=true",
            "--use-service-account-credentials=false",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--profiling=false",
        ]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Self { child, folder }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            eprintln!("{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        }
    }
}

fn deployment(replicas: i32) -> Deployment {
    let spec = json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    });
    serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap()
}

async fn create_namespace(client: &Client, name: &str) {
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    client.cluster::<Namespace>().create(&PostParams::default(), &namespace).await.unwrap();
}

/// Waits until there are that many Pods.
async fn pods(client: &Client, namespace: &str, count: usize) {
    let pods = client.namespaced::<Pod>(namespace);
    eventually(&format!("{count} Pods"), || async {
        (pods.list(&ListParams::default()).await.unwrap().items.len() == count).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_gets_its_pods_scales_and_is_collected() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    create_namespace(&client, "one").await;
    let deployments = client.namespaced::<Deployment>("one");
    deployments.create(&PostParams::default(), &deployment(2)).await.unwrap();
    pods(&client, "one", 2).await;
    eventually("the status of the Deployment", || async {
        let status = deployments.get("web").await.unwrap().status?;
        (status.replicas == Some(2) && status.conditions.is_some()).then_some(())
    })
    .await;
    for replicas in [4, 1] {
        let scale = json!({"spec": {"replicas": replicas}});
        deployments.patch("web", &PatchParams::default(), &Patch::Merge(scale)).await.unwrap();
        pods(&client, "one", replicas).await;
    }
    let sets = client.namespaced::<ReplicaSet>("one");
    assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 1);
    deployments.delete("web", &DeleteParams::background()).await.unwrap();
    pods(&client, "one", 0).await;
    eventually("the ReplicaSet is collected", || async {
        sets.list(&ListParams::default()).await.unwrap().items.is_empty().then_some(())
    })
    .await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_provided_and_emptied() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    create_namespace(&client, "one").await;
    let accounts = client.namespaced::<ServiceAccount>("one");
    let maps = client.namespaced::<ConfigMap>("one");
    eventually("the ServiceAccount", || async { accounts.get_opt("default").await.unwrap() }).await;
    eventually("the certificate", || async { maps.get_opt("kube-root-ca.crt").await.unwrap() }).await;
    client.namespaced::<Deployment>("one").create(&PostParams::default(), &deployment(3)).await.unwrap();
    pods(&client, "one", 3).await;
    let namespaces = client.cluster::<Namespace>();
    namespaces.delete("one", &DeleteParams::default()).await.unwrap();
    eventually("the namespace is deleted", || async {
        namespaces.get_opt("one").await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(client.namespaced::<Pod>("one").list(&ListParams::default()).await.unwrap().items.len(), 0);
    cluster.stop().await;
}
