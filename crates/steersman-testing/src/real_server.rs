use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kube_client::Config;
use kube_client::config::Kubeconfig;
use serde::Serialize;
use steersman_client::Client;
use tokio::sync::OnceCell;

use crate::Error;
use crate::assets::Program;
use crate::audit::{self, AuditEvent};
use crate::certificates::{Authority, Signed, signing_keys};
use crate::definitions;
use crate::kubeconfig;
use crate::panic_log::{self, Registration};
use crate::port::ReservedPort;
use crate::private;
use crate::process::Custodian;

/// How long a start may take before it is an error. On two busy cores it takes about ten seconds.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// How often a server that is starting is asked whether it is ready.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const KUBE_APISERVER: &str = "kube-apiserver";
const USE_EXISTING_CLUSTER: &str = "USE_EXISTING_CLUSTER";

/// A kube-apiserver with its etcd, for as long as this value lives.
///
/// # What is promised
///
/// - When [`start`](Self::start) returns, every request is answered: the server is ready, its RBAC
///   rules are in place and the namespace `default` exists.
/// - When the value is dropped, or the process that holds it ends in any way at all, both servers
///   end and their folder is removed (test: `a_killed_test_binary_leaves_nothing`).
/// - Nothing but loopback is listened on, and nothing is answered without a certificate of this
///   server's own authority.
/// - Keys and kubeconfigs have mode 0600 and lie in a folder with mode 0700, from the moment they
///   are created.
///
/// There are no nodes, so Pods are stored but never run. Built-in controllers run only
/// [on request](RealServerBuilder::controller_manager): without them there is no garbage
/// collection, and a namespace that is deleted stays `Terminating`.
///
/// # An existing cluster
///
/// With `USE_EXISTING_CLUSTER=true` in the environment, as envtest has it, no server is started:
/// the cluster of the kubeconfig is used instead, and left running. The kubeconfig is the file in
/// `KUBECONFIG`, or `~/.kube/config`. It is used in place and never copied. Options that shape a
/// server (its flags, port or programs) start a server regardless of the variable.
pub struct RealServer {
    url: String,
    kubeconfig: Kubeconfig,
    kubeconfig_path: PathBuf,
    /// None for an existing cluster.
    apiserver: Option<Apiserver>,
    _panic_log: Registration,
    custodian: Custodian,
}

/// How to start kube-apiserver again.
struct Apiserver {
    program: PathBuf,
    flags: Vec<OsString>,
    /// Reserves the port while the server is down.
    _port: Option<ReservedPort>,
}

impl std::fmt::Debug for RealServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RealServer").field("url", &self.url).field("folder", &self.custodian.folder()).finish()
    }
}

impl RealServer {
    /// Starts a server with nothing out of the ordinary.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// Starts a server with some things out of the ordinary.
    pub fn builder() -> RealServerBuilder {
        RealServerBuilder::default()
    }

    /// The server that all tests of this process share. The first to ask starts it.
    pub async fn shared() -> Result<&'static Self, Error> {
        static SHARED: OnceCell<RealServer> = OnceCell::const_new();
        SHARED.get_or_try_init(Self::start).await
    }

    /// A client with all rights. It ends with the tokio runtime in which it is created.
    pub async fn client(&self) -> Result<Client, Error> {
        self.client_of(self.config().await?)
    }

    /// The same as a client of kube, for code that uses `kube::Api`.
    pub async fn kube_client(&self) -> Result<kube_client::Client, Error> {
        kubeconfig::client(self.config().await?)
    }

    fn client_of(&self, config: Config) -> Result<Client, Error> {
        let path = || self.kubeconfig_path.clone();
        Client::builder(config).build().map_err(|error| Error::Kubeconfig { path: path(), reason: error.to_string() })
    }

    /// The configuration of a client with all rights.
    pub async fn config(&self) -> Result<Config, Error> {
        let path = || self.kubeconfig_path.clone();
        kubeconfig::config(self.kubeconfig.clone()).await.map_err(|reason| Error::Kubeconfig { path: path(), reason })
    }

    /// A client that impersonates the user `name`, a member of `groups` and of
    /// `system:authenticated`. It has the rights that RBAC grants.
    pub async fn user<G: Into<String>>(
        &self,
        name: &str,
        groups: impl IntoIterator<Item = G>,
    ) -> Result<Client, Error> {
        let mut config = self.config().await?;
        config.auth_info.impersonate = Some(name.to_owned());
        config.auth_info.impersonate_groups = Some(groups.into_iter().map(Into::into).collect());
        self.client_of(config)
    }

    /// Creates a namespace that no other test has, named after `prefix`, and gives its name.
    pub async fn namespace(&self, prefix: &str) -> Result<String, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("{prefix}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let body = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let request = http::Request::post("/api/v1/namespaces")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .expect("the parts of this request are valid");
        self.kube_client().await?.request_text(request).await.map_err(Error::client("create a namespace"))?;
        Ok(name)
    }

    /// Installs definitions of custom resources and waits until they are served. A definition that
    /// exists is replaced, so that tests that share a server can each install what they need.
    pub async fn install_crds<D: Serialize>(&self, definitions: impl IntoIterator<Item = D>) -> Result<(), Error> {
        definitions::install(&self.kube_client().await?, definitions).await
    }

    /// A kubeconfig file with all rights, for programs. For an existing cluster it is the user's
    /// own file.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig_path
    }

    /// `kubectl`, pointed at this server.
    pub fn kubectl(&self) -> Result<Command, Error> {
        let mut command = Command::new(Program::Kubectl.find()?);
        // Discovery is cached below HOME by host and port: ports come again, servers do not.
        command
            .arg("--cache-dir")
            .arg(self.custodian.folder().join("kubectl"))
            .env("KUBECONFIG", &self.kubeconfig_path);
        Ok(command)
    }

    /// Where the API server listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder with the servers' data, certificates and logs. It goes with the server.
    pub fn folder(&self) -> &Path {
        self.custodian.folder()
    }

    /// The process ids of the servers that were started and run.
    pub fn pids(&self) -> Vec<u32> {
        self.custodian.pids()
    }

    /// The last lines of each server's log.
    pub fn logs(&self) -> String {
        self.custodian.logs()
    }

    /// Kills kube-apiserver, as a crash would, starts it again at the same address and waits until
    /// it is ready. Until then connections are refused. etcd goes on, so nothing that was written
    /// is lost. An existing cluster is not touched: that is an error. (Test:
    /// `a_killed_server_costs_nothing_but_time` of `steersman-cache`.)
    pub async fn restart_apiserver(&mut self) -> Result<(), Error> {
        self.stop_apiserver()?;
        self.start_apiserver().await
    }

    /// Kills kube-apiserver, as a crash would. Connections are refused until
    /// [`start_apiserver`](Self::start_apiserver). An existing cluster is not touched: that is an
    /// error.
    pub fn stop_apiserver(&mut self) -> Result<(), Error> {
        self.own_apiserver()?;
        self.custodian.kill(KUBE_APISERVER)
    }

    /// Starts kube-apiserver after [`stop_apiserver`](Self::stop_apiserver) and waits until it is
    /// ready.
    pub async fn start_apiserver(&mut self) -> Result<(), Error> {
        let Apiserver { program, flags, .. } = self.own_apiserver()?;
        let (program, flags) = (program.clone(), flags.clone());
        self.custodian.start(KUBE_APISERVER, &program, &flags)?;
        let client = self.client_without_retries().await?;
        self.wait_for(&client, "kube-apiserver to be ready again", "/readyz", Deadline::after(START_TIMEOUT)).await
    }

    fn own_apiserver(&self) -> Result<&Apiserver, Error> {
        let problem = || std::io::Error::from(std::io::ErrorKind::Unsupported);
        self.apiserver.as_ref().ok_or_else(|| Error::io("stop the API server of an existing cluster")(problem()))
    }

    /// The requests that the server has answered, in that order. Needs
    /// [`RealServerBuilder::audit_log`].
    pub fn audit_log(&self) -> Result<Vec<AuditEvent>, Error> {
        audit::read(&self.custodian.folder().join(audit::LOG))
    }
}

/// What is out of the ordinary about a [`RealServer`].
#[derive(Clone, Debug, Default)]
pub struct RealServerBuilder {
    controller_manager: bool,
    audit_log: bool,
    /// Everything below this line shapes a server of our own.
    apiserver_flags: Vec<OsString>,
    etcd_flags: Vec<OsString>,
    secure_port: Option<u16>,
    programs: Vec<(Program, PathBuf)>,
    timeout: Option<Duration>,
}

impl RealServerBuilder {
    /// Runs kube-controller-manager beside the API server: garbage collection, namespaces, service
    /// accounts, workloads.
    #[must_use]
    pub fn controller_manager(mut self, on: bool) -> Self {
        self.controller_manager = on;
        self
    }

    /// Records each request for [`RealServer::audit_log`], those for Leases with their bodies.
    #[must_use]
    pub fn audit_log(mut self) -> Self {
        self.audit_log = true;
        self
    }

    /// Adds a flag to kube-apiserver's command line, after ours: the later of two wins.
    #[must_use]
    pub fn apiserver_flag(mut self, flag: impl Into<OsString>) -> Self {
        self.apiserver_flags.push(flag.into());
        self
    }

    /// Adds a flag to etcd's command line, after ours.
    #[must_use]
    pub fn etcd_flag(mut self, flag: impl Into<OsString>) -> Self {
        self.etcd_flags.push(flag.into());
        self
    }

    /// The API server's port, rather than a free one.
    #[must_use]
    pub fn secure_port(mut self, port: u16) -> Self {
        self.secure_port = Some(port);
        self
    }

    /// Uses this file for `program`, wherever [`Program::find`] would look.
    #[must_use]
    pub fn program(mut self, program: Program, path: impl Into<PathBuf>) -> Self {
        self.programs.push((program, path.into()));
        self
    }

    /// How long the start may take, rather than 90 s.
    #[must_use]
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Starts the servers and waits until they are ready.
    pub async fn start(self) -> Result<RealServer, Error> {
        let existing = std::env::var(USE_EXISTING_CLUSTER).is_ok_and(|value| value.eq_ignore_ascii_case("true"));
        let folder = private::create_folder().map_err(Error::io("create a folder"))?;
        let custodian = Custodian::new(folder)?;
        if existing && !self.shapes_a_server() {
            use_existing(custodian).await
        } else {
            self.start_own(custodian).await
        }
    }

    fn shapes_a_server(&self) -> bool {
        !(self.apiserver_flags.is_empty() && self.etcd_flags.is_empty() && self.programs.is_empty())
            || self.secure_port.is_some()
            || self.audit_log
    }

    async fn start_own(self, mut custodian: Custodian) -> Result<RealServer, Error> {
        let deadline = Deadline::after(self.timeout.unwrap_or(START_TIMEOUT));
        let (etcd, apiserver) = (self.find(Program::Etcd)?, self.find(Program::KubeApiserver)?);
        let controller_manager =
            if self.controller_manager { Some(self.find(Program::KubeControllerManager)?) } else { None };

        let authority = Authority::new().map_err(Error::certificate)?;
        let admin = authority.user("steersman-admin", "system:masters").map_err(Error::certificate)?;
        let files = Files::write(custodian.folder(), &authority)?;
        let etcd_port = ReservedPort::new()?;
        custodian.start("etcd", &etcd, &self.etcd_command_line(&files, etcd_port.number()))?;

        // The port stays reserved for as long as the server may be started again.
        let (reserved, port) = match self.secure_port {
            Some(port) => (None, port),
            None => {
                let reserved = ReservedPort::new()?;
                let number = reserved.number();
                (Some(reserved), number)
            }
        };
        let mut flags = self.apiserver_command_line(&files, etcd_port.number(), port, reserved.is_some());
        if self.audit_log {
            flags.extend(audit::flags(custodian.folder())?);
        }
        custodian.start(KUBE_APISERVER, &apiserver, &flags)?;
        let apiserver = Some(Apiserver { program: apiserver, flags, _port: reserved });

        let url = format!("https://127.0.0.1:{port}");
        let kubeconfig = kubeconfig::kubeconfig(&url, &authority.certificate(), &admin);
        let kubeconfig_path = write_kubeconfig(custodian.folder(), &kubeconfig)?;
        let panic_log = panic_log::register(custodian.folder());
        let server = RealServer { url, kubeconfig, kubeconfig_path, apiserver, _panic_log: panic_log, custodian };
        let client = server.client_without_retries().await?;
        server.wait_for(&client, "kube-apiserver to be ready", "/readyz", deadline).await?;
        server.wait_for(&client, "the namespace default", "/api/v1/namespaces/default", deadline).await?;

        let Some(program) = controller_manager else { return Ok(server) };
        let mut server = server;
        let flags = controller_manager_command_line(&files, &server.kubeconfig_path);
        server.custodian.start("kube-controller-manager", &program, &flags)?;
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        server.wait_for(&client, "kube-controller-manager to create a service account", account, deadline).await?;
        Ok(server)
    }

    fn find(&self, program: Program) -> Result<PathBuf, Error> {
        let Some((_, path)) = self.programs.iter().rev().find(|(given, _)| *given == program) else {
            return Ok(program.find()?);
        };
        std::fs::metadata(path).map_err(Error::io(format!("use {} as {}", path.display(), program.file_name())))?;
        Ok(path.clone())
    }

    fn etcd_command_line(&self, files: &Files, port: u16) -> Vec<OsString> {
        let mut flags: Vec<OsString> = [
            format!("--data-dir={}", files.path("etcd")),
            format!("--listen-client-urls=https://127.0.0.1:{port}"),
            format!("--advertise-client-urls=https://127.0.0.1:{port}"),
            "--socket-reuse-port=true".to_owned(),
            // One member has no peers, but etcd requires an address.
            "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
            "--client-cert-auth=true".to_owned(),
            format!("--trusted-ca-file={}", files.path("ca.crt")),
            format!("--cert-file={}", files.path("server.crt")),
            format!("--key-file={}", files.path("server.key")),
            // The data lives no longer than the process, and a lone member need not wait for other
            // voices.
            "--unsafe-no-fsync=true".to_owned(),
            "--heartbeat-interval=10".to_owned(),
            "--election-timeout=100".to_owned(),
        ]
        .map(OsString::from)
        .into();
        flags.extend(self.etcd_flags.iter().cloned());
        flags
    }

    fn apiserver_command_line(&self, files: &Files, etcd_port: u16, port: u16, reserved: bool) -> Vec<OsString> {
        let mut flags: Vec<OsString> = [
            format!("--etcd-servers=https://127.0.0.1:{etcd_port}"),
            format!("--etcd-cafile={}", files.path("ca.crt")),
            format!("--etcd-certfile={}", files.path("server.crt")),
            format!("--etcd-keyfile={}", files.path("server.key")),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--permit-port-sharing={reserved}"),
            format!("--tls-cert-file={}", files.path("server.crt")),
            format!("--tls-private-key-file={}", files.path("server.key")),
            format!("--client-ca-file={}", files.path("ca.crt")),
            "--authorization-mode=RBAC".to_owned(),
            "--anonymous-auth=false".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", files.path("service-account.pub")),
            format!("--service-account-signing-key-file={}", files.path("service-account.key")),
            "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
            // A single server need not publish its address, which may not be a loopback one.
            "--endpoint-reconciler-type=none".to_owned(),
            "--advertise-address=192.0.2.1".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--profiling=false".to_owned(),
        ]
        .map(OsString::from)
        .into();
        if !self.controller_manager {
            // Without the controllers no namespace gets the service account that this plugin asks
            // of every Pod.
            flags.push("--disable-admission-plugins=ServiceAccount".into());
        }
        flags.extend(self.apiserver_flags.iter().cloned());
        flags
    }
}

fn controller_manager_command_line(files: &Files, kubeconfig: &Path) -> Vec<OsString> {
    [
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--authentication-kubeconfig={}", kubeconfig.display()),
        format!("--authorization-kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
        format!("--service-account-private-key-file={}", files.path("service-account.key")),
        format!("--root-ca-file={}", files.path("ca.crt")),
        "--bind-address=127.0.0.1".to_owned(),
        // It serves nothing that we ask for.
        "--secure-port=0".to_owned(),
        "--profiling=false".to_owned(),
    ]
    .map(OsString::from)
    .into()
}

impl RealServer {
    /// A client without retries: it returns the server's first response.
    async fn client_without_retries(&self) -> Result<kube_client::Client, Error> {
        let mut config = self.config().await?;
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(1));
        config.read_timeout = Some(Duration::from_secs(5));
        kubeconfig::client(config)
    }

    /// Waits until `path` is answered with success, unless a server ends or the time runs out.
    async fn wait_for(
        &self,
        client: &kube_client::Client,
        what: &'static str,
        path: &str,
        deadline: Deadline,
    ) -> Result<(), Error> {
        loop {
            let request = http::Request::get(path).body(Vec::new()).expect("the parts of this request are valid");
            let answer = match client.request_text(request).await {
                Ok(_) => return Ok(()),
                Err(error) => error.to_string(),
            };
            if let Some((program, status)) = self.custodian.ended() {
                let log = self.custodian.log(program);
                return Err(Error::Exited { program: program.to_owned(), status, log });
            }
            if deadline.is_over() {
                return Err(Error::NotReady { what, waited: deadline.allowed, answer, log: self.logs() });
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

async fn use_existing(custodian: Custodian) -> Result<RealServer, Error> {
    let none = |reason: String| Error::NoExistingCluster(reason);
    let kubeconfig_path = kubeconfig::of_environment().map_err(none)?;
    let kubeconfig = Kubeconfig::read_from(&kubeconfig_path).map_err(|error| none(error.to_string()))?;
    let config = kubeconfig::config(kubeconfig.clone()).await.map_err(none)?;
    let panic_log = panic_log::register(custodian.folder());
    let url = config.cluster_url.to_string();
    let url = url.strip_suffix('/').unwrap_or(&url).to_owned();
    let server = RealServer { url, kubeconfig, kubeconfig_path, apiserver: None, _panic_log: panic_log, custodian };
    let client = server.client_without_retries().await?;
    server.wait_for(&client, "the existing cluster", "/version", Deadline::after(START_TIMEOUT)).await?;
    Ok(server)
}

fn write_kubeconfig(folder: &Path, kubeconfig: &Kubeconfig) -> Result<PathBuf, Error> {
    let path = folder.join("kubeconfig");
    // JSON is YAML, and any client reads it.
    let text = serde_json::to_string_pretty(kubeconfig).expect("a kubeconfig can be written as JSON");
    private::write(&path, &text).map_err(Error::io(format!("write {}", path.display())))?;
    Ok(path)
}

/// The certificates and keys of the servers, in their folder. Only the owner enters the folder and
/// reads the files (test: `only_the_owner_reads_the_folder_and_its_files`).
struct Files(PathBuf);

impl Files {
    fn write(folder: &Path, authority: &Authority) -> Result<Self, Error> {
        let Signed { certificate, key } = authority.server().map_err(Error::certificate)?;
        let (signing_key, checking_key) = signing_keys().map_err(Error::certificate)?;
        let contents = [
            ("ca.crt", authority.certificate()),
            ("server.crt", certificate),
            ("server.key", key),
            ("service-account.key", signing_key),
            ("service-account.pub", checking_key),
        ];
        for (name, text) in contents {
            let path = folder.join(name);
            private::write(&path, &text).map_err(Error::io(format!("write {}", path.display())))?;
        }
        Ok(Self(folder.to_owned()))
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

/// A moment by which something must have happened.
#[derive(Clone, Copy)]
struct Deadline {
    started: Instant,
    allowed: Duration,
}

impl Deadline {
    fn after(allowed: Duration) -> Self {
        Self { started: Instant::now(), allowed }
    }

    fn is_over(self) -> bool {
        self.started.elapsed() >= self.allowed
    }
}
