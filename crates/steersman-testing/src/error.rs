use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use crate::assets::Missing;

/// Why a server could not be provided. The text holds the remedy, if there is one, and the end of
/// the server's log.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A server program is not on this machine.
    #[error(transparent)]
    Missing(#[from] Missing),

    /// A server program ended while it should have started.
    #[error("{program} ended while starting ({status}); the end of its log:\n{log}")]
    Exited {
        /// Its name.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it wrote.
        log: String,
    },

    /// A server did not become ready in time.
    #[error("{what} did not come within {} s; last answer: {answer}\n{log}", waited.as_secs())]
    NotReady {
        /// What was waited for.
        what: &'static str,
        /// How long.
        waited: Duration,
        /// The last answer, or why there was none.
        answer: String,
        /// The last lines that the servers wrote.
        log: String,
    },

    /// A file, a folder or a process could not be made.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: std::io::Error,
    },

    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[source] Box<dyn std::error::Error + Send + Sync>),

    /// `USE_EXISTING_CLUSTER` is set, but no kubeconfig leads to a cluster.
    #[error("USE_EXISTING_CLUSTER is set, but no cluster is configured: {0}")]
    NoExistingCluster(String),

    /// The kubeconfig of the server cannot be used.
    #[error("the kubeconfig {} cannot be used: {reason}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// A definition of a custom resource could not be installed.
    #[error("cannot install the CustomResourceDefinition {name}: {reason}")]
    Definition {
        /// Its name.
        name: String,
        /// The server's answer, or what it is still waiting for.
        reason: String,
    },

    /// A request to the server failed.
    #[error("the API server was asked to {action}: {source}")]
    Client {
        /// What was asked.
        action: &'static str,
        /// What came back.
        source: Box<kube_client::Error>,
    },
}

/// The same words as for people: tests meet this error in `unwrap`, and a log on one escaped line
/// is not read.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Error {
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }

    pub(crate) fn certificate(error: rcgen::Error) -> Self {
        Self::Certificate(Box::new(error))
    }

    pub(crate) fn client(action: &'static str) -> impl FnOnce(kube_client::Error) -> Self {
        move |source| Self::Client { action, source: Box::new(source) }
    }
}
