//! The object instead of its key.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Action, Context, ReconcileError, Reconciler};

struct ByObject;

impl Reconciler<ConfigMap> for ByObject {
    type Error = ReconcileError;

    async fn reconcile(&self, _: &Context<ConfigMap>, _: &ConfigMap) -> Result<Action, ReconcileError> {
        Ok(Action::done())
    }
}

fn main() {}
