//! The ingress manager as a program.

mod demo;

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use ingress_manager::{Options, add_to};
use steersman::client::config_from_flags;
use steersman::wire::is_dns1123_subdomain;
use steersman::{Client, Manager, shutdown_signal};

/// Gives each Service that is annotated with ingress/http: "true" an Ingress
///
/// It uses the cluster of --kubeconfig, --master or the variable KUBECONFIG, or the one that its
/// Pod runs in. Without any of them, it runs a demonstration on an API server of its own, in this
/// process, and ends.
#[derive(Parser)]
#[command(version)]
struct Flags {
    /// The kubeconfig of the cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The address of the API server, instead of that in the kubeconfig
    #[arg(long, value_name = "URL")]
    master: Option<String>,
    /// Only Services of this namespace
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// A host that no annotation names is <service>.<namespace>.<domain>
    #[arg(long, value_name = "DOMAIN", default_value = "example.com", value_parser = domain)]
    domain: String,
}

fn domain(text: &str) -> Result<String, String> {
    match is_dns1123_subdomain(text).into_iter().next() {
        None => Ok(text.to_owned()),
        Some(why) => Err(why),
    }
}

impl Flags {
    fn names_a_cluster(&self) -> bool {
        let set = |variable| std::env::var_os(variable).is_some_and(|value| !value.is_empty());
        self.kubeconfig.is_some() || self.master.is_some() || set("KUBECONFIG") || set("KUBERNETES_SERVICE_HOST")
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    steersman::cache::release_freed_memory();
    let flags = Flags::parse();
    if !flags.names_a_cluster() {
        return demo::run(flags.domain).await;
    }
    tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_writer(std::io::stderr).init();
    let config = config_from_flags(flags.master.as_deref(), flags.kubeconfig.as_deref()).await?;
    let manager = Manager::new(Client::builder(config).build()?);
    add_to(&manager, Options { domain: flags.domain, namespace: flags.namespace })?;
    Ok(manager.start(shutdown_signal()).await?)
}
