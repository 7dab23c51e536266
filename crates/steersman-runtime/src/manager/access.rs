//! What a manager does at the API server, and the model of an operator that has it.

use std::sync::Arc;

use steersman_cache::Object;
use steersman_manifests::operator::{Access, AccessReason, MetricsEndpoint, Operator, Verb};

use super::Manager;
use super::endpoints::reachable_port;
use crate::access::{Registry, Target};
use crate::caches::User;
use crate::{Error, Kind};

impl Manager {
    /// Declares what the program does with a kind, without a cache: see [`Kind::writes`] and
    /// [`Kind::live`]. For code outside of controllers; a controller declares it with
    /// [`ControllerBuilder::uses`](crate::ControllerBuilder::uses). If the kind selects one object
    /// with `fields("metadata.name=…")`, rules for `get`, `update`, `patch` and `delete` are for
    /// that name only (test `a_use_of_one_object_is_limited_to_its_name`).
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use steersman_runtime::{Error, Manager, Verb, kind};
    /// # fn example(manager: &Manager) -> Result<(), Error> {
    /// manager.uses(kind::<ConfigMap>().namespace("shop").live([Verb::Get]).writes([Verb::Create]))?;
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::needless_pass_by_value, reason = "as every other method that takes a kind")]
    pub fn uses<K: Object>(&self, kind: Kind<K>) -> Result<(), Error> {
        self.declare_use(&kind, User::Manager)
    }

    /// What this manager does at the API server, as far as it was declared so far, in a fixed
    /// order: the caches, what the kinds declare, owner references, Events, the Lease, and what
    /// secure metrics ask. Each has its [reason](Access::reason).
    ///
    /// | declared by | verbs | reason |
    /// |---|---|---|
    /// | a cache | `watch` | [`Watch`](AccessReason::Watch) |
    /// | a cache | `list` | [`ListFallback`](AccessReason::ListFallback): the server has no streaming lists |
    /// | [`Kind::live`] | those named | [`Live`](AccessReason::Live) |
    /// | [`Kind::writes`], [`writes_status`](Kind::writes_status), [`writes_subresource`](Kind::writes_subresource) | those named | [`Write`](AccessReason::Write), [`Status`](AccessReason::Status), [`Subresource`](AccessReason::Subresource) |
    /// | [`Kind::finalizers`] | `patch` | [`Finalizer`](AccessReason::Finalizer) |
    /// | [`owns`](crate::ControllerBuilder::owns) of a kind that is created, updated or patched | `update` of `<primary>/finalizers` | [`OwnerReferences`](AccessReason::OwnerReferences) |
    /// | [`records_events`](crate::ControllerBuilder::records_events), [`events`](Self::events) | `create`, `patch` of Events | [`Events`](AccessReason::Events) |
    /// | [`leader_election`](crate::ManagerBuilder::leader_election) | `get`, `watch`, `update` of the Lease by its name, `create`, Events | [`Lease`](AccessReason::Lease) |
    /// | secure [`metrics`](crate::ManagerBuilder::metrics) | `create` of the two reviews | [`MetricsReview`](AccessReason::MetricsReview) |
    ///
    /// An access without a [scope](Access::scope) is for the default namespaces of the caches
    /// ([`CacheDefaults::namespace`](crate::CacheDefaults::namespace)), or for all.
    pub fn access(&self) -> Vec<Access> {
        self.access_registry().access().to_vec()
    }

    /// Fills in what this manager knows of its operator: what it does, in which namespaces, the
    /// Lease, the ports of metrics and probes, and the time to stop. A server that listens on the
    /// loopback interface is left out: nothing outside the Pod reaches it. Without leader election
    /// the operator has one replica at most.
    ///
    /// A manager of [`Client::offline`](steersman_client::Client::offline) describes a program
    /// without a cluster. It binds no port, and reads no certificate.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    /// # use steersman_client::Client;
    /// # use steersman_runtime::{Error, Manager, Reconciler, Verb, kind};
    /// # use steersman_manifests::operator::Operator;
    /// # fn example(reconciler: impl Reconciler<ConfigMap>) -> Result<(), Error> {
    /// let manager = Manager::new(Client::offline());
    /// manager
    ///     .controller(kind::<ConfigMap>())
    ///     .owns(kind::<Secret>().writes([Verb::Create, Verb::Update]))
    ///     .complete(reconciler)?;
    /// let mut operator = Operator::new("secrets", "secrets:1.0");
    /// manager.describe(&mut operator);
    /// # Ok(())
    /// # }
    /// ```
    pub fn describe(&self, operator: &mut Operator) {
        // The model derives these from the lease and the metrics.
        let of_model = |access: &Access| matches!(access.reason, AccessReason::Lease | AccessReason::MetricsReview);
        operator.access = self.access().into_iter().filter(|access| !of_model(access)).collect();
        operator.scope = self.access_registry().scope();
        let election = self.inner.election.as_ref().map(|election| &election.settings);
        operator.lease = election.map(|settings| settings.name().to_owned());
        operator.lease_namespace = election.and_then(|settings| settings.other_namespace()).map(ToOwned::to_owned);
        if operator.lease.is_none() {
            operator.replicas = operator.replicas.min(1);
        }
        let ca_secret = operator.metrics.take().and_then(|metrics| metrics.ca_secret);
        operator.metrics = self.inner.endpoints.metrics.and_then(|(listen, is_secure)| {
            Some(MetricsEndpoint { port: reachable_port(listen)?, is_secure, ca_secret })
        });
        operator.probes = self.inner.endpoints.probes.and_then(reachable_port);
        let grace = self.inner.grace;
        let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
        operator.shutdown_seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
    }

    /// The call that declares an access which this manager lacks, for error messages: `add
    /// .writes([Verb::Create]) to kind::<ConfigMap>()`. `resource` is the plural name, with the
    /// subresource behind a slash.
    pub fn declaration_for(&self, verb: Verb, group: &str, resource: &str) -> String {
        self.access_registry().declaration(verb, group, resource)
    }

    pub(crate) fn declare_use<K: Object>(&self, kind: &Kind<K>, user: User<'_>) -> Result<(), Error> {
        self.inner.caches.declare_use(kind, user)
    }

    /// The kind as rules name it.
    pub(crate) fn target<K: Object>(&self, kind: &Kind<K>) -> Target {
        self.inner.caches.target(kind)
    }

    pub(crate) fn access_registry(&self) -> &Arc<Registry> {
        self.inner.caches.access()
    }
}
