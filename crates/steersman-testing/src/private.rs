//! Folders and files that only their owner reads. The mode is given at creation: a `chmod`
//! afterwards leaves a moment in which the umask decides.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A new folder below the temporary one, with mode 0700.
pub(crate) fn create_folder() -> io::Result<PathBuf> {
    let mut builder = tempfile::Builder::new();
    Ok(builder.prefix("steersman-").permissions(Permissions::from_mode(0o700)).tempdir()?.keep())
}

/// Writes a new file with mode 0600.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

/// Opens a file to append to. A new file gets mode 0600.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}
