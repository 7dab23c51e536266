//! Sees each Backup. The kind belongs to another project: its CustomResourceDefinition is not in
//! the manifests of this one.

use steersman::predicate::GenerationChanged;
use steersman::{Action, Context, Error, Manager, ObjectKey, ReconcileError, Reconciler, kind};

use crate::api::v1::backup::Backup;

/// Adds the controller. The reconciler writes nothing: declare here what it will write.
pub fn add(manager: &Manager) -> Result<(), Error> {
    let primary = kind::<Backup>().predicate(GenerationChanged);
    manager.controller(primary).complete(BackupReconciler)?;
    Ok(())
}

struct BackupReconciler;

impl Reconciler<Backup> for BackupReconciler {
    type Error = ReconcileError;

    async fn reconcile(
        &self,
        ctx: &Context<Backup>,
        key: &ObjectKey,
    ) -> Result<Action, ReconcileError> {
        let Some(object) = ctx.get(key).await? else {
            tracing::info!(%key, "deleted");
            return Ok(Action::done());
        };
        tracing::info!(%key, generation = object.metadata.generation, "seen");
        Ok(Action::done())
    }
}
