//! A compact resource version.

/// A resource version without an allocation if it is a number. There is one per queued key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Version {
    /// No version.
    #[default]
    None,
    /// A decimal number without leading zeros, so that it formats to the same text.
    Number(u64),
    /// Any other text.
    Text(Box<str>),
}

/// Every number with this number of digits fits in 64 bits.
const DIGITS_MAX: usize = 19;

impl Version {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::None
    }

    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Number(number) => Some(number.to_string()),
            Self::Text(text) => Some(text.into()),
        }
    }
}

impl From<&str> for Version {
    fn from(text: &str) -> Self {
        if text.is_empty() {
            return Self::None;
        }
        let is_number = text.len() <= DIGITS_MAX && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
        if !is_number {
            return Self::Text(text.into());
        }
        Self::Number(text.bytes().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_comes_out_as_it_went_in() {
        let numbers = ["1", "10", "9223372036854775807", "9999999999999999999", "18446744073709551616"];
        for text in numbers.into_iter().chain(["0", "007", "-1", "+1", "1a", "ü", "99999999999999999999999"]) {
            assert_eq!(Version::from(text).into_text().as_deref(), Some(text));
        }
        assert_eq!(Version::from("").into_text(), None);
    }
}
