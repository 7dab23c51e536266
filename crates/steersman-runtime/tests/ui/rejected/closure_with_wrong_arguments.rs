//! A closure that takes the key only.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Action, Manager, ObjectKey, kind, reconcile_fn};

fn add(manager: &Manager) {
    let reconciler = reconcile_fn(|_: ObjectKey| async { Ok(Action::done()) });
    let _ = manager.controller(kind::<ConfigMap>()).complete(reconciler);
}

fn main() {}
