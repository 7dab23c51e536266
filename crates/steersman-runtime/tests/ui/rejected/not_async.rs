//! Without `async`.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Action, Context, ObjectKey, ReconcileError, Reconciler};

struct Blocking;

impl Reconciler<ConfigMap> for Blocking {
    type Error = ReconcileError;

    fn reconcile(&self, _: &Context<ConfigMap>, _: &ObjectKey) -> Result<Action, ReconcileError> {
        Ok(Action::done())
    }
}

fn main() {}
