//! The rules for names, label keys and label values.
//!
//! Lengths count bytes, although some messages name characters, and a text can break more than one
//! rule. The messages quote regular expressions; the checks are written by hand.

const DNS1123_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS1123_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS1035_LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_KEY: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
    must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const LABEL_LENGTH_MAX: usize = 63;
const SUBDOMAIN_LENGTH_MAX: usize = 253;

/// The unit of a length in a message.
#[derive(Clone, Copy)]
enum Unit {
    /// In messages about names, the older ones.
    Characters,
    /// In messages about label keys, including their subdomain, and values.
    Bytes,
}

/// The rule for the names of the objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameFormat {
    /// Most kinds: [`is_dns1123_subdomain`].
    DnsSubdomain,
    /// Namespaces, for example: [`is_dns1123_label`].
    DnsLabel,
    /// A label that starts with a letter: [`is_dns1035_label`].
    Dns1035Label,
    /// Anything that fits into a path, as for RBAC: [`is_path_segment_name`].
    PathSegment,
}

impl NameFormat {
    /// The faults of a `metadata.name`.
    pub fn validate(self, name: &str) -> Vec<String> {
        match self {
            NameFormat::DnsSubdomain => is_dns1123_subdomain(name),
            NameFormat::DnsLabel => is_dns1123_label(name),
            NameFormat::Dns1035Label => is_dns1035_label(name),
            NameFormat::PathSegment => is_path_segment_name(name),
        }
    }

    /// The faults of a `metadata.generateName`. Characters will be appended, so it may end in a
    /// dash.
    pub fn validate_prefix(self, prefix: &str) -> Vec<String> {
        match self {
            NameFormat::DnsSubdomain => dns1123_subdomain(&mask_trailing_dash(prefix), Unit::Characters),
            NameFormat::DnsLabel => dns1123_label(&mask_trailing_dash(prefix)),
            NameFormat::Dns1035Label => dns1035_label(&mask_trailing_dash(prefix)),
            NameFormat::PathSegment => is_path_segment_prefix(prefix),
        }
    }
}

/// Replaces a trailing dash *and the character before it* by a letter, as apimachinery does. So one
/// character before the dash is not checked and the length counts one less. What apimachinery
/// accepts must be accepted here.
fn mask_trailing_dash(name: &str) -> Vec<u8> {
    match name.as_bytes() {
        [head @ .., _, b'-'] => [head, b"a"].concat(),
        name => name.to_vec(),
    }
}

/// The faults of `value` as a subdomain by RFC 1123: labels joined by dots, at most 253 bytes.
pub fn is_dns1123_subdomain(value: &str) -> Vec<String> {
    dns1123_subdomain(value.as_bytes(), Unit::Characters)
}

/// The faults of `value` as a label by RFC 1123: `a-z`, `0-9` and inner dashes, at most 63 bytes.
pub fn is_dns1123_label(value: &str) -> Vec<String> {
    dns1123_label(value.as_bytes())
}

/// The faults of `value` as a label by RFC 1035: as in RFC 1123, but it starts with a letter.
pub fn is_dns1035_label(value: &str) -> Vec<String> {
    dns1035_label(value.as_bytes())
}

/// The faults of `value` as a qualified name, such as the key of a label: a name of at most 63
/// bytes, after an optional subdomain and a slash.
pub fn is_qualified_name(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            let prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {LABEL_KEY} {prefix}")];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                messages.push("prefix part must be non-empty".to_owned());
            } else {
                let wrong = dns1123_subdomain(prefix.as_bytes(), Unit::Bytes);
                messages.extend(wrong.iter().map(|message| format!("prefix part {message}")));
            }
            name
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_LENGTH_MAX {
        messages.push(format!("name part {}", too_long(LABEL_LENGTH_MAX, Unit::Bytes)));
    }
    if !label_text(name.as_bytes()) {
        messages.push(format!("name part {LABEL_KEY}"));
    }
    messages
}

/// The faults of `value` as the value of a label: empty, or like the name part of a key.
pub fn is_valid_label_value(value: &str) -> Vec<String> {
    let fits = value.is_empty() || label_text(value.as_bytes());
    messages(label_too_long(value.as_bytes(), Unit::Bytes), fits, LABEL_VALUE)
}

/// The faults of `name` as one segment of a path. Empty and long names are not refused.
pub fn is_path_segment_name(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    is_path_segment_prefix(name)
}

/// The faults of `name` as the beginning of one segment of a path.
pub fn is_path_segment_prefix(name: &str) -> Vec<String> {
    let forbidden = ['/', '%'].into_iter().filter(|character| name.contains(*character));
    forbidden.map(|character| format!("may not contain '{character}'")).collect()
}

fn dns1123_subdomain(value: &[u8], unit: Unit) -> Vec<String> {
    let too_long = (value.len() > SUBDOMAIN_LENGTH_MAX).then(|| too_long(SUBDOMAIN_LENGTH_MAX, unit));
    messages(too_long, subdomain_text(value), DNS1123_SUBDOMAIN)
}

fn dns1123_label(value: &[u8]) -> Vec<String> {
    let message = if subdomain_text(value) { "must not contain dots" } else { DNS1123_LABEL };
    messages(label_too_long(value, Unit::Characters), dns_text(value), message)
}

fn dns1035_label(value: &[u8]) -> Vec<String> {
    let fits = dns_text(value) && value[0].is_ascii_lowercase();
    messages(label_too_long(value, Unit::Characters), fits, DNS1035_LABEL)
}

fn messages(too_long: Option<String>, fits: bool, otherwise: &str) -> Vec<String> {
    too_long.into_iter().chain((!fits).then(|| otherwise.to_owned())).collect()
}

fn label_too_long(value: &[u8], unit: Unit) -> Option<String> {
    (value.len() > LABEL_LENGTH_MAX).then(|| too_long(LABEL_LENGTH_MAX, unit))
}

fn too_long(length_max: usize, unit: Unit) -> String {
    let unit = match unit {
        Unit::Characters => "characters",
        Unit::Bytes => "bytes",
    };
    format!("must be no more than {length_max} {unit}")
}

fn subdomain_text(value: &[u8]) -> bool {
    value.split(|byte| *byte == b'.').all(dns_text)
}

/// Whether the text begins and ends with lower case letters and digits, with only those and dashes
/// between.
fn dns_text(value: &[u8]) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    encloses(value, alphanumeric, |byte| alphanumeric(byte) || *byte == b'-')
}

/// Whether the text begins and ends with letters and digits, with only those, dashes, underscores
/// and dots between.
fn label_text(value: &[u8]) -> bool {
    encloses(value, u8::is_ascii_alphanumeric, |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn encloses(value: &[u8], end: impl Fn(&u8) -> bool, inner: impl Fn(&u8) -> bool) -> bool {
    value.first().is_some_and(&end) && value.last().is_some_and(&end) && value.iter().all(inner)
}
