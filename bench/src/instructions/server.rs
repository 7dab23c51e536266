//! The embedded API server, called in process without a client.

use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::json;
use steersman_apiserver::{ApiServer, ServerBody};
use tokio::runtime::Runtime;
use tower::Service;

use super::{measured, pod, runtime, world};

/// How many requests are measured.
const REQUESTS: u64 = 100;
/// How many servers are started.
const STARTS: u64 = 20;
/// How many objects there are when requests are measured.
const OBJECTS: u64 = 100;

struct Server {
    server: ApiServer,
    runtime: Runtime,
}

impl Server {
    fn start() -> Result<Self> {
        Self::managing(true)
    }

    /// A server that keeps managed fields, or not.
    fn managing(managed_fields: bool) -> Result<Self> {
        let runtime = runtime()?;
        // Without the objects of every cluster, which a request does not depend on.
        let empty = ApiServer::builder().world(world()).bootstrap(false).managed_fields(managed_fields);
        let server = runtime.block_on(async { empty.build() });
        Ok(Self { server, runtime })
    }

    fn call(&self, request: &Request<Full<Bytes>>) -> Response<ServerBody> {
        let mut server = self.server.clone();
        let Ok(response) = self.runtime.block_on(server.call(request.clone()));
        response
    }

    /// The body of a complete response.
    fn body(&self, request: &Request<Full<Bytes>>, expected: StatusCode) -> Result<Bytes> {
        let response = self.call(request);
        let status = response.status();
        let Ok(body) = self.runtime.block_on(response.into_body().collect());
        let body = body.to_bytes();
        ensure!(status == expected, "{} {}: {status}: {body:?}", request.method(), request.uri());
        Ok(body)
    }

    /// Creates Pods as a user sends them, without the fields that a server sets.
    fn create_pods(&self) -> Result<()> {
        for namespace in 0..OBJECTS {
            let namespace = json!({"metadata": {"name": format!("team-{namespace}")}});
            self.body(&request(Method::POST, "/api/v1/namespaces", &namespace)?, StatusCode::CREATED)?;
        }
        for index in 0..OBJECTS {
            let mut pod: serde_json::Value = serde_json::from_slice(&pod(index, 1))?;
            let metadata = pod["metadata"].as_object_mut().context("a Pod has metadata")?;
            metadata.retain(|name, _| matches!(name.as_str(), "name" | "namespace" | "labels" | "annotations"));
            let path = format!("/api/v1/namespaces/team-{index}/pods");
            self.body(&request(Method::POST, &path, &pod)?, StatusCode::CREATED)?;
        }
        Ok(())
    }
}

fn request(method: Method, path: &str, body: &serde_json::Value) -> Result<Request<Full<Bytes>>> {
    let body = if body.is_null() { Bytes::new() } else { serde_json::to_vec(body)?.into() };
    let request = Request::builder().method(method).uri(path);
    Ok(request.header(http::header::CONTENT_TYPE, "application/json").body(Full::new(body))?)
}

/// A small object, and its path.
fn config_map(name: u64, value: u64) -> (String, serde_json::Value) {
    let path = format!("/api/v1/namespaces/default/configmaps/map-{name}");
    let map = json!({"metadata": {"name": format!("map-{name}"), "labels": {"app": "web"}}, "data": {"value": value.to_string()}});
    (path, map)
}

/// A server with the objects of every cluster. The first one of the process has built what all
/// share.
pub(super) fn start() -> Result<u64> {
    let runtime = runtime()?;
    let start = || {
        runtime.block_on(async {
            (0..STARTS).for_each(|_| drop(black_box(ApiServer::with_world(world()))));
        });
    };
    start();
    measured(&mut { start });
    Ok(STARTS)
}

pub(super) fn get() -> Result<u64> {
    let server = Server::start()?;
    server.create_pods()?;
    let request = request(Method::GET, "/api/v1/namespaces/team-1/pods/web-0-6f7c9b8d54-00001", &json!(null))?;
    let size = server.body(&request, StatusCode::OK)?.len();
    ensure!(size > 1_500, "the Pod has {size} bytes: it is not whole");
    let read = || (0..REQUESTS).for_each(|_| drop(black_box(server.body(&request, StatusCode::OK))));
    measured(&mut { read });
    Ok(REQUESTS)
}

pub(super) fn create(managed_fields: bool) -> Result<u64> {
    let server = Server::managing(managed_fields)?;
    let path = "/api/v1/namespaces/default/configmaps";
    let requests: Vec<_> =
        (0..2 * REQUESTS).map(|name| request(Method::POST, path, &config_map(name, 0).1)).collect::<Result<_>>()?;
    let (warm, requests) = requests.split_at(REQUESTS as usize);
    let create = |requests: &[Request<_>]| {
        requests.iter().try_for_each(|request| server.body(request, StatusCode::CREATED).map(drop))
    };
    create(warm)?;
    let map = request(Method::GET, &format!("{path}/map-0"), &json!(null))?;
    let map: serde_json::Value = serde_json::from_slice(&server.body(&map, StatusCode::OK)?)?;
    ensure!(map["metadata"]["managedFields"].is_array() == managed_fields, "the object is {map}");
    let mut created = Ok(());
    measured(&mut || created = create(requests));
    created?;
    Ok(REQUESTS)
}

pub(super) fn list() -> Result<u64> {
    let server = Server::start()?;
    server.create_pods()?;
    let request = request(Method::GET, "/api/v1/pods", &json!(null))?;
    let list: serde_json::Value = serde_json::from_slice(&server.body(&request, StatusCode::OK)?)?;
    ensure!(list["items"].as_array().is_some_and(|items| items.len() as u64 == OBJECTS), "the list is not whole");
    measured(&mut || drop(black_box(server.body(&request, StatusCode::OK))));
    Ok(OBJECTS)
}

pub(super) fn watch() -> Result<u64> {
    let server = Server::start()?;
    let (path, map) = config_map(0, 0);
    let collection = "/api/v1/namespaces/default/configmaps";
    server.body(&request(Method::POST, collection, &map)?, StatusCode::CREATED)?;
    let mut watch = server.call(&request(Method::GET, &format!("{collection}?watch=true"), &json!(null))?).into_body();
    let updates: Vec<_> =
        (1..=2 * REQUESTS).map(|value| request(Method::PUT, &path, &config_map(0, value).1)).collect::<Result<_>>()?;
    let mut events = 0;
    let mut follow = |updates: &[Request<_>]| {
        server.runtime.block_on(async {
            for update in updates {
                let Ok(response) = server.server.clone().call(update.clone()).await;
                black_box(response);
                while let Some(Some(Ok(frame))) = watch.frame().now_or_never() {
                    black_box(frame);
                    events += 1;
                }
            }
        });
    };
    let (warm, updates) = updates.split_at(REQUESTS as usize);
    follow(warm);
    measured(&mut || follow(updates));
    // The first event is the object at the start of the watch.
    ensure!(events == 1 + 2 * REQUESTS, "the watch had {events} events");
    Ok(REQUESTS)
}
