//! A value that is not `Send` is held across an await.

use std::rc::Rc;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_runtime::{Action, Context, ObjectKey, ReconcileError, Reconciler};

struct Keeping;

impl Reconciler<ConfigMap> for Keeping {
    type Error = ReconcileError;

    async fn reconcile(&self, _: &Context<ConfigMap>, _: &ObjectKey) -> Result<Action, ReconcileError> {
        let kept = Rc::new(1);
        std::future::ready(()).await;
        drop(kept);
        Ok(Action::done())
    }
}

fn main() {}
