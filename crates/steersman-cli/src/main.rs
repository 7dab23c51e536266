//! The command `steersman`. `steersman --help` lists what it does; each subcommand is one file here.

use std::process::ExitCode;

use clap::Parser;

mod apiserver;
mod kubeconfig_file;

/// Tools for Kubernetes controllers
#[derive(Parser)]
#[command(name = "steersman", version)]
enum Command {
    /// Run a Kubernetes API server with no cluster behind it, until Ctrl-C
    Apiserver(apiserver::Args),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Apiserver(args) => apiserver::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
