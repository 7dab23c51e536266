//! Measuring steersman and its peers side by side.

use anyhow::Result;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs the jobs.
pub(crate) fn run(_args: &Args) -> Result<()> {
    anyhow::bail!("no job yet")
}
