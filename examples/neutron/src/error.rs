use std::path::PathBuf;
use std::time::Duration;

/// Why a request failed.
///
/// The message has the request and the message of the server. [`Error::kind`] and the methods
/// beside it show how to react.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Neutron or Keystone refused the request.
    #[error("{request}: {status} {type_}: {message}")]
    Refused {
        /// The method and the address.
        request: String,
        /// The HTTP status.
        status: u16,
        /// Neutron's name for this error (`NetworkInUse`), or else the reason phrase of the status.
        type_: String,
        /// The message of the server.
        message: String,
    },
    /// The connection failed or broke.
    #[error("{request}: no answer: {reason}")]
    Unreachable {
        /// The method and the address.
        request: String,
        /// The cause.
        reason: String,
    },
    /// There was no response in time. The request may have been executed anyway.
    #[error("{request}: no answer within {after:?}")]
    TimedOut {
        /// The method and the address.
        request: String,
        /// The time limit.
        after: Duration,
    },
    /// A response that cannot be parsed: the server is neither Neutron nor Keystone.
    #[error("{request}: not an answer of OpenStack: {reason}")]
    Unreadable {
        /// The method and the address.
        request: String,
        /// The problem.
        reason: String,
    },
    /// Keystone's catalogue has no such endpoint.
    #[error("Keystone's catalogue has no {interface} endpoint of type network{}", in_region(region.as_deref()))]
    NoEndpoint {
        /// `public`, `internal` or `admin`.
        interface: String,
        /// The requested region.
        region: Option<String>,
    },
    /// The configuration is invalid.
    #[error("{0}")]
    Config(String),
    /// A file of the configuration cannot be read.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
}

/// The class of an [`Error`], which shows how to react.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is invalid: a retry does not help.
    BadInput,
    /// The network or subnet is in use. It can be deleted when it no longer is.
    InUse,
    /// The quota of the project is exhausted.
    OverQuota,
    /// Another client has changed it: read it again and retry.
    Stale,
    /// It does not exist, or is not visible to us.
    NotFound,
    /// The credentials are not valid, or the permission is missing.
    Unauthorized,
    /// Another conflict with existing resources, such as a gateway inside an allocation pool.
    Conflict,
    /// Neutron, Keystone or the network does not work: retry later.
    Unavailable,
    /// The configuration is invalid.
    Config,
}

impl Error {
    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { status, type_, .. } => match (*status, type_.as_str()) {
                (401 | 403, _) => ErrorKind::Unauthorized,
                // A 404 with another body is not Neutron's: the address is wrong, or a proxy
                // responded.
                (404, of) if of.ends_with("NotFound") => ErrorKind::NotFound,
                (404, _) => ErrorKind::Unavailable,
                (409, "OverQuota") => ErrorKind::OverQuota,
                (409, of) if of.ends_with("InUse") => ErrorKind::InUse,
                (409, _) => ErrorKind::Conflict,
                (412, _) => ErrorKind::Stale,
                (408 | 425 | 429, _) => ErrorKind::Unavailable,
                (400..=499, _) => ErrorKind::BadInput,
                _ => ErrorKind::Unavailable,
            },
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Unreadable { .. } => ErrorKind::Unavailable,
            Self::NoEndpoint { .. } | Self::Config(_) | Self::File { .. } => ErrorKind::Config,
        }
    }

    /// The request is invalid: a retry does not help (400 and the like).
    pub fn is_bad_input(&self) -> bool {
        self.kind() == ErrorKind::BadInput
    }

    /// Ports still use the network or the subnet.
    pub fn is_in_use(&self) -> bool {
        self.kind() == ErrorKind::InUse
    }

    /// The quota of the project is exhausted.
    pub fn is_over_quota(&self) -> bool {
        self.kind() == ErrorKind::OverQuota
    }

    /// The given revision is not the newest.
    pub fn is_stale(&self) -> bool {
        self.kind() == ErrorKind::Stale
    }

    /// It does not exist, or is not visible to us.
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// The credentials are not valid, or the permission is missing.
    pub fn is_unauthorized(&self) -> bool {
        self.kind() == ErrorKind::Unauthorized
    }

    /// Neutron, Keystone or the network does not work.
    pub fn is_unavailable(&self) -> bool {
        self.kind() == ErrorKind::Unavailable
    }
}

fn in_region(region: Option<&str>) -> String {
    region.map_or_else(String::new, |region| format!(" in the region {region}"))
}
