//! An error type that is no error.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Action, Context, ObjectKey, Reconciler};

struct Careless;

impl Reconciler<ConfigMap> for Careless {
    type Error = String;

    async fn reconcile(&self, _: &Context<ConfigMap>, _: &ObjectKey) -> Result<Action, String> {
        Err("this is text".to_owned())
    }
}

fn main() {}
