//! `?` with an error that is a text.

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Action, Context, ObjectKey, ReconcileError, Reconciler};

struct Careless;

impl Reconciler<ConfigMap> for Careless {
    type Error = ReconcileError;

    async fn reconcile(&self, _: &Context<ConfigMap>, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let _namespace = key.namespace().ok_or("no namespace".to_owned())?;
        Ok(Action::done())
    }
}

fn main() {}
