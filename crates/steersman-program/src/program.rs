//! A program: what it is made of, and how it runs.

use std::fmt;
use std::process::ExitCode;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use steersman_client::Client;
use steersman_manifests::crd;
use steersman_manifests::operator::Operator;
use steersman_runtime::{CacheDefaults, Manager, ManagerBuilder, shutdown_signal};

use crate::error::{BoxError, chain};
use crate::flags::{Environment, NoFlags, RunFlags, limited};
use crate::{Error, Invocation, addresses, samples};

/// The arguments with which operators run in a cluster, unless the program has others.
const ARGS: [&str; 3] = ["--leader-elect", "--metrics-bind-address=:8443", "--health-probe-bind-address=:8081"];

type Setup<A> = dyn Fn(&Manager, &A) -> Result<(), BoxError> + Send + Sync;
type MakeCrd = dyn Fn() -> Result<CustomResourceDefinition, crd::Error> + Send + Sync;
type Adjust = dyn Fn(&mut Operator) + Send + Sync;
type Configure = dyn Fn(ManagerBuilder) -> ManagerBuilder + Send + Sync;

/// The program around an operator: see the [crate](crate).
///
/// The setup function declares the controllers. It runs when the operator starts, and also for its
/// manifests: then on a manager whose client refuses every request, without a cluster. So it reads
/// nothing from the server. What it has to read, it reads in a reconcile or in a runnable of
/// [`Manager::add`].
pub struct Program<A = NoFlags> {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) about: Option<String>,
    setup: Box<Setup<A>>,
    crds: Vec<Box<MakeCrd>>,
    external_crds: Vec<String>,
    samples: Vec<String>,
    pub(crate) args: Vec<String>,
    pub(crate) adjust: Vec<Box<Adjust>>,
    cache_defaults: CacheDefaults,
    configure: Vec<Box<Configure>>,
}

impl<A> fmt::Debug for Program<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("name", &self.name).field("version", &self.version).finish_non_exhaustive()
    }
}

impl Program {
    /// A program without flags of its own. Name and version are those of its package:
    /// `env!("CARGO_PKG_NAME")` and `env!("CARGO_PKG_VERSION")`.
    ///
    /// The name is that of the operator's Deployment, its Lease, its roles and its namespace. An
    /// underscore becomes a dash.
    pub fn new<E: Into<BoxError>>(
        name: impl Into<String>,
        version: impl Into<String>,
        setup: impl Fn(&Manager) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        Self::with_flags(name, version, move |manager: &Manager, _: &NoFlags| setup(manager))
    }
}

impl<A: clap::Args + Send + Sync + 'static> Program<A> {
    /// A program with flags of its own, beside those of every operator ([`RunFlags`]).
    ///
    /// ```
    /// use steersman_program::Program;
    /// use steersman_runtime::{Error, Manager};
    ///
    /// #[derive(clap::Args)]
    /// struct Flags {
    ///     /// How many objects to reconcile at the same time
    ///     #[arg(long, default_value_t = 4)]
    ///     workers: usize,
    /// }
    ///
    /// fn setup(manager: &Manager, flags: &Flags) -> Result<(), Error> {
    ///     // manager.controller(…).max_concurrent(flags.workers).complete(…)?;
    ///     # let _ = (manager, flags.workers);
    ///     Ok(())
    /// }
    ///
    /// let program = Program::with_flags("guestbook", "0.1.0", setup);
    /// ```
    pub fn with_flags<E: Into<BoxError>>(
        name: impl Into<String>,
        version: impl Into<String>,
        setup: impl Fn(&Manager, &A) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into().replace('_', "-"),
            version: version.into(),
            about: None,
            setup: Box::new(move |manager, flags| setup(manager, flags).map_err(Into::into)),
            crds: Vec::new(),
            external_crds: Vec::new(),
            samples: Vec::new(),
            args: ARGS.map(str::to_owned).into(),
            adjust: Vec::new(),
            cache_defaults: CacheDefaults::new(),
            configure: Vec::new(),
        }
    }

    /// What `--help` shows first: the first paragraph, and with `--help` all of it.
    #[must_use]
    pub fn about(mut self, text: impl Into<String>) -> Self {
        self.about = Some(text.into());
        self
    }

    /// Adds a CRD of the operator: `.crd(crd::<Guestbook>)`. Its errors are those of
    /// [`model`](Self::model) and of the subcommands.
    #[must_use]
    pub fn crd(
        mut self,
        make: impl Fn() -> Result<CustomResourceDefinition, crd::Error> + Send + Sync + 'static,
    ) -> Self {
        self.crds.push(Box::new(make));
        self
    }

    /// Adds a CRD of another project, as YAML or JSON: that of a kind which the operator watches.
    /// The manifests do not contain it. Development installs it on a server that does not have it.
    #[must_use]
    pub fn external_crd(mut self, yaml: impl Into<String>) -> Self {
        self.external_crds.push(yaml.into());
        self
    }

    /// Adds objects that show how to use the CRDs: YAML documents, as in
    /// `.samples(include_str!("../samples/guestbook.yaml"))`. They are among the manifests, and
    /// development begins with them.
    #[must_use]
    pub fn samples(mut self, yaml: impl Into<String>) -> Self {
        self.samples.push(yaml.into());
        self
    }

    /// The arguments of the operator in a cluster. Default: leader election, metrics on port 8443
    /// and probes on port 8081.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }

    /// Changes the model that the manifests are made from: replicas, resources, variables. It holds
    /// what the manager declares already.
    #[must_use]
    pub fn operator(mut self, adjust: impl Fn(&mut Operator) + Send + Sync + 'static) -> Self {
        self.adjust.push(Box::new(adjust));
        self
    }

    /// The options of all caches. The namespaces to watch are added to them.
    #[must_use]
    pub fn cache_defaults(mut self, defaults: CacheDefaults) -> Self {
        self.cache_defaults = defaults;
        self
    }

    /// Changes settings of the manager, before those of the flags:
    /// `.manager_settings(|builder| builder.trace_requests())`.
    #[must_use]
    pub fn manager_settings(
        mut self,
        configure: impl Fn(ManagerBuilder) -> ManagerBuilder + Send + Sync + 'static,
    ) -> Self {
        self.configure.push(Box::new(configure));
        self
    }

    /// Runs the program with the arguments of the process: the operator until a signal stops it, or
    /// a subcommand.
    ///
    /// Call it first in `main`, because it [configures the
    /// allocator](steersman_cache::release_freed_memory) of the process.
    pub fn main(self) -> ExitCode {
        // Before any thread: the setting is for the whole process.
        steersman_cache::release_freed_memory();
        let invocation = self.parse();
        self.execute(invocation)
    }

    /// Does what the arguments ask for: see [`parse`](Self::parse). An error is printed.
    ///
    /// The exit code is 0 for success. It is 1 when the operator fails, when `manifests --check`
    /// finds a file out of date, and when `crd diff` finds a breaking change. It is 2 when a
    /// subcommand fails.
    pub fn execute(&self, invocation: Invocation<A>) -> ExitCode {
        match invocation {
            Invocation::Run(flags) => match self.run_until_signal(&flags) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("error: {}", chain(&error));
                    ExitCode::FAILURE
                }
            },
            Invocation::Subcommand(subcommand) => self.execute_subcommand(&subcommand).print(),
        }
    }

    fn run_until_signal(&self, flags: &RunFlags<A>) -> Result<(), Error> {
        flags.log.init()?;
        let runtime = tokio::runtime::Runtime::new().map_err(Error::Threads)?;
        runtime.block_on(async {
            let client = Client::builder(flags.cluster.config().await?).build()?;
            self.run(client, flags, shutdown_signal()).await
        })
    }

    /// Runs the operator until `shutdown` completes, and then stops it in order. For programs that
    /// make the client or the log themselves; others call [`main`](Self::main).
    ///
    /// # Errors
    ///
    /// A flag cannot be used, the setup function fails, or the manager does.
    pub async fn run(
        &self,
        client: Client,
        flags: &RunFlags<A>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), Error> {
        let manager = self.manager(client, flags, Environment::Cluster)?;
        self.set_up(&manager, flags)?;
        let scheme = if flags.serving.is_secure(Environment::Cluster) { "https" } else { "http" };
        let metrics = manager.metrics_address().map(|address| format!("{scheme}://{address}"));
        addresses::write(metrics.as_deref())?;
        Ok(manager.start(shutdown).await?)
    }

    /// The manager that the flags describe, without controllers. In a debug build it refuses writes
    /// that are not declared.
    ///
    /// # Errors
    ///
    /// A flag cannot be used: for instance an address that another program listens on.
    pub fn manager(&self, client: Client, flags: &RunFlags<A>, environment: Environment) -> Result<Manager, Error> {
        let mut builder = self.builder(client, flags)?;
        if cfg!(debug_assertions) {
            builder = builder.only_declared_writes();
        }
        Ok(flags.serving.add_to(builder, &self.name, environment)?.build())
    }

    /// A manager with the settings of the program, without servers and leader election.
    pub(crate) fn builder(&self, client: Client, flags: &RunFlags<A>) -> Result<ManagerBuilder, Error> {
        let defaults = limited(self.cache_defaults.clone(), &flags.watch.namespaces()?);
        let builder = Manager::builder(client).cache_defaults(defaults);
        Ok(self.configure.iter().fold(builder, |builder, configure| configure(builder)))
    }

    /// Calls the setup function.
    pub(crate) fn set_up(&self, manager: &Manager, flags: &RunFlags<A>) -> Result<(), Error> {
        (self.setup)(manager, &flags.own).map_err(Error::Setup)
    }

    /// The CRDs of the operator.
    ///
    /// # Errors
    ///
    /// A Rust type has no CRD.
    pub fn crds(&self) -> Result<Vec<CustomResourceDefinition>, Error> {
        Ok(self.crds.iter().map(|make| make()).collect::<Result<_, _>>()?)
    }

    /// The CRDs of other projects, for servers without these projects: without conversion webhooks.
    ///
    /// # Errors
    ///
    /// A text is no YAML, or no CRD.
    pub fn external_crds(&self) -> Result<Vec<CustomResourceDefinition>, Error> {
        let mut crds = Vec::new();
        for yaml in &self.external_crds {
            for object in samples::objects(yaml)? {
                let name = samples::described(&object);
                let crd: CustomResourceDefinition = serde_json::from_value(object)
                    .map_err(|error| Error::ExternalCrd { name, reason: error.to_string() })?;
                crds.push(crd);
            }
        }
        crds.iter_mut().for_each(|crd| crd.spec.conversion = None);
        Ok(crds)
    }

    pub(crate) fn has_crds(&self) -> bool {
        !self.crds.is_empty()
    }

    /// The samples, in order.
    ///
    /// # Errors
    ///
    /// A sample is no YAML, or no object.
    pub fn sample_objects(&self) -> Result<Vec<Value>, Error> {
        let mut objects = Vec::new();
        for yaml in &self.samples {
            objects.extend(samples::objects(yaml)?);
        }
        Ok(objects)
    }
}
