//! Connections to the server: direct or through a proxy, with TLS and credentials. Below the
//! [layers](crate::layers), above hyper.

use std::time::Duration;

use http::uri::Scheme;
use http::{Request, Uri};
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use kube_client::Config;
use kube_client::client::{AuthError, Body, ConfigExt};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use crate::Error;
use crate::error::chain;
use crate::layers::{ResponseBody, Transport};

mod connections;
mod driver;
mod gated;
mod proxy;
mod resolver;

use connections::Connections;

pub(crate) use gated::Passage;
pub(crate) use resolver::Lookups;

use resolver::Resolver;

/// After this time without traffic, TCP probes whether the server is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// The transport to the server of `config`, through its proxy if it has one.
pub(crate) fn connect(
    config: &Config,
    connect_timeout: Option<Duration>,
    lookups: &Lookups,
) -> Result<Transport, Error> {
    let mut connector = HttpConnector::new_with_resolver(Resolver::new(lookups));
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_connect_timeout(connect_timeout);
    let Some(proxy) = &config.proxy_url else { return with_connector(config, connector) };
    match proxy.scheme_str() {
        Some("http") => with_connector(config, proxy::tunnel(proxy, connector)?),
        Some("https") => {
            let connector = config.rustls_https_connector_with_connector(connector);
            let connector = connector.map_err(|error| config_error(config, error))?;
            with_connector(config, proxy::tunnel(proxy, connector)?)
        }
        Some("socks5") => with_connector(config, proxy::socks(proxy, connector)),
        _ => {
            // The address may hold a password: the error names the host alone.
            let host = proxy.host().unwrap_or_default();
            let text = format!("invalid address of the proxy {host}: expected http://, https:// or socks5://");
            Err(Error::Config(text.into()))
        }
    }
}

/// The transport over `connector`, with TLS unless the server's address begins with `http:`.
pub(crate) fn with_connector<C>(config: &Config, connector: C) -> Result<Transport, Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: std::error::Error + Send + Sync + 'static,
{
    // Without TLS, the certificates of the system are not read.
    if config.cluster_url.scheme() == Some(&Scheme::HTTP) {
        return with_config(config, connector.map_future(Box::pin));
    }
    let connector = config.rustls_https_connector_with_connector(connector);
    with_config(config, connector.map_err(|error| config_error(config, error))?)
}

/// Adds the server's address, the credentials and the headers of `config` to each request.
fn with_config<C>(config: &Config, connector: C) -> Result<Transport, Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(|error| config_error(config, error))?)
        .layer(config.extra_headers_layer().map_err(|error| config_error(config, error))?)
        .map_err(BoxError::from)
        .service(Connections::new(connector));
    Ok(boxed(service.map_err(without_credentials)))
}

/// Any service as a transport.
pub(crate) fn boxed<S, B>(service: S) -> Transport
where
    S: Service<Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = service
        .map_response(|response: http::Response<B>| {
            response.map(|body| -> ResponseBody { body.map_err(Into::into).boxed_unsync() })
        })
        .map_err(Into::into);
    BoxCloneSyncService::new(service)
}

fn config_error(config: &Config, error: kube_client::Error) -> Error {
    Error::Config(format!("{}: {}", config.cluster_url, without_credentials(error.into())).into())
}

/// Removes the output and the environment of a credential plugin from its error: they may hold
/// credentials. What the plugin wrote to stderr stays.
fn without_credentials(error: BoxError) -> BoxError {
    let plugin = "the credential plugin that the kubeconfig names";
    let cause = chain(&*error).find_map(|error| error.downcast_ref::<AuthError>());
    match cause {
        Some(AuthError::AuthExecRun { out, .. }) => {
            let stderr = String::from_utf8_lossy(&out.stderr);
            format!("{plugin} failed with {}: {}", out.status, stderr.trim()).into()
        }
        Some(AuthError::AuthExecParse(_)) => format!("{plugin} did not print an ExecCredential").into(),
        _ => error,
    }
}
