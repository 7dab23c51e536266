//! The API server that a developer works with.

use std::env;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use steersman_apiserver::{ApiServer, KubeconfigFile, Serving};
use steersman_client::{Client, Config, config_from_flags};

use crate::Error;

/// The kubeconfig of a server that outlives this process.
const VARIABLE: &str = "STEERSMAN_DEV_KUBECONFIG";

/// An API server in this process, which also listens on a socket for kubectl.
#[derive(Debug)]
pub struct EmbeddedCluster {
    serving: Serving,
    kubeconfig: KubeconfigFile,
    client: Client,
}

impl EmbeddedCluster {
    /// Starts a server on this port of the loopback interface; 0 is any free port.
    ///
    /// # Errors
    ///
    /// The port is in use, or the temporary folder cannot be written.
    pub async fn start(port: u16) -> Result<Self, Error> {
        let server = ApiServer::new();
        // Requests of the operator take no socket.
        let config = Config::new(http::Uri::from_static("http://embedded"));
        let client = Client::builder(config).build_over(server.clone())?;
        let serving = server.serve().address((Ipv4Addr::LOCALHOST, port)).start().await;
        let serving = serving.map_err(|error| match port {
            0 => Error::Server(error.into()),
            _ => Error::Flag { flag: "--port", source: error.into() },
        })?;
        let kubeconfig = serving.kubeconfig_file().map_err(|error| {
            Error::Server(format!("it cannot write a kubeconfig to the temporary folder: {error}").into())
        })?;
        Ok(Self { serving, kubeconfig, client })
    }

    /// A client with all rights.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The address for other programs.
    pub fn url(&self) -> &str {
        self.serving.url()
    }

    /// A file for kubectl, which exists as long as this value.
    pub fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    /// Stops the server.
    pub async fn stop(self) {
        self.serving.stop().await;
    }
}

/// The server of one development session.
pub(super) struct Target {
    pub(super) client: Client,
    pub(super) kubeconfig: PathBuf,
    /// The server ends with this process.
    own: Option<EmbeddedCluster>,
}

impl Target {
    /// The server that the environment names, or one of our own.
    pub(super) async fn of_environment(port: u16) -> Result<Self, Error> {
        if let Some(kubeconfig) = env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from) {
            let config = config_from_flags(None, Some(&kubeconfig)).await;
            let config = config.map_err(|error| Error::Flag { flag: VARIABLE, source: error.into() })?;
            return Ok(Self { client: Client::builder(config).build()?, kubeconfig, own: None });
        }
        let own = EmbeddedCluster::start(port).await?;
        Ok(Self { client: own.client().clone(), kubeconfig: own.kubeconfig().to_owned(), own: Some(own) })
    }

    pub(super) fn url(&self) -> &str {
        self.own.as_ref().map_or_else(|| self.client.server(), EmbeddedCluster::url)
    }

    pub(super) async fn stop(self) {
        if let Some(own) = self.own {
            own.stop().await;
        }
    }
}
