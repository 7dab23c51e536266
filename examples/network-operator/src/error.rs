use neutron::ErrorKind;
use steersman::ReconcileError;

use crate::desired::InvalidSpec;

/// Why the operator cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option is invalid.
    #[error("{0}")]
    Options(String),
    /// The controllers cannot be set up.
    #[error(transparent)]
    Runtime(#[from] steersman::Error),
    /// A request to the API server failed.
    #[error("{0}")]
    Client(#[from] steersman::client::Error),
    /// There are no valid credentials for Neutron.
    #[error(transparent)]
    Neutron(#[from] neutron::Error),
}

/// Why a Network is not ready.
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
    /// The cluster's id cannot be read.
    #[error("cannot read the cluster's id: {0}: permit it, or set --cluster-id")]
    ClusterId(#[source] Error),
    /// The Network has changed since it was read.
    #[error("the Network has changed since it was read")]
    Outdated,
}

impl From<steersman::client::Error> for Problem {
    fn from(error: steersman::client::Error) -> Self {
        Self::Kubernetes(error.into())
    }
}

impl Problem {
    /// Whether another client was faster, in Kubernetes or in Neutron: this is no failure, and the
    /// next reconcile decides again.
    pub(crate) fn is_race(&self) -> bool {
        match self {
            Self::Neutron(error) => error.is_stale() || error.is_not_found(),
            Self::Kubernetes(error) => error.is_conflict() || error.is_not_found(),
            Self::Outdated => true,
            Self::Invalid(_) | Self::ClusterId(_) => false,
        }
    }

    /// The reason for the condition `Ready`. An error of the API server has none: the status could
    /// not be written.
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
            Self::Kubernetes(_) | Self::ClusterId(_) | Self::Outdated => return None,
        })
    }

    /// Whether only a change of the spec helps.
    fn is_terminal(&self) -> bool {
        match self {
            Self::Invalid(_) => true,
            Self::Neutron(error) => error.is_bad_input(),
            Self::Kubernetes(_) | Self::ClusterId(_) | Self::Outdated => false,
        }
    }

    /// The error of the reconcile: retried with back-off, or only after a change.
    pub(crate) fn into_failure(self) -> ReconcileError {
        if self.is_terminal() { ReconcileError::terminal(self) } else { self.into() }
    }
}
