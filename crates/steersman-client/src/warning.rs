//! What the server warns of: deprecated versions, unknown fields, and the like.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;

/// A warning that came with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// 299 in all that API servers send.
    pub code: u16,
    /// Who warns; `-` for the API server.
    pub agent: String,
    /// The text.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Warning {
    /// The warnings among the headers of an answer. What is not well formed is left out.
    pub(crate) fn of(headers: &HeaderMap) -> Vec<Self> {
        let values = headers.get_all(http::header::WARNING).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(parse).collect()
    }
}

/// Reads `299 - "text", 299 - "another"`, with backslashes in the texts.
fn parse(header: &str) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut rest = header.trim_start();
    while let Some((warning, after)) = parse_one(rest) {
        warnings.push(warning);
        rest = after.trim_start().trim_start_matches(',').trim_start();
    }
    warnings
}

fn parse_one(text: &str) -> Option<(Warning, &str)> {
    let (code, rest) = text.split_once(' ')?;
    let (agent, rest) = rest.split_once(' ')?;
    let mut text = String::new();
    let mut characters = rest.strip_prefix('"')?.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            // `at` does not count the quotation mark before it.
            '"' => {
                let code = code.parse().ok()?;
                return Some((Warning { code, agent: agent.to_owned(), text }, &rest[at + 2..]));
            }
            '\\' => text.push(characters.next()?.1),
            other => text.push(other),
        }
    }
    None
}

/// Is told of every warning that comes with an answer.
pub trait WarningHandler: Send + Sync {
    /// The server warns.
    fn warn(&self, warning: &Warning);
}

/// Writes each text to the log, once.
#[derive(Debug, Default)]
pub struct LogWarnings {
    told: Mutex<HashSet<String>>,
}

/// So many texts are remembered; then it begins anew.
const TOLD_MAX: usize = 1 << 10;

impl WarningHandler for LogWarnings {
    fn warn(&self, warning: &Warning) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        if told.insert(warning.text.clone()) {
            tracing::warn!("the API server warns: {warning}");
        }
    }
}

/// Does nothing with warnings.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWarnings;

impl WarningHandler for NoWarnings {
    fn warn(&self, _: &Warning) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_read_as_the_server_writes_them() {
        let texts = |header: &str| parse(header).into_iter().map(|warning| warning.text).collect::<Vec<_>>();
        assert_eq!(texts(r#"299 - "unknown field \"spec.x\"""#), [r#"unknown field "spec.x""#]);
        assert_eq!(texts(r#"299 - "one", 299 agent "two, and \\ more""#), ["one", r"two, and \ more"]);
        assert_eq!(texts(r#"299 - "no end"#), Vec::<String>::new());
        assert_eq!(texts("nonsense"), Vec::<String>::new());
        assert_eq!(parse(r#"299 x "a""#)[0], Warning { code: 299, agent: "x".into(), text: "a".into() });
    }
}
