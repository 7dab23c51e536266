use serde::Serialize;
use steersman_apiserver::{ApiServer, ApiServerBuilder, Identity, RequestRecord};
use steersman_client::Client;
use steersman_world::World;

use crate::definitions;
use crate::error::Error;

/// An API server in this process. It lives as long as this value, its clones and its clients.
///
/// It needs no start-up time and no cleanup. Two servers share nothing:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::Namespace;
/// use steersman_testing::Embedded;
///
/// let server = Embedded::start();
/// let namespaces = server.client().cluster::<Namespace>();
/// assert_eq!(namespaces.list(&Default::default()).await?.items.len(), 4);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Embedded {
    server: ApiServer,
}

impl Embedded {
    /// A server with the objects that every cluster has.
    pub fn start() -> Self {
        Self::default()
    }

    /// A server with four namespaces and nothing else, for tests that count objects. A new
    /// namespace is empty.
    pub fn empty() -> Self {
        Self::builder().bootstrap(false).start()
    }

    /// A server with other options.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::ServiceAccount;
    /// use steersman_testing::Embedded;
    ///
    /// let server = Embedded::builder().controllers(false).start();
    /// let accounts = server.client().namespaced::<ServiceAccount>("default");
    /// assert!(accounts.list(&Default::default()).await?.items.is_empty());
    /// # Ok(()) }
    /// ```
    pub fn builder() -> EmbeddedBuilder {
        EmbeddedBuilder { server: ApiServer::builder() }
    }

    /// A server that takes creation timestamps, uids and generated names from `world`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::Namespace;
    /// use steersman_testing::{Embedded, World};
    ///
    /// let world = World::seeded(7, "2026-01-31T10:00:00Z".parse()?);
    /// let server = Embedded::with_world(world);
    /// let namespaces = server.client().cluster::<Namespace>();
    /// let created = namespaces.get("default").await?.metadata.creation_timestamp;
    /// assert_eq!(created.map(|time| time.0.to_string()).as_deref(), Some("2026-01-31T10:00:00Z"));
    /// # Ok(()) }
    /// ```
    pub fn with_world(world: World) -> Self {
        Self::builder().world(world).start()
    }

    /// The same server with RBAC: a request of a [`user`](Self::user) is refused unless a role
    /// permits it. It holds for all clones of the server. A [`client`](Self::client) keeps all
    /// rights.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use steersman_testing::Embedded;
    ///
    /// let server = Embedded::start().with_rbac();
    /// let maps = server.user("jane", ["developers"]).namespaced::<ConfigMap>("default");
    /// let refused = maps.list(&Default::default()).await.unwrap_err();
    /// let why = "User \"jane\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"";
    /// assert!(refused.to_string().contains(why), "{refused}");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn with_rbac(self) -> Self {
        Self { server: self.server.with_rbac() }
    }

    /// The same server with a record of its requests, for all of its clones: see
    /// [`requests`](Self::requests).
    #[must_use]
    pub fn with_request_record(self) -> Self {
        Self { server: self.server.with_request_record() }
    }

    /// The requests since [`with_request_record`](Self::with_request_record), by user, each once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use steersman_testing::Embedded;
    ///
    /// let server = Embedded::start().with_request_record();
    /// let maps = server.user("jane", ["developers"]).namespaced::<ConfigMap>("default");
    /// maps.list(&Default::default()).await?;
    /// let requests = server.requests().requests;
    /// assert!(requests.iter().any(|seen| seen.user == "jane" && seen.verb == "list" && seen.resource == "configmaps"));
    /// # Ok(()) }
    /// ```
    pub fn requests(&self) -> RequestRecord {
        self.server.requests()
    }

    /// A client with all rights. It ends with the tokio runtime in which it is created.
    pub fn client(&self) -> Client {
        self.kube_client().into()
    }

    /// The same as a client of kube, for code that uses `kube::Api`.
    pub fn kube_client(&self) -> kube_client::Client {
        kube_client::Client::new(self.server.clone(), "default")
    }

    /// A client that authenticates as the user `name`, a member of `groups` and of
    /// `system:authenticated`. It ends with the tokio runtime in which it is created. Without
    /// [RBAC](Self::with_rbac) every user has all rights.
    pub fn user<G: Into<String>>(&self, name: &str, groups: impl IntoIterator<Item = G>) -> Client {
        kube_client::Client::new(self.server.acting_as(Identity::new(name, groups)), "default").into()
    }

    /// Installs definitions of custom resources and waits until they are served. A definition that
    /// exists is replaced.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use steersman_testing::Embedded;
    ///
    /// let server = Embedded::start();
    /// // With a type that derives `CustomResource`: `Network::crd()`.
    /// let definition = serde_json::json!({
    ///     "apiVersion": "apiextensions.k8s.io/v1",
    ///     "kind": "CustomResourceDefinition",
    ///     "metadata": {"name": "networks.example.com"},
    ///     "spec": {
    ///         "group": "example.com",
    ///         "names": {"kind": "Network", "plural": "networks"},
    ///         "scope": "Namespaced",
    ///         "versions": [{
    ///             "name": "v1", "served": true, "storage": true,
    ///             "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    ///         }],
    ///     },
    /// });
    /// server.install_crds([definition]).await?;
    /// # Ok(()) }
    /// ```
    pub async fn install_crds<D: Serialize>(&self, definitions: impl IntoIterator<Item = D>) -> Result<(), Error> {
        definitions::install(&self.kube_client(), definitions).await
    }

    /// The server itself, for requests without a client and for serving on a socket.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Drops the history, as etcd's compaction does: requests for an earlier version get 410 Gone.
    pub fn compact(&self) {
        self.server.compact();
    }
}

/// The options of an [`Embedded`] server.
#[derive(Clone, Debug)]
pub struct EmbeddedBuilder {
    server: ApiServerBuilder,
}

impl EmbeddedBuilder {
    /// Takes creation timestamps, uids and generated names from `world`, as
    /// [`Embedded::with_world`].
    #[must_use]
    pub fn world(self, world: World) -> Self {
        Self { server: self.server.world(world) }
    }

    /// Whether the server does the work of kube-controller-manager that it knows: garbage
    /// collection, deletion of namespaces, protection of storage, the ServiceAccount `default` and
    /// the ConfigMap `kube-root-ca.crt` in each namespace, aggregation of ClusterRoles. Default:
    /// `true`. Switch it off when a real kube-controller-manager runs beside the server.
    #[must_use]
    pub fn controllers(self, on: bool) -> Self {
        Self { server: self.server.controllers(on) }
    }

    /// Whether the server begins with the objects that every cluster has besides its namespaces.
    /// Default: `true`. See [`Embedded::empty`].
    #[must_use]
    pub fn bootstrap(self, on: bool) -> Self {
        Self { server: self.server.bootstrap(on) }
    }

    /// Whether a watch can begin with all objects. Default: `true`. Without, clients have to list,
    /// as on a server with `--feature-gates=WatchList=false`.
    #[must_use]
    pub fn streaming_lists(self, on: bool) -> Self {
        Self { server: self.server.streaming_lists(on) }
    }

    /// Whether the admission plugin OwnerReferencesPermissionEnforcement is on. Default: `false`.
    /// With [RBAC](Embedded::with_rbac), an owner reference that blocks the deletion of its owner
    /// then needs the right to `update` the owner's `finalizers`.
    #[must_use]
    pub fn owner_references_permission_enforcement(self, on: bool) -> Self {
        Self { server: self.server.owner_references_permission_enforcement(on) }
    }

    /// The server.
    pub fn start(self) -> Embedded {
        Embedded { server: self.server.build() }
    }
}
