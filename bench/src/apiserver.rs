//! The API server jobs: the embedded server and a real kube-apiserver under one load.
//!
//! `server` starts a server and measures its cost, `client` connects to it, and each job is a
//! function here. The load is the same program for all: several HTTP/2 connections with a client
//! certificate, so that no limit of one connection decides the figures. Processor time and memory
//! are those of the server, never of the load, except for the server in process, where the two
//! cannot be separated.

mod apply;
mod client;
mod server;
mod watchers;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use steersman_testing::Embedded;

use crate::contestant::{self, Ask, Cost, Outcome};
use crate::pods::{Pods, Shape};
use client::{Client, Clients, get, post};
pub use server::Kind;
use server::Server;

/// The size of a Pod in a create.
const POD_BYTES: usize = 7_800;
/// Connections that writers share.
const CONNECTIONS: usize = 4;
/// How often a list is requested: processor time is counted in hundredths of a second, and one list
/// takes less.
const LISTS: u32 = 5;
/// The number of namespaces of the Pods.
const NAMESPACES: u64 = 100;
/// Objects in one page when they are counted.
const PAGE: usize = 500;

/// Runs one of the jobs `apiserver-…`.
pub async fn run(ask: &Ask, kind: Kind) -> Result<Outcome> {
    match ask.job.as_str() {
        "apiserver-start" => start(kind).await,
        "apiserver-starts" => starts(ask),
        "apiserver-apply" => apply::run(ask, kind).await,
        "apiserver-create" => create(ask, kind).await,
        "apiserver-list" => list(ask, kind).await,
        "apiserver-watch" => watch(ask, kind).await,
        job => bail!("there is no API server job {job:?}"),
    }
}

/// From the start to the first response.
async fn start(kind: Kind) -> Result<Outcome> {
    let started = Instant::now();
    let server = Server::start(kind).await?;
    let client = server.client().await?;
    let namespaces = client.json(get("/api/v1/namespaces")).await?;
    let cost = Cost { wall: started.elapsed(), cpu: server.cpu()? };
    let default =
        namespaces["items"].as_array().into_iter().flatten().filter(|one| one["metadata"]["name"] == "default");
    Ok(Outcome { count: default.count() as u64, cost, memory: Some(server.memory()?), figures: Vec::new() })
}

/// Servers in this process, one after the other. The first one is not measured: it reads the tables
/// that all servers of a process share.
fn starts(ask: &Ask) -> Result<Outcome> {
    drop(Embedded::start());
    let (started, cpu) = (Instant::now(), contestant::cpu_time());
    for _ in 0..ask.size {
        drop(black_box(Embedded::start()));
    }
    let cost = Cost { wall: started.elapsed(), cpu: contestant::cpu_time().saturating_sub(cpu) };
    let per_start = cost.cpu.as_secs_f64() * 1e6 / ask.size as f64;
    let memory = Some(contestant::memory());
    Ok(Outcome { count: ask.size, cost, memory, figures: vec![("cpu_us_per_start", per_start)] })
}

/// Pods created by several writers at once.
async fn create(ask: &Ask, kind: Kind) -> Result<Outcome> {
    let server = Server::start(kind).await?;
    let clients = server.clients(CONNECTIONS).await?;
    create_namespaces(&clients).await?;
    let pods = Arc::new(bodies(ask.size));
    let started = Instant::now();
    let cpu = server.cpu()?;
    create_pods(&clients, &pods, ask.workers).await?;
    let cost = Cost { wall: started.elapsed(), cpu: server.cpu()?.saturating_sub(cpu) };
    // Before any read: a list in memory is not the memory of the objects.
    let memory = server.memory()?;
    let per_write = cost.cpu.as_secs_f64() * 1e6 / ask.size as f64;
    let count = count(&clients.one(0), "/api/v1/pods").await?;
    Ok(Outcome { count, cost, memory: Some(memory), figures: vec![("cpu_us_per_write", per_write)] })
}

/// All Pods in one response, plain and compressed.
async fn list(ask: &Ask, kind: Kind) -> Result<Outcome> {
    let server = Server::start(kind).await?;
    let clients = server.clients(CONNECTIONS).await?;
    create_namespaces(&clients).await?;
    create_pods(&clients, &Arc::new(bodies(ask.size)), ask.workers).await?;
    let client = clients.one(0);
    let plain = lists(&server, &client, ask.size, false).await?;
    let gzip = lists(&server, &client, ask.size, true).await?;
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(Outcome {
        count: ask.size,
        cost: Cost { wall: plain.wall, cpu: plain.cpu },
        memory: Some(server.memory()?),
        figures: vec![
            ("list_ms", milliseconds(plain.wall)),
            ("list_cpu_ms", milliseconds(plain.cpu)),
            ("list_mb", plain.bytes as f64 / 1e6),
            ("gzip_ms", milliseconds(gzip.wall)),
            ("gzip_cpu_ms", milliseconds(gzip.cpu)),
            ("gzip_mb", gzip.bytes as f64 / 1e6),
        ],
    })
}

/// The cost of one list, and its size in bytes.
struct Listed {
    wall: Duration,
    cpu: Duration,
    bytes: usize,
}

/// Lists all Pods several times and returns the median time and the mean processor time. Each
/// response must have `pods` items.
async fn lists(server: &Server, client: &Client, pods: u64, gzip: bool) -> Result<Listed> {
    let mut times = Vec::new();
    let (mut cpu, mut bytes) = (Duration::ZERO, 0);
    for _ in 0..LISTS {
        let mut request = get("/api/v1/pods");
        if gzip {
            request.headers_mut().insert(http::header::ACCEPT_ENCODING, http::HeaderValue::from_static("gzip"));
        }
        let before = server.cpu()?;
        let started = Instant::now();
        let answer = client.whole(request).await?;
        times.push(started.elapsed());
        cpu += server.cpu()?.saturating_sub(before);
        ensure!(answer.status == StatusCode::OK, "the list was answered with {}", answer.status);
        bytes = answer.length();
        let items = tokio::task::spawn_blocking(move || answer.items()).await??;
        ensure!(items == pods, "the list holds {items} Pods, not {pods}");
    }
    times.sort_unstable();
    Ok(Listed { wall: times[times.len() / 2], cpu: cpu / LISTS, bytes })
}

/// Many watchers of the same Pods; `--size` is their number and `--events` that of the Pods created
/// while they watch.
async fn watch(ask: &Ask, kind: Kind) -> Result<Outcome> {
    let server = Server::start(kind).await?;
    let clients = server.clients(1).await?;
    create_namespaces(&clients).await?;
    let pods = bodies(ask.events);
    let writer = clients.one(0);
    let watchers = watchers::Watchers::start(&server, &writer, ask.size).await?;
    let started = Instant::now();
    let cpu = server.cpu()?;
    for (index, (path, body)) in pods.into_iter().enumerate() {
        watchers.keep_up(index as u64).await?;
        created(&writer, post(&path, body)).await?;
    }
    watchers.wait(ask.events).await?;
    let cost = Cost { wall: started.elapsed(), cpu: server.cpu()?.saturating_sub(cpu) };
    let memory = server.memory()?;
    let stored = count(&writer, "/api/v1/pods").await?;
    ensure!(stored == ask.events, "{stored} Pods are stored, not {}", ask.events);
    let count = watchers.finish(ask.events).await?;
    let per_event = cost.cpu.as_secs_f64() * 1e6 / count.max(1) as f64;
    Ok(Outcome { count, cost, memory: Some(memory), figures: vec![("cpu_us_per_event", per_event)] })
}

/// The Pods to create: the path and the body of each.
fn bodies(pods: u64) -> Vec<(String, Bytes)> {
    let shape = Pods::new(Shape::Diverse);
    (0..pods)
        .map(|index| (format!("/api/v1/namespaces/team-{}/pods", index % NAMESPACES), pod(&shape, index)))
        .collect()
}

/// Pod `index` as a client would send it: without the fields that the server sets, and padded with
/// environment variables to the common size.
fn pod(pods: &Pods, index: u64) -> Bytes {
    let mut text = Vec::new();
    pods.write(index, 0, &mut text);
    let mut pod: Value = serde_json::from_slice(&text).expect("the template is JSON");
    if let Some(pod) = pod.as_object_mut() {
        pod.remove("status");
    }
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        // It has no owner either: the owner does not exist, and a garbage collector would delete
        // the Pod at once.
        let decided = ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generateName"];
        for name in decided.into_iter().chain(["ownerReferences"]) {
            metadata.remove(name);
        }
    }
    let mut length = pod.to_string().len();
    if let Some(env) = pod["spec"]["containers"][0]["env"].as_array_mut() {
        for number in 0.. {
            let value = format!("https://service-{number}.team-{}.svc.example.com:8443/v{index}", index % NAMESPACES);
            let variable = json!({"name": format!("SERVICE_{number}_URL"), "value": value});
            length += variable.to_string().len() + 1;
            if length > POD_BYTES {
                break;
            }
            env.push(variable);
        }
    }
    pod.to_string().into()
}

async fn create_namespaces(clients: &Clients) -> Result<()> {
    for number in 0..NAMESPACES {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("team-{number}")}});
        created(&clients.one(0), post("/api/v1/namespaces", body.to_string().into())).await?;
    }
    Ok(())
}

/// Creates all Pods; writers take the next one until there is none.
async fn create_pods(clients: &Clients, pods: &Arc<Vec<(String, Bytes)>>, writers: u64) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..writers {
        let (client, pods, next) = (clients.one(writer as usize), Arc::clone(pods), Arc::clone(&next));
        tasks.spawn(async move {
            while let Some((path, body)) = pods.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                created(&client, post(path, body.clone())).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a writer broke down")??;
    }
    Ok(())
}

/// Sends a create that must succeed.
async fn created(client: &Client, request: Request<client::RequestBody>) -> Result<()> {
    let answer = client.whole(request).await?;
    ensure!(answer.status == StatusCode::CREATED, "a create was answered with {}: {}", answer.status, answer.start());
    Ok(())
}

/// The number of objects at `path`, page by page.
async fn count(client: &Client, path: &str) -> Result<u64> {
    let mut token = String::new();
    let mut count = 0;
    loop {
        let mut request = get(&format!("{path}?limit={PAGE}&continue={token}"));
        let form = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        request.headers_mut().insert(http::header::ACCEPT, http::HeaderValue::from_static(form));
        let page = client.json(request).await?;
        count += page["items"].as_array().map_or(0, Vec::len) as u64;
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => token = next.to_owned(),
            _ => return Ok(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_have_the_size_that_is_promised_and_nothing_that_the_server_decides() {
        for (path, body) in bodies(200) {
            assert!((POD_BYTES - 150..=POD_BYTES).contains(&body.len()), "{} bytes", body.len());
            let pod: Value = serde_json::from_slice(&body).expect("the body is JSON");
            assert_eq!(path, format!("/api/v1/namespaces/{}/pods", pod["metadata"]["namespace"].as_str().unwrap()));
            assert!(pod.get("status").is_none() && pod["metadata"].get("uid").is_none());
        }
    }

    #[tokio::test]
    async fn every_job_counts_what_the_server_in_process_did() {
        let ask = |job: &str, size, events| Ask {
            job: job.to_owned(),
            size,
            url: None,
            events,
            workers: 4,
            window: 0,
            kubeconfig: None,
            started: None,
        };
        for (job, size, events, count) in [
            ("apiserver-start", 1, 0, 1),
            ("apiserver-starts", 3, 0, 3),
            ("apiserver-apply", 30, 0, 30),
            ("apiserver-create", 30, 0, 30),
            ("apiserver-list", 30, 0, 30),
            ("apiserver-watch", 20, 30, 600),
        ] {
            let outcome = run(&ask(job, size, events), Kind::InProcess).await.expect(job);
            assert_eq!(outcome.count, count, "{job}");
        }
    }
}
