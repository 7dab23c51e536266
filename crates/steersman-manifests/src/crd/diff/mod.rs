//! What changes for objects and clients between two definitions of the same kind.

mod change;
mod definition;
mod schema;

pub use change::{CrdChange, Diff, Direction};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{Error, manifest};

/// Compares two definitions of a kind. The result lists the breaking changes first.
///
/// A change is breaking when a stored object or a request of a client that was valid may be
/// invalid, lose a field, or mean something else. The rules are those of Kubernetes for its own
/// API: a new required field, a tighter bound and a removed `enum` value are breaking; a new
/// optional field is not.
///
/// # Errors
///
/// A definition cannot be written as JSON.
pub fn diff(old: &CustomResourceDefinition, new: &CustomResourceDefinition) -> Result<Diff, Error> {
    let mut changes = Vec::new();
    definition::compare(&manifest(old)?, &manifest(new)?, &mut changes);
    changes.sort_by_key(|change| !change.is_breaking);
    Ok(Diff { changes })
}
