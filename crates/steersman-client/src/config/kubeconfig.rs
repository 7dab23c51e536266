//! Kubeconfigs: the current context, and the errors in a file. An error text holds nothing of the
//! contents but names and addresses.

use std::path::{Path, PathBuf};

use kube_client::Config;
use kube_client::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};
use secrecy::ExposeSecret;
use steersman_wire::base64;

use super::config_error;
use super::file::{self, FileError, read_bounded};
use crate::Error;

/// Why a file was not read.
pub(super) enum ReadError {
    /// The file does not exist.
    Missing(Error),
    Invalid(Error),
}

impl ReadError {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Missing(error) | Self::Invalid(error) => error,
        }
    }
}

/// Reads a kubeconfig.
pub(super) fn read(path: &Path) -> Result<Kubeconfig, ReadError> {
    match file::check(path) {
        // Reading the file below names the fault.
        Ok(()) | Err(FileError::Io(_)) => {}
        Err(problem) => {
            let text = format!("cannot use {} as kubeconfig: {problem}", path.display());
            return Err(ReadError::Invalid(config_error(text)));
        }
    }
    Kubeconfig::read_from(path).map_err(|error| {
        let invalid = |problem: &str| config_error(format!("invalid kubeconfig {}: {problem}", path.display()));
        match error {
            KubeconfigError::ReadConfig(error, _) => {
                let text = config_error(format!("cannot read kubeconfig {}: {error}", path.display()));
                match error.kind() {
                    std::io::ErrorKind::NotFound => ReadError::Missing(text),
                    _ => ReadError::Invalid(text),
                }
            }
            KubeconfigError::Parse(error) => {
                // The first line of the text is the problem. The others quote the file.
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default();
                ReadError::Invalid(invalid(first.trim_start_matches("error: ")))
            }
            error => ReadError::Invalid(invalid(&error.to_string())),
        }
    })
}

/// The configuration of the current context in these files.
pub(super) async fn config(kubeconfig: Kubeconfig, paths: &[PathBuf]) -> Result<Config, Error> {
    let files = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let current =
        CurrentContext::of(&kubeconfig, &files, if paths.len() > 1 { "their" } else { "its" }).map_err(config_error)?;
    let CurrentContext { cluster_name, cluster, user } = &current;
    if let Some((name, user)) = user {
        check_identity(user).map_err(|problem| config_error(format!("user {name:?} in {files}{problem}")))?;
    }
    let in_cluster = |problem: String| config_error(format!("cluster {cluster_name:?} in {files}{problem}"));
    let authority = if cluster.certificate_authority_data.is_some() {
        "certificate-authority-data".to_owned()
    } else {
        format!("certificate-authority {}", cluster.certificate_authority.as_deref().unwrap_or_default())
    };
    if let (None, Some(path)) = (&cluster.certificate_authority_data, &cluster.certificate_authority) {
        file::check(path.as_ref()).map_err(|problem| in_cluster(format!(": cannot read {authority}: {problem}")))?;
    }
    let config = Config::from_custom_kubeconfig(kubeconfig.clone(), &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| {
        in_cluster(match error {
            KubeconfigError::MissingClusterUrl => " has no server".to_owned(),
            KubeconfigError::ParseClusterUrl(error) => {
                format!(": invalid server {:?}: {error}", cluster.server.as_deref().unwrap_or_default())
            }
            // Without the address, which may hold a password.
            KubeconfigError::ParseProxyUrl(error) => format!(": invalid proxy-url, or HTTPS_PROXY: {error}"),
            KubeconfigError::LoadCertificateAuthority(LoadDataError::ReadFile(error, _)) => {
                format!(": cannot read {authority}: {error}")
            }
            KubeconfigError::LoadCertificateAuthority(_) => format!(": {authority} is not base64"),
            KubeconfigError::ParseCertificates(_) => format!(": {authority} holds no PEM certificate"),
            error => format!(": {error}"),
        })
    })?;
    if config.root_cert.as_ref().is_some_and(Vec::is_empty) {
        return Err(in_cluster(format!(": {authority} holds no PEM certificate")));
    }
    Ok(config)
}

/// The cluster and the user of the current context.
struct CurrentContext<'f> {
    cluster_name: &'f str,
    cluster: &'f Cluster,
    user: Option<(&'f str, &'f AuthInfo)>,
}

impl<'f> CurrentContext<'f> {
    fn of(file: &'f Kubeconfig, files: &str, their: &str) -> Result<Self, String> {
        let contexts = file.contexts.iter().map(|context| &*context.name).collect::<Vec<_>>();
        let choices = || match &*contexts {
            [] => ", which has no contexts".to_owned(),
            contexts => format!("; {their} contexts are {} (kubectl config use-context)", quoted(contexts)),
        };
        let name = file.current_context.as_deref().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| format!("no current-context in {files}{}", choices()))?;
        let context = file.contexts.iter().find(|context| context.name == name);
        let context = context.and_then(|context| context.context.as_ref());
        let context = context.ok_or_else(|| format!("context {name:?} does not exist in {files}{}", choices()))?;

        let clusters = file.clusters.iter().map(|cluster| &*cluster.name).collect::<Vec<_>>();
        let cluster_name = &*context.cluster;
        let cluster = file.clusters.iter().find(|cluster| cluster.name == cluster_name);
        let cluster = cluster.and_then(|cluster| cluster.cluster.as_ref()).ok_or_else(|| {
            let choices = match &*clusters {
                [] => "; there are no clusters".to_owned(),
                clusters => format!("; {their} clusters are {}", quoted(clusters)),
            };
            format!("context {name:?} refers to cluster {cluster_name:?}, which does not exist in {files}{choices}")
        })?;

        let user_name = context.user.as_deref().filter(|user| !user.is_empty());
        let user = user_name.and_then(|name| {
            let user = file.auth_infos.iter().find(|user| user.name == name)?;
            Some((name, user.auth_info.as_ref()?))
        });
        if let (Some(user), None) = (user_name, user) {
            // As kubectl does: some servers need no credentials.
            tracing::warn!(context = name, user, files, "kubeconfig has no such user, requests carry no credentials");
        }
        Ok(Self { cluster_name, cluster, user })
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// Checks that the certificate and the key of a user can be read. Building the client checks their
/// contents.
fn check_identity(user: &AuthInfo) -> Result<(), String> {
    const PEM: &[u8] = b"-----BEGIN ";
    let read = |name: &str, data: Option<&str>, file: Option<&str>| {
        let (what, bytes) = match (data, file) {
            (None, None) => return Ok(false),
            (Some(data), _) => {
                let what = format!("{name}-data");
                let bytes = base64::decode(data).map_err(|_| format!(": {what} is not base64"))?;
                (what, bytes)
            }
            (None, Some(path)) => {
                let what = format!("{name} {path}");
                let bytes = read_bounded(path.as_ref()).map_err(|error| format!(": cannot read {what}: {error}"))?;
                (what, bytes)
            }
        };
        let is_pem = bytes.windows(PEM.len()).any(|bytes| bytes == PEM);
        if is_pem { Ok(true) } else { Err(format!(": {what} is not PEM")) }
    };
    let certificate =
        read("client-certificate", user.client_certificate_data.as_deref(), user.client_certificate.as_deref())?;
    let key = user.client_key_data.as_ref().map(ExposeSecret::expose_secret);
    let key = read("client-key", key, user.client_key.as_deref())?;
    match (certificate, key) {
        (true, false) => Err(" has a client-certificate, but no client-key".to_owned()),
        (false, true) => Err(" has a client-key, but no client-certificate".to_owned()),
        _ => Ok(()),
    }
}
