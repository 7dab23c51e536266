//! The API servers that are compared, and their load.

use anyhow::Result;
use clap::Parser;
use steersman_bench::apiserver;
use steersman_bench::contestant::{self, Ask};

/// Runs one of the jobs `apiserver-…` and reports its cost.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    ask: Ask,
    /// Which API server the job is about
    #[arg(long, value_enum, default_value = "steersman")]
    server: apiserver::Kind,
}

#[tokio::main]
async fn main() -> Result<()> {
    contestant::exit_when_stdin_closes();
    let Args { ask, server } = Args::parse();
    let outcome = tokio::spawn(async move { apiserver::run(&ask, server).await });
    outcome.await??.report();
    Ok(())
}
