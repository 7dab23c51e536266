//! What happens to an operator whose roles are proved.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;
use steersman_client::Client;
use steersman_manifests::operator::Operator;
use steersman_runtime::{Error, Manager, ManagerBuilder};

type Script = dyn Fn(Client) -> BoxFuture<'static, ()> + Send + Sync;
type Build = dyn Fn(ManagerBuilder) -> Result<ManagerBuilder, Error> + Send + Sync;
type Adjust = dyn Fn(&mut Operator) + Send + Sync;

/// What happens while the operator runs.
#[derive(Clone)]
#[must_use]
pub struct Scenario {
    pub(super) crds: Vec<Value>,
    pub(super) steps: Steps,
    is_strict: bool,
    build: Arc<Build>,
    adjust: Arc<Adjust>,
}

#[derive(Clone)]
pub(super) enum Steps {
    Samples(Vec<Value>),
    Script(Arc<Script>),
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario")
            .field("crds", &self.crds.len())
            .field("strict", &self.is_strict)
            .finish_non_exhaustive()
    }
}

impl Scenario {
    /// Creates, changes and deletes samples, and waits in between until the operator is idle.
    /// `samples` is YAML with one document for each object.
    ///
    /// - A sample is changed in its annotations, and then in each number and flag of its fields,
    ///   one at a time. A change that the server refuses is left out.
    /// - An object that the operator has created is changed in each number, flag and text, and then
    ///   deleted.
    /// - Samples are deleted in reverse, and are waited for until their finalizers are gone.
    ///
    /// The namespaces of the samples are created. A sample without one is in `default`.
    ///
    /// # Panics
    ///
    /// The samples are no YAML, or a CRD cannot be written as JSON.
    pub fn samples<D: Serialize>(crds: impl IntoIterator<Item = D>, samples: &str) -> Self {
        let samples: Vec<Value> = match serde_saphyr::from_multiple(samples) {
            Ok(samples) => samples,
            Err(error) => panic!("the samples are not YAML: {error}"),
        };
        Self::with(crds, Steps::Samples(samples))
    }

    /// Runs `script` with a client that has all rights, and then waits until the operator is idle.
    /// The script is called for each run; it waits with [`eventually`](crate::eventually).
    ///
    /// # Panics
    ///
    /// A CRD cannot be written as JSON.
    pub fn new<D, F, R>(crds: impl IntoIterator<Item = D>, script: F) -> Self
    where
        D: Serialize,
        F: Fn(Client) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Self::with(crds, Steps::Script(Arc::new(move |client| script(client).boxed())))
    }

    fn with<D: Serialize>(crds: impl IntoIterator<Item = D>, steps: Steps) -> Self {
        let json = |crd| match serde_json::to_value(crd) {
            Ok(crd) => crd,
            Err(error) => panic!("a CRD cannot be written as JSON: {error}"),
        };
        let crds = crds.into_iter().map(json).collect();
        Self { crds, steps, is_strict: false, build: Arc::new(Ok), adjust: Arc::new(|_| {}) }
    }

    /// Fails if a rule was not used in any run. Default: a warning.
    pub fn every_rule_is_used(mut self) -> Self {
        self.is_strict = true;
        self
    }

    /// Settings of the manager, such as the namespaces of its caches.
    ///
    /// ```
    /// # use steersman_runtime::CacheDefaults;
    /// # use steersman_testing::rbac::Scenario;
    /// # fn example(scenario: Scenario) -> Scenario {
    /// scenario.manager(|builder| Ok(builder.cache_defaults(CacheDefaults::new().namespace("shop"))))
    /// # }
    /// ```
    pub fn manager(
        mut self,
        build: impl Fn(ManagerBuilder) -> Result<ManagerBuilder, Error> + Send + Sync + 'static,
    ) -> Self {
        self.build = Arc::new(build);
        self
    }

    /// Changes the model of the operator before its roles are made: access that no manager
    /// declares, for example. The operator runs in the namespace `default`.
    pub fn operator(mut self, adjust: impl Fn(&mut Operator) + Send + Sync + 'static) -> Self {
        self.adjust = Arc::new(adjust);
        self
    }

    pub(super) fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// The manager for this client, with its controllers.
    pub(super) fn build(
        &self,
        client: Client,
        setup: &impl Fn(&Manager) -> Result<(), String>,
    ) -> Result<Manager, String> {
        let builder = (self.build)(Manager::builder(client)).map_err(|error| error.to_string())?;
        let manager = builder.build();
        setup(&manager)?;
        Ok(manager)
    }

    /// The operator as its manager describes it without a server, and that manager.
    pub(super) fn model(&self, setup: &impl Fn(&Manager) -> Result<(), String>) -> Result<(Manager, Operator), String> {
        let client = Client::offline();
        let manager = self.build(client.clone(), setup)?;
        if let Some(request) = client.refused_request() {
            return Err(format!("setup sends {request}: send it in a reconciler or in a runnable of the manager"));
        }
        let mut operator = Operator::new("operator", "operator:test");
        operator.namespace = "default".to_owned();
        manager.describe(&mut operator);
        (self.adjust)(&mut operator);
        Ok((manager, operator))
    }
}
