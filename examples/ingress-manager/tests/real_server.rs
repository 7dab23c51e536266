//! The ingress manager on a real API server, with the permissions of `deploy/install.yaml` and the
//! real garbage collector.

mod suite;

use std::process::Output;

use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use steersman::Client;
use steersman::client::PostParams;
use steersman_testing::{RealServer, eventually};
use suite::{Clients, behaviours, service};
use tokio::sync::OnceCell;

/// The service account of the manifest.
const USER: &str = "system:serviceaccount:ingress-manager:ingress-manager";

/// The server that all tests share.
async fn shared() -> &'static RealServer {
    static SHARED: OnceCell<RealServer> = OnceCell::const_new();
    SHARED
        .get_or_init(async || {
            let server = RealServer::builder().controller_manager(true).start().await.unwrap();
            let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/install.yaml");
            let Output { status, stderr, .. } =
                server.kubectl().unwrap().args(["apply", "--server-side", "-f", manifest]).output().unwrap();
            assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
            // A server that has just started cannot assign addresses yet.
            let services =
                Client::builder(server.config().await.unwrap()).build().unwrap().namespaced::<Service>("default");
            let first = service("first", &json!({}));
            let created = async || services.create(&PostParams::default(), &first).await.ok();
            eventually("a Service can be created", created).await;
            server
        })
        .await
}

async fn server() -> (Clients, String) {
    let server = shared().await;
    let mut config = server.config().await.unwrap();
    let people = Client::builder(config.clone()).build().unwrap();
    config.auth_info.impersonate = Some(USER.to_owned());
    let groups = ["system:serviceaccounts", "system:authenticated"];
    config.auth_info.impersonate_groups = Some(groups.map(Into::into).into());
    let manager = Client::builder(config).build().unwrap();
    (Clients { manager, people }, server.namespace("ingress").await.unwrap())
}

behaviours! { tokio::test, server }
