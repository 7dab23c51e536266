//! The state that the handlers of a request share.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method};

use crate::request::identity::Identity;
use crate::request::{Query, ResourceRequest};
use crate::response::form::Form;
use crate::rules::kinds::Kind;

/// An HTTP request whose body is in memory.
#[derive(Clone, Copy)]
pub(crate) struct HttpRequest<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: &'a Query,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Bytes,
}

/// A request for objects of one kind, as the verbs handle it.
#[derive(Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    pub(crate) identity: &'a Identity,
    /// The kind that is stored. The client may read and write another one, which `form` names.
    pub(crate) kind: &'a Arc<Kind>,
    pub(crate) target: &'a ResourceRequest,
    pub(crate) query: &'a Query,
    /// The headers and the body, with protobuf converted to JSON.
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Bytes,
    /// How objects are sent to the client.
    pub(crate) form: Form,
}
