//! What `Debug` prints instead of the bytes of objects, which may be Secrets.

use std::fmt;

/// A number of bytes.
pub(crate) struct Length(pub(crate) usize);

impl fmt::Debug for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0)
    }
}
