//! The program: the operator in a cluster, or a demonstration with a cluster of its own.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
#[cfg(feature = "otlp")]
use network_operator::otlp::{CurrentSpan, Exporter};
use network_operator::{Flags, Network, Operator, program};
use neutron::embedded::EmbeddedNeutron;
use steersman::client::config_in_cluster;
use steersman::manifests::crd::crd;
use steersman::{Client, shutdown_signal};
use steersman_program::{Environment, Invocation, Program, RunFlags, Screen, Tone};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

mod demo;
mod watch;

/// The address of an OpenTelemetry collector, for example `http://localhost:4318`.
#[cfg(feature = "otlp")]
const COLLECTOR_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// How often the demonstration compares each Network with Neutron.
const DEMO_RESYNC: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    // Before any thread: the setting is for the whole process.
    steersman::cache::release_freed_memory();
    let program = program();
    let flags = match program.parse() {
        Invocation::Run(flags) => flags,
        subcommand => return program.execute(subcommand),
    };
    let result = tokio::runtime::Runtime::new()
        .context("cannot start threads")
        .and_then(|runtime| runtime.block_on(run(&program, &flags)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(program: &Program<Flags>, flags: &RunFlags<Flags>) -> Result<()> {
    let screen = Screen::new(env!("CARGO_PKG_NAME"));
    let is_demo = !flags.own.in_cluster && !flags.cluster.are_set();
    let log = if is_demo { screen.layer() } else { flags.log.layer() };
    let subscriber = tracing_subscriber::registry().with(log?);
    #[cfg(feature = "otlp")]
    let exporter = exporter()?;
    #[cfg(feature = "otlp")]
    let subscriber = subscriber.with(exporter.as_ref().map(Exporter::layer));
    subscriber.init();
    let result =
        if is_demo { demonstrate(program, flags, &screen).await } else { run_in_cluster(program, flags).await };
    #[cfg(feature = "otlp")]
    if let Some(exporter) = exporter {
        exporter.stop().await;
    }
    result
}

/// Sends spans to the collector that the environment names, if it names one.
#[cfg(feature = "otlp")]
fn exporter() -> Result<Option<Exporter>> {
    let Ok(collector) = std::env::var(COLLECTOR_VARIABLE) else { return Ok(None) };
    Exporter::new(&collector).map(Some).with_context(|| format!("{COLLECTOR_VARIABLE}={collector}"))
}

async fn demonstrate(program: &Program<Flags>, flags: &RunFlags<Flags>, screen: &Screen) -> Result<()> {
    let mut embedded = None;
    let neutron = match flags.own.neutron()? {
        Some(neutron) => neutron,
        None => embedded.insert(EmbeddedNeutron::start().await.context("cannot start the embedded Neutron")?).client(),
    };
    let cluster = demo::cluster(&crd::<Network>()?).await?;
    screen.print(&demo::invitation(cluster.kubeconfig(), embedded.as_ref().map(EmbeddedNeutron::url).as_deref()));
    let watching = watch::watch(cluster.client().clone(), screen).await?;

    let manager = program.manager(traced(cluster.client()), flags, Environment::Development)?;
    let operator = Operator::with_manager(manager, neutron.clone(), flags.own.options(DEMO_RESYNC)?)?;
    screen.print(&demo::addresses(operator.manager()));
    let shows = async {
        if let Err(error) = demo::play(cluster.client(), &neutron).await {
            screen.line(Tone::Warning, "samples", "", &format!("{error:#}"));
        }
        std::future::pending::<()>().await;
    };
    let stop = async {
        tokio::select! {
            () = until_stopped(flags.own.duration) => {}
            () = shows => {}
        }
        if embedded.is_none()
            && let Err(error) = demo::clean_up(cluster.client()).await
        {
            screen.line(Tone::Warning, "left over", "", &format!("{error:#}"));
        }
    };
    operator.run(stop).await?;
    watching.shutdown().await?;
    cluster.stop().await;
    screen.print(&format!("\n{}", operator.summary()));
    Ok(())
}

async fn run_in_cluster(program: &Program<Flags>, flags: &RunFlags<Flags>) -> Result<()> {
    // Before anything is sent.
    flags.own.required_neutron()?;
    let config = if flags.own.in_cluster {
        config_in_cluster().context("not in a Pod with a service account: use --kubeconfig outside a cluster")?
    } else {
        flags.cluster.config().await?
    };
    let client = traced(&Client::builder(config).build()?);
    Ok(program.run(client, flags, until_stopped(flags.own.duration)).await?)
}

/// A client whose requests carry the span that they are sent in, if spans are exported.
fn traced(client: &Client) -> Client {
    let client = client.clone();
    #[cfg(feature = "otlp")]
    let client = client.with_trace_context(CurrentSpan);
    client
}

/// Completes on a stop signal, or after `duration`.
async fn until_stopped(duration: Option<Duration>) {
    let over = async {
        match duration {
            Some(duration) => tokio::time::sleep(duration).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = shutdown_signal() => {}
        () = over => {}
    }
}
