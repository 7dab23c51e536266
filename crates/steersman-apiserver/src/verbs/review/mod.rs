//! Reviews: objects that are a query, and are answered instead of stored.

mod access;
mod rules;
mod token;
mod user;

use serde_json::{Value, json};

use crate::request::RequestContext;
use crate::request::identity::Identity;
use crate::response::HandlerResult;
use crate::response::status::Status;
use crate::rules::kinds::Kind;
use crate::rules::metadata;
use crate::server::Shared;

/// A query, by its kind.
#[derive(Clone, Copy)]
pub(crate) enum Review {
    /// Who is the user of this request?
    User,
    /// Whose is a token?
    Token,
    /// May a user do something?
    Access,
    /// May the user of this request do something?
    OwnAccess,
    /// May a user do something in this namespace?
    AccessHere,
    /// What may the user of this request do in a namespace?
    Rules,
}

impl Review {
    pub(crate) fn of(kind: &Kind) -> Option<Self> {
        match (kind.group.as_str(), kind.plural.as_str()) {
            ("authentication.k8s.io", "selfsubjectreviews") => Some(Self::User),
            ("authentication.k8s.io", "tokenreviews") => Some(Self::Token),
            ("authorization.k8s.io", "subjectaccessreviews") => Some(Self::Access),
            ("authorization.k8s.io", "selfsubjectaccessreviews") => Some(Self::OwnAccess),
            ("authorization.k8s.io", "localsubjectaccessreviews") => Some(Self::AccessHere),
            ("authorization.k8s.io", "selfsubjectrulesreviews") => Some(Self::Rules),
            _ => None,
        }
    }
}

impl Shared {
    /// Answers a query.
    pub(crate) fn review(&self, review: Review, request: &RequestContext<'_>) -> HandlerResult {
        match review {
            Review::User => self.review_self(request),
            Review::Token => self.review_token(request),
            Review::Access | Review::OwnAccess | Review::AccessHere => self.review_subject_access(review, request),
            Review::Rules => self.review_rules(request),
        }
    }
}

/// A user as reviews show it.
fn user_info(user: &Identity) -> Value {
    let mut shown = json!({"username": user.name()});
    if !user.uid().is_empty() {
        shown["uid"] = user.uid().into();
    }
    if !user.groups().is_empty() {
        shown["groups"] = json!(user.groups());
    }
    if !user.extra().is_empty() {
        shown["extra"] = json!(user.extra());
    }
    shown
}

/// Names the kind of an answer, and checks the namespace of a query.
fn settle(value: &mut Value, kind: &Kind, namespace: &str) -> Result<(), Status> {
    let meta = metadata::of(value);
    for field in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        meta.remove(field);
    }
    metadata::settle_namespace(meta, kind, namespace)?;
    value["kind"] = kind.kind.as_str().into();
    value["apiVersion"] = kind.api_version().into();
    Ok(())
}
