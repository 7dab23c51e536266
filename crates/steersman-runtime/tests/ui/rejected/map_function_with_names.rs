//! A map function that returns names instead of keys.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_runtime::{Manager, kind};

fn add(manager: &Manager) {
    let _ = manager
        .controller(kind::<ConfigMap>())
        .watches(kind::<Secret>(), |secret| Some(secret.meta().name().to_owned()));
}

fn main() {}
