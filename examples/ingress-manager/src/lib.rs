//! Creates an Ingress for Services: a controller of built-in kinds only, with two informers.
//!
//! A Service asks for it with annotations:
//!
//! | annotation | meaning | without it |
//! |---|---|---|
//! | `ingress/http` | `"true"`: it wants an Ingress; `"false"`: it does not | `"false"` |
//! | `ingress/host` | the host, such as `shop.example.com` or `*.example.com` | `<service>.<namespace>.<domain>` |
//! | `ingress/path` | the path in front of what it serves | `/` |
//!
//! The Ingress has the name of its Service, which is its owner. Its backend is the Service's port
//! named `http`, or else its first TCP port. The controller owns the rules and the default backend
//! of the spec. The class, TLS and all other metadata belong to other clients.
//!
//! - An Ingress that is deleted or edited is restored.
//! - If the annotation is removed or becomes `"false"`, the Ingress is deleted. If the Service is
//!   deleted, the server deletes its Ingress.
//! - An Ingress of the same name that does not belong to the Service is never touched. An Event on
//!   the Service reports it.
//! - Invalid annotations are reported as an Event, too. The Ingress stays as it was until they are
//!   corrected: a typing error interrupts no traffic.
//!
//! The tests of these names are in `tests/suite/mod.rs`, and run on the embedded server and on a
//! real one.

mod annotations;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule, IngressServiceBackend,
    ServiceBackendPort,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use steersman::client::DeleteParams;
use steersman::client::Preconditions;
use steersman::owner::set_controller_reference;
use steersman::runtime::{Controller, OperationResult, Verb};
use steersman::wire::is_dns1123_subdomain;
use steersman::{Action, Context, Error, Manager, ObjectKey, ObjectMeta, ReconcileError, Reconciler, kind};
use steersman_program::Program;

pub use annotations::{HOST, HTTP, PATH, Problem, Route, route};

/// The flags of the ingress manager, beside those of every operator.
#[derive(Clone, Debug, clap::Args)]
#[non_exhaustive]
pub struct Flags {
    /// A host that no annotation names is `<service>.<namespace>.<domain>`
    #[arg(long, value_name = "DOMAIN", default_value = "example.com", value_parser = domain)]
    pub domain: String,
}

fn domain(text: &str) -> Result<String, String> {
    match is_dns1123_subdomain(text).into_iter().next() {
        None => Ok(text.to_owned()),
        Some(why) => Err(why),
    }
}

/// The ingress manager as a program: its flags, its manifests.
pub fn program() -> Program<Flags> {
    Program::with_flags(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), |manager, flags: &Flags| {
        add_to(manager, &flags.domain).map(drop)
    })
    .about(
        "Gives each Service that is annotated with ingress/http: \"true\" an Ingress\n\n\
         It uses the cluster of --kubeconfig, --master or the variable KUBECONFIG, or the one that its Pod runs in. \
         Without any of them, it runs a demonstration on an API server of its own, in this process, and ends.",
    )
}

/// Adds the controller to a manager. Hosts that no annotation names are
/// `<service>.<namespace>.<domain>`.
pub fn add_to(manager: &Manager, domain: &str) -> Result<Controller, Error> {
    manager
        .controller(kind::<Service>())
        .named("ingress-manager")
        .owns(kind::<Ingress>().writes([Verb::Create, Verb::Update, Verb::Delete]))
        // By name as well: a foreign Ingress of that name does not have our owner, and its deletion
        // matters, too.
        .watches(kind::<Ingress>(), |ingress| vec![ingress.key()])
        .records_events()
        .complete(IngressReconciler { domain: domain.to_owned() })
}

/// Reconciles the Ingress of one Service with its annotations.
struct IngressReconciler {
    domain: String,
}

impl Reconciler<Service> for IngressReconciler {
    type Error = ReconcileError;

    async fn reconcile(&self, ctx: &Context<Service>, key: &ObjectKey) -> Result<Action, ReconcileError> {
        // The Service is deleted or being deleted: the server deletes the Ingress by its owner
        // reference.
        let Some(service) = ctx.object(key).await? else { return Ok(Action::done()) };
        if service.meta().deletion_timestamp().is_some() {
            return Ok(Action::done());
        }
        let service = service.get()?;
        match route(&service, &self.domain) {
            Ok(Some(route)) => write(ctx, key, &service, &route).await?,
            Ok(None) => remove(ctx, key).await?,
            Err(problem) => report(ctx, &service, &problem),
        }
        Ok(Action::done())
    }
}

/// Reports a problem to the owner of the Service, where they look: in `kubectl describe service`.
fn report(ctx: &Context<Service>, service: &Service, problem: &Problem) {
    tracing::warn!(service = service.metadata.name, reason = problem.reason(), "{problem}");
    ctx.events().warning(service, problem.reason(), "WriteIngress", problem.to_string());
}

/// Whether an Ingress is that of the Service with this key, or of an earlier Service of that name.
fn belongs_to(ingress: &ObjectMeta, service: &ObjectKey) -> bool {
    let owners = ingress.owner_references.as_deref().unwrap_or_default();
    let is_service = |owner: &OwnerReference| owner.api_version == "v1" && owner.kind == "Service";
    owners.iter().any(|owner| owner.controller == Some(true) && is_service(owner) && owner.name == service.name())
}

/// Creates or updates the Ingress, unless the name is taken.
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
        // Within the closure, so that the check sees the object that would be written. A new one
        // has no uid yet.
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
        Err(_) if is_taken => {
            report(ctx, service, &taken);
            Ok(())
        }
        Err(error) => {
            // The message of the server, or of an admission webhook, is for the owner of the
            // Service.
            if let Some(words) = refusal(&error) {
                report(ctx, service, &Problem::Refused { words });
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

/// The message of the server, if it refuses the object.
fn refusal(error: &Error) -> Option<String> {
    let Error::Client(error) = error else { return None };
    let status = error.status()?;
    matches!(status.code, 400 | 403 | 422).then(|| status.message.clone())
}

/// Deletes exactly this Ingress, if it belongs to the Service, and no later one of the same name.
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
        // Another client was faster.
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
