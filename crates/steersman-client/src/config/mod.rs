//! The configuration: the server's address and the credentials.

use std::path::{Path, PathBuf};

use kube_client::Config;
use kube_client::config::Kubeconfig;

use crate::Error;

pub(crate) mod file;
mod kubeconfig;
mod no_proxy;
mod service_account;

pub use service_account::{config_from_service_account, config_in_cluster};

/// The configuration of the environment: the files in `KUBECONFIG`, else `~/.kube/config`, else, in
/// a Pod, its service account.
///
/// Of several files in `KUBECONFIG`, the first that has an entry wins, and files that do not exist
/// are ignored. An invalid file is an error: the service account does not replace it. Only regular
/// files of at most 8 MiB are read.
pub async fn config_from_environment() -> Result<Config, Error> {
    let (paths, is_named) = kubeconfig_paths();
    // The grammar of the error: a list after "KUBECONFIG names", or a clause of its own.
    let which = if is_named { ", which" } else { "" };
    let mut merged = Kubeconfig::default();
    let mut read = Vec::new();
    let mut searched = Vec::new();
    for path in paths {
        // Scripts name the null device to disable the user's own file.
        if path == Path::new("/dev/null") {
            searched.push(format!("{}{which} has no contexts", path.display()));
            continue;
        }
        match kubeconfig::read(&path) {
            Ok(file) => {
                let problem = |error| config_error(format!("invalid kubeconfig {}: {error}", path.display()));
                merged = merged.merge(file).map_err(problem)?;
                searched.push(format!("{}{which} has no contexts", path.display()));
                read.push(path);
            }
            Err(kubeconfig::ReadError::Missing(_)) => {
                searched.push(format!("{}{which} does not exist", path.display()));
            }
            Err(kubeconfig::ReadError::Invalid(error)) => return Err(error),
        }
    }
    let current = merged.current_context.as_deref().unwrap_or_default();
    let mut config = if current.is_empty() && merged.contexts.is_empty() && merged.clusters.is_empty() {
        service_account::from_pod_environment().map_err(|problem| match problem {
            service_account::InClusterError::NotInCluster(variable) => {
                let (names, fix) = match is_named {
                    true => ("KUBECONFIG names ", "correct KUBECONFIG, or unset it to use ~/.kube/config"),
                    false => ("", "set KUBECONFIG to the path of a kubeconfig"),
                };
                let searched = searched.join(", ");
                config_error(format!(
                    "no configuration found: {names}{searched}, and {variable} is not set, as it is in a Pod; {fix}"
                ))
            }
            service_account::InClusterError::Other(error) => error,
        })?
    } else {
        kubeconfig::config(merged, &read).await?
    };
    config.apply_debug_overrides();
    apply_no_proxy(&mut config);
    Ok(config)
}

fn config_error(text: String) -> Error {
    Error::Config(text.into())
}

/// Removes the environment's proxy if `NO_PROXY` exempts the server. The kubeconfig's own proxy
/// stays.
fn apply_no_proxy(config: &mut Config) {
    let variable = |names: [&str; 2]| {
        let mut values = names.into_iter().filter_map(|name| std::env::var(name).ok());
        values.find(|value| !value.is_empty()).unwrap_or_default()
    };
    let proxy: Option<http::Uri> = variable(["HTTPS_PROXY", "https_proxy"]).parse().ok();
    if proxy.is_some()
        && config.proxy_url == proxy
        && no_proxy::is_exempt(&config.cluster_url, &variable(["NO_PROXY", "no_proxy"]))
    {
        config.proxy_url = None;
    }
}

/// The paths of the kubeconfigs, and whether `KUBECONFIG` names them.
fn kubeconfig_paths() -> (Vec<PathBuf>, bool) {
    let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let named: Vec<PathBuf> = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    if !named.is_empty() {
        return (named, true);
    }
    (std::env::home_dir().into_iter().map(|home| home.join(".kube").join("config")).collect(), false)
}

/// The configuration of a server's address, a kubeconfig, both or neither, as Go's
/// `BuildConfigFromFlags(masterURL, kubeconfig)` takes them.
///
/// - The kubeconfig alone: its current context.
/// - Both: the kubeconfig's current context with another server.
/// - The address alone: that server, without credentials.
/// - Neither: as [`config_from_environment`].
pub async fn config_from_flags(master_url: Option<&str>, kubeconfig: Option<&Path>) -> Result<Config, Error> {
    let master_url = master_url.filter(|url| !url.is_empty());
    let kubeconfig = kubeconfig.filter(|path| !path.as_os_str().is_empty());
    let url = master_url.map(parse_url).transpose()?;
    let mut config = match (kubeconfig, &url) {
        (None, None) => return config_from_environment().await,
        (None, Some(url)) => return Ok(Config::new(url.clone())),
        (Some(path), _) => {
            let file = kubeconfig::read(path).map_err(kubeconfig::ReadError::into_error)?;
            kubeconfig::config(file, &[path.to_owned()]).await?
        }
    };
    if let Some(url) = url {
        config.cluster_url = url;
    }
    apply_no_proxy(&mut config);
    Ok(config)
}

/// A server's address; one without scheme is taken for `http://`, as kubectl does.
fn parse_url(text: &str) -> Result<http::Uri, Error> {
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let wrong = |why: &str| Error::InvalidRequest(format!("invalid server address {text:?}: {why}"));
    let uri: http::Uri = url.parse().map_err(|error: http::uri::InvalidUri| wrong(&error.to_string()))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(uri),
        _ => Err(wrong("give one like https://host:6443")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_invalid_ones_explained() {
        assert_eq!(parse_url("https://api:6443").unwrap(), "https://api:6443");
        assert_eq!(parse_url("127.0.0.1:8080").unwrap(), "http://127.0.0.1:8080");
        for wrong in ["ftp://a", "https://", "http://a b"] {
            let error = parse_url(wrong).unwrap_err().to_string();
            assert!(error.contains("invalid server address"), "{error}");
        }
    }
}
