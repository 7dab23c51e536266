use neutron::ErrorKind;
use steersman::ReconcileError;

use crate::desired::InvalidSpec;

/// Why the operator cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option makes no sense.
    #[error("{0}")]
    Options(String),
    /// The controllers cannot be set up.
    #[error(transparent)]
    Runtime(#[from] steersman::Error),
    /// The API server did not answer as it should.
    #[error("{0}")]
    Client(#[from] steersman::client::Error),
}

/// Why a Network is not as it should be yet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// The spec cannot be fulfilled.
    #[error(transparent)]
    Invalid(#[from] InvalidSpec),
    /// Neutron or Keystone refused, or could not be reached.
    #[error(transparent)]
    Neutron(#[from] neutron::Error),
    /// The API server refused, or could not be reached.
    #[error(transparent)]
    Kubernetes(#[from] steersman::Error),
    /// The Network is not any more what this was about.
    #[error("the Network has changed meanwhile")]
    Outdated,
}

impl From<steersman::client::Error> for Problem {
    fn from(error: steersman::client::Error) -> Self {
        Self::Kubernetes(error.into())
    }
}

impl Problem {
    /// Whether somebody else was faster, on either side: nothing is wrong, and the next look
    /// decides anew.
    pub(crate) fn is_race(&self) -> bool {
        match self {
            Self::Neutron(error) => error.is_stale() || error.is_not_found(),
            Self::Kubernetes(error) => error.is_conflict() || error.is_not_found(),
            Self::Outdated => true,
            Self::Invalid(_) => false,
        }
    }

    /// The reason that the condition `Ready` has. One of the API server's is not told there: it
    /// could not be.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        Some(match self {
            Self::Invalid(_) => "InvalidSpec",
            Self::Neutron(error) => match error.kind() {
                ErrorKind::BadInput => "Refused",
                ErrorKind::InUse => "InUse",
                ErrorKind::OverQuota => "OverQuota",
                ErrorKind::Unauthorized => "Unauthorized",
                ErrorKind::Unavailable => "NeutronUnavailable",
                ErrorKind::Stale | ErrorKind::NotFound | ErrorKind::Conflict => "Conflict",
                ErrorKind::Config => "Misconfigured",
            },
            Self::Kubernetes(_) | Self::Outdated => return None,
        })
    }

    /// Whether only another spec helps.
    fn is_terminal(&self) -> bool {
        match self {
            Self::Invalid(_) => true,
            Self::Neutron(error) => error.is_bad_input(),
            Self::Kubernetes(_) | Self::Outdated => false,
        }
    }

    /// The failure of the reconcile: tried again with back-off, or not before something changes.
    pub(crate) fn into_failure(self) -> ReconcileError {
        if self.is_terminal() { ReconcileError::terminal(self) } else { self.into() }
    }
}
