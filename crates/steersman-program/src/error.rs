use std::io;
use std::path::PathBuf;

use steersman_manifests::crd;
use steersman_manifests::operator::FilesError;

/// Any error, as functions of the user return it.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a program fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The value of a flag or of a variable cannot be used.
    #[error("cannot use {flag}: {source}")]
    Flag {
        /// The name of the flag or of the variable.
        flag: &'static str,
        /// Why not.
        source: BoxError,
    },
    /// The arguments of the operator in a cluster are wrong: those of
    /// [`Program::args`](crate::Program::args), or those after `--` of `manifests`.
    #[error("wrong arguments of the operator in a cluster: {0}")]
    Arguments(clap::Error),
    /// The name cannot be that of objects in a cluster.
    #[error("{name:?} cannot name a Deployment: use lower-case letters, digits and dashes, at most 63")]
    Name {
        /// The name of the program.
        name: String,
    },
    /// The cluster is not known, or a request failed.
    #[error(transparent)]
    Client(#[from] steersman_client::Error),
    /// The manager cannot be built or has failed.
    #[error(transparent)]
    Runtime(#[from] steersman_runtime::Error),
    /// The setup function has failed.
    #[error("setup failed: {0}")]
    Setup(BoxError),
    /// The setup function has sent a request, although there is no cluster.
    #[error(
        "setup sent {request}, and manifests are made without a cluster: read it in a reconcile, or in a runnable that \
         Manager::add starts"
    )]
    RequestInSetup {
        /// Method and path.
        request: String,
    },
    /// A Rust type has no CRD.
    #[error(transparent)]
    Crd(#[from] crd::Error),
    /// A sample is no object.
    #[error("invalid sample: {0}")]
    Sample(String),
    /// An object that was added as the CRD of another project is none.
    #[error("{name} is no CRD of another project: {reason}")]
    ExternalCrd {
        /// The object.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The manifests cannot be written or compared.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// A file with older CRDs cannot be used.
    #[error("cannot use {}: {reason}", path.display())]
    Old {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// An object cannot be written as YAML.
    #[error("cannot write {name} as YAML: {reason}")]
    Yaml {
        /// The object.
        name: String,
        /// The message of the writer.
        reason: String,
    },
    /// The threads of the program cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(io::Error),
    /// Nothing can be written to standard output.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// The API server for development cannot be started.
    #[cfg(feature = "dev")]
    #[error("cannot start the API server for development: {0}")]
    Server(BoxError),
    /// A CRD is not served.
    #[cfg(feature = "dev")]
    #[error("the CRD {name} is not served after {seconds} s: {reason}")]
    NotServed {
        /// The name of the CRD.
        name: String,
        /// How long it was waited for.
        seconds: u64,
        /// What the server reports.
        reason: String,
    },
}

/// An error with its causes, on one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // Many errors have the text of their cause already.
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_causes_of_an_error_are_in_its_text_once() {
        let io = || io::Error::new(io::ErrorKind::NotFound, "no such file");
        assert_eq!(chain(&Error::Setup(Box::new(io()))), "setup failed: no such file");
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read the pool")]
        struct Hiding(#[source] io::Error);
        assert_eq!(chain(&Hiding(io())), "cannot read the pool: no such file");
    }
}
