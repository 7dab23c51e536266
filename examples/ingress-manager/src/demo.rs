//! The demonstration: the manager on an API server in this process.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use ingress_manager::{HOST, HTTP, add_to};
use k8s_openapi::api::core::v1::{Event, Service};
use k8s_openapi::api::networking::v1::Ingress;
use serde_json::{Value, json};
use steersman::client::{Api, DeleteParams, ListParams, PatchParams, PostParams};
use steersman::{Client, Manager, Patch};
use steersman_testing::Embedded;
use tokio::sync::oneshot;

/// How long the manager may take for a step.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts a server and the manager, and plays their user.
pub(crate) fn main(domain: &str) -> ExitCode {
    match run(domain) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(domain: &str) -> Result<()> {
    println!("no cluster given: using an API server in this process");
    let embedded = Embedded::start();
    let manager = Manager::new(embedded.client());
    add_to(&manager, domain)?;
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(async move { manager.start(async { drop(stopped.await) }).await });
    User::new(&embedded.client()).play().await?;
    drop(stop);
    Ok(running.await??)
}

/// A user with a Service named `web`.
struct User {
    services: Api<Service>,
    ingresses: Api<Ingress>,
    events: Api<Event>,
}

impl User {
    fn new(client: &Client) -> Self {
        let (services, ingresses) = (client.namespaced("default"), client.namespaced("default"));
        Self { services, ingresses, events: client.namespaced("default") }
    }

    async fn play(&self) -> Result<()> {
        println!("user:    creates the Service web, annotated with {HTTP}: \"true\"");
        let service =
            json!({"metadata": {"name": "web", "annotations": {HTTP: "true"}}, "spec": {"ports": [{"port": 80}]}});
        self.services.create(&PostParams::default(), &serde_json::from_value(service)?).await?;
        let first = self.ingress("an Ingress", Option::clone).await?;
        println!("manager: creates the Ingress web for {}", host(&first));

        println!("user:    annotates it with {HOST}: shop.example.org");
        self.annotate(json!({HOST: "shop.example.org"})).await?;
        let changed = |ingress: &Ingress| (host(ingress) == "shop.example.org").then(|| ingress.clone());
        self.ingress("the new host", |ingress| ingress.as_ref().and_then(changed)).await?;
        println!("manager: changes the Ingress to shop.example.org");

        println!("user:    deletes the Ingress");
        self.ingresses.delete("web", &DeleteParams::default()).await?;
        let is_new = |ingress: &Ingress| (ingress.metadata.uid != first.metadata.uid).then_some(());
        self.ingress("another Ingress", |ingress| ingress.as_ref().and_then(is_new)).await?;
        println!("manager: creates it again");

        println!("user:    annotates it with {HTTP}: \"yes\"");
        self.annotate(json!({HTTP: "yes"})).await?;
        println!("manager: reports an Event: {}", self.event().await?);

        println!("user:    removes the annotation {HTTP}");
        self.annotate(json!({HTTP: null})).await?;
        self.ingress("no Ingress", |ingress| ingress.is_none().then_some(())).await?;
        println!("manager: removes the Ingress");
        Ok(())
    }

    async fn annotate(&self, annotations: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        self.services.patch("web", &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Waits until the Ingress satisfies `look`.
    async fn ingress<T>(&self, what: &str, look: impl Fn(&Option<Ingress>) -> Option<T>) -> Result<T> {
        let waiting = async {
            loop {
                if let Some(found) = look(&self.ingresses.get_opt("web").await?) {
                    return Ok(found);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.with_context(|| format!("timed out waiting for {what}"))?
    }

    /// Waits for an Event.
    async fn event(&self) -> Result<String> {
        let waiting = async {
            loop {
                let events = self.events.list(&ListParams::default()).await?.items;
                if let Some(message) = events.into_iter().find_map(|event| event.message) {
                    return Ok(message);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.context("timed out waiting for an Event")?
    }
}

fn host(ingress: &Ingress) -> &str {
    let rule = ingress.spec.as_ref().and_then(|spec| spec.rules.as_deref()?.first());
    rule.and_then(|rule| rule.host.as_deref()).unwrap_or_default()
}
