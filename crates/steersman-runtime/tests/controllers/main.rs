//! What controllers do, on the embedded server in process.

mod applies;
mod contexts;
mod copies;
mod custom_sources;
mod flight_recorder;
mod hot_loops;
mod layers;
mod low_road;
mod outcomes;
mod owners;
mod predicates;
mod priorities;
mod sources;
#[path = "../support/mod.rs"]
mod support;
mod workers;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Action, Context, ObjectKey, Reconciler, reconcile_fn};

use support::Log;

/// A reconciler that logs the names of its keys.
fn noting(log: &Log<String>) -> impl Reconciler<ConfigMap> + use<> {
    let log = log.clone();
    reconcile_fn(move |_: Context<ConfigMap>, key: ObjectKey| {
        log.note(key.name());
        async { Ok(Action::done()) }
    })
}
