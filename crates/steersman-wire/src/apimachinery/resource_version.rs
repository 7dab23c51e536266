//! The order of resource versions.

use std::cmp::Ordering;
use std::fmt;

/// A resource version that can be compared: a decimal number above zero, of any length, without
/// leading zeros.
///
/// The order is defined only for objects of one resource. Zero is refused because no object has it:
/// in a request it means "any version".
///
/// ```
/// use steersman_wire::ResourceVersion;
///
/// assert!(ResourceVersion::parse("99")? < ResourceVersion::parse("100")?);
/// let error = ResourceVersion::parse("007").unwrap_err();
/// assert_eq!(error.to_string(), "resource version is not well formed: 007");
/// # Ok::<(), steersman_wire::InvalidResourceVersion>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResourceVersion<'a>(&'a str);

impl<'a> ResourceVersion<'a> {
    /// Checks that `text` is a version that can be compared.
    pub fn parse(text: &'a str) -> Result<Self, InvalidResourceVersion> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        if text.is_empty() || text.starts_with('0') || !digits {
            return Err(InvalidResourceVersion(text.to_owned()));
        }
        Ok(ResourceVersion(text))
    }

    /// The version as it was parsed.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

impl Ord for ResourceVersion<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        // Without leading zeros the longer number is the greater one.
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(other.0))
    }
}

impl PartialOrd for ResourceVersion<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ResourceVersion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

/// Compares two resource versions of one resource. The error names the first that is not well
/// formed.
pub fn compare_resource_version(a: &str, b: &str) -> Result<Ordering, InvalidResourceVersion> {
    Ok(ResourceVersion::parse(a)?.cmp(&ResourceVersion::parse(b)?))
}

/// The text is not a resource version that can be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("resource version is not well formed: {0}")]
pub struct InvalidResourceVersion(String);
