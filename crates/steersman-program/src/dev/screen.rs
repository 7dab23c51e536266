//! One line for each event.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::Instant;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::Error;
use crate::flags::from_environment;

/// The terminal of a developer: one line for each reconcile, and for what else happens.
#[derive(Clone, Debug)]
pub struct Screen {
    started: Instant,
    colours: bool,
    /// The crate whose log is shown, beside steersman's.
    own: String,
}

/// The origin of a line, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// An event from the API server.
    Cluster,
    /// An action of the operator.
    Operator,
    /// Nothing to attend to.
    Quiet,
    /// A problem to attend to.
    Warning,
}

impl Screen {
    /// A screen for the program `name`. It prints to standard output, with colours if that is a
    /// terminal and the environment does not disable them, or if the environment forces them.
    pub fn new(name: &str) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let wanted = std::io::stdout().is_terminal() || is_set("CLICOLOR_FORCE");
        let colours = wanted && !is_set("NO_COLOR");
        Self { started: Instant::now(), colours, own: name.replace('-', "_") }
    }

    /// Prints a line: the time, the source, the object, and what happened to it.
    pub fn line(&self, tone: Tone, what: &str, object: &str, text: &str) {
        let colour = match (self.colours, tone) {
            (false, _) => None,
            (true, Tone::Cluster) => Some("36"),
            (true, Tone::Operator) => Some("32"),
            (true, Tone::Quiet) => Some("2"),
            (true, Tone::Warning) => Some("33"),
        };
        let line = format!("{:>9.3}s  {what:<10} {object:<24} {text}", self.started.elapsed().as_secs_f64());
        let line = line.trim_end();
        match colour {
            None => self.print(line),
            Some(colour) => self.print(&format!("\x1b[{colour}m{line}\x1b[0m")),
        }
    }

    /// Prints text as it is.
    pub fn print(&self, text: &str) {
        // A closed terminal is no reason to stop.
        let _ = writeln!(std::io::stdout().lock(), "{text}");
    }

    /// The log as a layer that prints lines: each reconcile, what the program and steersman log,
    /// and all warnings. The variable `RUST_LOG` selects something else.
    ///
    /// # Errors
    ///
    /// `RUST_LOG` is invalid.
    pub fn layer<S>(&self) -> Result<Box<dyn Layer<S> + Send + Sync>, Error>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let screen = self.clone();
        let lines = Lines(self.clone());
        Ok(match from_environment()? {
            Some(filter) => lines.with_filter(filter).boxed(),
            None => lines.with_filter(filter_fn(move |metadata| screen.shows(metadata))).boxed(),
        })
    }

    /// Whether a log event is shown, or the span that names its object.
    fn shows(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        match *metadata.level() {
            Level::ERROR | Level::WARN => true,
            Level::INFO => [&*self.own, "steersman_runtime"].iter().any(|name| target.starts_with(name)),
            // A reconcile has succeeded.
            Level::DEBUG => target == "steersman_runtime::layer",
            Level::TRACE => false,
        }
    }
}

/// Prints what is logged.
struct Lines(Screen);

/// The object of a span.
struct About(String);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let (Some(span), Some(controller), Some(key)) = (ctx.span(id), fields.take("controller"), fields.take("key"))
        else {
            return;
        };
        span.extensions_mut().insert(About(format!("{controller} {key}")));
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let object = ctx.lookup_current().and_then(|span| Some(span.extensions().get::<About>()?.0.clone()));
        let (tone, what) = match *event.metadata().level() {
            Level::ERROR | Level::WARN => (Tone::Warning, "warning"),
            Level::INFO => (Tone::Operator, "operator"),
            _ => (Tone::Quiet, "operator"),
        };
        self.0.line(tone, what, &object.unwrap_or_default(), &fields.into_text());
    }
}

/// The fields of an event or a span.
#[derive(Default)]
struct Fields {
    all: Vec<(&'static str, String)>,
}

impl Fields {
    fn take(&mut self, name: &str) -> Option<String> {
        let index = self.all.iter().position(|(other, _)| *other == name)?;
        Some(self.all.remove(index).1)
    }

    /// The message, then the rest.
    fn into_text(mut self) -> String {
        let mut text = self.take("message").unwrap_or_default();
        for (name, value) in self.all.into_iter().filter(|(_, value)| value != "None") {
            // Writing to a String cannot fail.
            let _ = write!(text, "  {name}={}", legible(&value));
        }
        text
    }
}

/// A value in a readable form: `Some(10s)` is `10s`, and `5.693326ms` is `5.7ms`.
fn legible(value: &str) -> String {
    let value = value.strip_prefix("Some(").and_then(|value| value.strip_suffix(')')).unwrap_or(value);
    let unit = value.trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
    match value.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok()) {
        Some(number) if ["ns", "µs", "ms", "s"].contains(&unit) && number.fract() != 0.0 => {
            format!("{number:.1}{unit}")
        }
        _ => value.to_owned(),
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.all.push((field.name(), value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.all.push((field.name(), format!("{value:?}")));
    }
}

#[cfg(test)]
mod tests {
    use super::legible;

    #[test]
    fn values_are_shown_as_people_write_them() {
        let cases =
            [("5.693326ms", "5.7ms"), ("Some(10s)", "10s"), ("156.601µs", "156.6µs"), ("10.1.0.0/24", "10.1.0.0/24")];
        for (value, shown) in cases {
            assert_eq!(legible(value), shown);
        }
    }
}
