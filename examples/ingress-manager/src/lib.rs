//! Gives Services an Ingress: a controller of built-in kinds only, with two informers.
//!
//! A Service asks for it with annotations:
//!
//! | annotation | meaning | without it |
//! |---|---|---|
//! | `ingress/http` | `"true"`: it wants an Ingress; `"false"`: it does not | `"false"` |
//! | `ingress/host` | the host, such as `shop.example.com` or `*.example.com` | `<service>.<namespace>.<domain>` |
//! | `ingress/path` | the path in front of what it serves | `/` |
//!
//! The Ingress has the name of its Service and belongs to it by an owner reference. It leads to the
//! Service's port named `http`, or else to its first TCP port. Of its spec the rules and the
//! default backend are ours; the class, TLS and all metadata but the owner are left to others.
//!
//! - Who deletes or edits the Ingress gets it back.
//! - When the annotation goes, or becomes `"false"`, so does the Ingress. When the Service goes,
//!   the server takes its Ingress along.
//! - An Ingress of the same name that does not belong to the Service is never touched. An Event on
//!   the Service says so.
//! - What is wrong with the annotations is said in an Event too, and the Ingress stays as it was
//!   until that is put right: a typing error takes nobody off the net.
//!
//! The tests of these names are in `tests/suite/mod.rs`, and run on the embedded server and on a
//! real one.

mod annotations;
mod events;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule, IngressServiceBackend,
    ServiceBackendPort,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use steersman::client::DeleteParams;
use steersman::client::Preconditions;
use steersman::owner::set_controller_reference;
use steersman::runtime::{Controller, OperationResult};
use steersman::{Action, Context, Error, Kind, Manager, ObjectKey, ObjectMeta, ReconcileError, Reconciler, kind};

pub use annotations::{HOST, HTTP, PATH, Problem, Route, route};

/// What the manager is told when it starts.
#[derive(Debug, Clone)]
pub struct Options {
    /// Hosts that no annotation names are made of the Service's name, its namespace and this.
    pub domain: String,
    /// Looks after the Services of this namespace only.
    pub namespace: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { domain: "example.com".to_owned(), namespace: None }
    }
}

/// Adds the controller to a manager.
pub fn add_to(manager: &Manager, options: Options) -> Result<Controller, Error> {
    let Options { domain, namespace } = options;
    let namespace = namespace.as_deref();
    manager
        .controller(within(namespace, kind::<Service>()))
        .named("ingress-manager")
        // By name rather than by owner: an Ingress that is in the way has no owner that we would
        // know, and its end concerns us too.
        .watches(within(namespace, kind::<Ingress>()), |ingress| vec![ingress.key()])
        .complete(IngressReconciler { domain })
}

fn within<K>(namespace: Option<&str>, kind: Kind<K>) -> Kind<K> {
    match namespace {
        Some(namespace) => kind.namespace(namespace),
        None => kind,
    }
}

/// Makes the Ingress of one Service as its annotations say.
struct IngressReconciler {
    domain: String,
}

impl Reconciler<Service> for IngressReconciler {
    type Error = ReconcileError;

    async fn reconcile(&self, ctx: &Context<Service>, key: &ObjectKey) -> Result<Action, ReconcileError> {
        // Gone, or about to go: the server takes the Ingress along, by its owner reference.
        let Some(service) = ctx.object(key).await? else { return Ok(Action::done()) };
        if service.meta().deletion_timestamp().is_some() {
            return Ok(Action::done());
        }
        let service = service.get()?;
        match route(&service, &self.domain) {
            Ok(Some(route)) => write(ctx, key, &service, &route).await?,
            Ok(None) => remove(ctx, key).await?,
            Err(problem) => events::report(ctx, &service, &problem).await?,
        }
        Ok(Action::done())
    }
}

/// Whether an Ingress is that of the Service with this key, or of an earlier Service of that name.
fn belongs_to(ingress: &ObjectMeta, service: &ObjectKey) -> bool {
    let owners = ingress.owner_references.as_deref().unwrap_or_default();
    let is_service = |owner: &OwnerReference| owner.api_version == "v1" && owner.kind == "Service";
    owners.iter().any(|owner| owner.controller == Some(true) && is_service(owner) && owner.name == service.name())
}

/// Makes the Ingress as it should be, unless the name is taken.
async fn write(
    ctx: &Context<Service>,
    key: &ObjectKey,
    service: &Service,
    route: &Route,
) -> Result<(), ReconcileError> {
    let metadata = ObjectMeta {
        name: Some(key.name().to_owned()),
        namespace: key.namespace().map(Into::into),
        ..ObjectMeta::default()
    };
    let new = Ingress { metadata, ..Ingress::default() };
    let taken = Problem::NameTaken { name: key.to_string() };
    let mut is_taken = false;
    let written = ctx.client().create_or_update(new, |ingress| {
        // In here, so that what is looked at is what would be written. A new one has no uid yet.
        is_taken = ingress.metadata.uid.is_some() && !belongs_to(&ingress.metadata, key);
        if is_taken {
            return Err(Error::InvalidObject(taken.to_string()));
        }
        let spec = ingress.spec.get_or_insert_default();
        spec.default_backend = None;
        spec.rules = Some(vec![rule(key.name(), route)]);
        set_controller_reference(service, ingress)
    });
    match written.await {
        Ok((_, OperationResult::Unchanged)) => Ok(()),
        Ok((_, done)) => {
            tracing::info!(ingress = %key, host = route.host, path = route.path, "{done:?}");
            Ok(())
        }
        Err(_) if is_taken => events::report(ctx, service, &taken).await,
        Err(error) => {
            // The server has words for the owner of the Service, or a webhook of an ingress
            // controller has.
            if let Some(words) = refusal(&error) {
                events::report(ctx, service, &Problem::Refused { words }).await?;
            }
            Err(error.into())
        }
    }
}

fn rule(service: &str, route: &Route) -> IngressRule {
    let port = ServiceBackendPort { number: Some(route.port), name: None };
    let service = Some(IngressServiceBackend { name: service.to_owned(), port: Some(port) });
    let path = HTTPIngressPath {
        path: Some(route.path.clone()),
        path_type: "Prefix".to_owned(),
        backend: IngressBackend { service, resource: None },
    };
    IngressRule { host: Some(route.host.clone()), http: Some(HTTPIngressRuleValue { paths: vec![path] }) }
}

/// What the server said, if it will not have the object.
fn refusal(error: &Error) -> Option<String> {
    let Error::Client(error) = error else { return None };
    let status = error.status()?;
    matches!(status.code, 400 | 403 | 422).then(|| status.message.clone())
}

/// Deletes the Ingress that is seen, if it is the Service's, and no other of its name that may come
/// meanwhile.
async fn remove(ctx: &Context<Service>, key: &ObjectKey) -> Result<(), ReconcileError> {
    let ingresses = ctx.client().objects::<Ingress>();
    let Some(found) = ingresses.get_opt(key).await? else { return Ok(()) };
    let seen = &found.get()?.metadata;
    if !belongs_to(seen, key) {
        return Ok(());
    }
    let preconditions = Preconditions { uid: seen.uid.clone(), resource_version: seen.resource_version.clone() };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match ingresses.delete(key, &params).await {
        Ok(_) => tracing::info!(ingress = %key, "Removed"),
        // Somebody was faster, which is as well.
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
