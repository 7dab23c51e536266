//! Finalizers: cleanup before an object is deleted.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use kube_core::Resource;
use serde_json::json;
use steersman_cache::{Cached, Object};
use steersman_client::{Patch, PatchParams};
use steersman_wire::is_qualified_name;

use crate::{CachedClient, Context, Error, Objects, ReconcileError};

/// How many times the list of finalizers is written if other clients keep changing the object.
/// After that, the reconcile fails.
const ATTEMPTS_MAX: usize = 5;

/// Adds a finalizer to an object in memory. Returns `true` if the object did not have it.
pub fn add_finalizer<K: Resource>(object: &mut K, name: &str) -> bool {
    add_name(object.meta_mut().finalizers.get_or_insert_default(), name)
}

/// Removes a finalizer from an object in memory. Returns `true` if the object had it. Other
/// finalizers stay.
pub fn remove_finalizer<K: Resource>(object: &mut K, name: &str) -> bool {
    let finalizers = &mut object.meta_mut().finalizers;
    let removed = finalizers.as_mut().is_some_and(|finalizers| remove_name(finalizers, name));
    finalizers.take_if(|finalizers| finalizers.is_empty());
    removed
}

/// Returns `true` if an object has a finalizer.
pub fn has_finalizer<K: Resource>(object: &K, name: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|finalizer| finalizer == name)
}

type HookFuture<'a> = Pin<Box<dyn Future<Output = Result<(), ReconcileError>> + Send + 'a>>;
type Hook<K> = dyn Fn(Context<K>, Cached<K>) -> HookFuture<'static> + Send + Sync;
type ObjectsFn<K> = dyn Fn(&CachedClient) -> Objects<K> + Send + Sync;

/// A finalizer with its hooks: the cleanup before an object is deleted.
///
/// **Contract** (the tests are in `tests/finalizers.rs`)
/// - For each object that is deleted while it has the finalizer, each hook runs at least once, with
///   the last state of the object. The cache holds that state, too.
/// - The finalizer is removed after all hooks have succeeded, and not before. After a failure, all
///   hooks run again: a hook must be idempotent.
/// - Finalizers of other controllers are not changed.
///
/// The reconciler owns the finalizer, calls [`ensure`](Self::ensure) first, and returns if the
/// object is being deleted. The predicate
/// [`GenerationChanged`](crate::predicate::GenerationChanged) accepts the start of a deletion.
///
/// ```
/// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # use steersman_runtime::{Action, Context, Error, ObjectKey, ReconcileError, Reconciler};
/// use steersman_runtime::finalizer::{Finalizer, FinalizerState};
///
/// struct MapReconciler {
///     cleanup: Finalizer<ConfigMap>,
/// }
///
/// impl MapReconciler {
///     fn new() -> Result<Self, Error> {
///         let cleanup = Finalizer::new("example.com/cleanup")?.hook("secret", |ctx: Context<ConfigMap>, map| async move {
///             match ctx.client().delete::<Secret>(&map.key()).await {
///                 // A hook runs again after a failure: the Secret may be deleted already.
///                 Err(error) if error.is_not_found() => Ok(()),
///                 deleted => deleted,
///             }
///         });
///         Ok(Self { cleanup })
///     }
/// }
///
/// impl Reconciler<ConfigMap> for MapReconciler {
///     type Error = ReconcileError;
///
///     async fn reconcile(&self, ctx: &Context<ConfigMap>, key: &ObjectKey) -> Result<Action, ReconcileError> {
///         let Some(map) = ctx.object(key).await? else { return Ok(Action::done()) };
///         if self.cleanup.ensure(ctx, &map).await? == FinalizerState::Finalized {
///             return Ok(Action::done());
///         }
///         // The object stays: reconcile it.
///         Ok(Action::done())
///     }
/// }
/// # assert!(MapReconciler::new().is_ok());
/// ```
pub struct Finalizer<K: Resource> {
    name: String,
    objects: Box<ObjectsFn<K>>,
    hooks: Vec<(String, Box<Hook<K>>)>,
}

/// What [`Finalizer::ensure`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum FinalizerState {
    /// The object is not being deleted, and it has the finalizer: continue with the reconcile.
    Active,
    /// The object is being deleted and no longer has this finalizer: end the reconcile.
    Finalized,
}

impl<K: Resource> fmt::Debug for Finalizer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hooks: Vec<_> = self.hooks.iter().map(|(name, _)| name).collect();
        f.debug_struct("Finalizer").field("name", &self.name).field("hooks", &hooks).finish()
    }
}

impl<K: Object + Resource<DynamicType = (), Scope: 'static>> Finalizer<K> {
    /// Creates a finalizer without hooks. Its name has the form `networks.example.com/cleanup`.
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        Self::of(name, CachedClient::objects)
    }
}

impl<K: Object + Resource<DynamicType: Clone>> Finalizer<K> {
    /// Creates a finalizer of objects in any form: dynamic objects, or metadata alone.
    ///
    /// ```
    /// # use steersman_client::ApiResource;
    /// # use steersman_runtime::{Error, finalizer::Finalizer};
    /// # fn example(resource: ApiResource) -> Result<(), Error> {
    /// let finalizer = Finalizer::of("example.com/cleanup", move |client| client.dynamic(&resource))?;
    /// # let _ = finalizer;
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(
        name: impl Into<String>,
        objects: impl Fn(&CachedClient) -> Objects<K> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let name = name.into();
        let problems = is_qualified_name(&name);
        if let Some(problem) = problems.first() {
            return Err(Error::InvalidObject(format!("invalid finalizer name {name:?}: {problem}")));
        }
        if !name.contains('/') {
            let problem = format!("invalid finalizer name {name:?}: expected domain/name, such as example.com/{name}");
            return Err(Error::InvalidObject(problem));
        }
        Ok(Self { name, objects: Box::new(objects), hooks: Vec::new() })
    }

    /// The name of the finalizer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a hook. Hooks run in the order in which they were added. If one fails, the later ones
    /// still run.
    #[must_use]
    pub fn hook<F, R, E>(mut self, name: impl Into<String>, hook: F) -> Self
    where
        F: Fn(Context<K>, Cached<K>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<ReconcileError>,
    {
        let hook = move |ctx: Context<K>, object: Cached<K>| -> HookFuture<'static> {
            let done = hook(ctx, object);
            Box::pin(async move { done.await.map_err(Into::into) })
        };
        self.hooks.push((name.into(), Box::new(hook)));
        self
    }

    /// Adds the finalizer to an object that is not being deleted, and runs the hooks of one that
    /// is. Call it first in a reconcile. If it writes, the object at the server is newer than
    /// `object`: read it again before an update.
    pub async fn ensure(&self, ctx: &Context<K>, object: &Cached<K>) -> Result<FinalizerState, ReconcileError> {
        let meta = object.meta();
        let present = meta.finalizers().any(|finalizer| finalizer == self.name);
        match (meta.deletion_timestamp().is_some(), present) {
            (false, true) => Ok(FinalizerState::Active),
            (true, false) => Ok(FinalizerState::Finalized),
            (false, false) => {
                self.change(ctx, object, add_name).await?;
                Ok(FinalizerState::Active)
            }
            (true, true) => {
                self.call_hooks(ctx, object).await?;
                match self.change(ctx, object, remove_name).await {
                    // Another client has removed the last finalizer, and the object is deleted.
                    Err(error) if error.is_not_found() => {}
                    result => result?,
                }
                Ok(FinalizerState::Finalized)
            }
        }
    }

    /// Runs all hooks. Of several errors, one that a retry can solve is returned before a terminal
    /// one.
    async fn call_hooks(&self, ctx: &Context<K>, object: &Cached<K>) -> Result<(), ReconcileError> {
        let mut failed: Option<ReconcileError> = None;
        for (name, hook) in &self.hooks {
            if let Err(error) = hook(ctx.clone(), object.clone()).await {
                tracing::warn!(hook = name, %error, "finalizer hook failed, the object stays until it succeeds");
                if failed.as_ref().is_none_or(|failed| failed.is_terminal() && !error.is_terminal()) {
                    failed = Some(error);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Changes the list of finalizers. After a conflict it reads the object from the server and
    /// tries again, because a failed reconcile would run all hooks again.
    async fn change(
        &self,
        ctx: &Context<K>,
        object: &Cached<K>,
        change: fn(&mut Vec<String>, &str) -> bool,
    ) -> Result<(), Error> {
        let (key, uid) = (object.key(), object.meta().uid());
        let mut finalizers: Vec<_> = object.meta().finalizers().map(ToOwned::to_owned).collect();
        let mut version = object.meta().resource_version().to_owned();
        let objects = (self.objects)(ctx.client());
        for attempt in 1.. {
            if !change(&mut finalizers, &self.name) {
                break;
            }
            let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
            match objects.patch(&key, &Patch::Merge(patch)).await {
                Err(error) if error.is_conflict() && attempt < ATTEMPTS_MAX => {}
                result => return result.map(drop),
            }
            // A patch that changes nothing reads the object, so that a finalizer needs one right.
            let nothing = Patch::Merge(json!({}));
            let api = objects.live(key.namespace()).metadata();
            let now = api.patch(key.name(), &PatchParams::default(), &nothing).await?.metadata;
            if now.uid.as_deref() != Some(uid) {
                return Err(Error::NotFound { kind: objects.kind().to_owned(), key: key.to_string() });
            }
            version = now.resource_version.unwrap_or_default();
            finalizers = now.finalizers.unwrap_or_default();
        }
        Ok(())
    }
}

fn add_name(finalizers: &mut Vec<String>, name: &str) -> bool {
    let missing = !finalizers.iter().any(|finalizer| finalizer == name);
    if missing {
        finalizers.push(name.to_owned());
    }
    missing
}

fn remove_name(finalizers: &mut Vec<String>, name: &str) -> bool {
    let before = finalizers.len();
    finalizers.retain(|finalizer| finalizer != name);
    finalizers.len() != before
}
