//! Files that a configuration names. Only regular files of a limited size are read: a FIFO or a
//! device may have no end, and a huge file takes all memory.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

/// The largest kubeconfig, certificate bundle or token. A kubeconfig with hundreds of clusters
/// takes about one megabyte.
const BYTES_MAX: u64 = 8 << 20;

/// Reads a regular file of at most [`BYTES_MAX`]. The error text follows the file's name.
pub(crate) fn read_bounded(path: &Path) -> Result<Vec<u8>, FileError> {
    check(path)?;
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    // The path may have another file since the check, and some files have more bytes than their
    // metadata states.
    check_metadata(&file.metadata()?)?;
    let read = file.take(BYTES_MAX + 1).read_to_end(&mut bytes)? as u64;
    if read > BYTES_MAX { Err(FileError::TooLarge(read)) } else { Ok(bytes) }
}

/// Reads text, as [`read_bounded`] reads bytes.
pub(crate) fn read_text_bounded(path: &Path) -> Result<String, FileError> {
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8");
    Ok(String::from_utf8(read_bounded(path)?).map_err(invalid)?)
}

/// Checks a file that other code reads, as [`read_bounded`] checks it.
pub(crate) fn check(path: &Path) -> Result<(), FileError> {
    check_metadata(&std::fs::metadata(path)?)
}

fn check_metadata(metadata: &Metadata) -> Result<(), FileError> {
    match metadata.len() {
        _ if !metadata.is_file() => Err(FileError::NotRegular),
        length if length > BYTES_MAX => Err(FileError::TooLarge(length)),
        _ => Ok(()),
    }
}

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("it is not a regular file: write the contents to a file, and name that file")]
    NotRegular,
    #[error("it has {0} bytes, and at most {BYTES_MAX} are read")]
    TooLarge(u64),
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_file_is_read_and_a_larger_one_is_not() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(BYTES_MAX).unwrap();
        assert_eq!(read_bounded(file.path()).unwrap().len() as u64, BYTES_MAX);
        file.as_file().set_len(BYTES_MAX + 1).unwrap();
        assert!(matches!(read_bounded(file.path()), Err(FileError::TooLarge(length)) if length == BYTES_MAX + 1));
    }

    /// The metadata of kernel files state no size.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_without_a_size_is_read() {
        assert!(!read_text_bounded(Path::new("/proc/self/status")).unwrap().is_empty());
    }
}
