//! A type that is no reconciler is given to a controller.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Manager, kind};

struct Forgotten;

fn add(manager: &Manager) {
    let _ = manager.controller(kind::<ConfigMap>()).complete(Forgotten);
}

fn main() {}
