//! The first objects, and the consequences of a write or a deletion: owners and their dependents,
//! namespaces, storage in use, graceful deletion of Pods, aggregated roles.

mod aggregation;
pub(crate) mod bootstrap;
pub(crate) mod dependents;
pub(crate) mod garbage;
pub(crate) mod grace;
mod namespace;
pub(crate) mod ownership;
pub(crate) mod protection;
mod provision;
