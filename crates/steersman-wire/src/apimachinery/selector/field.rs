//! Selectors on the fields of an object.

use std::fmt;

use super::{SelectorError, SelectorOperator};

/// Selects objects by their fields: `metadata.name=web,spec.nodeName!=`.
///
/// All requirements must hold. Parsing accepts any field; the server decides which fields can be
/// selected. [`Display`](fmt::Display) writes a text that parses to a selector that matches the
/// same objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// One requirement of a [`FieldSelector`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldRequirement {
    /// The path of the field: `metadata.name`.
    pub field: String,
    /// [`SelectorOperator::Equals`] or [`SelectorOperator::NotEquals`].
    pub operator: SelectorOperator,
    /// The value to compare with.
    pub value: String,
}

impl FieldSelector {
    /// Parses the text of a `fieldSelector` parameter. The empty text matches everything.
    ///
    /// Requirements are separated by commas and sorted by their text. In a value, a backslash
    /// escapes a backslash, a comma or an equals sign. A field has no escapes, and white space
    /// counts everywhere. Empty requirements are skipped.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, operator, value)) = split_term(term) else {
                return Err(SelectorError::new(format!("invalid selector: '{text}'; can't understand '{term}'")));
            };
            let value = unescape(value)?;
            if !field.is_empty() || !value.is_empty() {
                requirements.push(FieldRequirement { field: field.to_owned(), operator, value });
            }
        }
        Ok(FieldSelector { requirements })
    }

    /// Whether an object matches. `get` looks up one of its fields; an unknown field counts as
    /// empty.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| {
            let equal = get(&requirement.field).unwrap_or_default() == requirement.value;
            equal == (requirement.operator == SelectorOperator::Equals)
        })
    }

    /// The requirements, so that a server can refuse fields that cannot be selected.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.field, self.operator)?;
        for part in self.value.split_inclusive(['\\', ',', '=']) {
            match part.strip_suffix(['\\', ',', '=']) {
                Some(before) => write!(f, "{before}\\{}", &part[before.len()..])?,
                None => f.write_str(part)?,
            }
        }
        Ok(())
    }
}

/// The parts between unescaped commas, with their backslashes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|character| {
        let separates = character == ',' && !escaped;
        escaped = character == '\\' && !escaped;
        separates
    })
    .collect()
}

/// The field, the operator and the escaped value, separated by the first operator.
fn split_term(term: &str) -> Option<(&str, SelectorOperator, &str)> {
    let equals = term.find('=')?;
    let (field, value) = (&term[..equals], &term[equals + 1..]);
    if let Some(field) = field.strip_suffix('!') {
        return Some((field, SelectorOperator::NotEquals, value));
    }
    Some((field, SelectorOperator::Equals, value.strip_prefix('=').unwrap_or(value)))
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut unescaped = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => unescaped.push(escaped),
                other => {
                    let sequence = String::from_iter(other);
                    let message = format!("invalid field selector: invalid escape sequence: \\{sequence}");
                    return Err(SelectorError::new(message));
                }
            },
            ',' | '=' => {
                let code = u32::from(character);
                let message = format!("invalid field selector: unescaped character in value: {code}");
                return Err(SelectorError::new(message));
            }
            _ => unescaped.push(character),
        }
    }
    Ok(unescaped)
}
