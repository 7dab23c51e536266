//! The contestant kube-rs. One file holds one job; `contestant.rs` of the bench package is shared,
//! not copied.

use anyhow::{Context, Result, bail};
use clap::Parser;
use kube::{Client, Config};

// Other contestants use the rest.
mod cache;
mod clients;
#[allow(dead_code)]
#[path = "../../src/contestant.rs"]
mod contestant;
mod latency;
mod reconcile;

use contestant::Ask;

/// Runs one job with kube-rs and reports its cost.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    ask: Ask,
}

#[tokio::main]
async fn main() -> Result<()> {
    contestant::exit_when_stdin_closes();
    let ask = Args::parse().ask;
    match ask.job.as_str() {
        "cache-sync" => cache::sync(&ask).await,
        "cache-watch" => cache::watch(&ask).await,
        "cache-read-all" => cache::read_all(&ask).await,
        "cache-read-children" => cache::read_children(&ask).await,
        "cache-index" => cache::index(&ask).await,
        "latency" => latency::run(&ask).await,
        "reconcile" => reconcile::each_once(&ask).await,
        "reconcile-noop" => reconcile::noop(&ask).await,
        "idle" => reconcile::idle(&ask).await,
        "start" => reconcile::start(&ask).await,
        "clients-get" => clients::get(&ask).await,
        job => bail!("kube-rs knows no job called {job:?}"),
    }
}

/// A client of the replay.
fn replay_client(ask: &Ask) -> Result<Client> {
    let url = ask.url()?.parse().context("reading the replay's address")?;
    Ok(Client::try_from(Config::new(url))?)
}
