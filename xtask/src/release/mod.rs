//! What a release promises, as checks: `cargo xtask release-check`.
//!
//! It takes many minutes, so `cargo xtask test` does not run it. `RELEASE.md` lists when it runs.
//! Each file here holds one promise; [`api`] and [`external`] both read the JSON of rustdoc.

mod api;
mod external;
mod features;
mod registry;
mod toolchain;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::package;
use crate::step::Steps;
use crate::workspace::{self, Metadata};

/// What to check.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The checks; all when none is given
    #[arg(value_enum)]
    checks: Vec<Check>,
    /// Write the snapshots of the public API instead of comparing them
    #[arg(long)]
    accept_api: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Check {
    /// The public API is that of the snapshots in `api/`, and only allowed dependencies appear in
    /// it
    Api,
    /// Each feature compiles alone, and the default ones build no C that a user has not asked for
    Features,
    /// `rust-version` is the version that CI builds with
    RustVersion,
    /// Every package can be published
    Publish,
    /// A project that `steersman init` makes takes the packages from a registry
    Registry,
}

/// Runs every check, also after one that failed, and fails if one did.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Metadata { packages, target_directory } = workspace::metadata()?;
    let mut steps = Steps::new();
    let mut failed = Vec::new();
    for check in Check::value_variants() {
        if !args.checks.is_empty() && !args.checks.contains(check) {
            continue;
        }
        let name = check.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let result = steps.run(&name, || match check {
            Check::Api => check_api(&packages, &target_directory, args.accept_api),
            Check::Features => features::check(&packages),
            Check::RustVersion => toolchain::check(&packages),
            Check::Publish => package::publish_dry_run(&packages, &target_directory),
            Check::Registry => registry::check(&packages, &target_directory),
        });
        if let Err(error) = result {
            eprintln!("{name}: {error:#}");
            failed.push(name);
        }
    }
    steps.summary();
    if !failed.is_empty() {
        bail!("not ready for a release: {}", failed.join(", "));
    }
    Ok(())
}

/// The snapshot and the external types of each library.
fn check_api(packages: &[workspace::Package], target_directory: &std::path::Path, accept: bool) -> Result<()> {
    let libraries: Vec<_> = packages.iter().filter(|package| package.is_published_library()).collect();
    let mut complaints = Vec::new();
    for package in &libraries {
        let api = api::of(package, &libraries, target_directory)?;
        if accept {
            api::write(&package.name, &api)?;
        } else {
            complaints.extend(api::compare(&package.name, &api)?);
        }
        complaints.extend(external::check(&package.name, &api));
    }
    conclude(&complaints)
}

/// Prints complaints, and fails if there is one.
fn conclude(complaints: &[String]) -> Result<()> {
    complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
    if !complaints.is_empty() {
        bail!("{} violations", complaints.len());
    }
    Ok(())
}
