use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use steersman::client::DeleteParams;
use steersman::client::Preconditions;
use steersman::owner::set_controller_reference;
use steersman::{Action, Cached, CachedClient, Context, ListQuery, ObjectKey, ObjectMeta, ReconcileError, Reconciler};
use steersman::{Resource, ResourceExt};

use crate::pool::{BY_BLOCK, gateway, overlapping};
use crate::reconciler::SOON;
use crate::{Network, NetworkSpec, Pool, event};

/// The label of Deployments that want a Network: `true`.
pub const NETWORK_LABEL: &str = "samplecrd.k8s.io/network";
/// Why there is no Network: all addresses are taken.
const EXHAUSTED: &str = "CIDRPoolExhausted";
/// The annotation of automatic Networks: the block that it was given.
pub const ALLOCATED_ANNOTATION: &str = "samplecrd.k8s.io/allocated-cidr";

/// The condition of Deployments that could not be given a Network.
pub const ALLOCATED_CONDITION: &str = "NetworkAllocated";

/// Gives Deployments a Network of their own: of the same name, owned by them, its addresses from a
/// [`Pool`].
///
/// The block is chosen once, when the Network is created, and so stays the same. With one operator
/// it is unique, because the next choice sees this one in the cache. Two operators can choose the
/// same at once: then the younger Network is deleted and made anew, by whoever sees both first.
///
/// Why a Deployment has no Network is told by an Event, and by the condition
/// [`ALLOCATED_CONDITION`] of the Deployment, which says when that is over, too. Its other
/// conditions are its controller's, which in turn leaves alone those that it does not know.
#[derive(Debug)]
pub(crate) struct DeploymentReconciler {
    /// Whether those without the label want one too.
    pub(crate) all: bool,
    pub(crate) pool: Pool,
    pub(crate) resync: Duration,
}

impl Reconciler<Deployment> for DeploymentReconciler {
    type Error = ReconcileError;

    async fn reconcile(&self, ctx: &Context<Deployment>, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let client = ctx.client();
        let network = client.objects::<Network>().get_opt(key).await?;
        let deployment = client.objects::<Deployment>().get_opt(key).await?;
        let deployment = deployment.filter(|deployment| deployment.meta().deletion_timestamp().is_none());
        match (deployment, network) {
            (None, None) => Ok(Action::done()),
            // Gone, or wants none any more. Garbage collection may be faster.
            (None, Some(network)) if is_of_deployment(&network) => self.delete_unwanted(client, &network).await,
            (None, Some(_)) => Ok(Action::done()),
            (Some(deployment), None) => {
                self.create(client, &*deployment.get()?).await?;
                Ok(Action::requeue_after(self.resync))
            }
            (Some(deployment), Some(network)) if is_controlled_by(&network, deployment.meta().uid()) => {
                self.resolve_collision(client, &network).await?;
                let deployment = deployment.get()?;
                if told(&deployment).is_some() {
                    tell(client, &deployment, "True", "Allocated", "it has a Network").await?;
                }
                Ok(Action::requeue_after(self.resync))
            }
            // Of one that had the same name. When it is gone, this is called again.
            (Some(_), Some(network)) if is_of_deployment(&network) => self.delete_unwanted(client, &network).await,
            (Some(deployment), Some(_)) => {
                let message = format!("there is a Network {} already, which is not this Deployment's", key.name());
                event::warn(client.live(), &*deployment.get()?, "NetworkNameTaken", &message).await?;
                Ok(Action::requeue_after(self.resync))
            }
        }
    }
}

impl DeploymentReconciler {
    async fn create(&self, client: &CachedClient, deployment: &Deployment) -> Result<(), ReconcileError> {
        let Some(block) = self.free_block(client).await? else {
            let message = format!("no addresses are left for its Network: all of {} is taken", self.pool);
            event::warn(client.live(), deployment, EXHAUSTED, &message).await?;
            match tell(client, deployment, "False", EXHAUSTED, &message).await {
                // It is tried again anyhow.
                Err(error) if !error.is_conflict() => return Err(error.into()),
                _ => return Err(ReconcileError::message(message)),
            }
        };
        let metadata = ObjectMeta {
            name: Some(deployment.name_any()),
            namespace: deployment.namespace(),
            annotations: Some([(ALLOCATED_ANNOTATION.to_owned(), block.to_string())].into()),
            ..ObjectMeta::default()
        };
        let spec = NetworkSpec::new(block.to_string(), gateway(block).to_string());
        let mut network = Network { metadata, ..Network::new("", spec) };
        set_controller_reference(deployment, &mut network)?;
        client.create(&network).await?;
        tracing::info!(cidr = %block, "created a Network for the Deployment");
        Ok(())
    }

    /// The first block of the pool that no Network has any part of.
    async fn free_block(&self, client: &CachedClient) -> Result<Option<IpNet>, steersman::Error> {
        for block in self.pool.blocks() {
            if !is_taken(client, block).await? {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// Deletes the Network of a Deployment that is not there, or wants none: by the word of the API
    /// server itself. The cache of Deployments may be behind that of Networks, which another
    /// operator has made.
    async fn delete_unwanted(
        &self,
        client: &CachedClient,
        network: &Cached<Network>,
    ) -> Result<Action, ReconcileError> {
        let meta = network.meta();
        let deployments = client.live().namespaced::<Deployment>(meta.namespace()).metadata();
        let wanted = deployments.get_opt(meta.name()).await?.is_some_and(|deployment| {
            let owner = deployment.metadata;
            let labelled =
                owner.labels.is_some_and(|labels| labels.get(NETWORK_LABEL).is_some_and(|value| value == "true"));
            owner.uid.is_some_and(|uid| is_controlled_by(network, &uid))
                && owner.deletion_timestamp.is_none()
                && (self.all || labelled)
        });
        if wanted {
            return Ok(Action::requeue_after(SOON));
        }
        delete(client, network).await?;
        Ok(Action::done())
    }

    /// Deletes all automatic Networks with the same block but the oldest.
    async fn resolve_collision(&self, client: &CachedClient, network: &Cached<Network>) -> Result<(), ReconcileError> {
        let Some(block) = allocated(network)? else { return Ok(()) };
        let mut same = Vec::new();
        for other in client.objects::<Network>().list(&ListQuery::all().index(BY_BLOCK, &block)).await? {
            if allocated(&other)?.is_some() {
                same.push(other);
            }
        }
        same.sort_by_key(|other| (other.meta().creation_timestamp().to_owned(), other.meta().uid().to_owned()));
        for younger in same.iter().skip(1) {
            tracing::warn!(network = %younger.key(), block, "another operator chose the same block at once: choosing anew");
            delete(client, younger).await?;
        }
        Ok(())
    }
}

/// What the Deployment's status says of its Network so far.
fn told(deployment: &Deployment) -> Option<&DeploymentCondition> {
    let conditions = deployment.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == ALLOCATED_CONDITION)
}

/// Says in the Deployment's status whether it has a Network, unless it says so already.
async fn tell(
    client: &CachedClient,
    deployment: &Deployment,
    status: &str,
    reason: &str,
    message: &str,
) -> Result<(), steersman::Error> {
    let before = told(deployment);
    let (reason, message) = (Some(reason.to_owned()), Some(message.to_owned()));
    if before.is_some_and(|before| (&*before.status, &before.reason, &before.message) == (status, &reason, &message)) {
        return Ok(());
    }
    let now = Some(Time(Timestamp::now()));
    let since = before.filter(|before| before.status == status).and_then(|before| before.last_transition_time.clone());
    let condition = DeploymentCondition {
        type_: ALLOCATED_CONDITION.to_owned(),
        status: status.to_owned(),
        reason,
        message,
        last_transition_time: since.or_else(|| now.clone()),
        last_update_time: now,
    };
    let mut wanted = deployment.clone();
    let conditions = wanted.status.get_or_insert_default().conditions.get_or_insert_default();
    conditions.retain(|other| other.type_ != ALLOCATED_CONDITION);
    conditions.push(condition);
    client.update_status(&wanted).await?;
    Ok(())
}

async fn is_taken(client: &CachedClient, block: IpNet) -> Result<bool, steersman::Error> {
    let networks = client.objects::<Network>();
    for value in overlapping(block) {
        if !networks.list(&ListQuery::all().index(BY_BLOCK, &value)).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The block that an automatic Network was given, if that is still what its spec says.
fn allocated(network: &Cached<Network>) -> Result<Option<String>, ReconcileError> {
    let Some(block) = network.meta().annotation(ALLOCATED_ANNOTATION) else { return Ok(None) };
    let unchanged = network.get()?.spec.cidr == block;
    Ok(unchanged.then(|| block.to_owned()))
}

/// Whether a Network was made for a Deployment of its name.
fn is_of_deployment(network: &Cached<Network>) -> bool {
    let meta = network.meta();
    let owner = meta.controller();
    owner.is_some_and(|owner| owner.kind == Deployment::kind(&()) && owner.name == meta.name())
        && meta.annotation(ALLOCATED_ANNOTATION).is_some()
}

fn is_controlled_by(network: &Cached<Network>, uid: &str) -> bool {
    network.meta().controller().is_some_and(|owner| owner.uid == uid)
}

/// Deletes this very Network, not one that has its name by now.
async fn delete(client: &CachedClient, network: &Cached<Network>) -> Result<(), ReconcileError> {
    let uid = Some(network.meta().uid().to_owned());
    let preconditions = Some(Preconditions { uid, ..Preconditions::default() });
    let params = DeleteParams { preconditions, ..DeleteParams::default() };
    match client.objects::<Network>().delete(&network.key(), &params).await {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
        _ => Ok(()),
    }
}
