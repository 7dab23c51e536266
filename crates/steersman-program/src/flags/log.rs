//! The log of a program.

use std::env;
use std::io;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

use crate::Error;

/// The variable by which Rust programs choose what they log.
const VARIABLE: &str = "RUST_LOG";

/// The form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What is logged to standard error, and how.
#[derive(Clone, Debug, clap::Args)]
#[non_exhaustive]
pub struct LogFlags {
    /// The format of the log
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// The least important level in the log: error, warn, info, debug or trace. RUST_LOG comes
    /// first
    #[arg(long, value_name = "LEVEL", default_value_t = LevelFilter::INFO)]
    pub log_level: LevelFilter,
}

impl Default for LogFlags {
    fn default() -> Self {
        Self { log_format: LogFormat::Text, log_level: LevelFilter::INFO }
    }
}

impl LogFlags {
    /// Logs everything of the process. A program that has chosen a subscriber itself keeps it.
    ///
    /// # Errors
    ///
    /// `RUST_LOG` is invalid.
    pub fn init(&self) -> Result<(), Error> {
        // An error means that there is a subscriber.
        let _ = Registry::default().with(self.layer()?).try_init();
        Ok(())
    }

    /// The log as a layer, for a program that adds others: one that exports spans, for instance.
    ///
    /// # Errors
    ///
    /// `RUST_LOG` is invalid.
    pub fn layer<S>(&self) -> Result<Box<dyn Layer<S> + Send + Sync>, Error>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let filter = self.filter(&env::var(VARIABLE).unwrap_or_default())?;
        let lines = fmt::layer().with_ansi(false).with_writer(io::stderr);
        Ok(match self.log_format {
            LogFormat::Text => lines.with_filter(filter).boxed(),
            LogFormat::Json => lines.json().with_filter(filter).boxed(),
        })
    }

    /// What is logged. The variable `RUST_LOG` replaces the flag.
    fn filter(&self, variable: &str) -> Result<Targets, Error> {
        if variable.is_empty() {
            return Ok(Targets::new().with_default(self.log_level));
        }
        variable.parse().map_err(|error| Error::Flag { flag: VARIABLE, source: Box::new(error) })
    }
}

/// What `RUST_LOG` selects, if it is set.
#[cfg(feature = "dev")]
pub(crate) fn from_environment() -> Result<Option<Targets>, Error> {
    let variable = env::var(VARIABLE).unwrap_or_default();
    if variable.is_empty() { Ok(None) } else { LogFlags::default().filter(&variable).map(Some) }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn the_variable_comes_before_the_flag() {
        let flags = LogFlags { log_level: LevelFilter::DEBUG, ..LogFlags::default() };
        let cases = [
            ("", "any", Level::DEBUG, true),
            ("", "any", Level::TRACE, false),
            ("warn", "any", Level::DEBUG, false),
            ("warn,steersman_runtime=trace", "steersman_runtime::layer", Level::TRACE, true),
            ("warn,steersman_runtime=trace", "any", Level::INFO, false),
        ];
        for (variable, target, level, expected) in cases {
            let filter = flags.filter(variable).unwrap();
            assert_eq!(filter.would_enable(target, &level), expected, "{variable:?} {target} {level}");
        }
        let error = flags.filter("steersman=loud").unwrap_err().to_string();
        assert!(error.contains("RUST_LOG"), "{error}");
    }
}
