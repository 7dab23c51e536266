//! The verbs and subresources, one module for each.

pub(crate) mod binding;
pub(crate) mod delete;
pub(crate) mod eviction;
pub(crate) mod patch;
pub(crate) mod read;
pub(crate) mod review;
pub(crate) mod scale;
pub(crate) mod watch;
pub(crate) mod write;
