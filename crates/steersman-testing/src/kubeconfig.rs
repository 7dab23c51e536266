//! The kubeconfig of a server that was started here, or of an existing cluster.

use std::path::{Path, PathBuf};

use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::json;
use steersman_wire::base64;

use crate::Error;
use crate::certificates::Signed;

/// The size of the largest kubeconfig, certificate bundle or token that is read.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// A kubeconfig with one cluster and one user. Everything is inline, so that the file can be copied
/// anywhere.
pub(crate) fn kubeconfig(url: &str, authority: &str, user: &Signed) -> Kubeconfig {
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "steersman", "cluster": {
            "server": url,
            "certificate-authority-data": base64::encode(authority.as_bytes()),
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": base64::encode(user.certificate.as_bytes()),
            "client-key-data": base64::encode(user.key.as_bytes()),
        }}],
        "contexts": [{"name": "steersman", "context": {
            "cluster": "steersman", "user": "admin", "namespace": "default",
        }}],
        "current-context": "steersman",
    }))
    .expect("this is the shape of a kubeconfig")
}

/// The one file that the environment names: in `KUBECONFIG`, else `~/.kube/config`.
pub(crate) fn of_environment() -> Result<PathBuf, String> {
    let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let named: Vec<PathBuf> = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    let path = match named.as_slice() {
        [] => std::env::home_dir().ok_or("KUBECONFIG is not set and there is no home folder")?.join(".kube/config"),
        [one] => one.clone(),
        several => {
            return Err(format!(
                "KUBECONFIG names {} files, and programs can be given only one: merge them with \
                 `(umask 077; kubectl config view --flatten > FILE)` and set KUBECONFIG=FILE",
                several.len()
            ));
        }
    };
    check_file(&path)?;
    std::path::absolute(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Refuses a file that has no end, as a FIFO or a device may, or that takes all memory. Reading a
/// missing file names the fault.
fn check_file(path: &Path) -> Result<(), String> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    if !metadata.is_file() {
        return Err(format!("{} is not a regular file", path.display()));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(format!("{} has {} bytes, and at most {FILE_BYTES_MAX} are read", path.display(), metadata.len()));
    }
    Ok(())
}

/// The client configuration for the current context.
pub(crate) async fn config(kubeconfig: Kubeconfig) -> Result<Config, String> {
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    let authorities = clusters.filter_map(|cluster| cluster.certificate_authority.as_ref());
    let credentials = users.flat_map(|user| [&user.client_certificate, &user.client_key, &user.token_file]).flatten();
    authorities.chain(credentials).try_for_each(|path| check_file(path.as_ref()))?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(|error| error.to_string())
}

/// A client of the runtime we are in.
pub(crate) fn client(config: Config) -> Result<Client, Error> {
    Client::try_from(config).map_err(Error::client("accept a connection"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// kube-client reads these files without a limit.
    #[tokio::test]
    async fn credentials_that_are_no_regular_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let huge = folder.path().join("huge");
        std::fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
        for (path, problem) in [(Path::new("/dev/zero"), "is not a regular file"), (&huge, "has 1099511627776 bytes")] {
            for (cluster, user) in [
                (json!({"certificate-authority": path}), json!({})),
                (json!({}), json!({"client-certificate": path})),
                (json!({}), json!({"client-key": path})),
                (json!({}), json!({"tokenFile": path})),
            ] {
                let kubeconfig = serde_json::from_value(json!({
                    "clusters": [{"name": "one", "cluster": cluster}], "users": [{"name": "one", "user": user}],
                }));
                let error = config(kubeconfig.unwrap()).await.unwrap_err();
                assert!(error.contains(&format!("{} {problem}", path.display())), "{error}");
            }
        }
    }
}
