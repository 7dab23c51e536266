//! The verbs and subresources, one module for each.

pub(crate) mod apply;
pub(crate) mod binding;
pub(crate) mod delete;
pub(crate) mod eviction;
pub(crate) mod managed;
pub(crate) mod patch;
pub(crate) mod read;
pub(crate) mod review;
pub(crate) mod scale;
pub(crate) mod token;
pub(crate) mod watch;
pub(crate) mod write;
