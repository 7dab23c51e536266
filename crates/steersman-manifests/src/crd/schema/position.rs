//! The position of a schema, in the words of the Rust types.

use std::fmt;

/// A position: the path in the custom resource, and the Rust type that declares the field there.
#[derive(Clone, Debug)]
pub(super) struct Position {
    path: String,
    /// The types that are entered, the innermost last.
    types: Vec<String>,
    /// The innermost field, after the type that declares it.
    declared: Option<String>,
}

impl Position {
    /// The root of the type with this name and module path.
    pub(super) fn root(type_name: &str) -> Self {
        let name = type_name.rsplit("::").next().unwrap_or(type_name);
        Self { path: name.to_owned(), types: Vec::new(), declared: None }
    }

    pub(super) fn field(&self, name: &str) -> Self {
        let declared = self.types.last().map(|declared_in| format!("{declared_in}::{name}"));
        Self { path: format!("{}.{name}", self.path), types: self.types.clone(), declared }
    }

    pub(super) fn items(&self) -> Self {
        Self { path: format!("{}[]", self.path), ..self.clone() }
    }

    pub(super) fn values(&self) -> Self {
        Self { path: format!("{}{{}}", self.path), ..self.clone() }
    }

    /// The same position, within a named type. `None` if the type contains itself.
    pub(super) fn enter(&self, type_name: &str) -> Option<Self> {
        if self.types.iter().any(|entered| entered == type_name) {
            return None;
        }
        let mut types = self.types.clone();
        types.push(type_name.to_owned());
        Some(Self { types, ..self.clone() })
    }

    /// The types from `type_name` to this position.
    pub(super) fn cycle(&self, type_name: &str) -> String {
        let from = self.types.iter().position(|entered| entered == type_name).unwrap_or(0);
        let names: Vec<&str> = self.types[from..].iter().map(String::as_str).chain([type_name]).collect();
        names.join(" → ")
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        self.declared.as_ref().map_or(Ok(()), |declared| write!(f, " ({declared})"))
    }
}
