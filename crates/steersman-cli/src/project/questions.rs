//! Questions for missing arguments, on a terminal only.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Context, Result, ensure};

/// Asks for what the user has left out, if there is a user.
pub(crate) struct Questions {
    terminal: bool,
}

impl Questions {
    /// Asks if standard input and standard error are a terminal.
    pub(crate) fn new() -> Self {
        Self { terminal: io::stdin().is_terminal() && io::stderr().is_terminal() }
    }

    /// The value of an argument: what was given, else the answer to a question that `check`
    /// accepts. Without a terminal a missing argument is an error that names it.
    pub(crate) fn text(
        &self,
        given: Option<String>,
        argument: &str,
        question: &str,
        default: Option<&str>,
        check: impl Fn(&str) -> Result<()>,
    ) -> Result<String> {
        if let Some(given) = given {
            check(&given)?;
            return Ok(given);
        }
        ensure!(self.terminal, "missing argument {argument}: {question}. There is no terminal to ask for it");
        loop {
            let answer = ask(question, default)?;
            match check(&answer) {
                Ok(()) => return Ok(answer),
                Err(error) => eprintln!("{error:#}"),
            }
        }
    }

    /// A choice: what was given, else the answer to a question. Without a terminal it is yes.
    pub(crate) fn yes_or_no(&self, given: Option<bool>, question: &str) -> Result<bool> {
        if let Some(given) = given {
            return Ok(given);
        }
        if !self.terminal {
            return Ok(true);
        }
        loop {
            match ask(&format!("{question} (yes or no)"), Some("yes"))?.as_str() {
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                answer => eprintln!("{answer:?} is neither yes nor no"),
            }
        }
    }
}

/// Asks one question, and reads one line.
fn ask(question: &str, default: Option<&str>) -> Result<String> {
    let hint = default.map(|default| format!(" [{default}]")).unwrap_or_default();
    eprint!("{question}{hint}: ");
    io::stderr().flush().context("cannot ask")?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line).context("cannot read the answer")?;
    ensure!(read > 0, "the input has ended before the answer to: {question}");
    let answer = line.trim();
    Ok(if answer.is_empty() { default.unwrap_or_default() } else { answer }.to_owned())
}
