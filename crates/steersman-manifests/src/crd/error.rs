use std::fmt;

/// One fault in the schema of a Rust type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaProblem {
    /// The field: its path in the custom resource, and the Rust type that declares it.
    pub path: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub advice: String,
}

impl fmt::Display for SchemaProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.path, self.problem, self.advice)
    }
}

/// Why there is no definition for a Rust type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Fields of the type cannot be in a structural schema. All of them are listed.
    #[error("{type_name} has no valid CRD schema:{}", lines(problems))]
    Schema {
        /// The Rust type of the custom resource.
        type_name: String,
        /// The fields.
        problems: Vec<SchemaProblem>,
    },
    /// `crd()` of kube's derive macro panicked. Its own schema transforms do, for some enums.
    #[error(
        "cannot read the definition of {type_name}: crd() of kube's derive macro panicked: {reason}: derive with \
         steersman::CustomResource"
    )]
    Derive {
        /// The Rust type of the custom resource.
        type_name: String,
        /// The message of the panic.
        reason: String,
    },
    /// The versions do not make up one definition.
    #[error("invalid versions of {name}: {reason}")]
    Versions {
        /// The name of the definition, such as `networks.example.com`.
        name: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The definition is too large for a server, even without any description.
    #[error(
        "the CRD {name} has {size} bytes without descriptions, and a server stores at most {max}: make the schema \
         smaller, for instance with x-kubernetes-preserve-unknown-fields on an embedded object"
    )]
    TooLarge {
        /// The name of the definition.
        name: String,
        /// Its size as JSON.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// A definition cannot be written as JSON, or read from it.
    #[error("invalid definition {name}: {source}")]
    Json {
        /// The name of the definition.
        name: String,
        /// What serde_json reports.
        source: serde_json::Error,
    },
}

fn lines(problems: &[SchemaProblem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}
