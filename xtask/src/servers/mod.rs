//! The real servers that tests run against: found where the user says, else in the cache, else built with Go.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};

pub(crate) use self::assets::{Program, cache_dir};

/// Which programs there are and where the tests look for them: the very file that the tests use.
#[allow(dead_code, missing_docs, unreachable_pub)]
#[path = "../../../crates/steersman-testing/src/assets.rs"]
mod assets;
mod build;
mod cache;

/// Which programs to provide.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these, by name (kube-apiserver, kubectl, kube-controller-manager, etcd)
    #[arg(value_parser = parse_program)]
    programs: Vec<Program>,
}

fn parse_program(name: &str) -> Result<Program, String> {
    Program::ALL.into_iter().find(|program| program.file_name() == name).ok_or_else(|| {
        let known: Vec<_> = Program::ALL.iter().map(|program| program.file_name()).collect();
        format!("known programs: {}", known.join(", "))
    })
}

/// Provides the programs and prints one line for each, `KUBE_APISERVER=path` and so on.
pub(crate) fn run(args: &Args) -> Result<()> {
    let programs = if args.programs.is_empty() { &Program::ALL[..] } else { &args.programs };
    for program in programs {
        let path = provide(*program)?;
        println!("{}={}", program.variable(), path.display());
    }
    Ok(())
}

/// The program's path: as the user set it, from the cache, or built into the cache.
pub(crate) fn provide(program: Program) -> Result<PathBuf> {
    match program.find() {
        Err(missing) if missing.is_in_named_place() => return Err(anyhow!(missing)),
        Ok(path) if !in_cache(&path) => return Ok(path),
        // What is in the cache is checked before it is trusted.
        _ => {}
    }
    let cache = cache_dir().context("neither XDG_CACHE_HOME nor HOME is set: no place for the servers")?;
    let entry = cache::Entry::new(program.cache_entry(&cache), program.file_name());
    entry.provide(|path| build::build(program, path))
}

fn in_cache(path: &std::path::Path) -> bool {
    cache_dir().is_some_and(|cache| path.starts_with(cache))
}
