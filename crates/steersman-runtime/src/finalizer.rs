//! Things to do before an object may go.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use kube_core::Resource;
use serde_json::json;
use steersman_cache::{Cached, Object};
use steersman_client::Patch;
use steersman_wire::is_qualified_name;

use crate::{CachedClient, Context, Error, Failure, Objects};

/// How often the list of finalizers is written when others write the object all the time; then the reconcile fails.
const ATTEMPTS_MAX: usize = 5;

/// Adds a finalizer to an object in memory. Says whether it was not there.
pub fn add_finalizer<K: Resource>(object: &mut K, name: &str) -> bool {
    add_name(object.meta_mut().finalizers.get_or_insert_default(), name)
}

/// Takes a finalizer from an object in memory. Says whether it was there. Those of others stay.
pub fn remove_finalizer<K: Resource>(object: &mut K, name: &str) -> bool {
    let finalizers = &mut object.meta_mut().finalizers;
    let removed = finalizers.as_mut().is_some_and(|finalizers| remove_name(finalizers, name));
    finalizers.take_if(|finalizers| finalizers.is_empty());
    removed
}

/// Whether an object has a finalizer.
pub fn has_finalizer<K: Resource>(object: &K, name: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|finalizer| finalizer == name)
}

type HookFuture<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>>;
type Hook<K> = dyn Fn(Context<K>, Cached<K>) -> HookFuture<'static> + Send + Sync;
type ObjectsFn<K> = dyn Fn(&CachedClient) -> Objects<K> + Send + Sync;

/// A finalizer, and what is to be done before the objects that have it may go.
///
/// **What is promised.** Each hook is called at least once for each object that is deleted while it has the finalizer, with its last
/// state, which is in the cache as well. The finalizer is taken away when all hooks have succeeded, and not before; hooks are called
/// again otherwise, and so must not mind. Finalizers of others are not touched. The tests of these sentences are in
/// `tests/finalizers.rs`.
///
/// The reconciler keeps the finalizer, calls [`ensure`](Self::ensure) first, and ends when the object is on its way out.
/// [`GenerationChanged`](crate::GenerationChanged) lets a deletion through.
///
/// ```
/// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # use steersman_runtime::{Action, Context, Error, Failure, Finalizer, FinalizerState, ObjectKey, Reconciler};
/// struct MapReconciler {
///     cleanup: Finalizer<ConfigMap>,
/// }
///
/// impl MapReconciler {
///     fn new() -> Result<Self, Error> {
///         let cleanup = Finalizer::new("example.com/cleanup")?.hook("secret", |ctx: Context<ConfigMap>, map| async move {
///             match ctx.client().delete::<Secret>(&map.key()).await {
///                 // It is called again after a failure: the Secret may be gone already.
///                 Err(error) if error.is_not_found() => Ok(()),
///                 deleted => deleted,
///             }
///         });
///         Ok(Self { cleanup })
///     }
/// }
///
/// impl Reconciler<ConfigMap> for MapReconciler {
///     type Error = Failure;
///
///     async fn reconcile(&self, ctx: &Context<ConfigMap>, key: &ObjectKey) -> Result<Action, Failure> {
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

/// How it stands with an object and a finalizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum FinalizerState {
    /// The object is wanted, and has the finalizer: go on.
    Active,
    /// The object is on its way out, and this finalizer is done with it: there is nothing to do.
    Finalized,
}

impl<K: Resource> fmt::Debug for Finalizer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hooks: Vec<_> = self.hooks.iter().map(|(name, _)| name).collect();
        f.debug_struct("Finalizer").field("name", &self.name).field("hooks", &hooks).finish()
    }
}

impl<K: Object + Resource<DynamicType = (), Scope: 'static>> Finalizer<K> {
    /// A finalizer with a name such as `networks.example.com/cleanup`, without hooks yet.
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        Self::of(name, CachedClient::objects)
    }
}

impl<K: Object + Resource<DynamicType: Clone>> Finalizer<K> {
    /// The same for objects in any form: of a kind that is known at run time only, or their metadata alone.
    ///
    /// ```
    /// # use steersman_client::ApiResource;
    /// # use steersman_runtime::{Error, Finalizer};
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
            return Err(Error::InvalidObject(format!("{name:?} cannot be the name of a finalizer: {problem}")));
        }
        if !name.contains('/') {
            let problem =
                format!("{name:?} cannot be the name of a finalizer: write domain/name, as example.com/{name}");
            return Err(Error::InvalidObject(problem));
        }
        Ok(Self { name, objects: Box::new(objects), hooks: Vec::new() })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// With something to do before an object goes. Hooks are called in the order in which they were added; after one that fails the
    /// others are called all the same.
    #[must_use]
    pub fn hook<F, R, E>(mut self, name: impl Into<String>, hook: F) -> Self
    where
        F: Fn(Context<K>, Cached<K>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let hook = move |ctx: Context<K>, object: Cached<K>| -> HookFuture<'static> {
            let done = hook(ctx, object);
            Box::pin(async move { done.await.map_err(Into::into) })
        };
        self.hooks.push((name.into(), Box::new(hook)));
        self
    }

    /// To be called first in a reconcile: gives a living object the finalizer, and calls the hooks for one that is deleted. When it has
    /// written, the object has a newer version than the one that was given: read it again before you update it.
    pub async fn ensure(&self, ctx: &Context<K>, object: &Cached<K>) -> Result<FinalizerState, Failure> {
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
                    // Somebody else has taken it away, and with it the object.
                    Err(error) if error.is_not_found() => {}
                    result => result?,
                }
                Ok(FinalizerState::Finalized)
            }
        }
    }

    /// Calls all hooks. If one of the failures goes away by trying again, it is the one that counts.
    async fn call_hooks(&self, ctx: &Context<K>, object: &Cached<K>) -> Result<(), Failure> {
        let mut failed: Option<Failure> = None;
        for (name, hook) in &self.hooks {
            if let Err(failure) = hook(ctx.clone(), object.clone()).await {
                tracing::warn!(hook = name, error = %failure, "the object stays until this succeeds");
                if failed.as_ref().is_none_or(|failed| failed.is_terminal() && !failure.is_terminal()) {
                    failed = Some(failure);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Changes the list of finalizers. If somebody has changed the object since it was read, it is read from the server and tried
    /// again, so that hooks that have succeeded need not be called again for that.
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
            let now = objects.live(key.namespace()).metadata().get(key.name()).await?.metadata;
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
