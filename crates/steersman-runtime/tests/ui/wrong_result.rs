//! Nothing is said about when to look again.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Context, Failure, ObjectKey, Reconciler};

struct Silent;

impl Reconciler<ConfigMap> for Silent {
    type Error = Failure;

    async fn reconcile(&self, _: &Context<ConfigMap>, _: &ObjectKey) -> Result<(), Failure> {
        Ok(())
    }
}

fn main() {}
