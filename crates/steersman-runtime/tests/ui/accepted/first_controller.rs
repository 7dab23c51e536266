//! A controller without annotations of types that the framework knows.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_runtime::owner::set_controller_reference;
use steersman_runtime::{Action, Context, Error, Manager, ObjectKey, ReconcileError, kind, reconcile_fn};

fn add(manager: &Manager) -> Result<(), Error> {
    manager
        .controller(kind::<ConfigMap>())
        .owns(kind::<Secret>())
        // A map function may return an `Option`, or any other collection.
        .watches(kind::<Secret>(), |secret| {
            secret.meta().label("map").map(|name| ObjectKey::new(secret.meta().namespace(), name))
        })
        .watches(kind::<Secret>(), |_| [])
        .watches(kind::<Secret>(), |secret| vec![secret.key()])
        .complete(reconcile_fn(|ctx: Context<ConfigMap>, key| async move {
            let Some(map) = ctx.get(&key).await? else { return Ok(Action::done()) };
            let secret = Secret { metadata: key.to_meta(), ..Secret::default() };
            // The function that changes an object may end with a check.
            ctx.client().create_or_update(secret, |secret| set_controller_reference(&*map, secret)).await?;
            key.namespace().ok_or_else(|| ReconcileError::message("no namespace"))?;
            // `Ok` needs no type.
            Ok(Action::done())
        }))?;
    Ok(())
}

fn main() {
    let _ = add;
}
