use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use steersman::Client;
use tokio::sync::OnceCell;

use crate::error::Problem;
use crate::{ClusterId, Error};

/// A namespace that every cluster has. Its uid identifies the cluster.
pub(crate) const NAMESPACE: &str = "kube-system";

/// The cluster that the operator works for. Clones share its id.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    id: Arc<OnceCell<ClusterId>>,
    client: Client,
}

impl Cluster {
    /// The cluster with this id. Without one, it is read from the API server when it is first
    /// needed, because an operator that is set up has sent nothing yet.
    pub(crate) fn new(id: Option<ClusterId>, client: Client) -> Self {
        Self { id: Arc::new(OnceCell::new_with(id)), client }
    }

    /// The id of the cluster in Neutron.
    pub(crate) async fn id(&self) -> Result<&ClusterId, Problem> {
        self.id.get_or_try_init(|| self.read()).await.map_err(Problem::ClusterId)
    }

    async fn read(&self) -> Result<ClusterId, Error> {
        let namespace = self.client.cluster::<Namespace>().get(NAMESPACE).await?;
        namespace.metadata.uid.unwrap_or_default().parse()
    }
}
