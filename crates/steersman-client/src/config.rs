//! Where the server is and who asks.

use std::path::Path;

use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig};

use crate::Error;

/// The configuration that the environment gives: the files in `KUBECONFIG`, else `~/.kube/config`, else, in a Pod, its
/// service account.
pub async fn config_from_environment() -> Result<Config, Error> {
    Config::infer().await.map_err(|error| Error::Config(error.into()))
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
            let file = Kubeconfig::read_from(path).map_err(|error| Error::Config(error.into()))?;
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
