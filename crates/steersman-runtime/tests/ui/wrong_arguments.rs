//! The object instead of its key.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Action, Context, Failure, Reconciler};

struct ByObject;

impl Reconciler<ConfigMap> for ByObject {
    type Error = Failure;

    async fn reconcile(&self, _: &Context<ConfigMap>, _: &ConfigMap) -> Result<Action, Failure> {
        Ok(Action::done())
    }
}

fn main() {}
