//! Paths that lead to a module.

use proc_macro2::{TokenStream, TokenTree};

/// A place that refers to a module.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) line: usize,
    pub(crate) path: String,
}

/// The places of a Rust file with the path `parent::module`, also in a list of imports. A file that
/// is not valid Rust has none.
pub(crate) fn references(text: &str, parent: &str, module: &str) -> Vec<Reference> {
    let Ok(tokens) = text.parse::<TokenStream>() else { return Vec::new() };
    let mut found = Vec::new();
    walk(tokens, None, (parent, module), &mut found);
    found.dedup();
    found
}

/// Follows the tokens with the last name of the path that they continue.
fn walk(tokens: TokenStream, start: Option<&str>, wanted: (&str, &str), found: &mut Vec<Reference>) {
    let mut before = start.map(str::to_owned);
    let mut colons = 2 * usize::from(start.is_some());
    for token in tokens {
        match token {
            TokenTree::Ident(name) => {
                if colons == 2 && before.as_deref() == Some(wanted.0) && name == wanted.1 {
                    let line = name.span().start().line;
                    found.push(Reference { line, path: format!("{}::{}", wanted.0, wanted.1) });
                }
                before = Some(name.to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Punct(punct) if punct.as_char() == ',' => {
                before = start.map(str::to_owned);
                colons = 2 * usize::from(start.is_some());
            }
            TokenTree::Group(group) => {
                let prefix = before.as_deref().filter(|_| colons == 2);
                walk(group.stream(), prefix, wanted, found);
                (before, colons) = (None, 0);
            }
            _ => (before, colons) = (None, 0),
        }
    }
}
