//! The `format` keyword: the formats that the real server checks. It ignores all others, with a
//! warning when the definition is written.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::OnceLock;

use regex::Regex;
use serde_json::Value;

/// A format that is checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// As in the schema: `date-time`.
    pub(super) name: String,
    /// Without dashes: `datetime`. Empty for the formats of numbers.
    of_strings: String,
}

/// The formats of strings, without dashes: the real server ignores dashes.
const OF_STRINGS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

impl Format {
    /// The format with this name for values of these types, if it is checked.
    pub(super) fn read(name: &str, types: &[String]) -> Option<Self> {
        let of_strings = name.replace('-', "");
        let one = if let [one] = types { one } else { "" };
        let known = match one {
            "" | "string" => OF_STRINGS.contains(&of_strings.as_str()),
            "integer" => return is(name, &["int32", "int64"]),
            "number" => return is(name, &["float", "double"]),
            _ => false,
        };
        known.then(|| Self { name: name.to_owned(), of_strings })
    }

    /// Whether `text` has this format. Formats of numbers accept any text.
    pub(super) fn fits(&self, text: &str) -> bool {
        match self.of_strings.as_str() {
            "date" => is_date(text),
            "datetime" => is_date_time(text),
            "duration" => is_duration(text),
            "email" => is_email(text),
            "hostname" => {
                text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && matches("hostname", text)
            }
            "ipv4" => is_ipv4(text),
            "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
            "cidr" => is_cidr(text),
            "uri" => is_request_uri(text),
            "isbn" => is_isbn10(text) || is_isbn13(text),
            "isbn10" => is_isbn10(text),
            "isbn13" => is_isbn13(text),
            "creditcard" => is_credit_card(text),
            "k8sshortname" => text.len() <= 63 && matches("k8sshortname", text),
            "k8slongname" => text.len() <= 253 && matches("k8slongname", text),
            "" | "password" => true,
            name => matches(name, text),
        }
    }
}

/// Collects the formats in a schema that are not checked.
pub(super) fn unknown(schema: &Value, names: &mut Vec<String>) {
    let types: Vec<String> = schema["type"].as_str().map(str::to_owned).into_iter().collect();
    let name = schema["format"].as_str().filter(|name| !name.is_empty());
    if let Some(name) = name.filter(|name| Format::read(name, &types).is_none()) {
        names.push(name.to_owned());
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        schema[name].as_array().into_iter().flatten().for_each(|schema| unknown(schema, names));
    }
    for name in ["not", "items", "additionalProperties"] {
        if schema[name].is_object() {
            unknown(&schema[name], names);
        }
    }
    schema["properties"].as_object().into_iter().flatten().for_each(|(_, schema)| unknown(schema, names));
}

fn is(name: &str, known: &[&str]) -> Option<Format> {
    known.contains(&name).then(|| Format { name: name.to_owned(), of_strings: String::new() })
}

/// The formats that are regular expressions.
const PATTERNS: [(&str, &str); 13] = [
    ("bsonobjectid", "^[0-9a-fA-F]{24}$"),
    ("byte", "^(?:[A-Za-z0-9+\\/]{4})*(?:[A-Za-z0-9+\\/]{2}==|[A-Za-z0-9+\\/]{3}=|[A-Za-z0-9+\\/]{4})$"),
    ("hexcolor", "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
    (
        "hostname",
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$",
    ),
    ("k8slongname", r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
    ("k8sshortname", "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
    (
        "mac",
        "^(([0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}|[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){7}|[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){19})|[0-9a-fA-F]{4}(\\.[0-9a-fA-F]{4}){2}|[0-9a-fA-F]{4}(\\.[0-9a-fA-F]{4}){3}|[0-9a-fA-F]{4}(\\.[0-9a-fA-F]{4}){9})$",
    ),
    (
        "rgbcolor",
        r"^rgb\(\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*\)$",
    ),
    ("ssn", "^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"),
    ("uuid", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
    ("uuid3", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"),
    ("uuid4", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
    ("uuid5", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"),
];

fn matches(name: &str, text: &str) -> bool {
    static COMPILED: [OnceLock<Regex>; PATTERNS.len()] = [const { OnceLock::new() }; PATTERNS.len()];
    let found = PATTERNS.iter().zip(&COMPILED).find(|((of, _), _)| *of == name);
    let Some(((_, pattern), compiled)) = found else { return true };
    compiled.get_or_init(|| Regex::new(pattern).expect("the patterns are checked by a test")).is_match(text)
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let number = |text: &str, digits: usize| {
        (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse::<u32>().ok())?
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// A date, a `T`, a time and its zone. The zone is required, and there is no leap second.
fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    if !is_date(date) {
        return false;
    }
    let digits = |text: &str, most: u32| {
        text.len() == 2
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && text.parse::<u32>().is_ok_and(|n| n <= most)
    };
    let (Some(clock), Some(rest)) = (time.get(..8), time.get(8..)) else { return false };
    let clock: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = clock[..] else { return false };
    if !(digits(hours, 23) && digits(minutes, 59) && digits(seconds, 59)) {
        return false;
    }
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|character: char| character.is_ascii_digit());
            if zone.len() == fraction.len() {
                return false;
            }
            zone
        }
        None => rest,
    };
    let is_offset = |zone: &str| {
        let (hours, minutes) = zone.split_once(':').unwrap_or_default();
        digits(hours, 99) && digits(minutes, 99)
    };
    zone == "z" || zone.strip_prefix(['+', '-']).is_some_and(is_offset)
}

/// Go's durations (`1h30m`), and numbers followed by a unit anywhere in the text: `2 days`.
fn is_duration(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return true;
    }
    static WORDS: OnceLock<Regex> = OnceLock::new();
    static GO: OnceLock<Regex> = OnceLock::new();
    let go = GO.get_or_init(|| {
        Regex::new(r"^(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$").expect("checked by a test")
    });
    if go.is_match(unsigned) {
        return true;
    }
    let words = WORDS.get_or_init(|| Regex::new(r"([0-9]+)\s*([A-Za-zµ]+)").expect("checked by a test"));
    words.captures_iter(text).any(|found| {
        let unit = found[2].to_lowercase();
        ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"].contains(&unit.as_str())
            || ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"].iter().any(|long| unit.starts_with(long))
    })
}

/// Text before and after an at sign, optionally with a name: `Ann <ann@example.com>`.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>') {
        Some(text) => text.rsplit_once('<').map_or("", |(_, address)| address),
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atoms = |text: &str| {
        let is_atom = |character: char| {
            character.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(character) || !character.is_ascii()
        };
        text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom))
    };
    let quoted = local.len() > 1 && local.starts_with('"') && local.ends_with('"');
    (quoted || atoms(local)) && atoms(domain)
}

/// Four numbers. Leading zeros are accepted, as in older versions of Go.
fn is_ipv4(text: &str) -> bool {
    let is_byte = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && part.trim_start_matches('0').len() <= 3
            && part.parse::<u32>().is_ok_and(|number| number < 256)
    };
    text.split('.').count() == 4 && text.split('.').all(is_byte)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let bits_max = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) if is_ipv4(address) => 32,
        Err(_) => return false,
    };
    bits.bytes().all(|byte| byte.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= bits_max)
}

/// An absolute URI or an absolute path.
fn is_request_uri(text: &str) -> bool {
    if text.chars().any(|character| character.is_ascii_control() || character == ' ') {
        return false;
    }
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|character| character.is_ascii_alphanumeric() || "+-.".contains(character))
    };
    text.starts_with('/') || text.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme))
}

/// The digits of an ISBN, without spaces and dashes.
fn isbn_digits(text: &str) -> String {
    text.chars().filter(|character| !character.is_whitespace() && *character != '-').collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    if digits.len() != 10 {
        return false;
    }
    let value = |index: usize, digit: char| match digit {
        'X' if index == 9 => Some(10),
        digit => digit.to_digit(10),
    };
    let sum = (0..).zip(digits.chars()).map(|(index, digit)| Some((index as u32 + 1) * value(index, digit)?));
    sum.sum::<Option<u32>>().is_some_and(|sum| sum % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    let sum = digits.chars().zip([1, 3].into_iter().cycle()).map(|(digit, factor)| Some(digit.to_digit(10)? * factor));
    digits.len() == 13 && sum.sum::<Option<u32>>().is_some_and(|sum| sum % 10 == 0)
}

/// Whether the check digit is right.
fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|character| character.to_digit(10)).collect();
    let twice = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let weighed =
        digits.iter().rev().enumerate().map(|(index, digit)| if index % 2 == 1 { twice(*digit) } else { *digit });
    (13..=19).contains(&digits.len()) && weighed.sum::<u32>() % 10 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_takes_what_it_should() {
        let cases = [
            ("date", "2024-02-29", "2023-02-29"),
            ("date-time", "2024-02-29T23:59:59.123Z", "2024-02-29T23:59:59"),
            ("date-time", "2024-02-29t01:02:03+01:00", "2024-02-29 01:02:03Z"),
            ("duration", "1h30m", "x"),
            ("duration", "2 days", "5"),
            ("email", "Ann <ann@example.com>", "ann"),
            ("hostname", "a.example.com", "-a.example.com"),
            ("ipv4", "010.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "01:23:45:67:89:ab", "01:23"),
            ("uri", "https://example.com/a", "example"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
            ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
            ("byte", "aGVsbG8=", "hello"),
            ("hexcolor", "#fff", "#ffff"),
            ("rgbcolor", "rgb(1, 2, 255)", "rgb(1, 2, 256)"),
            ("ssn", "111-22-3333", "111-222-333"),
            ("isbn", "978-0321751041", "978-0321751042"),
            ("isbn10", "0321751043", "0321751044"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
            ("k8s-short-name", "a-b", "a.b"),
            ("k8s-long-name", "a.b", "a..b"),
        ];
        for (name, good, bad) in cases {
            let format = Format::read(name, &["string".to_owned()]).unwrap_or_else(|| panic!("{name} is not known"));
            assert!(format.fits(good), "{name}: {good}");
            assert!(!format.fits(bad), "{name}: {bad}");
        }
        for (name, ty) in [("foo", "string"), ("int32", "string"), ("date", "integer"), ("int32", "number")] {
            assert_eq!(Format::read(name, &[ty.to_owned()]), None, "{name} of {ty}");
        }
    }
}
