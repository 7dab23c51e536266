//! Serves synthetic Pods, or small objects of ten kinds, from memory until its standard input is
//! closed. See [`steersman_bench::replay`].

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::Parser;
use steersman_bench::contestant;
use steersman_bench::pods::Shape;
use steersman_bench::replay::Replay;
use tokio::net::TcpListener;

/// Serves synthetic Pods, or small objects of ten kinds, until its standard input is closed. Prints
/// where, how many of each kind, and how long the list is.
#[derive(Parser)]
struct Args {
    /// How many Pods
    #[arg(long, required_unless_present = "objects")]
    pods: Option<u64>,
    /// How many small objects of each kind, instead of Pods; they do not change
    #[arg(long, conflicts_with_all = ["pods", "events", "rate", "shape"])]
    objects: Option<u64>,
    /// Of how many kinds there are small objects; the first is ConfigMap
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=10), requires = "objects")]
    kinds: u8,
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
        let mut replay = match args.objects {
            Some(count) => Replay::of_small_objects(count, args.kinds.into()),
            None => Replay::new(args.pods.unwrap_or_default(), args.shape, args.events),
        };
        if let Some(rate) = args.rate {
            replay = replay.with_rate(rate);
        }
        let ready = serde_json::json!({
            "address": listener.local_addr().context("asking for the address")?.to_string(),
            "objects": replay.count(),
            "list_bytes": replay.list_bytes(),
        });
        println!("{ready}");
        replay.serve(listener).await.context("accepting connections")
    })
}
