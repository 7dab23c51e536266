//! A manager that serves `/debug`. Each test binary uses its own part of this.
#![allow(dead_code)]

use std::net::SocketAddr;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use steersman_client::{Client, Patch, PatchParams, PostParams};
use steersman_http::{Router, Server};
use steersman_runtime::{Action, Context, DebugQuery, Manager, ObjectKey, ReconcileError, kind, reconcile_fn};
use steersman_testing::Embedded;

/// The content of every Secret.
pub(crate) const SENTINEL: &str = "sentinel-5f3759df";

/// A manager with two controllers: one copies ConfigMaps into Secrets and fails for `broken`, the
/// other changes `restless` in each reconcile.
pub(crate) struct Controllers {
    pub(crate) manager: Manager,
    pub(crate) client: Client,
}

impl Controllers {
    pub(crate) fn start() -> Self {
        let server = Embedded::start();
        let manager = Manager::new(server.client());
        let copy = reconcile_fn(|ctx: Context<ConfigMap>, key: ObjectKey| async move {
            if key.name() == "broken" {
                return Err(ReconcileError::message("the copy is refused: quota exceeded"));
            }
            let Some(_) = ctx.get(&key).await? else { return Ok(Action::done()) };
            let secret = Secret { metadata: key.to_meta(), ..Secret::default() };
            let fill = |secret: &mut Secret| {
                secret.data = Some([("password".to_owned(), ByteString(SENTINEL.as_bytes().to_vec()))].into());
            };
            ctx.client().create_or_update(secret, fill).await?;
            Ok(Action::done())
        });
        manager.controller(kind::<ConfigMap>()).named("copies").owns(kind::<Secret>()).complete(copy).unwrap();
        let touch = reconcile_fn(|ctx: Context<ConfigMap>, key: ObjectKey| async move {
            if key.name() == "restless" {
                let patch = Patch::Merge(json!({"data": {"seen": ctx.now().to_string()}}));
                ctx.client().objects::<ConfigMap>().patch(&key, &patch).await?;
            }
            Ok(Action::done())
        });
        manager.controller(kind::<ConfigMap>()).named("touches").complete(touch).unwrap();
        let running = manager.clone();
        tokio::spawn(async move { running.start(std::future::pending()).await });
        Self { manager, client: server.client() }
    }

    /// Creates a ConfigMap, and waits until it has been reconciled.
    pub(crate) async fn create(&self, name: &str) {
        let is_ready = || std::future::ready(self.manager.is_ready().then_some(()));
        steersman_testing::eventually("the manager is ready", is_ready).await;
        let map = ConfigMap { metadata: ObjectKey::new("default", name).to_meta(), ..ConfigMap::default() };
        self.client.namespaced("default").create(&PostParams::default(), &map).await.unwrap();
        let query = DebugQuery::object("ConfigMap", format!("default/{name}"));
        let reconciled = || {
            let controllers = self.manager.debug_state(&query).controllers;
            controllers.iter().all(|controller| !controller.reconciles.is_empty())
        };
        steersman_testing::eventually("the ConfigMap is reconciled", || std::future::ready(reconciled().then_some(())))
            .await;
    }

    pub(crate) async fn change(&self, name: &str) {
        let patch = Patch::Merge(json!({"data": {"changed": "yes"}}));
        let maps = self.client.namespaced::<ConfigMap>("default");
        maps.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Serves `/debug`.
    pub(crate) fn serve(&self, prepare: impl FnOnce(Router) -> Router, tls: Option<steersman_http::Tls>) -> SocketAddr {
        let router = prepare(self.manager.debug_routes(Router::new()));
        let server = Server::new();
        let server = if let Some(tls) = tls { server.tls(tls) } else { server }.bind().unwrap();
        let address = server.address();
        tokio::spawn(server.run(router, std::future::pending()));
        address
    }
}
