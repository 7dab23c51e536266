//! Without `async`.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Action, Context, Failure, ObjectKey, Reconciler};

struct Blocking;

impl Reconciler<ConfigMap> for Blocking {
    type Error = Failure;

    fn reconcile(&self, _: &Context<ConfigMap>, _: &ObjectKey) -> Result<Action, Failure> {
        Ok(Action::done())
    }
}

fn main() {}
