//! The server's warnings: deprecated versions, unknown fields, and others.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;

/// A warning in the headers of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The warn code. API servers send 299.
    pub code: u16,
    /// The agent that warns. `-` for the API server.
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
    /// The warnings in the headers of a response. Malformed ones are ignored.
    pub(crate) fn of(headers: &HeaderMap) -> Vec<Self> {
        let values = headers.get_all(http::header::WARNING).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(parse).collect()
    }
}

/// Parses `299 - "text", 299 - "another"`, with backslash escapes.
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
            // `at` does not count the opening quotation mark.
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

/// Receives each warning of the server.
pub trait WarningHandler: Send + Sync {
    /// The server sent a warning.
    fn warn(&self, warning: &Warning);
}

/// Logs each text once.
#[derive(Debug, Default)]
pub struct LogWarnings {
    logged: Mutex<HashSet<String>>,
}

/// How many texts are remembered before the memory is cleared.
const LOGGED_MAX: usize = 1 << 10;

impl WarningHandler for LogWarnings {
    fn warn(&self, warning: &Warning) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() >= LOGGED_MAX {
            logged.clear();
        }
        if logged.insert(warning.text.clone()) {
            tracing::warn!(warning = %warning, "warning from the API server");
        }
    }
}

/// Ignores warnings.
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
