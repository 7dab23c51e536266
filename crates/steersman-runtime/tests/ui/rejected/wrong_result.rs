//! The result does not state when to reconcile again.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Context, ObjectKey, ReconcileError, Reconciler};

struct Silent;

impl Reconciler<ConfigMap> for Silent {
    type Error = ReconcileError;

    async fn reconcile(&self, _: &Context<ConfigMap>, _: &ObjectKey) -> Result<(), ReconcileError> {
        Ok(())
    }
}

fn main() {}
