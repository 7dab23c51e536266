//! The contestant of this project, in all jobs except those of the API server: a controller
//! contains no server either.

use anyhow::{Result, bail};
use clap::Parser;
use steersman_bench::contestant::{self, Ask};
use steersman_bench::{cache, cache_memory, clients, latency, own, reconcile, wire, workqueue};

/// Runs one job with steersman and reports its cost.
#[derive(Parser)]
struct Args {
    /// Do the job as this peer does it, which needs no program of its own
    #[arg(long, value_name = "NAME", default_value = "steersman")]
    peer: String,
    #[command(flatten)]
    ask: Ask,
    /// In which form the cache of the jobs `cache-…` keeps its objects
    #[arg(long, value_enum, default_value = "encoded")]
    storage: cache::Form,
    /// How the job `reconcile` reads its Pods
    #[arg(long, value_enum, default_value = "typed")]
    reading: reconcile::Reading,
}

#[tokio::main]
async fn main() -> Result<()> {
    contestant::exit_when_stdin_closes();
    let Args { ask, peer, storage, reading } = Args::parse();
    if ask.job == "wire" {
        // It reads from memory and never waits, so it needs no task.
        wire::run(&ask, &peer)?.report();
        return Ok(());
    }
    // In a task, like the event handlers of a controller and Go's contestants: one thread for each
    // processor and no more.
    let outcome = tokio::spawn(async move {
        match ask.job.as_str() {
            job if peer != "steersman" => bail!("{peer} knows no job called {job:?}"),
            job if job.starts_with("workqueue-") => workqueue::run(&ask).await,
            job if job.starts_with("clients-") => clients::run(&ask).await,
            "cache-memory" => cache_memory::run(&ask).await,
            job if job.starts_with("cache-") => cache::run(&ask, storage).await,
            "latency" => latency::run(&ask).await,
            "reconcile-own" => own::run(&ask).await,
            "reconcile" | "reconcile-noop" | "idle" | "start" => reconcile::run(&ask, reading).await,
            job => bail!("steersman knows no job called {job:?} yet"),
        }
    });
    outcome.await??.report();
    Ok(())
}
