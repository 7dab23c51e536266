//! Development: the operator on an API server in its own process.

mod cluster;
mod objects;
mod screen;

use std::ffi::OsString;
use std::pin::{Pin, pin};
use std::process::ExitCode;

use clap::{Args, FromArgMatches};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use steersman_client::Client;
use steersman_runtime::{Manager, shutdown_signal};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::error::chain;
use crate::flags::{ClusterFlags, Environment, LogFlags, RunFlags, ServingFlags, WatchFlags};
use crate::samples::described;
use crate::{Error, Program};

use cluster::Target;

pub use cluster::EmbeddedCluster;
pub use screen::{Screen, Tone};

/// The flags of a program for development.
#[derive(Clone, Debug, Args)]
struct DevFlags<A: Args> {
    /// The port of the API server; 0 means any free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Begin without the samples
    #[arg(long)]
    no_samples: bool,
    #[command(flatten)]
    own: A,
    #[command(flatten)]
    watch: WatchFlags,
    #[command(flatten)]
    serving: ServingFlags,
}

impl<A: Args + Send + Sync + 'static> Program<A> {
    /// Runs the operator on an API server in the same process, until Ctrl-C: for the `main` of a
    /// second binary, so that the one that is shipped has no API server.
    ///
    /// The server has the CRDs and the samples. It listens on a free port of the loopback interface
    /// as well, with a kubeconfig for kubectl. Each reconcile is a line on the screen, and the live
    /// page `/debug` shows all of them.
    ///
    /// The variable `STEERSMAN_DEV_KUBECONFIG` names another server to use.
    pub fn develop(&self) -> ExitCode {
        // Before any thread: the setting is for the whole process.
        steersman_cache::release_freed_memory();
        self.develop_from(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// As [`develop`](Self::develop), with these arguments, of which the first is the name of the
    /// program.
    ///
    /// # Errors
    ///
    /// The arguments are wrong, or ask for `--help` or `--version`. Other errors are printed.
    pub fn develop_from<T: Into<OsString> + Clone>(
        &self,
        arguments: impl IntoIterator<Item = T>,
    ) -> Result<ExitCode, clap::Error> {
        let about = format!("Runs the operator {} on an API server of its own, until Ctrl-C", self.name);
        let command = self.command::<DevFlags<A>>().about(about.clone()).long_about(about);
        let flags = DevFlags::from_arg_matches(&command.try_get_matches_from(arguments)?)?;
        Ok(match self.develop_until_signal(flags) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {}", chain(&error));
                ExitCode::FAILURE
            }
        })
    }

    fn develop_until_signal(&self, flags: DevFlags<A>) -> Result<(), Error> {
        let screen = Screen::new(&self.name);
        // A program that has chosen a subscriber itself keeps it.
        let _ = Registry::default().with(screen.layer()?).try_init();
        let runtime = tokio::runtime::Runtime::new().map_err(Error::Threads)?;
        let result = runtime.block_on(self.develop_until(flags, &screen, pin!(shutdown_signal())));
        // Requests that still run have lost their connections: the process does not wait for them.
        runtime.shutdown_background();
        result
    }

    async fn develop_until(
        &self,
        flags: DevFlags<A>,
        screen: &Screen,
        mut shutdown: Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> Result<(), Error> {
        let DevFlags { port, no_samples, own, watch, serving } = flags;
        let (cluster, log) = (ClusterFlags::default(), LogFlags::default());
        let flags = RunFlags { own, cluster, watch, serving, log };
        let (crds, external) = (self.crds()?, self.external_crds()?);
        let samples = if no_samples { Vec::new() } else { self.sample_objects()? };
        // A signal stops the program in order, even during the start.
        let target = tokio::select! {
            biased;
            () = &mut shutdown => return Ok(()),
            target = target(port, &crds, external) => target?,
        };
        let manager = self.manager(target.client.clone(), &flags, Environment::Development)?;
        self.set_up(&manager, &flags)?;
        screen.print(&invitation(&target, &manager, &flags.serving, &crds));
        let stop = async {
            tokio::select! {
                biased;
                () = shutdown => {}
                () = apply(&target.client, &samples, screen) => {}
            }
        };
        manager.start(stop).await?;
        target.stop().await;
        Ok(())
    }
}

/// A server with the CRDs.
async fn target(
    port: u16,
    crds: &[CustomResourceDefinition],
    external: Vec<CustomResourceDefinition>,
) -> Result<Target, Error> {
    let target = Target::of_environment(port).await?;
    objects::install(&target.client, crds).await?;
    objects::install(&target.client, &objects::missing_of(&target.client, external).await?).await?;
    Ok(target)
}

/// Applies the samples. Does not end.
async fn apply(client: &Client, samples: &[Value], screen: &Screen) {
    for sample in samples {
        match objects::apply(client, sample).await {
            Ok(()) => screen.line(Tone::Cluster, "applied", &described(sample), ""),
            Err(error) => screen.line(Tone::Warning, "not applied", &described(sample), &chain(&error)),
        }
    }
    std::future::pending::<()>().await;
}

/// What to do in another terminal.
fn invitation(target: &Target, manager: &Manager, serving: &ServingFlags, crds: &[CustomResourceDefinition]) -> String {
    let mut lines = vec![format!("API server: {}", target.url())];
    let metrics = manager.metrics_address().map(|address| {
        let scheme = if serving.is_secure(Environment::Development) { "https" } else { "http" };
        format!("{scheme}://{address}")
    });
    if let Some(metrics) = metrics.as_ref().filter(|_| serving.has_debug_pages(Environment::Development)) {
        lines.push(format!("Live page:  {metrics}/debug"));
    }
    lines.push("In another terminal:".to_owned());
    lines.push(format!("  export KUBECONFIG={}", target.kubeconfig.display()));
    match crds.first() {
        Some(crd) => lines.push(format!("  kubectl get {} --all-namespaces --watch", crd.spec.names.plural)),
        None => lines.push("  kubectl get namespaces".to_owned()),
    }
    if let Some(metrics) = metrics {
        lines.push(format!("  curl {metrics}/metrics"));
    }
    if let Some(address) = manager.probes_address() {
        lines.push(format!("  curl 'http://{address}/readyz?verbose'"));
    }
    lines.push(String::new());
    lines.join("\n")
}
