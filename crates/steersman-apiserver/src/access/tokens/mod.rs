//! Tokens of service accounts: JSON web tokens that this server signs and checks.
//!
//! A token is valid until it expires, by the clock of the server's world, and as long as its
//! service account and the object that it is bound to exist, each with the uid of the token.

pub(crate) mod keys;

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};

use self::keys::SigningKey;
use super::impersonation::NODE_NAME;
use crate::clock;
use crate::request::identity::{CREDENTIAL, Identity, service_account_name};
use crate::response::status::Status;
use crate::rules::kinds::builtin;
use crate::rules::metadata;
use crate::server::Shared;
use crate::store::Key;
use crate::store::object::Object;

/// The issuer of tokens, and the audience of those for the API server.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";
/// How much clocks may differ: an expired token is valid for a minute longer, as on the real
/// server.
const LEEWAY: u64 = 60;
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";

/// An object that a token names.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Bound {
    pub(crate) fn to(object: &Object) -> Self {
        Self { name: object.key().name.to_string(), uid: object.uid().to_owned() }
    }

    fn claim(&self) -> Value {
        let mut claim = json!({"name": self.name});
        if !self.uid.is_empty() {
            claim["uid"] = self.uid.as_str().into();
        }
        claim
    }
}

/// What a token is for.
pub(crate) struct Grant<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) account: Bound,
    pub(crate) pod: Option<Bound>,
    pub(crate) secret: Option<Bound>,
    pub(crate) node: Option<Bound>,
    pub(crate) audiences: &'a [&'a str],
    /// The lifetime in seconds.
    pub(crate) lifetime: u64,
    /// After how many seconds a use of the token is a late one.
    pub(crate) warn_after: Option<u64>,
}

/// Why a token is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InvalidToken {
    /// It is no token of this server.
    Unknown,
    Refused(String),
}

impl InvalidToken {
    /// The error as a TokenReview has it.
    pub(crate) fn in_review(&self) -> String {
        match self {
            Self::Unknown => "invalid bearer token".to_owned(),
            Self::Refused(why) => format!("[invalid bearer token, {why}]"),
        }
    }
}

impl From<String> for InvalidToken {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

/// The user of a token, and the audiences that were wanted and that it is for.
pub(crate) struct Authenticated {
    pub(crate) user: Identity,
    pub(crate) audiences: Vec<String>,
}

impl Shared {
    /// The key that signs tokens. The first call generates it.
    pub(crate) fn signing_key(&self) -> &SigningKey {
        self.access.signing_key.get_or_init(SigningKey::generate)
    }

    /// Signs a token.
    pub(crate) fn issue(&self, grant: &Grant<'_>) -> Result<String, Status> {
        let now = self.seconds();
        let mut own = json!({"namespace": grant.namespace, "serviceaccount": grant.account.claim()});
        for (name, bound) in [("pod", &grant.pod), ("secret", &grant.secret), ("node", &grant.node)] {
            if let Some(bound) = bound {
                own[name] = bound.claim();
            }
        }
        if let Some(seconds) = grant.warn_after {
            own["warnafter"] = now.saturating_add(seconds).into();
        }
        let claims = json!({
            "iss": ISSUER,
            "sub": service_account_name(grant.namespace, &grant.account.name),
            "aud": grant.audiences,
            "iat": now,
            "nbf": now,
            "exp": now.saturating_add(grant.lifetime),
            "jti": metadata::uid(&self.world),
            "kubernetes.io": own,
        });
        self.signing_key().sign(&claims).map_err(|why| Status::internal(&format!("failed to generate token: {why}")))
    }

    /// The user of the bearer token in these headers. `None` without such a token.
    pub(crate) fn bearer(&self, headers: &HeaderMap) -> Option<Result<Identity, Status>> {
        let header = headers.get(AUTHORIZATION)?;
        let header = String::from_utf8_lossy(header.as_bytes());
        let mut parts = header.trim().splitn(3, ' ');
        parts.next().filter(|scheme| scheme.eq_ignore_ascii_case("bearer"))?;
        let token = parts.next().filter(|token| !token.is_empty())?;
        let authenticated = self.authenticate(token, &[ISSUER]);
        Some(authenticated.map(|authenticated| authenticated.user).map_err(|_| Status::unauthorized()))
    }

    /// The user of a token for one of these audiences.
    pub(crate) fn authenticate(&self, token: &str, wanted: &[&str]) -> Result<Authenticated, InvalidToken> {
        // A key that was never generated has signed nothing.
        let claims = match keys::issuer(token) {
            Some(issuer) if issuer == ISSUER => match self.access.signing_key.get() {
                Some(key) => key.verify(token)?,
                None => return Err(keys::NO_KEY.to_owned().into()),
            },
            _ => return Err(InvalidToken::Unknown),
        };
        let of_token: Vec<&str> = match &claims["aud"] {
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let audiences: Vec<String> = of_token
            .iter()
            .filter(|audience| wanted.contains(audience))
            .map(|audience| (*audience).to_owned())
            .collect();
        if audiences.is_empty() {
            let list = |items: &[&str]| {
                let items: Vec<String> = items.iter().map(|item| steersman_wire::quote(item)).collect();
                format!("[{}]", items.join(" "))
            };
            let (of_token, wanted) = (list(&of_token), list(wanted));
            return Err(format!("token audiences {of_token} is invalid for the target audiences {wanted}").into());
        }
        let user = self.user_of(&claims)?;
        Ok(Authenticated { user, audiences })
    }

    /// The user of a token with a valid signature.
    fn user_of(&self, claims: &Value) -> Result<Identity, String> {
        let now = self.seconds();
        let at = |name: &str| claims[name].as_u64();
        let has_expired = at("exp").is_some_and(|end| now > end.saturating_add(LEEWAY));
        let is_early = |name: &str| at(name).is_some_and(|start| now.saturating_add(LEEWAY) < start);
        if is_early("nbf") {
            return Err("service account token is not valid yet".to_owned());
        }
        if has_expired {
            return Err("service account token has expired".to_owned());
        }
        if is_early("iat") {
            return Err("service account token is issued in the future".to_owned());
        }
        let own = &claims["kubernetes.io"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let namespace = text(&own["namespace"]);
        let named = |name: &str| {
            let claim = &own[name];
            claim.is_object().then(|| Bound { name: text(&claim["name"]), uid: text(&claim["uid"]) })
        };
        let account = named("serviceaccount").ok_or("service account token has no account")?;
        let Some(found) = self.bound("serviceaccounts", &namespace, &account.name) else {
            let name = steersman_wire::quote(&account.name);
            return Err(format!("serviceaccounts {name} not found"));
        };
        if found.uid() != account.uid {
            return Err(format!("service account UID ({}) does not match claim ({})", found.uid(), account.uid));
        }
        if is_deleted(&found, now) {
            return Err(format!("service account {namespace}/{} has been deleted", account.name));
        }
        let (pod, secret, node) = (named("pod"), named("secret"), named("node"));
        self.check_bound(secret.as_ref(), "secrets", "secret", &namespace)?;
        self.check_bound(pod.as_ref(), "pods", "pod", &namespace)?;
        if pod.is_none() {
            self.check_bound(node.as_ref(), "nodes", "node", "")?;
        }
        let mut user = Identity::service_account(&namespace, &account.name, account.uid);
        let mut add = |name: &str, value: String| {
            if !value.is_empty() {
                user = user.clone().with_extra(name, value);
            }
        };
        if let Some(id) = claims["jti"].as_str() {
            add(CREDENTIAL, format!("JTI={id}"));
        }
        if let Some(Bound { name, uid }) = pod {
            add(POD_NAME, name);
            add(POD_UID, uid);
        }
        if let Some(Bound { name, uid }) = node {
            add(NODE_NAME, name);
            add(NODE_UID, uid);
        }
        Ok(user)
    }

    /// Refuses a token whose object does not exist any more.
    fn check_bound(&self, bound: Option<&Bound>, plural: &str, word: &str, namespace: &str) -> Result<(), String> {
        let Some(bound) = bound else { return Ok(()) };
        let invalidated = || "service account token has been invalidated".to_owned();
        let found = self.bound(plural, namespace, &bound.name).ok_or_else(invalidated)?;
        if found.uid() != bound.uid {
            return Err(format!(
                "{word} UID ({}) does not match service account {word} ref claim ({})",
                found.uid(),
                bound.uid
            ));
        }
        if is_deleted(&found, self.seconds()) { Err(invalidated()) } else { Ok(()) }
    }

    /// An object of the core group.
    pub(crate) fn bound(&self, plural: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let kind = builtin().resource("", "v1", plural)?;
        self.store.get(&kind.id(), &Key { namespace: namespace.into(), name: name.into() })
    }
}

/// Whether an object was deleted some time ago, though it still exists.
fn is_deleted(object: &Object, now: u64) -> bool {
    if !object.is_deleting() {
        return false;
    }
    let value = object.value();
    let deleted = value["metadata"]["deletionTimestamp"].as_str().and_then(clock::seconds);
    deleted.is_some_and(|deleted| deleted.saturating_add(LEEWAY) < now)
}
