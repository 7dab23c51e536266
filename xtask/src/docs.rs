//! The documentation, with warnings denied.

use anyhow::Result;

use crate::{process, workspace};

/// How to build the documentation.
#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Open it in a browser
    #[arg(long)]
    open: bool,
}

/// Builds the documentation of the workspace's own crates.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut command = workspace::cargo();
    command.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    if args.open {
        command.arg("--open");
    }
    process::run(&mut command)
}
