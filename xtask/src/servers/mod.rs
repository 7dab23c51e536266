//! The real servers for tests: at the path that the user sets, else in the cache, else built with
//! Go, as are the clients in Go. Neutron, Keystone and Prometheus' parser are installed with
//! Python.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};

pub(crate) use self::assets::{Program, cache_dir};

/// The programs and their paths: the same file that the tests use.
#[allow(dead_code, missing_docs, unreachable_pub)]
#[path = "../../../crates/steersman-testing/src/assets.rs"]
mod assets;
mod build;
mod cache;
mod clients;
mod neutron;
mod prometheus;

/// Which programs to provide.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these, by name (kube-apiserver, kubectl, kube-controller-manager, etcd, helm,
    /// go-clients, neutron, prometheus)
    #[arg(value_parser = parse_server)]
    servers: Vec<Server>,
}

/// A server for tests.
#[derive(Clone, Copy)]
enum Server {
    Program(Program),
    /// The clients in Go.
    GoClients,
    /// Neutron, and Keystone with it.
    Neutron,
    /// The parser of Prometheus.
    Prometheus,
}

impl Server {
    fn all() -> impl Iterator<Item = Self> {
        Program::ALL.into_iter().map(Self::Program).chain([Self::GoClients, Self::Neutron, Self::Prometheus])
    }

    fn name(self) -> &'static str {
        match self {
            Self::Program(program) => program.file_name(),
            Self::GoClients => "go-clients",
            Self::Neutron => "neutron",
            Self::Prometheus => "prometheus",
        }
    }

    fn provide(self) -> Result<PathBuf> {
        match self {
            Self::Program(program) => provide(program),
            Self::GoClients => clients::provide(),
            Self::Neutron => neutron::provide(),
            Self::Prometheus => prometheus::provide(),
        }
    }
}

fn parse_server(name: &str) -> Result<Server, String> {
    Server::all().find(|server| server.name() == name).ok_or_else(|| {
        let known: Vec<_> = Server::all().map(Server::name).collect();
        format!("known servers: {}", known.join(", "))
    })
}

/// Provides the servers and prints one line for each, `KUBE_APISERVER=path` and so on.
pub(crate) fn run(args: &Args) -> Result<()> {
    let servers = if args.servers.is_empty() { Server::all().collect() } else { args.servers.clone() };
    for server in servers {
        let path = server.provide()?;
        println!("{}={}", server.name().to_uppercase().replace('-', "_"), path.display());
    }
    Ok(())
}

/// Provides every server and prints its path.
pub(crate) fn provide_all() -> Result<()> {
    for server in Server::all() {
        eprintln!("{} {}", server.name(), server.provide()?.display());
    }
    Ok(())
}

/// The program's path: as the user set it, from the cache, or built into the cache.
pub(crate) fn provide(program: Program) -> Result<PathBuf> {
    match program.find() {
        Err(missing) if missing.is_in_named_place() => return Err(anyhow!(missing)),
        Ok(path) if !in_cache(&path) => return Ok(path),
        // Programs in the cache are checked before use.
        _ => {}
    }
    let cache = cache_dir().context("neither XDG_CACHE_HOME nor HOME is set: no place for the servers")?;
    let entry = cache::Entry::new(program.cache_entry(&cache), program.file_name());
    entry.provide(|path| build::build(program, path))
}

fn in_cache(path: &std::path::Path) -> bool {
    cache_dir().is_some_and(|cache| path.starts_with(cache))
}
