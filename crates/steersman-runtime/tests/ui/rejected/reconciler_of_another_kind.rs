//! The reconciler of one kind is given to the controller of another.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_runtime::{Action, Context, Manager, ObjectKey, ReconcileError, Reconciler, kind};

struct OfSecrets;

impl Reconciler<Secret> for OfSecrets {
    type Error = ReconcileError;

    async fn reconcile(&self, _: &Context<Secret>, _: &ObjectKey) -> Result<Action, ReconcileError> {
        Ok(Action::done())
    }
}

fn add(manager: &Manager) {
    let _ = manager.controller(kind::<ConfigMap>()).complete(OfSecrets);
}

fn main() {}
