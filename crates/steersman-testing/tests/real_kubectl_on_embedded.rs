//! The real kubectl on the embedded server, command by command.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use steersman_apiserver::{ApiServer, Serving};
use steersman_testing::Program;

#[path = "kubectl/openapi.rs"]
mod openapi;

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
        Self::of(ApiServer::new()).await
    }

    async fn of(server: ApiServer) -> Self {
        let serving = server.serve().start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), serving.kubeconfig()).unwrap();
        std::fs::write(folder.path().join("deployment.yaml"), DEPLOYMENT).unwrap();
        Self { serving, folder }
    }

    fn command(&self, args: &str) -> Command {
        let mut kubectl = Command::new(Program::Kubectl.find().unwrap());
        kubectl
            .args(args.split(' '))
            .arg("--cache-dir")
            .arg(self.folder.path().join("cache"))
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        kubectl
    }

    fn run(&self, args: &str) -> Output {
        self.command(args).output().unwrap()
    }

    /// What kubectl prints when all goes well.
    fn kubectl(&self, args: &str) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "kubectl {args}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The error of a command that is refused.
    fn refused(&self, args: &str) -> String {
        let output = self.run(args);
        assert!(!output.status.success(), "kubectl {args} succeeded");
        String::from_utf8(output.stderr).unwrap()
    }

    /// The objects of a kind in the namespace `default`, but those that each namespace has.
    fn names(&self, kind: &str) -> Vec<String> {
        let listed = self.kubectl(&format!("get {kind} -o name"));
        let own = listed.lines().filter(|name| !name.ends_with("/kube-root-ca.crt") && !name.ends_with("/kubernetes"));
        own.map(str::to_owned).collect()
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
    assert_eq!(server.kubectl("create -f deployment.yaml"), "deployment.apps/web created\n");
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
    let containers = r#"{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"s"}]}}}}"#;
    server.kubectl(&format!("patch deployment web -p {containers}"));
    assert_eq!(server.deployment("/spec/template/spec/containers/0/name"), "sidecar");
    assert_eq!(server.deployment("/spec/template/spec/containers/1/name"), "c");
    server.kubectl("set image deployment web sidecar=t");
    assert_eq!(server.deployment("/spec/template/spec/containers/0/image"), "t");
    assert_eq!(server.deployment("/metadata/generation"), 7);

    let deleted = server.kubectl("delete deployment web");
    assert_eq!(deleted, "deployment.apps \"web\" deleted from default namespace\n");
    let gone = server.run("get deployment web");
    assert!(String::from_utf8_lossy(&gone.stderr).contains("deployments.apps \"web\" not found"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_are_asked_for_and_tokens_are_created() {
    let server = Server::of(ApiServer::new().with_rbac()).await;
    server.kubectl("create serviceaccount sa");
    server.kubectl("create role reader --verb=get,list --resource=configmaps,pods/log");
    server.kubectl("create rolebinding reader --role=reader --serviceaccount=default:sa");
    let account = "--as=system:serviceaccount:default:sa";
    let can = |what: &str| {
        let output = server.run(&format!("auth can-i {what}"));
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap().lines().next().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(can("delete nodes"), (true, "yes".to_owned()));
    assert_eq!(can(&format!("list configmaps {account}")), (true, "yes".to_owned()));
    assert_eq!(can(&format!("get pods/x --subresource=log {account}")), (true, "yes".to_owned()));
    assert_eq!(can(&format!("delete configmaps {account}")), (false, "no".to_owned()));
    assert_eq!(can(&format!("list configmaps -n kube-system {account}")), (false, "no".to_owned()));
    assert_eq!(can(&format!("get /healthz {account}")), (true, "yes".to_owned()));
    assert_eq!(can(&format!("get /metrics {account}")), (false, "no".to_owned()));
    let list = server.kubectl(&format!("auth can-i --list {account}"));
    let line = list.lines().find(|line| line.starts_with("configmaps ")).unwrap_or_else(|| panic!("{list}"));
    assert!(line.ends_with("[get list]"), "{list}");

    let token = server.kubectl("create token sa --duration=20m");
    let as_account = |command: &str| server.run(&format!("{command} --kubeconfig=token"));
    let mut kubeconfig: Value = serde_json::from_str(server.serving.kubeconfig()).unwrap();
    kubeconfig["users"][0]["user"] = serde_json::json!({"token": token.trim()});
    std::fs::write(server.folder.path().join("token"), kubeconfig.to_string()).unwrap();
    let who = as_account("auth whoami -o json");
    let who: Value = serde_json::from_slice(&who.stdout).unwrap();
    assert_eq!(who["status"]["userInfo"]["username"], "system:serviceaccount:default:sa");
    assert!(as_account("get configmaps").status.success());
    let refused = as_account("delete configmap none");
    let why = "cannot delete resource \"configmaps\" in API group \"\" in the namespace \"default\"";
    assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{refused:?}");
    server.kubectl("delete serviceaccount sa");
    assert!(!as_account("get configmaps").status.success());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_created_by_generators_and_from_files() {
    let server = Server::start().await;
    assert_eq!(server.kubectl("create namespace team"), "namespace/team created\n");
    assert_eq!(
        server.kubectl("create configmap settings --from-literal=mode=fast -n team"),
        "configmap/settings created\n"
    );
    assert_eq!(server.kubectl("get configmap settings -n team -o jsonpath={.data.mode}"), "fast");
    assert_eq!(server.kubectl("get serviceaccounts -n team -o name"), "serviceaccount/default\n");
    let certificate = server.kubectl("get configmap kube-root-ca.crt -o jsonpath={.data.ca\\.crt}");
    assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----"), "{certificate}");

    assert_eq!(
        server.kubectl("create deployment front --image=i --replicas=2 --port=80"),
        "deployment.apps/front created\n"
    );
    assert_eq!(server.kubectl("get deployment front -o jsonpath={.spec.replicas}"), "2");
    assert_eq!(server.kubectl("expose deployment front --port=80"), "service/front exposed\n");
    assert!(server.kubectl("get service front -o jsonpath={.spec.clusterIP}").starts_with("10.0."));
    assert_eq!(server.kubectl("run pod --image=i --labels=app=pod"), "pod/pod created\n");
    assert_eq!(server.kubectl("get pods -l app=pod -o name"), "pod/pod\n");
    assert_eq!(server.kubectl("create secret generic token --from-literal=a=b"), "secret/token created\n");
    assert_eq!(server.kubectl("create serviceaccount builder"), "serviceaccount/builder created\n");
    assert_eq!(server.kubectl("create job once --image=i"), "job.batch/once created\n");
    let role = "create role reader --verb=get,list --resource=pods";
    assert_eq!(server.kubectl(role), "role.rbac.authorization.k8s.io/reader created\n");
    let dry = server.kubectl("create deployment dry --image=i --dry-run=server -o name");
    assert_eq!(dry, "deployment.apps/dry\n");
    assert_eq!(server.names("deployments"), ["deployment.apps/front"]);

    assert_eq!(server.kubectl("create -f deployment.yaml"), "deployment.apps/web created\n");
    let again = server.refused("create -f deployment.yaml");
    assert!(again.contains("(AlreadyExists)") && again.contains("deployments.apps \"web\" already exists"), "{again}");
    assert!(server.refused("create configmap x -n nowhere").contains("namespaces \"nowhere\" not found"));
    assert_eq!(server.kubectl("delete namespace team"), "namespace \"team\" deleted\n");
    assert!(server.refused("get namespace team").contains("(NotFound)"));
    server.stop().await;
}

/// A ReplicaSet that belongs to the Deployment, as the controller would make it.
const REPLICA_SET: &str = "apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-1
  labels: {app: web}
  ownerReferences:
  - {apiVersion: apps/v1, kind: Deployment, name: web, uid: UID, controller: true, blockOwnerDeletion: true}
spec:
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - {name: c, image: i}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_cascades_as_it_is_asked() {
    let server = Server::start().await;
    for (cascade, left) in [("background", vec![]), ("foreground", vec![]), ("orphan", vec!["replicaset.apps/web-1"])] {
        server.kubectl("create -f deployment.yaml");
        let uid = server.kubectl("get deployment web -o jsonpath={.metadata.uid}");
        std::fs::write(server.folder.path().join("set.yaml"), REPLICA_SET.replace("UID", &uid)).unwrap();
        server.kubectl("create -f set.yaml");
        server.kubectl(&format!("delete deployment web --cascade={cascade}"));
        assert!(server.names("deployments").is_empty(), "{cascade}");
        assert_eq!(server.names("replicasets"), left, "{cascade}");
    }
    let owners = server.kubectl("get replicaset web-1 -o jsonpath={.metadata.ownerReferences}");
    assert_eq!(owners, "");
    assert_eq!(server.kubectl("scale replicaset web-1 --replicas=4"), "replicaset.apps/web-1 scaled\n");
    assert_eq!(server.kubectl("get replicaset web-1 -o jsonpath={.spec.replicas}"), "4");
    server.kubectl("delete replicasets --all");
    assert!(server.names("replicasets").is_empty());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_deletion_is_waited_for() {
    let server = Server::start().await;
    server.kubectl("create configmap held --from-literal=a=b");
    server.kubectl(r#"patch configmap held --type=merge -p {"metadata":{"finalizers":["example.com/f"]}}"#);
    server.kubectl("delete configmap held --wait=false");
    let late = server.refused("wait --for=delete configmap/held --timeout=100ms");
    assert!(late.contains("timed out waiting for the condition on configmaps/held"), "{late}");

    let wait = server.command("wait --for=delete configmap/held --timeout=60s").stdout(Stdio::piped()).spawn();
    server.kubectl(r#"patch configmap held --type=merge -p {"metadata":{"finalizers":null}}"#);
    let waited = wait.unwrap().wait_with_output().unwrap();
    assert!(waited.status.success(), "{waited:?}");
    assert!(server.refused("get configmap held").contains("(NotFound)"));
    server.kubectl("wait --for=delete configmap/held --timeout=60s");
    server.stop().await;
}

/// The lines of an output, split at spaces.
fn words(output: &str) -> Vec<Vec<&str>> {
    output.lines().map(|line| line.split_whitespace().collect()).collect()
}

const DEFINITION: &str = r#"{
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            "additionalPrinterColumns": [
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                {"name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1}
            ]
        }]
    }
}"#;

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_shown_in_columns() {
    let server = Server::start().await;
    server.kubectl("create -f deployment.yaml");
    let shown = server.kubectl("get deployments");
    assert_eq!(words(&shown)[0], ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    assert_eq!(words(&shown)[1][..4], ["web", "0/1", "0", "0"]);
    let wide = server.kubectl("get deployment web -o wide");
    assert_eq!(words(&wide)[0][5..], ["CONTAINERS", "IMAGES", "SELECTOR"]);
    assert_eq!(words(&wide)[1][5..], ["c", "i", "app=web"]);
    assert_eq!(words(&server.kubectl("get namespaces default --no-headers"))[0][..2], ["default", "Active"]);

    for (name, colour) in [("one", "red"), ("two", "blue")] {
        server.kubectl(&format!("create configmap {name} --from-literal=colour={colour}"));
        server.kubectl(&format!("label configmap {name} colour={colour}"));
    }
    let labelled = server.kubectl("get configmaps one --show-labels -L colour");
    assert_eq!(words(&labelled)[0], ["NAME", "DATA", "AGE", "COLOUR", "LABELS"]);
    assert_eq!(words(&labelled)[1][3..], ["red", "colour=red"]);
    let sorted = server.kubectl("get configmaps -l colour --sort-by=.data.colour --no-headers");
    assert_eq!(words(&sorted).iter().map(|line| line[0]).collect::<Vec<_>>(), ["two", "one"]);
    let custom = server.kubectl("get configmap one -o custom-columns=N:.metadata.name,C:.data.colour");
    assert_eq!(words(&custom), [["N", "C"], ["one", "red"]]);
    let several = server.kubectl("get deployment/web configmap/one --no-headers");
    assert!(several.contains("configmap/one "), "{several}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_describes_itself() {
    let server = Server::start().await;
    let info = server.kubectl("cluster-info");
    assert!(info.contains("Kubernetes control plane") && info.contains(server.serving.url()), "{info}");
    assert!(server.kubectl("get service kubernetes -o jsonpath={.spec.clusterIP}").starts_with("10.0.0.1"));
    assert!(server.kubectl("get apiservice v1.apps -o jsonpath={.status.conditions[0].reason}").starts_with("Local"));
    let roles = server.kubectl("get clusterroles -o name");
    for role in ["admin", "cluster-admin", "edit", "system:discovery", "view"] {
        assert!(roles.lines().any(|line| line == format!("clusterrole.rbac.authorization.k8s.io/{role}")), "{role}");
    }
    let classes = server.kubectl("get priorityclasses -o name");
    assert!(classes.contains("/system-cluster-critical\n") && classes.contains("/system-node-critical\n"), "{classes}");
    let grouped = server.kubectl("api-resources --api-group=rbac.authorization.k8s.io -o name");
    assert_eq!(grouped.lines().count(), 4, "{grouped}");
    let namespaced = server.kubectl("api-resources --namespaced=false --verbs=list,create -o name");
    assert!(namespaced.lines().any(|name| name == "namespaces") && !namespaced.contains("pods"), "{namespaced}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_resources_have_printer_columns() {
    let server = Server::start().await;
    std::fs::write(server.folder.path().join("definition.json"), DEFINITION).unwrap();
    server.kubectl("create -f definition.json");
    server.kubectl("wait --for=condition=Established crd/widgets.example.com --timeout=30s");
    let widget = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"one"},"spec":{"size":3,"note":"text"},
        "status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    std::fs::write(server.folder.path().join("widget.json"), widget).unwrap();
    server.kubectl("create -f widget.json");
    let shown = server.kubectl("get widgets");
    assert_eq!(words(&shown), [["NAME", "SIZE", "READY"], ["one", "3", "True"]]);
    let wide = server.kubectl("get widgets -o wide");
    assert_eq!(words(&wide), [["NAME", "SIZE", "READY", "NOTE"], ["one", "3", "True", "text"]]);
    assert_eq!(words(&server.kubectl("get crds --no-headers"))[0][0], "widgets.example.com");
    server.kubectl("wait --for=condition=Ready widget/one --timeout=30s");
    let strategic = server.run(r#"patch widget one -p {"spec":{"size":4}} --type=strategic"#);
    assert!(!strategic.status.success(), "custom resources have no strategic merge patch");
    server.kubectl(r#"patch widget one --type=merge -p {"spec":{"size":4}}"#);
    assert_eq!(words(&server.kubectl("get widgets --no-headers"))[0][1], "4");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_shows_columns_once() {
    let server = Server::start().await;
    server.kubectl("create configmap first --from-literal=a=b");
    let mut watch = server
        .command("get configmaps -w --field-selector=metadata.name!=kube-root-ca.crt")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert!(next().starts_with("NAME "));
    assert!(next().starts_with("first "));
    server.kubectl("create configmap second --from-literal=a=b");
    assert!(next().starts_with("second "));
    server.kubectl(r#"patch configmap first -p {"data":{"c":"d"}}"#);
    let changed = next();
    assert_eq!(changed.split_whitespace().take(2).collect::<Vec<_>>(), ["first", "2"]);
    watch.kill().unwrap();
    watch.wait().unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_is_applied_by_the_server() {
    let server = Server::start().await;
    let apply = "apply --server-side -f deployment.yaml";
    assert_eq!(server.kubectl(apply), "deployment.apps/web serverside-applied\n");
    let version = server.deployment("/metadata/resourceVersion");
    assert_eq!(server.kubectl(apply), "deployment.apps/web serverside-applied\n");
    assert_eq!(server.deployment("/metadata/resourceVersion"), version, "nothing has changed");
    let shown = server.kubectl("get deployment web -o json --show-managed-fields");
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["metadata"]["managedFields"][0]["manager"], "kubectl");

    server.kubectl("scale deployment web --replicas=3");
    let conflict = server.refused(apply);
    assert!(conflict.contains("Apply failed with 1 conflict: conflict with \"kubectl\""), "{conflict}");
    assert!(conflict.contains(".spec.replicas") && conflict.contains("--force-conflicts"), "{conflict}");
    server.kubectl(&format!("{apply} --force-conflicts"));
    assert_eq!(server.deployment("/spec/replicas"), 1);

    // A second manager adds a label, and takes it away again.
    let labelled = DEPLOYMENT.replace("  name: web\n", "  name: web\n  labels: {tier: front}\n");
    std::fs::write(server.folder.path().join("deployment.yaml"), labelled).unwrap();
    server.kubectl(&format!("{apply} --field-manager=second"));
    assert_eq!(server.deployment("/metadata/labels/tier"), "front");
    std::fs::write(server.folder.path().join("deployment.yaml"), DEPLOYMENT).unwrap();
    server.kubectl(&format!("{apply} --field-manager=second"));
    assert_eq!(server.deployment("/metadata/labels"), Value::Null);
    server.stop().await;
}
