//! Limits of a definition that its size alone does not set.

use serde_json::Value;

use super::{Names, list};
use crate::response::status::Status;

/// What a name takes in a document of discovery beside its text.
const NAME_BYTES: usize = 64;
/// The memory that the names of one definition may take in discovery, for all versions together.
const LISTED_NAMES_MAX: usize = 1 << 20;

/// Refuses a definition whose names take much more memory in discovery than in itself: discovery
/// repeats them for each version.
pub(crate) fn check_listed_names(crd: &Value) -> Result<(), Status> {
    let versions = list(&crd["spec"], "versions").count();
    let names = [&crd["spec"]["names"], &crd["status"]["acceptedNames"]].map(|names| Names::read(names).listed());
    if names.iter().all(|listed| versions.saturating_mul(*listed) <= LISTED_NAMES_MAX) {
        return Ok(());
    }
    Err(Status::too_large(format!(
        "Request entity too large: the short names and categories take more than {LISTED_NAMES_MAX} bytes of memory in \
         discovery, which repeats them for each version; use fewer names, or fewer versions"
    )))
}

impl Names {
    /// The memory that discovery takes for the short names and the categories. Estimated.
    pub(crate) fn listed(&self) -> usize {
        self.short_names.iter().chain(&self.categories).map(|name| NAME_BYTES + name.len()).sum()
    }
}
