//! The command `steersman`. `steersman --help` lists what it does; each subcommand is one file here.

use std::process::ExitCode;

use clap::Parser;

mod apiserver;
mod interrupt;
mod kubeconfig_file;
mod proxy;

/// Tools for Kubernetes controllers
#[derive(Parser)]
#[command(name = "steersman", version)]
enum Command {
    /// Run a Kubernetes API server with no cluster behind it, until Ctrl-C
    Apiserver(apiserver::Args),
    /// Let programs on this machine ask an API server without credentials, until Ctrl-C
    Proxy(proxy::Args),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Apiserver(args) => apiserver::run(&args),
        Command::Proxy(args) => proxy::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
