//! The parts of a request: its user, its path, query and headers, its body, and the limits on its
//! work.

pub(crate) mod body;
pub(crate) mod budget;
mod context;
pub(crate) mod delete_options;
pub(crate) mod identity;
pub(crate) mod negotiation;
pub(crate) mod patch_request;
pub(crate) mod protobuf;
mod route;
mod selection;
pub(crate) mod write_options;
pub(crate) mod yaml;

pub(crate) use self::context::{HttpRequest, RequestContext};
pub(crate) use self::route::{Query, ResourceRequest, Route, Verb, decode_path};
pub(crate) use self::selection::Selection;
