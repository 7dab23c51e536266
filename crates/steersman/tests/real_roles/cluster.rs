//! A server with the manifests of the operator, and the operator as its ServiceAccount.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use serde_json::{Value, json};
use steersman::client::{Api, DeleteParams, ListParams, PatchParams, PostParams, config_from_service_account};
use steersman::manifests::crd::crd;
use steersman::manifests::operator::{Operator, plain};
use steersman::{Client, Error, Manager, ObjectMeta, Patch};
use steersman_testing::{RealServer, RealServerBuilder, eventually_within};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::PATIENCE;
use crate::grants::{self, Grant, Refused, rules};
use crate::site::{NAME, Ports, SETTINGS, SITES, Site, manager};

/// Where a Pod finds the files of its ServiceAccount.
const MOUNTED: &str = "var/run/secrets/kubernetes.io/serviceaccount";

pub(crate) struct Cluster {
    pub(crate) server: RealServer,
    pub(crate) admin: Client,
    pub(crate) operator: Operator,
    /// The root folder of the operator's Pod.
    root: tempfile::TempDir,
}

impl Cluster {
    /// Installs the manifests.
    pub(crate) async fn start(builder: RealServerBuilder) -> Self {
        let server = builder.audit_log().start().await.unwrap();
        let admin = server.client().await.unwrap();
        let root = tempfile::tempdir().unwrap();
        let operator = model();
        let cluster = Self { server, admin, operator, root };
        cluster.install().await;
        cluster.mount_service_account().await;
        cluster.wait_for_the_admission_plugin().await;
        cluster
    }

    async fn install(&self) {
        let folder = tempfile::tempdir().unwrap();
        plain(&self.operator).unwrap().write(folder.path()).unwrap();
        self.create_namespace().await;
        let install = folder.path().join("install.yaml");
        self.kubectl(&["apply", "--server-side", "--filename", install.to_str().unwrap()]);
        let crd = format!("crd/{}", self.operator.crds[0].metadata.name.as_deref().unwrap());
        self.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", &crd]);
        let settings = Secret { metadata: named(SETTINGS), ..Secret::default() };
        self.in_sites::<Secret>().create(&PostParams::default(), &settings).await.unwrap();
    }

    async fn create_namespace(&self) {
        let namespace = serde_json::from_value(json!({"metadata": {"name": SITES}})).unwrap();
        let namespaces = self.admin.cluster::<k8s_openapi::api::core::v1::Namespace>();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    }

    /// The files that a kubelet mounts, below a root folder.
    async fn mount_service_account(&self) {
        let folder = self.mounted();
        std::fs::create_dir_all(&folder).unwrap();
        let token = self.token(NAME, NAME).await;
        let authority = std::fs::read_to_string(self.server.folder().join("ca.crt")).unwrap();
        for (name, text) in [("token", token), ("ca.crt", authority), ("namespace", NAME.to_owned())] {
            std::fs::write(folder.join(name), text).unwrap();
        }
    }

    fn mounted(&self) -> PathBuf {
        self.root.path().join(MOUNTED)
    }

    /// A token of a ServiceAccount that exists.
    pub(crate) async fn token(&self, namespace: &str, name: &str) -> String {
        let accounts = self.admin.namespaced::<ServiceAccount>(namespace);
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let created: Value =
            accounts.subresource("token").create(name, &PostParams::default(), &request).await.unwrap();
        created["status"]["token"].as_str().unwrap().to_owned()
    }

    /// The plugin looks up the kind of an owner, and learns of new kinds with some delay. It asks
    /// for administrators, too.
    async fn wait_for_the_admission_plugin(&self) {
        let owner = json!({
            "apiVersion": "publisher.example.com/v1", "kind": "Site", "name": "any", "uid": "any", "blockOwnerDeletion": true,
        });
        let map: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": "owned", "ownerReferences": [owner]}})).unwrap();
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let created = async || self.in_sites::<ConfigMap>().create(&params, &map).await.ok();
        eventually_within(PATIENCE, "the server knows the kind of the owner", created).await;
    }

    /// Changes the roles to all grants but these, and waits until the server follows them.
    pub(crate) async fn grant_all_but(&self, without: &[Grant]) {
        let all = grants::of(&self.operator);
        let (denied, granted): (Vec<_>, Vec<_>) = all.iter().partition(|grant| without.contains(grant));
        let mut roles: Vec<_> = all.iter().map(|grant| (&grant.namespace, &grant.role)).collect();
        roles.sort();
        roles.dedup();
        for (namespace, name) in roles {
            let of_role = granted.iter().copied().filter(|grant| (&grant.namespace, &grant.role) == (namespace, name));
            let patch = Patch::Merge(json!({"rules": rules(of_role)}));
            let params = PatchParams::default();
            match namespace {
                Some(namespace) => {
                    drop(self.admin.namespaced::<Role>(namespace).patch(name, &params, &patch).await.unwrap());
                }
                None => drop(self.admin.cluster::<ClusterRole>().patch(name, &params, &patch).await.unwrap()),
            }
        }
        for (grants, expected) in [(granted, true), (denied, false)] {
            for grant in grants {
                let decided = async || (self.is_allowed(grant).await == expected).then_some(());
                eventually_within(PATIENCE, "the server follows the roles", decided).await;
            }
        }
    }

    async fn is_allowed(&self, grant: &Grant) -> bool {
        let review = serde_json::from_value(grant.review(&user())).unwrap();
        let reviews = self.admin.cluster::<SubjectAccessReview>();
        let review = reviews.create(&PostParams::default(), &review).await.unwrap();
        review.status.unwrap().allowed
    }

    /// The number of requests that the server has answered.
    pub(crate) fn audited(&self) -> usize {
        self.server.audit_log().unwrap().len()
    }

    /// The requests of the operator that were refused since then.
    pub(crate) fn refused(&self, since: usize) -> Vec<Refused> {
        let user = user();
        let log = self.server.audit_log().unwrap();
        log.iter().skip(since).filter(|event| event.user.username == user).filter_map(Refused::of).collect()
    }

    /// Starts the operator with the configuration that it has in a Pod.
    pub(crate) fn start_operator(&self) -> Replica {
        let url: http::Uri = self.server.url().parse().unwrap();
        let port = url.port_u16().unwrap().to_string();
        let config = config_from_service_account(&self.mounted(), url.host().unwrap(), &port).unwrap();
        let free = || "127.0.0.1:0".parse().unwrap();
        let client = Client::builder(config).build().unwrap();
        let manager = manager(client, &Ports { metrics: free(), probes: free() }).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = manager.clone();
        let task = tokio::spawn(async move { running.start(async { drop(stopped.await) }).await });
        Replica { manager, stop, task }
    }

    /// Removes what a run has left.
    pub(crate) async fn clean_up(&self) {
        let (delete, list) = (DeleteParams::default(), ListParams::default());
        let sites = self.in_sites::<Site>();
        for site in sites.list(&list).await.unwrap().items {
            let name = site.metadata.name.unwrap();
            let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            assert_removed(sites.patch(&name, &PatchParams::default(), &released).await);
            assert_removed(sites.delete(&name, &delete).await);
        }
        self.in_sites::<ConfigMap>().delete_collection(&delete, &list).await.unwrap();
        for namespace in [SITES, NAME] {
            self.admin.namespaced::<Event>(namespace).delete_collection(&delete, &list).await.unwrap();
        }
        self.admin.namespaced::<Lease>(NAME).delete_collection(&delete, &list).await.unwrap();
    }

    pub(crate) fn in_sites<K>(&self) -> Api<K>
    where
        K: steersman::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        self.admin.namespaced(SITES)
    }

    fn kubectl(&self, arguments: &[&str]) {
        let output = self.server.kubectl().unwrap().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The object exists no longer, or does not from now on.
fn assert_removed<T>(result: Result<T, steersman::client::Error>) {
    if let Err(error) = result {
        assert!(error.is_not_found(), "{error}");
    }
}

/// The model of the operator: what its program prints manifests from.
fn model() -> Operator {
    let ports = Ports { metrics: ":8443".parse().unwrap(), probes: ":8081".parse().unwrap() };
    let mut operator = Operator::new(NAME, "publisher:1");
    operator.crds = vec![crd::<Site>().unwrap()];
    manager(Client::offline(), &ports).unwrap().describe(&mut operator);
    operator
}

/// The operator, as the server names it.
fn user() -> String {
    format!("system:serviceaccount:{NAME}:{NAME}")
}

pub(crate) fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

/// A running operator.
pub(crate) struct Replica {
    pub(crate) manager: Manager,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl Replica {
    /// Stops it, as a kubelet does.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        timeout(PATIENCE, self.task).await.expect("the operator stops").unwrap().unwrap();
    }

    /// Stops it, whatever state it is in.
    pub(crate) async fn abort(mut self) {
        drop(self.stop);
        if timeout(Duration::from_secs(10), &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}
