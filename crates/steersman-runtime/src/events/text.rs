//! The texts of Events, within the limits of the server (`pkg/apis/core/validation/events.go`).

use std::borrow::Cow;

/// The most bytes of a reason, an action and a reporting instance.
pub(super) const SHORT_BYTES_MAX: usize = 128;
/// The most bytes of a note.
pub(super) const NOTE_BYTES_MAX: usize = 1024;

/// Cuts a text to at most `max` bytes, at a character boundary. Returns whether it was longer.
pub(super) fn truncate(text: &mut String, max: usize) -> bool {
    let is_longer = text.len() > max;
    if is_longer {
        let end = (0..=max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    is_longer
}

/// As [`truncate`]. A text that fits stays borrowed.
pub(super) fn truncate_cow(text: &mut Cow<'static, str>, max: usize) -> bool {
    text.len() > max && truncate(text.to_mut(), max)
}

/// The name of an Event, which is not used twice. `<object>.<nanoseconds in hexadecimal digits>`,
/// or, for an object whose name cannot be part of the name of an Event, random digits.
pub(super) fn event_name(object: &str, nanos: u64, random: [u8; 16]) -> String {
    let name = format!("{object}.{nanos:x}");
    if is_dns_subdomain(&name) {
        return name;
    }
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// What is wrong with a name as the `reportingController` of an Event, which is a qualified name:
/// `name` or `prefix/name`.
pub(crate) fn qualified_name_problem(name: &str) -> Option<String> {
    let (prefix, name) = name.split_once('/').map_or((None, name), |(prefix, name)| (Some(prefix), name));
    if prefix.is_some_and(|prefix| !is_dns_subdomain(prefix)) {
        return Some("the part before the / must be a DNS subdomain of at most 253 characters".to_owned());
    }
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let bytes = name.as_bytes();
    let is_valid = bytes.len() <= 63 && is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(is_inner);
    (!is_valid)
        .then(|| "use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends".to_owned())
}

/// RFC 1123, as the server checks names.
fn is_dns_subdomain(name: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(is_alphanumeric)
            && bytes.last().is_some_and(is_alphanumeric)
            && bytes.iter().all(|byte| is_alphanumeric(byte) || *byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_characters_and_counted_in_bytes() {
        for (text, max, cut) in [
            ("short", 5, "short"),
            ("longer", 5, "longe"),
            ("ab\u{e9}", 4, "ab\u{e9}"),
            ("ab\u{e9}", 3, "ab"),
            ("\u{1f600}\u{1f600}", 7, "\u{1f600}"),
            ("\u{1f600}", 3, ""),
            ("", 0, ""),
        ] {
            let mut given = text.to_owned();
            assert_eq!(truncate(&mut given, max), text != cut, "{text:?}");
            assert_eq!(given, cut);
        }
    }

    #[test]
    fn names_of_events_are_valid_for_any_object() {
        let name = |object: &str| event_name(object, 0x1234, [7; 16]);
        assert_eq!(name("web"), "web.1234");
        let random = "07070707-0707-0707-0707-070707070707";
        assert_eq!(name("system:node-proxier"), random);
        assert_eq!(name("Upper"), random);
        assert_eq!(name(&"a".repeat(249)), random);
        assert_eq!(name(&"a".repeat(248)), format!("{}.1234", "a".repeat(248)));
        assert_eq!(name(""), random);
    }

    #[test]
    fn names_of_controllers_are_qualified_names() {
        for valid in ["pod", "my.operator_2-x", "Pod", "example.com/my-controller", &"a".repeat(63)] {
            assert_eq!(qualified_name_problem(valid), None, "{valid}");
        }
        let long = "a".repeat(64);
        for invalid in ["", "harbour master", "-a", "a-", "a/b/c", "/a", "a/", "Example.com/a", "\u{e9}", &*long] {
            assert!(qualified_name_problem(invalid).is_some(), "{invalid}");
        }
    }
}
