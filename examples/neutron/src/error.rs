use std::path::PathBuf;
use std::time::Duration;

/// Why a request did not do what it was sent for.
///
/// What is shown holds what was tried and the server's own words. What to do about it is told by
/// [`Error::kind`] or the methods beside it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Neutron or Keystone answered, and the answer is no.
    #[error("{request}: {status} {type_}: {message}")]
    Refused {
        /// The method and the address.
        request: String,
        /// The HTTP status.
        status: u16,
        /// What Neutron calls this kind of error (`NetworkInUse`), or else the reason that goes
        /// with the status.
        type_: String,
        /// The server's own words.
        message: String,
    },
    /// No connection, or it broke.
    #[error("{request}: no answer: {reason}")]
    Unreachable {
        /// The method and the address.
        request: String,
        /// What went wrong on the way.
        reason: String,
    },
    /// There was no answer in time. What the request asks for may be done all the same.
    #[error("{request}: no answer within {after:?}")]
    TimedOut {
        /// The method and the address.
        request: String,
        /// How long was waited.
        after: Duration,
    },
    /// An answer that cannot be understood: whatever answers there, it does not speak as Neutron or
    /// Keystone.
    #[error("{request}: not an answer of OpenStack: {reason}")]
    Unreadable {
        /// The method and the address.
        request: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Keystone's catalogue has no such endpoint.
    #[error("Keystone's catalogue has no {interface} endpoint of type network{}", in_region(region.as_deref()))]
    NoEndpoint {
        /// `public`, `internal` or `admin`.
        interface: String,
        /// The region that was asked for.
        region: Option<String>,
    },
    /// What was configured makes no sense.
    #[error("{0}")]
    Config(String),
    /// A file of the configuration cannot be read.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// What to do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is wrong and stays wrong: trying again is of no use.
    BadInput,
    /// Something uses the network or subnet. It can be deleted when that is gone.
    InUse,
    /// The project has as many as it may.
    OverQuota,
    /// It was changed by somebody else: read it again and decide anew.
    Stale,
    /// There is no such thing, or it is not shown to us.
    NotFound,
    /// Who we are is not believed, or we may not do this.
    Unauthorized,
    /// Another conflict with what is there, such as a gateway inside an allocation pool.
    Conflict,
    /// Neutron, Keystone or something on the way does not work: try later.
    Unavailable,
    /// What was configured makes no sense.
    Config,
}

impl Error {
    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { status, type_, .. } => match (*status, type_.as_str()) {
                (401 | 403, _) => ErrorKind::Unauthorized,
                // A 404 in other words is not Neutron's: the address is wrong, or a proxy is.
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

    /// The request is wrong and stays wrong, whatever is tried (400 and the like).
    pub fn is_bad_input(&self) -> bool {
        self.kind() == ErrorKind::BadInput
    }

    /// Ports still use the network or the subnet.
    pub fn is_in_use(&self) -> bool {
        self.kind() == ErrorKind::InUse
    }

    /// The project has as many as it may.
    pub fn is_over_quota(&self) -> bool {
        self.kind() == ErrorKind::OverQuota
    }

    /// The revision that was named is not the newest.
    pub fn is_stale(&self) -> bool {
        self.kind() == ErrorKind::Stale
    }

    /// There is no such thing, or it is not shown to us.
    pub fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }

    /// Who we are is not believed, or we may not do this.
    pub fn is_unauthorized(&self) -> bool {
        self.kind() == ErrorKind::Unauthorized
    }

    /// Neutron, Keystone or something on the way does not work.
    pub fn is_unavailable(&self) -> bool {
        self.kind() == ErrorKind::Unavailable
    }
}

fn in_region(region: Option<&str>) -> String {
    region.map_or_else(String::new, |region| format!(" in the region {region}"))
}
