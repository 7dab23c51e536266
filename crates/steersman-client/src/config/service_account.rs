//! The service account of a Pod: the files that the kubelet mounts, and the variables that it sets.

use std::path::Path;

use kube_client::Config;
use kube_client::config::{
    AuthInfo, Cluster, Context, Kubeconfig, KubeconfigError, NamedAuthInfo, NamedCluster, NamedContext,
};

use super::config_error;
use super::file::read_text_bounded;
use crate::Error;
use crate::layers::token_file;

/// Where the kubelet mounts the files.
const FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";

const NO_CERTIFICATE: &str = "it holds no PEM certificate";

/// The configuration of a Pod's service account, as Go's `rest.InClusterConfig` returns it.
///
/// `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT` name the server. The files are in
/// `/var/run/secrets/kubernetes.io/serviceaccount`: see [`config_from_service_account`].
pub fn config_in_cluster() -> Result<Config, Error> {
    from_pod_environment().map_err(|problem| match problem {
        InClusterError::NotInCluster(variable) => config_error(format!("not in a cluster: {variable} is not set")),
        InClusterError::Other(error) => error,
    })
}

/// The configuration of a service account whose files are mounted in another folder, such as a
/// projected volume.
///
/// - `token` authenticates each request. A client reads the file again after 50 s, and after a
///   response 401, so it uses a rotated token within a minute.
/// - `ca.crt` verifies the server's certificate. It is read again once a minute.
/// - `namespace` is the client's [default namespace](crate::Client::default_namespace).
///
/// A file that is missing or unusable is an error.
pub fn config_from_service_account(folder: &Path, host: &str, port: &str) -> Result<Config, Error> {
    let port: u16 =
        port.parse().map_err(|_| config_error(format!("invalid {PORT} {port:?}: expected a port number")))?;
    let (host, colons) = (host.trim_start_matches('[').trim_end_matches(']'), host.contains(':'));
    let server = if colons { format!("https://[{host}]:{port}") } else { format!("https://{host}:{port}") };
    server.parse::<http::Uri>().map_err(|error| config_error(format!("invalid {HOST} {host:?}: {error}")))?;

    let unusable = |path: &Path, problem: &str| {
        config_error(format!("cannot use the service account's file {}: {problem}", path.display()))
    };
    let (token, authority, namespace) = (folder.join("token"), folder.join("ca.crt"), folder.join("namespace"));
    token_file::read(&token).map_err(|problem| unusable(&token, &problem))?;
    let read = |path| read_text_bounded(path).map_err(|problem| unusable(path, &problem.to_string()));
    read(&authority)?;
    let default_namespace = read(&namespace)?.trim().to_owned();
    if default_namespace.is_empty() {
        return Err(unusable(&namespace, "it is empty"));
    }

    let name = "service account";
    let file = Kubeconfig {
        clusters: vec![NamedCluster {
            name: name.to_owned(),
            cluster: Some(Cluster {
                server: Some(server),
                certificate_authority: Some(authority.display().to_string()),
                ..Default::default()
            }),
            ..Default::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: name.to_owned(),
            auth_info: Some(AuthInfo { token_file: Some(token.display().to_string()), ..Default::default() }),
            ..Default::default()
        }],
        contexts: vec![NamedContext {
            name: name.to_owned(),
            context: Some(Context {
                cluster: name.to_owned(),
                user: Some(name.to_owned()),
                namespace: Some(default_namespace),
                ..Default::default()
            }),
            ..Default::default()
        }],
        current_context: Some(name.to_owned()),
        ..Default::default()
    };
    let mut config = Config::try_from(file).map_err(|error| match error {
        KubeconfigError::ParseProxyUrl(error) => config_error(format!("invalid HTTPS_PROXY: {error}")),
        KubeconfigError::ParseCertificates(_) => unusable(&authority, NO_CERTIFICATE),
        error => unusable(&authority, &error.to_string()),
    })?;
    if config.root_cert.as_ref().is_none_or(Vec::is_empty) {
        return Err(unusable(&authority, NO_CERTIFICATE));
    }
    config.root_cert_file = Some(authority);
    // The environment's proxy is for traffic that leaves the cluster.
    config.proxy_url = None;
    Ok(config)
}

/// Why there is no in-cluster configuration.
pub(super) enum InClusterError {
    /// This variable is not set.
    NotInCluster(&'static str),
    Other(Error),
}

pub(super) fn from_pod_environment() -> Result<Config, InClusterError> {
    let variable =
        |name| std::env::var(name).ok().filter(|value| !value.is_empty()).ok_or(InClusterError::NotInCluster(name));
    config_from_service_account(Path::new(FOLDER), &variable(HOST)?, &variable(PORT)?).map_err(InClusterError::Other)
}
