//! The errors of an object, bounded: a large object can have an error in each of its items.

use std::ops::Deref;

use super::FieldError;

/// More errors are dropped. The real server keeps all of them.
const ERRORS_MAX: usize = 1_000;
/// Errors beyond this number of bytes are dropped, too: each may print a part of the object.
const BYTES_MAX: usize = 1 << 20;

/// The errors of an object, up to a number. The last one states that there are more.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Errors {
    errors: Vec<FieldError>,
    bytes: usize,
    is_full: bool,
}

impl Errors {
    /// The number of errors that are kept.
    pub(crate) const MAX: usize = ERRORS_MAX;

    pub(crate) fn push(&mut self, error: FieldError) {
        if self.is_full {
            return;
        }
        let rest = FieldError::rest_is_not_shown(ERRORS_MAX);
        self.is_full = error == rest || self.errors.len() == ERRORS_MAX || self.bytes > BYTES_MAX;
        self.bytes += error.size();
        self.errors.push(if self.is_full { rest } else { error });
    }

    /// Whether further errors would be dropped.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Sorts them by their text.
    pub(crate) fn sort(&mut self) {
        let errors = self.errors.len() - usize::from(self.is_full);
        self.errors[..errors].sort_by_cached_key(ToString::to_string);
    }
}

impl Deref for Errors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.errors
    }
}

impl Extend<FieldError> for Errors {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        errors.into_iter().for_each(|error| self.push(error));
    }
}

impl FromIterator<FieldError> for Errors {
    fn from_iter<I: IntoIterator<Item = FieldError>>(errors: I) -> Self {
        let mut all = Self::default();
        all.extend(errors);
        all
    }
}

impl IntoIterator for Errors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_kept_up_to_a_number_and_a_size() {
        let error = |place: usize| FieldError::required(format!("a[{place}]"), "");
        let all: Errors = (0..ERRORS_MAX).map(error).collect();
        assert!(!all.is_full() && all.len() == ERRORS_MAX);
        let mut more: Errors = (0..ERRORS_MAX * 2).map(error).collect();
        assert_eq!((more.is_full(), more.len()), (true, ERRORS_MAX + 1));
        let last = "<nil>: Too many: more than 1000 errors: the rest is not shown";
        assert_eq!(more.last().unwrap().to_string(), last);
        more.sort();
        assert_eq!(more.last().unwrap().to_string(), last);
        let mut joined: Errors = [error(0)].into_iter().collect();
        joined.extend(more);
        assert_eq!((joined.len(), joined.last().unwrap().to_string()), (ERRORS_MAX + 1, last.to_owned()));

        let large = || FieldError::invalid("a", "x".repeat(BYTES_MAX), "too long");
        let large: Errors = std::iter::repeat_with(large).take(5).collect();
        assert_eq!(large.len(), 2, "the first is kept whatever its size");
    }
}
