//! The command `steersman`. `steersman --help` lists its subcommands; each is one file here.

use std::process::ExitCode;

use clap::Parser;

mod apiserver;
mod create_api;
mod delete_api;
mod foreign;
mod init;
mod interrupt;
mod kubeconfig_file;
mod project;
mod proxy;
mod reconcile_text;
mod run;
mod why;

/// Tools for Kubernetes controllers
#[derive(Parser)]
#[command(name = "steersman", version)]
enum Command {
    /// Make a project: an operator with tests, a development server, an image and a CI workflow
    Init(init::Args),
    /// Add something to a project
    #[command(subcommand)]
    Create(Create),
    /// Remove something from a project
    #[command(subcommand)]
    Delete(Delete),
    /// Run a Kubernetes API server with no cluster behind it, until Ctrl-C
    Apiserver(apiserver::Args),
    /// Forward local HTTP requests to an API server with your credentials, until Ctrl-C
    Proxy(proxy::Args),
    /// Run the project in this folder: rebuild and restart it after each change, until Ctrl-C
    Run(run::Args),
    /// Print why an object was reconciled, and what followed, from a running controller
    Why(why::Args),
}

#[derive(clap::Subcommand)]
enum Create {
    /// Add a kind, with or without a controller
    Api(create_api::Args),
}

#[derive(clap::Subcommand)]
enum Delete {
    /// Remove a kind, with the files and lines that were generated for it
    Api(delete_api::Args),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Init(args) => init::run(&args),
        Command::Create(Create::Api(args)) => create_api::run(&args),
        Command::Delete(Delete::Api(args)) => delete_api::run(&args),
        Command::Apiserver(args) => apiserver::run(&args),
        Command::Proxy(args) => proxy::run(&args),
        Command::Run(args) => run::run(&args),
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
