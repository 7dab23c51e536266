//! The program: the operator in a cluster, or a demonstration with a cluster of its own.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
#[cfg(feature = "otlp")]
use network_operator::otlp::{CurrentSpan, Exporter};
use network_operator::{Network, Operator, Options, cluster_id};
use neutron::embedded::EmbeddedNeutron;
use neutron::{Auth, Neutron};
use steersman::CustomResourceExt;
use steersman::client::Config;
use steersman::client::config_from_flags;
use steersman::{Client, shutdown_signal};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use args::Args;
use demo::EmbeddedCluster;
use screen::{Screen, Tone};

mod args;
mod demo;
mod screen;
mod serving;
mod watch;

/// The address of an OpenTelemetry collector, for example `http://localhost:4318`.
#[cfg(feature = "otlp")]
const COLLECTOR_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

fn main() -> ExitCode {
    // Before any thread: the setting is for the whole process.
    steersman::cache::release_freed_memory();
    let args = Args::parse();
    let result = tokio::runtime::Runtime::new()
        .context("cannot start threads")
        .and_then(|runtime| if args.print_crd { print_crd() } else { runtime.block_on(run(&args)) });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print_crd() -> Result<()> {
    print!("{}", serde_saphyr::to_string(&Network::crd())?);
    Ok(())
}

async fn run(args: &Args) -> Result<()> {
    let screen = Screen::new();
    let subscriber = tracing_subscriber::registry().with(screen.clone().with_filter(filter_fn(Screen::shows)));
    #[cfg(feature = "otlp")]
    let exporter = exporter()?;
    #[cfg(feature = "otlp")]
    let subscriber = subscriber.with(exporter.as_ref().map(Exporter::layer));
    subscriber.init();
    let result = run_operator(args, &screen).await;
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

async fn run_operator(args: &Args, screen: &Screen) -> Result<()> {
    if args.names_a_cluster() {
        return run_in_cluster(args, screen).await;
    }
    let mut embedded = None;
    let neutron = match named_neutron(args)? {
        Some(neutron) => neutron,
        None => embedded.insert(EmbeddedNeutron::start().await.context("cannot start the embedded Neutron")?).client(),
    };
    let cluster = EmbeddedCluster::start().await?;
    screen.print(&cluster.invitation(embedded.as_ref().map(EmbeddedNeutron::url).as_deref()));
    let watching = watch::watch(cluster.client().clone(), screen).await?;

    let operator = operator(args, cluster.client(), neutron.clone()).await?;
    screen.print(&demo::addresses(operator.manager()));
    let shows = async {
        if let Err(error) = demo::play(cluster.client(), &neutron).await {
            screen.line(Tone::Warning, "samples", "", &format!("{error:#}"));
        }
        std::future::pending::<()>().await;
    };
    let stop = async {
        tokio::select! {
            () = until_stopped(args.duration) => {}
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

async fn run_in_cluster(args: &Args, screen: &Screen) -> Result<()> {
    let Some(neutron) = named_neutron(args)? else {
        bail!("no Neutron given: use --neutron-url, --os-cloud or --os-env");
    };
    let config = if args.in_cluster {
        Config::incluster().context("not in a Pod with a service account: use --kubeconfig outside a cluster")?
    } else {
        config_from_flags(args.master.as_deref(), args.kubeconfig.as_deref()).await?
    };
    let client = Client::builder(config).build()?;
    let operator = operator(args, &client, neutron).await?;
    operator.run(until_stopped(args.duration)).await?;
    screen.print(&operator.summary().to_string());
    Ok(())
}

/// The Neutron that the flags name. Credentials in the environment are used only if a flag asks for
/// them.
fn named_neutron(args: &Args) -> Result<Option<Neutron>> {
    Ok(if let Some(url) = &args.neutron_url {
        Some(Neutron::new(url, Auth::None)?)
    } else if let Some(name) = &args.os_cloud {
        Some(Neutron::from_clouds_yaml(name)?)
    } else if args.os_env {
        Some(Neutron::from_env()?)
    } else {
        None
    })
}

async fn operator(args: &Args, client: &Client, neutron: Neutron) -> Result<Operator> {
    let options = Options {
        cluster_id: match &args.cluster_id {
            Some(id) => id.clone(),
            None => cluster_id(client).await.context("cannot read the cluster's id: set --cluster-id")?,
        },
        project_id: args.project_id(),
        resync: args.resync(),
        workers: args.workers,
        all_deployments: args.all_deployments,
        pool: args.pool()?,
    };
    let client = client.clone();
    #[cfg(feature = "otlp")]
    let client = client.with_trace_context(CurrentSpan);
    let manager = args.serving.manager(client, !args.names_a_cluster())?;
    Ok(Operator::with_manager(manager, neutron, options)?)
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
