use std::time::Duration;

use ipnet::IpNet;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use steersman::client::DeleteParams;
use steersman::client::Preconditions;
use steersman::owner::set_controller_reference;
use steersman::runtime::EventObject;
use steersman::{Action, Cached, CachedClient, Context, ListQuery, ObjectKey, ObjectMeta, ReconcileError, Reconciler};
use steersman::{Resource, ResourceExt};

use crate::pool::{BY_BLOCK, gateway, overlapping};
use crate::reconciler::SOON;
use crate::{Network, NetworkSpec, Pool};

/// The label of Deployments that want a Network: `true`.
pub const NETWORK_LABEL: &str = "samplecrd.k8s.io/network";
/// The reason for a missing Network: all addresses are in use.
const EXHAUSTED: &str = "CIDRPoolExhausted";
/// The annotation of automatic Networks: the block that it was given.
pub const ALLOCATED_ANNOTATION: &str = "samplecrd.k8s.io/allocated-cidr";

/// The condition of Deployments that could not be given a Network.
pub const ALLOCATED_CONDITION: &str = "NetworkAllocated";

/// Gives Deployments a Network of their own: of the same name, owned by them, its addresses from a
/// [`Pool`].
///
/// The block is chosen once, when the Network is created, and stays the same. With one operator it
/// is unique, because the next choice sees this one in the cache. Two operators can choose the same
/// block at the same time. The first operator that sees both Networks then deletes the younger one,
/// and it is created again.
///
/// If a Deployment has no Network, an Event and the condition [`ALLOCATED_CONDITION`] of the
/// Deployment give the reason. The condition also shows when that is over. Other conditions belong
/// to the controller of Deployments, which does not change conditions that it does not know.
#[derive(Debug)]
pub(crate) struct DeploymentReconciler {
    /// Whether Deployments without the label get a Network, too.
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
            // The Deployment is deleted, or wants no Network any more. Garbage collection may be
            // faster.
            (None, Some(network)) if is_of_deployment(&network) => self.delete_unwanted(client, &network).await,
            (None, Some(_)) => Ok(Action::done()),
            (Some(deployment), None) => {
                self.create(ctx, &*deployment.get()?).await?;
                Ok(Action::requeue_after(self.resync))
            }
            (Some(deployment), Some(network)) if is_controlled_by(&network, deployment.meta().uid()) => {
                self.resolve_collision(client, &network).await?;
                let deployment = deployment.get()?;
                if allocated_condition(&deployment).is_some() {
                    set_allocated(client, &deployment, "True", "Allocated", "it has a Network").await?;
                }
                Ok(Action::requeue_after(self.resync))
            }
            // It belongs to a deleted Deployment of the same name. Its deletion triggers another
            // reconcile.
            (Some(_), Some(network)) if is_of_deployment(&network) => self.delete_unwanted(client, &network).await,
            (Some(deployment), Some(_)) => {
                let message = format!("the Network {} exists and does not belong to this Deployment", key.name());
                let deployment = EventObject::cached(&deployment);
                ctx.events().warning(deployment, "NetworkNameTaken", "CreateNetwork", message);
                Ok(Action::requeue_after(self.resync))
            }
        }
    }
}

impl DeploymentReconciler {
    async fn create(&self, ctx: &Context<Deployment>, deployment: &Deployment) -> Result<(), ReconcileError> {
        let client = ctx.client();
        let Some(block) = self.free_block(client).await? else {
            let message = format!("no addresses left for a Network: all of {} is in use", self.pool);
            ctx.events().warning(deployment, EXHAUSTED, "CreateNetwork", &*message);
            match set_allocated(client, deployment, "False", EXHAUSTED, &message).await {
                // It is retried anyway.
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

    /// The first block of the pool that overlaps with no Network.
    async fn free_block(&self, client: &CachedClient) -> Result<Option<IpNet>, steersman::Error> {
        for block in self.pool.blocks() {
            if !is_taken(client, block).await? {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }

    /// Deletes the Network of a Deployment that does not exist or wants none, after a check with
    /// the API server. The cache of Deployments may be behind that of Networks, which another
    /// operator has created.
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

    /// Of all automatic Networks with the same block, deletes all but the oldest.
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
            tracing::warn!(network = %younger.key(), block, "another operator chose the same block: choosing another one");
            delete(client, younger).await?;
        }
        Ok(())
    }
}

/// The present condition of the Deployment about its Network.
fn allocated_condition(deployment: &Deployment) -> Option<&DeploymentCondition> {
    let conditions = deployment.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == ALLOCATED_CONDITION)
}

/// Sets the condition of the Deployment about its Network, if it has changed.
async fn set_allocated(
    client: &CachedClient,
    deployment: &Deployment,
    status: &str,
    reason: &str,
    message: &str,
) -> Result<(), steersman::Error> {
    let before = allocated_condition(deployment);
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

/// The block that an automatic Network was given, if its spec still has it.
fn allocated(network: &Cached<Network>) -> Result<Option<String>, ReconcileError> {
    let Some(block) = network.meta().annotation(ALLOCATED_ANNOTATION) else { return Ok(None) };
    let unchanged = network.get()?.spec.cidr == block;
    Ok(unchanged.then(|| block.to_owned()))
}

/// Whether a Network was created for a Deployment of its name.
fn is_of_deployment(network: &Cached<Network>) -> bool {
    let meta = network.meta();
    let owner = meta.controller();
    owner.is_some_and(|owner| owner.kind == Deployment::kind(&()) && owner.name == meta.name())
        && meta.annotation(ALLOCATED_ANNOTATION).is_some()
}

fn is_controlled_by(network: &Cached<Network>, uid: &str) -> bool {
    network.meta().controller().is_some_and(|owner| owner.uid == uid)
}

/// Deletes exactly this Network, not a later one of the same name.
async fn delete(client: &CachedClient, network: &Cached<Network>) -> Result<(), ReconcileError> {
    let uid = Some(network.meta().uid().to_owned());
    let preconditions = Some(Preconditions { uid, ..Preconditions::default() });
    let params = DeleteParams { preconditions, ..DeleteParams::default() };
    match client.objects::<Network>().delete(&network.key(), &params).await {
        Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
        _ => Ok(()),
    }
}
