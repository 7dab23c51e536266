//! The kubeconfig as a file: written as a whole, readable by its owner only, and never in place of
//! a file that this command did not write.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Longer than any kubeconfig of this command.
const BYTES_MAX: u64 = 1 << 20;

/// Writes `kubeconfig` to `path`. An existing file is replaced only if an earlier run wrote it:
/// such files hold the keys to people's clusters.
pub(crate) fn write(path: &Path, kubeconfig: &str) -> Result<()> {
    // Only a regular file is read: a FIFO or a device may have no end.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        bail!("{} is not a regular file: choose another file", path.display());
    }
    match read(path) {
        Ok(text) if !text.trim().is_empty() && !is_ours(&text) => {
            bail!("{} exists and was not written by this command: choose another file", path.display())
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot read {} before it is replaced", path.display()));
        }
        _ => {}
    }
    let folder = path.parent().context("the path of the kubeconfig has no folder")?;
    replace(folder, path, kubeconfig).with_context(|| format!("cannot write {}", path.display()))
}

/// The beginning of a file. A longer file was not written by this command.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn replace(folder: &Path, path: &Path, kubeconfig: &str) -> io::Result<()> {
    // A temporary file is readable by its owner only, from the start.
    let mut file = tempfile::Builder::new().prefix(".kubeconfig-").tempfile_in(folder)?;
    file.write_all(kubeconfig.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// Whether this command wrote the file: it has one cluster and one context, both named `steersman`.
fn is_ours(text: &str) -> bool {
    let Ok(config) = serde_json::from_str::<Value>(text) else { return false };
    ["clusters", "contexts"].iter().all(|list| {
        let entries = config[*list].as_array().map(Vec::as_slice);
        matches!(entries, Some([only]) if only["name"] == "steersman")
    })
}

#[cfg(test)]
mod tests {
    use super::{is_ours, write};

    const OURS: &str = r#"{"clusters":[{"name":"steersman"}],"contexts":[{"name":"steersman"}]}"#;

    #[test]
    fn only_our_own_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        write(&path, OURS).unwrap();
        write(&path, OURS).unwrap();
        std::fs::write(&path, "apiVersion: v1\nclusters: []\n").unwrap();
        assert!(write(&path, OURS).unwrap_err().to_string().contains("choose another file"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "apiVersion: v1\nclusters: []\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn a_file_with_another_cluster_is_not_ours() {
        assert!(is_ours(OURS));
        let two = r#"{"clusters":[{"name":"steersman"},{"name":"work"}],"contexts":[{"name":"steersman"}]}"#;
        for text in [two, "{}", "[]", "clusters:\n- name: steersman\n"] {
            assert!(!is_ours(text), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_reads_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        write(&path, OURS).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
