//! The job `apiserver-apply`: objects of 50 fields, each apply changes two of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use http::StatusCode;
use serde_json::{Value, json};

use super::client::{Client, Clients, apply, get};
use super::server::{Kind, Server};
use super::{CONNECTIONS, create_namespaces};
use crate::contestant::{Ask, Cost, Outcome};

/// The number of objects. Applies go to one after the other, so that writers seldom meet.
const OBJECTS: u64 = 100;
/// Leaf fields in the body of an apply, besides kind and apiVersion.
const FIELDS: usize = 50;
/// The field manager of all applies.
const MANAGER: &str = "bench";

/// Applies by several writers at once, to objects that exist. The processor time is the server's.
pub(super) async fn run(ask: &Ask, kind: Kind) -> Result<Outcome> {
    let server = Server::start(kind).await?;
    let clients = server.clients(CONNECTIONS).await?;
    create_namespaces(&clients).await?;
    let fields = leaves(&deployment(0, 0)) - 2;
    ensure!(fields == FIELDS, "the object has {fields} fields");
    for object in 0..OBJECTS {
        send(&clients.one(0), object, 0, StatusCode::CREATED).await?;
    }
    let (started, cpu) = (Instant::now(), server.cpu()?);
    apply_all(&clients, ask).await?;
    let cost = Cost { wall: started.elapsed(), cpu: server.cpu()?.saturating_sub(cpu) };
    let memory = server.memory()?;
    check(&clients.one(0), ask.size).await?;
    let per_apply = cost.cpu.as_secs_f64() * 1e6 / ask.size as f64;
    Ok(Outcome { count: ask.size, cost, memory: Some(memory), figures: vec![("cpu_us_per_apply", per_apply)] })
}

/// Writers take the next apply until there is none.
async fn apply_all(clients: &Clients, ask: &Ask) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..ask.workers {
        let (client, next, applies) = (clients.one(writer as usize), Arc::clone(&next), ask.size);
        tasks.spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= applies {
                    return anyhow::Ok(());
                }
                send(&client, index % OBJECTS, 1 + index / OBJECTS, StatusCode::OK).await?;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a writer broke down")??;
    }
    Ok(())
}

async fn send(client: &Client, object: u64, round: u64, expected: StatusCode) -> Result<()> {
    let path = format!("{}?fieldManager={MANAGER}", path(object));
    let answer = client.whole(apply(&path, deployment(object, round).to_string().into())).await?;
    ensure!(answer.status == expected, "an apply was answered with {}: {}", answer.status, answer.start());
    Ok(())
}

/// Every object must have been applied in each round, with one owner of its fields.
async fn check(client: &Client, applies: u64) -> Result<()> {
    for object in 0..OBJECTS.min(applies) {
        let last = (applies - 1 - object) / OBJECTS + 1;
        let stored = client.json(get(&path(object))).await?;
        ensure!(stored["metadata"]["generation"] == last + 1, "object {object} is {stored}");
        let owners = stored["metadata"]["managedFields"].as_array().context("no field has a manager")?;
        ensure!(owners.len() == 1 && owners[0]["operation"] == "Apply", "object {object} has {owners:?}");
    }
    Ok(())
}

fn path(object: u64) -> String {
    format!("/apis/apps/v1/namespaces/team-{object}/deployments/web")
}

/// The body of an apply. Each round changes the number of replicas and the image.
fn deployment(object: u64, round: u64) -> Value {
    let variables: Vec<Value> = (0..12)
        .map(|number| json!({"name": format!("SERVICE_{number}_URL"), "value": format!("https://service-{number}")}))
        .collect();
    let labels = json!({"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": format!("web-{object}")});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": labels, "annotations": {"example.com/owner": "team"}},
        "spec": {
            "replicas": 1 + round,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": "web",
                    "terminationGracePeriodSeconds": 30,
                    "containers": [{
                        "name": "web",
                        "image": format!("registry.example.com/web:{round}"),
                        "args": ["--listen=:8080"],
                        "env": variables,
                        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
                        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
                    }],
                },
            },
        },
    })
}

/// The values of an object that hold no others.
fn leaves(value: &Value) -> usize {
    match value {
        Value::Object(members) => members.values().map(leaves).sum(),
        Value::Array(items) => items.iter().map(leaves).sum(),
        _ => 1,
    }
}
