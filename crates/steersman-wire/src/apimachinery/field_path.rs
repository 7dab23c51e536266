//! Paths to fields.

use std::fmt;
use std::str::FromStr;

/// A path to a field of an object: `spec.nodeName`, or `metadata.labels['app.kubernetes.io/name']`
/// if a name has other characters than letters, digits, `-` and `_`.
///
/// ```
/// use steersman_wire::FieldPath;
///
/// let path: FieldPath = "metadata.labels['app.kubernetes.io/name']".parse()?;
/// assert_eq!(path.names().collect::<Vec<_>>(), ["metadata", "labels", "app.kubernetes.io/name"]);
/// assert_eq!(path.to_string(), "metadata.labels['app.kubernetes.io/name']");
/// # Ok::<(), steersman_wire::InvalidFieldPath>(())
/// ```
///
/// Elements of lists have no path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath(Vec<String>);

/// The text is not a path to a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a path to a field: expected {expected} at byte {offset}; a path is like metadata.labels['a.b/c']"
)]
pub struct InvalidFieldPath {
    text: String,
    expected: &'static str,
    offset: usize,
}

impl FieldPath {
    /// Creates a path of these names, which may be any texts. `None` without any name.
    pub fn new<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Option<Self> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        (!names.is_empty()).then_some(Self(names))
    }

    /// Parses a path.
    pub fn parse(text: &str) -> Result<Self, InvalidFieldPath> {
        let invalid = |offset, expected| InvalidFieldPath { text: text.to_owned(), expected, offset };
        let (mut names, mut rest) = (Vec::new(), text);
        while !rest.is_empty() || names.is_empty() {
            let offset = text.len() - rest.len();
            if let Some(quoted) = rest.strip_prefix('[') {
                let (name, after) =
                    quoted_name(quoted).ok_or_else(|| invalid(offset, "a name in quotes and brackets"))?;
                names.push(name);
                rest = after;
                continue;
            }
            if !names.is_empty() {
                rest = rest.strip_prefix('.').ok_or_else(|| invalid(offset, "a dot"))?;
            }
            let length = rest.find(|c| !is_plain(c)).unwrap_or(rest.len());
            if length == 0 {
                return Err(invalid(text.len() - rest.len(), "a name"));
            }
            names.push(rest[..length].to_owned());
            rest = &rest[length..];
        }
        Ok(Self(names))
    }

    /// The names on the way to the field, at least one.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

/// Whether a character needs no quotes.
fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_')
}

/// The name in `'a.b/c']`, and the text after it.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let (mut name, mut characters) = (String::new(), text[1..].chars());
    loop {
        match characters.next()? {
            '\\' => name.push(characters.next()?),
            character if character == quote => break,
            character => name.push(character),
        }
    }
    Some((name, characters.as_str().strip_prefix(']')?))
}

impl FromStr for FieldPath {
    type Err = InvalidFieldPath;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            if name.is_empty() || !name.chars().all(is_plain) {
                write!(f, "['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))?;
            } else {
                write!(f, "{}{name}", if index > 0 { "." } else { "" })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_and_written() {
        for (text, names, written) in [
            ("spec", &["spec"][..], "spec"),
            ("a.b-c.d_e.F0", &["a", "b-c", "d_e", "F0"], "a.b-c.d_e.F0"),
            ("a['b.c/d'].e", &["a", "b.c/d", "e"], "a['b.c/d'].e"),
            ("['a']['b']", &["a", "b"], "a.b"),
            (r#"a["it's"]"#, &["a", "it's"], r"a['it\'s']"),
            (r"a['\\\'']['']", &["a", r"\'", ""], r"a['\\\'']['']"),
        ] {
            let path = FieldPath::parse(text).expect(text);
            assert_eq!(path.names().collect::<Vec<_>>(), names, "{text}");
            assert_eq!(path.to_string(), written);
            assert_eq!(FieldPath::parse(written).as_ref(), Ok(&path), "{written}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for (text, offset) in [
            ("", 0),
            (".", 0),
            (".a", 0),
            ("a.", 2),
            ("a..b", 2),
            ("a b", 1),
            ("a[0]", 1),
            ("a['b'", 1),
            ("a['b]", 1),
            ("a['b']c", 6),
            ("a.['b']", 2),
        ] {
            let error = FieldPath::parse(text).expect_err(text);
            assert_eq!(error.offset, offset, "{error}");
        }
    }
}
