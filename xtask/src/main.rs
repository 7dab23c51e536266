//! The developer tasks of this workspace. `cargo xtask --help` lists them.
//!
//! Each task is one file here. They share [`step`] (the progress of a long step), [`process`] (runs
//! other programs, and ends them on an interrupt) and [`workspace`] (paths).

use clap::Parser;

mod bench;
mod deny;
mod docs;
mod kinds;
mod openapi;
mod package;
mod picture;
mod process;
mod project;
mod provide;
mod readme;
mod real_server;
mod record;
mod release;
mod servers;
mod step;
mod test;
mod tidy;
mod workspace;

/// The developer tasks of the steersman workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Everything CI does: format, lints, tidy, every test, documentation, packages, dependencies
    Test(test::Args),
    /// Provide kube-apiserver, kubectl, kube-controller-manager, etcd and Neutron, and print where
    /// they are
    Servers(servers::Args),
    /// Record the built-in kinds of a real API server for the embedded one
    Kinds,
    /// Ask a real API server again what it fills into objects of built-in kinds and how it refuses
    /// them
    Record,
    /// Draw what `cargo run` shows, for the README
    Picture,
    /// Measure steersman and its peers side by side
    Bench(bench::Args),
    /// Check the conventions: layout, prose, contracts, dependencies between crates
    Tidy(tidy::Args),
    /// Check what a release promises: public API, external types, features, rust-version, packages
    ReleaseCheck(release::Args),
    /// Build the project in the README outside the workspace, and run its tests
    Readme(readme::Args),
    /// Make a project with `steersman init` and `create api`, outside the workspace; run its tests
    /// and its program
    Project,
    /// Build the documentation with warnings denied
    Docs(docs::Args),
}

fn main() {
    process::forward_interrupts();
    let result = match Task::parse() {
        Task::Test(args) => test::run(&args),
        Task::Servers(args) => servers::run(&args),
        Task::Kinds => kinds::run(),
        Task::Record => record::run(),
        Task::Picture => picture::run(),
        Task::Bench(args) => bench::run(&args),
        Task::Tidy(args) => tidy::run(&args),
        Task::ReleaseCheck(args) => release::run(&args),
        Task::Readme(args) => readme::run(&args),
        Task::Project => project::run(),
        Task::Docs(args) => docs::run(&args),
    };
    if let Err(error) = result {
        eprintln!("error: {error:#}");
        std::process::exit(if process::interrupted() { 130 } else { 1 });
    }
}
