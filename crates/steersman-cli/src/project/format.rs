//! Formats new Rust files.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// Formats as `cargo fmt` of a project does: names of other lengths than those of the template wrap
/// at other places. Without rustfmt a text stays as it is, which compiles as well.
pub(crate) struct Formatter {
    /// rustfmt looks for its settings here and above.
    folder: PathBuf,
    _settings: Option<TempDir>,
}

impl Formatter {
    /// With the settings of an existing project.
    pub(crate) fn of(project: &Path) -> Self {
        Self { folder: project.to_owned(), _settings: None }
    }

    /// With the settings of a project that does not exist yet: the file with them.
    pub(crate) fn with_settings(file: Option<&(&str, String)>) -> Result<Self> {
        let settings = tempfile::tempdir().context("cannot make a temporary folder")?;
        let folder = settings.path().to_owned();
        if let Some((path, text)) = file {
            std::fs::write(folder.join(path), text).context("cannot write to the temporary folder")?;
        }
        Ok(Self { folder, _settings: Some(settings) })
    }

    /// The text, formatted if possible.
    pub(crate) fn rust(&self, text: String) -> String {
        self.run(&text).unwrap_or(text)
    }

    fn run(&self, text: &str) -> Option<String> {
        let mut command = Command::new("rustfmt");
        command.args(["--edition", "2024", "--emit", "stdout"]).current_dir(&self.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        // It reads everything before it writes.
        let written = child.stdin.take()?.write_all(text.as_bytes());
        let output = child.wait_with_output().ok()?;
        let formatted = String::from_utf8(output.stdout).ok()?;
        (written.is_ok() && output.status.success() && !formatted.is_empty()).then_some(formatted)
    }
}
