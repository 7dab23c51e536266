//! One terminal for four sources of lines. Plain lines if the output is not a terminal.

use std::io::{self, IsTerminal, Write};

/// Where a line comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// This command.
    Run,
    /// This command, about something that failed.
    Problem,
    /// cargo and the compiler.
    Cargo,
    /// The operator's own output.
    Operator,
    /// A reconcile.
    Reconcile,
    /// A reconcile that failed, or a hot loop.
    FailedReconcile,
}

/// The output of the command. On a terminal, lines have colors and the last line is a status.
pub(super) struct Screen<W> {
    output: W,
    operator: String,
    is_terminal: bool,
    is_colored: bool,
    status: String,
}

/// The standard output.
pub(super) fn stdout(operator: &str) -> Screen<io::Stdout> {
    let output = io::stdout();
    let is_terminal = output.is_terminal();
    // See https://no-color.org.
    let is_colored = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    Screen { output, operator: operator.to_owned(), is_terminal, is_colored, status: String::new() }
}

impl<W: Write> Screen<W> {
    /// Whether lines have colors.
    pub(super) fn is_colored(&self) -> bool {
        self.is_colored
    }

    /// Prints a line.
    pub(super) fn line(&mut self, source: Source, text: &str) {
        let (color, label) = match source {
            Source::Run => ("1;36", "steersman: "),
            Source::Problem => ("1;31", "steersman: "),
            Source::Cargo => ("", ""),
            Source::Operator => ("2", &*format!("{}: ", self.operator)),
            Source::Reconcile => ("32", "reconcile: "),
            Source::FailedReconcile => ("31", "reconcile: "),
        };
        let line = if self.is_colored && !color.is_empty() {
            format!("\x1b[{color}m{label}\x1b[0m{text}\n")
        } else {
            format!("{label}{text}\n")
        };
        self.write(&line);
    }

    /// Shows what goes on below the lines, on a terminal.
    pub(super) fn status(&mut self, status: &str) {
        if self.is_terminal && self.status != status {
            status.clone_into(&mut self.status);
            self.write("");
        }
    }

    fn write(&mut self, line: &str) {
        let text = match (self.is_terminal, &*self.status) {
            (false, _) => line.to_owned(),
            (true, "") => format!("\r\x1b[K{line}"),
            // Without wrapping, the status stays one line, which the next one replaces.
            (true, status) if self.is_colored => format!("\r\x1b[K{line}\x1b[?7l\x1b[2m{status}\x1b[0m\x1b[?7h"),
            (true, status) => format!("\r\x1b[K{line}\x1b[?7l{status}\x1b[?7h"),
        };
        // The operator goes on without the terminal.
        let _ = self.output.write_all(text.as_bytes());
        let _ = self.output.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(is_terminal: bool, is_colored: bool) -> Screen<Vec<u8>> {
        Screen { output: Vec::new(), operator: "guestbook".to_owned(), is_terminal, is_colored, status: String::new() }
    }

    fn text(screen: Screen<Vec<u8>>) -> String {
        String::from_utf8(screen.output).unwrap()
    }

    #[test]
    fn plain_output_has_no_escape_sequences_and_no_status() {
        let mut screen = screen(false, false);
        screen.status("building");
        let sources = [Source::Run, Source::Problem, Source::Cargo, Source::Operator, Source::Reconcile];
        for source in sources.into_iter().chain([Source::FailedReconcile]) {
            screen.line(source, "text");
        }
        let expected = "steersman: text\nsteersman: text\ntext\nguestbook: text\nreconcile: text\nreconcile: text\n";
        assert_eq!(text(screen), expected);
    }

    #[test]
    fn a_terminal_shows_the_status_below_each_line() {
        let mut screen = screen(true, true);
        screen.status("building");
        screen.status("building");
        screen.line(Source::Run, "one");
        screen.status("");
        let status = "\x1b[?7l\x1b[2mbuilding\x1b[0m\x1b[?7h";
        let line = "\x1b[1;36msteersman: \x1b[0mone\n";
        assert_eq!(text(screen), format!("\r\x1b[K{status}\r\x1b[K{line}{status}\r\x1b[K"));
    }

    #[test]
    fn a_terminal_without_colors_has_a_status() {
        let mut screen = screen(true, false);
        screen.line(Source::Problem, "one");
        screen.status("running");
        assert_eq!(text(screen), "\r\x1b[Ksteersman: one\n\r\x1b[K\x1b[?7lrunning\x1b[?7h");
    }
}
