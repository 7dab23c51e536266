//! The contestant of this project.

use anyhow::{Result, bail};
use clap::Parser;
use steersman_bench::contestant::{self, Ask};
use steersman_bench::{apiserver, clients, workqueue};

/// Does one job with steersman and reports what it cost.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    ask: Ask,
    /// Which API server the jobs `apiserver-…` are about
    #[arg(long, value_enum, default_value = "steersman")]
    server: apiserver::Kind,
}

#[tokio::main]
async fn main() -> Result<()> {
    contestant::exit_when_stdin_closes();
    let Args { ask, server } = Args::parse();
    // In a task, as a controller's event handlers are, and Go's contestants: one thread for each processor and no more.
    let outcome = tokio::spawn(async move {
        match ask.job.as_str() {
            job if job.starts_with("workqueue-") => workqueue::run(&ask).await,
            job if job.starts_with("apiserver-") => apiserver::run(&ask, server).await,
            job if job.starts_with("clients-") => clients::run(&ask).await,
            job => bail!("steersman knows no job called {job:?} yet"),
        }
    });
    outcome.await??.report();
    Ok(())
}
