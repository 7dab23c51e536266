//! The result of a subcommand.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::Error;
use crate::error::chain;

/// What a subcommand prints, and whether it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// For standard output.
    pub(crate) text: String,
    /// For standard error, if there is something to complain about.
    pub(crate) complaint: Option<String>,
    /// The exit code.
    pub(crate) code: u8,
}

impl Report {
    /// A success.
    pub(crate) fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), complaint: None, code: 0 }
    }

    /// The subcommand did its work, and found what must not be.
    pub(crate) fn found(text: impl Into<String>, complaint: String) -> Self {
        Self { text: text.into(), complaint: Some(complaint), code: 1 }
    }

    /// Prints both texts.
    pub(crate) fn print(self) -> ExitCode {
        let mut report = self;
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(report.text.as_bytes()).and_then(|()| stdout.flush()) {
            report = Error::Output(error).into();
        }
        if let Some(complaint) = report.complaint {
            eprintln!("error: {complaint}");
        }
        ExitCode::from(report.code)
    }
}

impl From<Error> for Report {
    /// The subcommand could not do its work.
    fn from(error: Error) -> Self {
        Self { text: String::new(), complaint: Some(chain(&error)), code: 2 }
    }
}

impl From<Result<Report, Error>> for Report {
    fn from(result: Result<Report, Error>) -> Self {
        result.unwrap_or_else(Self::from)
    }
}
