//! Where a running operator serves, for the program that has started it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{fs, io};

use serde_json::json;

use crate::Error;

/// The file to write. `steersman run` sets the variable, and reads the port of the metrics there,
/// which the system has chosen.
const VARIABLE: &str = "STEERSMAN_ADDRESSES_FILE";

/// Writes the URL of the metrics into the file that the variable names, if it names one.
pub(crate) fn write(metrics: Option<&str>) -> Result<(), Error> {
    write_to(std::env::var_os(VARIABLE), metrics).map_err(|error| Error::Flag { flag: VARIABLE, source: error.into() })
}

fn write_to(file: Option<OsString>, metrics: Option<&str>) -> io::Result<()> {
    let Some(file) = file.map(PathBuf::from) else { return Ok(()) };
    // A reader sees the whole file or none.
    let unfinished = file.with_extension("unfinished");
    fs::write(&unfinished, json!({ "metrics": metrics }).to_string())?;
    fs::rename(&unfinished, &file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_url_of_the_metrics() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("addresses.json");
        write_to(Some(file.clone().into()), Some("http://127.0.0.1:9090")).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), r#"{"metrics":"http://127.0.0.1:9090"}"#);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        write_to(None, None).unwrap();
        let missing = folder.path().join("missing/addresses.json");
        assert!(write_to(Some(missing.into()), None).is_err());
    }
}
