//! Where the server is and who asks.

use std::path::{Path, PathBuf};

use kube_client::Config;
use kube_client::config::Kubeconfig;

use crate::Error;

mod kubeconfig;
mod no_proxy;
mod service_account;

pub use service_account::{config_from_service_account, config_in_cluster};

/// The configuration that the environment gives: the files in `KUBECONFIG`, else `~/.kube/config`, else, in a Pod, its
/// service account.
///
/// Of the files in `KUBECONFIG` the first that has an entry wins, and those that do not exist are left out. A file that is
/// there and wrong is an error: the service account is no substitute for it. Only regular files of at most 8 MiB are read.
pub async fn config_from_environment() -> Result<Config, Error> {
    let (paths, is_named) = kubeconfig_paths();
    // What an error adds to a path: in a list after "KUBECONFIG names", or in a sentence of its own.
    let which = if is_named { ", which" } else { "" };
    let mut merged = Kubeconfig::default();
    let mut read = Vec::new();
    let mut looked = Vec::new();
    for path in paths {
        // Scripts name the null device to leave the user's own file out.
        if path == Path::new("/dev/null") {
            looked.push(format!("{}{which} has no contexts", path.display()));
            continue;
        }
        match kubeconfig::read(&path) {
            Ok(file) => {
                let problem = |error| config_error(format!("invalid kubeconfig {}: {error}", path.display()));
                merged = merged.merge(file).map_err(problem)?;
                looked.push(format!("{}{which} has no contexts", path.display()));
                read.push(path);
            }
            Err(kubeconfig::Unread::Missing(_)) => looked.push(format!("{}{which} does not exist", path.display())),
            Err(kubeconfig::Unread::Invalid(error)) => return Err(error),
        }
    }
    let current = merged.current_context.as_deref().unwrap_or_default();
    let mut config = if current.is_empty() && merged.contexts.is_empty() && merged.clusters.is_empty() {
        service_account::of_this_pod().map_err(|problem| match problem {
            service_account::Problem::NotInCluster(variable) => {
                let (names, fix) = match is_named {
                    true => ("KUBECONFIG names ", "correct KUBECONFIG, or unset it to use ~/.kube/config"),
                    false => ("", "set KUBECONFIG to the path of a kubeconfig"),
                };
                let looked = looked.join(", ");
                config_error(format!(
                    "no configuration found: {names}{looked}, and {variable} is not set, as it is in a Pod; {fix}"
                ))
            }
            service_account::Problem::Other(error) => error,
        })?
    } else {
        kubeconfig::config(merged, &read).await?
    };
    config.apply_debug_overrides();
    leave_proxy_out(&mut config);
    Ok(config)
}

fn config_error(text: String) -> Error {
    Error::Config(text.into())
}

/// Takes away the proxy that the environment names, if it is not for that server. One that the kubeconfig names stays.
fn leave_proxy_out(config: &mut Config) {
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

/// The kubeconfigs of the environment, and whether `KUBECONFIG` names them.
fn kubeconfig_paths() -> (Vec<PathBuf>, bool) {
    let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let named: Vec<PathBuf> = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    if !named.is_empty() {
        return (named, true);
    }
    (std::env::home_dir().into_iter().map(|home| home.join(".kube").join("config")).collect(), false)
}

/// What Go's `BuildConfigFromFlags(masterURL, kubeconfig)` takes: the address of the server, the file that says how to reach
/// it, both or none.
///
/// - The file alone: its current context.
/// - Both: the file's current context with another server.
/// - The address alone: that server, without any credentials.
/// - None: as in [`config_from_environment`].
pub async fn config_from_flags(master_url: Option<&str>, kubeconfig: Option<&Path>) -> Result<Config, Error> {
    let master_url = master_url.filter(|url| !url.is_empty());
    let kubeconfig = kubeconfig.filter(|path| !path.as_os_str().is_empty());
    let url = master_url.map(parse_url).transpose()?;
    let mut config = match (kubeconfig, &url) {
        (None, None) => return config_from_environment().await,
        (None, Some(url)) => return Ok(Config::new(url.clone())),
        (Some(path), _) => {
            let file = kubeconfig::read(path).map_err(kubeconfig::Unread::into_error)?;
            kubeconfig::config(file, &[path.to_owned()]).await?
        }
    };
    if let Some(url) = url {
        config.cluster_url = url;
    }
    leave_proxy_out(&mut config);
    Ok(config)
}

/// A server's address; one without scheme is taken for `http://`, as kubectl does.
fn parse_url(text: &str) -> Result<http::Uri, Error> {
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let wrong = |why: &str| Error::InvalidRequest(format!("{text:?} is not the address of a server: {why}"));
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
    fn addresses_are_read_and_wrong_ones_explained() {
        assert_eq!(parse_url("https://api:6443").unwrap(), "https://api:6443");
        assert_eq!(parse_url("127.0.0.1:8080").unwrap(), "http://127.0.0.1:8080");
        for wrong in ["ftp://a", "https://", "http://a b"] {
            let error = parse_url(wrong).unwrap_err().to_string();
            assert!(error.contains("is not the address of a server"), "{error}");
        }
    }
}
