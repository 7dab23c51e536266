//! TokenRequest: a token for a service account.

use http::StatusCode;
use serde_json::{Value, json};

use crate::access::tokens::{Bound, Grant, ISSUER};
use crate::clock;
use crate::request::RequestContext;
use crate::request::write_options::{field_validation, is_dry_run};
use crate::response::status::{FieldError, Named, Status};
use crate::response::warnings::Warnings;
use crate::response::{self, HandlerResult};
use crate::rules::kinds::{self, Kind};
use crate::server::Shared;

/// The subresource.
pub(crate) const TOKEN: &str = "token";
const KIND: Named<'static> = Named { group: "authentication.k8s.io", resource: "TokenRequest" };
const DEFAULT_SECONDS: i64 = 60 * 60;
const SECONDS_MIN: i64 = 10 * 60;
const SECONDS_MAX: i64 = 1 << 32;
/// The lifetime that kubelets ask for. Such a token of a Pod lives longer, so that programs that
/// do not read it again have time to change that.
const WARN_ONLY_SECONDS: i64 = 60 * 60 + 7;
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;

impl Shared {
    pub(crate) fn request_token(&self, request: &RequestContext<'_>) -> HandlerResult {
        let RequestContext { target, query, .. } = *request;
        is_dry_run(query, "CreateOptions")?;
        let mut asked = self.decode(&token_request(), request, field_validation(query, "CreateOptions")?)?;
        let (namespace, name) = (target.namespace.as_str(), target.name.as_str());
        let given = |value: &Value, field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
        let value = &mut asked.value;
        if ![namespace, ""].contains(&given(value, "namespace").as_str()) {
            let why = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Status::bad_request(why));
        }
        self.check_namespace(request.kind, namespace, name)?;
        let wrong_name = given(value, "name");
        if ![name, ""].contains(&wrong_name.as_str()) {
            let why = "must match the service account name if specified";
            let error = FieldError::invalid("metadata.name", wrong_name, why);
            return Err(Status::invalid(KIND, name, &[error]));
        }
        let account = self.current(request)?;
        let uid = given(value, "uid");
        if ![account.uid(), ""].contains(&uid.as_str()) {
            let why = format!(
                "the UID in the token request ({uid}) does not match the UID of the service account ({})",
                account.uid()
            );
            return Err(Status::conflict(KIND, name, &why));
        }
        if value["spec"]["expirationSeconds"].is_null() {
            value["spec"]["expirationSeconds"] = DEFAULT_SECONDS.into();
        }
        self.set_managed(request, &token_request(), value);
        let now = self.seconds();
        for (field, text) in [
            ("name", name),
            ("namespace", namespace),
            ("uid", account.uid()),
            ("creationTimestamp", &clock::rfc3339(now)),
        ] {
            value["metadata"][field] = text.into();
        }
        let spec = &mut value["spec"];
        if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
            spec["audiences"] = json!([ISSUER]);
        }
        let seconds = spec["expirationSeconds"].as_i64().unwrap_or_default();
        check_lifetime(seconds)?;
        let mut bound = self.bound_to(&spec["boundObjectRef"], namespace, name)?;
        let audiences: Vec<&str> =
            spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let is_extended =
            bound.pod.is_some() && seconds == WARN_ONLY_SECONDS && audiences.iter().all(|audience| *audience == ISSUER);
        let lifetime = if is_extended { EXTENDED_SECONDS } else { seconds };
        let token = self.issue(&Grant {
            namespace,
            account: Bound::to(&account),
            pod: bound.pod.take(),
            secret: bound.secret.take(),
            node: bound.node.take(),
            audiences: &audiences,
            lifetime: lifetime.unsigned_abs(),
            warn_after: is_extended.then_some(seconds.unsigned_abs()),
        })?;
        let expires = clock::rfc3339(now.saturating_add(seconds.unsigned_abs()));
        value["status"] = json!({"token": token, "expirationTimestamp": expires});
        value["kind"] = KIND.resource.into();
        value["apiVersion"] = "authentication.k8s.io/v1".into();
        Ok(response::json(StatusCode::CREATED, value.to_string()).warning(&asked.warnings))
    }

    /// The objects that a reference names.
    fn bound_to(&self, reference: &Value, namespace: &str, account: &str) -> Result<BoundTo, Status> {
        let mut bound = BoundTo::default();
        if reference.is_null() {
            return Ok(bound);
        }
        let text = |field: &str| reference[field].as_str().unwrap_or_default();
        let (api_version, kind, name) = (text("apiVersion"), text("kind"), text("name"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let find = |plural: &str, namespace: &str| {
            let missing = || Status::not_found(Named { group: "", resource: plural }, name);
            self.bound(plural, namespace, name).ok_or_else(missing)
        };
        let object = match (group, kind) {
            ("", "Pod") => {
                let pod = find("pods", namespace)?;
                let value = pod.value();
                if value["spec"]["serviceAccountName"].as_str().unwrap_or_default() != account {
                    return Err(Status::bad_request(format!(
                        "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                        steersman_wire::quote(account)
                    )));
                }
                bound.pod = Some(Bound::to(&pod));
                if let Some(node) = value["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
                    let unknown = || Bound { name: node.to_owned(), uid: String::new() };
                    bound.node = Some(self.bound("nodes", "", node).map_or_else(unknown, |node| Bound::to(&node)));
                }
                pod
            }
            ("", "Secret") => {
                let secret = find("secrets", namespace)?;
                bound.secret = Some(Bound::to(&secret));
                secret
            }
            ("", "Node") => {
                let node = find("nodes", "")?;
                bound.node = Some(Bound::to(&node));
                node
            }
            _ => {
                let of = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
                return Err(Status::bad_request(of));
            }
        };
        let uid = text("uid");
        if ![object.uid(), ""].contains(&uid) {
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have \
                 been deleted and then recreated"
            );
            return Err(Status::conflict(Named { group: "", resource: kind }, name, &why));
        }
        Ok(bound)
    }
}

/// The objects that a token is bound to.
#[derive(Default)]
struct BoundTo {
    pod: Option<Bound>,
    secret: Option<Bound>,
    node: Option<Bound>,
}

fn check_lifetime(seconds: i64) -> Result<(), Status> {
    let why = match seconds {
        ..SECONDS_MIN => "may not specify a duration less than 10 minutes",
        SECONDS_MIN..=SECONDS_MAX => return Ok(()),
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    Err(Status::invalid(KIND, "", &[FieldError::invalid("spec.expirationSeconds", seconds, why)]))
}

/// The kind of the body.
fn token_request() -> Kind {
    let accounts = kinds::builtin().resource("", "v1", "serviceaccounts").expect("there are service accounts");
    Kind {
        group: KIND.group.to_owned(),
        kind: KIND.resource.to_owned(),
        fields: kinds::builtin().types.find("authentication.v1.TokenRequest"),
        ..Kind::clone(accounts)
    }
}
