//! The command `steersman`. `steersman --help` lists its subcommands; each is one file here.

use std::process::ExitCode;

use clap::Parser;

mod apiserver;
mod interrupt;
mod kubeconfig_file;
mod proxy;
mod why;

/// Tools for Kubernetes controllers
#[derive(Parser)]
#[command(name = "steersman", version)]
enum Command {
    /// Run a Kubernetes API server with no cluster behind it, until Ctrl-C
    Apiserver(apiserver::Args),
    /// Forward local HTTP requests to an API server with your credentials, until Ctrl-C
    Proxy(proxy::Args),
    /// Print why an object was reconciled, and what followed, from a running controller
    Why(why::Args),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Apiserver(args) => apiserver::run(&args),
        Command::Proxy(args) => proxy::run(&args),
        Command::Why(args) => why::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
