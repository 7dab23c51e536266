//! The type of a plain scalar: YAML 1.1 as Go's library implements it, in which `yes` is a boolean
//! and times are strings.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Number, Value};

/// A resolved scalar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    String(String),
    /// A time, which stays a text.
    Time(String),
    /// `<<`
    Merge,
}

impl Scalar {
    /// The name of its type.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::String(_) => "str",
            Self::Time(_) => "timestamp",
            Self::Merge => "merge",
        }
    }

    /// The value in JSON.
    pub(crate) fn into_json(self) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(truth) => truth.into(),
            Self::Int(number) => match (i64::try_from(number), u64::try_from(number)) {
                (Ok(number), _) => number.into(),
                (_, Ok(number)) => number.into(),
                _ => Value::Null,
            },
            // A number without a fraction is an integer to JSON.
            Self::Float(number) if number.fract() == 0.0 && number.abs() < 1e18 => (number as i64).into(),
            Self::Float(number) => match Number::from_f64(number) {
                Some(number) => Value::Number(number),
                None => return Err(format!("json: unsupported value: {}", go_float(number))),
            },
            Self::String(text) | Self::Time(text) => text.into(),
            Self::Merge => "<<".into(),
        })
    }

    /// The name of a member.
    pub(crate) fn into_key(self) -> Result<String, String> {
        match self {
            Self::String(text) | Self::Time(text) => Ok(text),
            Self::Bool(truth) => Ok(truth.to_string()),
            Self::Int(number) => Ok(number.to_string()),
            Self::Float(number) => Ok(go_float(number)),
            Self::Merge => Ok("<<".to_owned()),
            Self::Null => Err("unsupported map key of type: %!s(<nil>), key: <nil>".to_owned()),
        }
    }
}

/// The value of an unquoted text.
pub(crate) fn resolve(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        "<<" => return Scalar::Merge,
        _ => {}
    }
    let number = match text.as_bytes().first() {
        Some(b'.') => float(text),
        Some(b'+' | b'-' | b'0'..=b'9') => {
            if is_time(text) {
                return Scalar::Time(text.to_owned());
            }
            let plain = text.replace('_', "");
            integer(&plain).map(Scalar::Int).or_else(|| FLOAT.is_match(&plain).then(|| float(&plain)).flatten())
        }
        _ => None,
    };
    number.unwrap_or_else(|| Scalar::String(text.to_owned()))
}

/// Whether parsers of YAML 1.1 could read the text as a sexagesimal number: `12:30:45`.
pub(crate) fn is_sexagesimal(text: &str) -> bool {
    static PATTERN: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$").ok());
    PATTERN.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

/// A float as YAML spells it.
struct FloatPattern(LazyLock<Option<Regex>>);

impl FloatPattern {
    fn is_match(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|pattern| pattern.is_match(text))
    }
}

static FLOAT: FloatPattern =
    FloatPattern(LazyLock::new(|| Regex::new(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$").ok()));

fn float(text: &str) -> Option<Scalar> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).map(Scalar::Float)
}

/// An integer of 64 bits, with or without a sign, in the base of its prefix.
fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    let number = i128::from(u64::from_str_radix(digits, base).ok()?);
    let number = if negative { -number } else { number };
    let signed = text.starts_with(['+', '-']);
    (number >= i128::from(i64::MIN) && (!signed || number <= i128::from(i64::MAX))).then_some(number)
}

/// Whether the text is a date, or a date with a time.
fn is_time(text: &str) -> bool {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let time = r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:[.,]\d+)?";
        let zone = r"(?:Z|[+-]\d{2}:\d{2})";
        Regex::new(&format!(r"^(\d{{4}})-(\d{{1,2}})-(\d{{1,2}})(?:[Tt]{time}{zone}| {time})?$")).ok()
    });
    let Some(found) = PATTERN.as_ref().and_then(|pattern| pattern.captures(text)) else { return false };
    let number = |group: usize| found.get(group).and_then(|digits| digits.as_str().parse::<u32>().ok());
    let (Some(year), Some(month), Some(day)) = (number(1), number(2), number(3)) else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    let below = |groups: [usize; 2], bound: u32| groups.iter().all(|group| number(*group).is_none_or(|it| it < bound));
    (1..=days).contains(&day) && below([4, 7], 24) && below([5, 8], 60) && below([6, 9], 60)
}

/// A float as Go prints it, in the shortest form.
pub(crate) fn go_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        -4..6 => number.to_string(),
        exponent => format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()),
    }
}
