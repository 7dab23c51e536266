//! Where the server is and who asks.

use std::path::{Path, PathBuf};

use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::Error;

/// The configuration that the environment gives: the files in `KUBECONFIG`, else `~/.kube/config`, else, in a Pod, its
/// service account.
///
/// Of the files in `KUBECONFIG` the first that has an entry wins, and those that do not exist are left out. A file that is
/// there and wrong is an error: the service account is no substitute for it.
pub async fn config_from_environment() -> Result<Config, Error> {
    let paths = kubeconfig_paths();
    let mut merged = Kubeconfig::default();
    for path in &paths {
        match Kubeconfig::read_from(path) {
            Ok(file) => merged = merged.merge(file).map_err(|error| wrong(path, error))?,
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(wrong(path, error)),
        }
    }
    let empty = merged.current_context.is_none() && merged.contexts.is_empty() && merged.clusters.is_empty();
    let mut config = if empty {
        Config::incluster().map_err(|error| {
            let looked: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            let looked = looked.join(", ");
            Error::Config(format!("there is no kubeconfig (looked for {looked}), and in this Pod: {error}").into())
        })?
    } else {
        let config = Config::from_custom_kubeconfig(merged, &KubeConfigOptions::default()).await;
        config.map_err(|error| Error::Config(error.into()))?
    };
    config.apply_debug_overrides();
    Ok(config)
}

/// Where the environment says that kubeconfigs are.
fn kubeconfig_paths() -> Vec<PathBuf> {
    let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let named: Vec<PathBuf> = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    if !named.is_empty() {
        return named;
    }
    std::env::home_dir().into_iter().map(|home| home.join(".kube").join("config")).collect()
}

/// What is wrong with a file, without its contents: there are credentials in it.
fn wrong(path: &Path, error: KubeconfigError) -> Error {
    match error {
        KubeconfigError::Parse(error) => {
            // Below the first line the text shows the place in the file.
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Error::Config(format!("{} is no kubeconfig: {first}", path.display()).into())
        }
        error => Error::Config(error.into()),
    }
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
            let file = Kubeconfig::read_from(path).map_err(|error| wrong(path, error))?;
            let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
            config.map_err(|error| Error::Config(error.into()))?
        }
    };
    if let Some(url) = url {
        config.cluster_url = url;
    }
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
