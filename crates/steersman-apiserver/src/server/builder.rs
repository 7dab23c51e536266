//! The options of a server, and its first objects.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use super::{ApiServer, Shared};
use crate::access::Access;
use crate::lifecycle::bootstrap;
use crate::request::identity::Identity;
use crate::rules::custom::Customs;
use crate::rules::metadata;
use crate::store::object::template::Fresh;
use crate::store::{Retention, Store};
use steersman_world::World;

/// The options of an [`ApiServer`].
///
/// ```
/// use steersman_apiserver::ApiServer;
///
/// // A server beside which a real kube-controller-manager runs.
/// let server = ApiServer::builder().controllers(false).build();
/// ```
#[derive(Clone, Debug)]
pub struct ApiServerBuilder {
    world: World,
    bootstrap: bool,
    controllers: bool,
    managed_fields: bool,
    streaming_lists: bool,
    enforces_owner_references: bool,
}

impl ApiServer {
    /// A server with other options than [`ApiServer::new`].
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder {
            world: World::system(),
            bootstrap: true,
            controllers: true,
            managed_fields: true,
            streaming_lists: true,
            enforces_owner_references: false,
        }
    }
}

impl ApiServerBuilder {
    /// Takes creation timestamps, uids and generated names from `world`. Default: the system's.
    #[must_use]
    pub fn world(mut self, world: World) -> Self {
        self.world = world;
        self
    }

    /// Whether the server does the work of kube-controller-manager that it knows: garbage
    /// collection, deletion of namespaces, protection of storage, the ServiceAccount `default` and
    /// the ConfigMap `kube-root-ca.crt` in each namespace, aggregation of ClusterRoles. Default:
    /// `true`.
    ///
    /// Without them, an object with a finalizer of the garbage collector stays, and a namespace
    /// that is deleted stays `Terminating`, until a client does that work.
    #[must_use]
    pub fn controllers(mut self, on: bool) -> Self {
        self.controllers = on;
        self
    }

    /// Whether the server begins with the objects that every cluster has: the Service `kubernetes`,
    /// the roles of the system and others. Default: `true`.
    ///
    /// Without them there are four namespaces and nothing else, and a new namespace is empty. That
    /// is for tests that count objects.
    #[must_use]
    pub fn bootstrap(mut self, on: bool) -> Self {
        self.bootstrap = on;
        self
    }

    /// Whether a created object gets managed fields. Without them, fields of an object that is not
    /// applied have no managers. It exists to measure what managed fields cost.
    #[doc(hidden)]
    #[must_use]
    pub fn managed_fields(mut self, on: bool) -> Self {
        self.managed_fields = on;
        self
    }

    /// Whether a watch can begin with all objects. Default: `true`. Without, the server answers as
    /// one with `--feature-gates=WatchList=false`: a client that asks for a streaming list gets an
    /// error, and sends a plain list.
    #[must_use]
    pub fn streaming_lists(mut self, on: bool) -> Self {
        self.streaming_lists = on;
        self
    }

    /// Whether the admission plugin OwnerReferencesPermissionEnforcement is on. Default: `false`,
    /// as in kube-apiserver. It matters with [RBAC](ApiServer::with_rbac): a user who sets
    /// `blockOwnerDeletion` in an owner reference then needs the right to `update` the subresource
    /// `finalizers` of the owner, and one who changes the owner references of an object that exists
    /// needs the right to `delete` it. The [record](ApiServer::requests) has these checks, too.
    #[must_use]
    pub fn owner_references_permission_enforcement(mut self, on: bool) -> Self {
        self.enforces_owner_references = on;
        self
    }

    /// The server.
    pub fn build(self) -> ApiServer {
        let shared = Arc::new(Shared {
            world: self.world,
            store: Store::new(Retention::default()),
            customs: Customs::default(),
            addresses: Mutex::default(),
            access: Access::default(),
            bootstrap: self.bootstrap,
            controllers: self.controllers,
            managed_fields: self.managed_fields,
            streaming_lists: self.streaming_lists,
            enforces_owner_references: self.enforces_owner_references,
            authority: Mutex::default(),
            panics: AtomicU64::new(0),
            #[cfg(test)]
            begun: AtomicU64::new(0),
            #[cfg(test)]
            encoders: Mutex::default(),
        });
        shared.create_first_objects();
        ApiServer { shared, identity: Arc::new(Identity::admin()) }
    }
}

impl Shared {
    fn create_first_objects(&self) {
        let now = self.now();
        for (resource, template) in bootstrap::objects(self.bootstrap, self.controllers) {
            let uid = metadata::uid(&self.world);
            let fresh = Fresh { uid: &uid, now: &now };
            let created = self.store.put(resource, template.key(), None, |revision| template.object(revision, &fresh));
            debug_assert!(created.is_ok(), "{:?}", template.key());
        }
    }
}
