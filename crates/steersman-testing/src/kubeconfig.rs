//! The kubeconfig of a server that was started here, or of an existing cluster.

use std::path::PathBuf;

use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::json;
use steersman_wire::base64;

use crate::Error;
use crate::certificates::Signed;

/// A kubeconfig with one cluster and one user. Everything is inline, so that the file can be copied anywhere.
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
    if std::fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(format!("{} is not a regular file", path.display()));
    }
    std::path::absolute(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The client configuration for the current context.
pub(crate) async fn config(kubeconfig: Kubeconfig) -> Result<Config, String> {
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(|error| error.to_string())
}

/// A client of the runtime we are in.
pub(crate) fn client(config: Config) -> Result<Client, Error> {
    Client::try_from(config).map_err(Error::client("accept a connection"))
}
