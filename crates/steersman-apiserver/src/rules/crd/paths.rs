//! Paths of fields. Each level copies the path above it, so a long name is copied for each field
//! below it. Every path is charged, and is empty once the budget of the request is spent.

use crate::request::budget;

/// Whether a path of this length may be made.
fn charge(length: usize) -> bool {
    !budget::is_spent() && budget::text(length)
}

/// `path.name`, or the name alone if the path is empty.
pub(super) fn child(path: &str, name: &str) -> String {
    match path {
        _ if !charge(path.len() + name.len()) => String::new(),
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// `path.name`, with the dot even if the path is empty.
pub(super) fn field(path: &str, name: &str) -> String {
    if charge(path.len() + name.len()) { format!("{path}.{name}") } else { String::new() }
}

/// `path[index]`
pub(super) fn item(path: &str, index: usize) -> String {
    if charge(path.len()) { format!("{path}[{index}]") } else { String::new() }
}

/// `path[name]`
pub(super) fn key(path: &str, name: &str) -> String {
    if charge(path.len() + name.len()) { format!("{path}[{name}]") } else { String::new() }
}

/// `path.properties[name]`
pub(super) fn property(path: &str, name: &str) -> String {
    if charge(path.len() + name.len()) { format!("{path}.properties[{name}]") } else { String::new() }
}

/// `path.branch[index]`
pub(super) fn branch(path: &str, name: &str, index: usize) -> String {
    if charge(path.len() + name.len()) { format!("{path}.{name}[{index}]") } else { String::new() }
}
