//! Serves synthetic Pods from memory until its standard input is closed. See [`steersman_bench::replay`].

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::Parser;
use steersman_bench::contestant;
use steersman_bench::pods::Shape;
use steersman_bench::replay::Replay;
use tokio::net::TcpListener;

/// Serves synthetic Pods until its standard input is closed. Prints where, how many, and how long the list is.
#[derive(Parser)]
struct Args {
    /// How many Pods
    #[arg(long)]
    pods: u64,
    /// How many MODIFIED events a watch sends once they are asked for
    #[arg(long, default_value_t = 0)]
    events: u64,
    /// How many of them come in a second; as many as are taken unless this is given
    #[arg(long, value_name = "EVENTS_PER_SECOND")]
    rate: Option<u64>,
    /// How much the Pods differ
    #[arg(long, value_enum, default_value_t = Shape::Plain)]
    shape: Shape,
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    address: SocketAddr,
}

fn main() -> Result<()> {
    contestant::exit_when_stdin_closes();
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        let listener =
            TcpListener::bind(args.address).await.with_context(|| format!("cannot listen at {}", args.address))?;
        let mut replay = Replay::new(args.pods, args.shape, args.events);
        if let Some(rate) = args.rate {
            replay = replay.with_rate(rate);
        }
        let ready = serde_json::json!({
            "address": listener.local_addr().context("asking for the address")?.to_string(),
            "pods": replay.count(),
            "list_bytes": replay.list_bytes(),
        });
        println!("{ready}");
        replay.serve(listener).await.context("accepting connections")
    })
}
