use std::sync::Arc;
use std::time::Duration;

use steersman::finalizer::{Finalizer, FinalizerState, has_finalizer};
use steersman::{Action, Context, ObjectKey, ReconcileError, Reconciler};
use steersman::{Resource, ResourceExt};

use crate::desired::neutron_name;
use crate::error::Problem;
use crate::provider::{ObjectNetworks, Provider};
use crate::{Desired, Network, Phase, status};

/// Keeps a Network until Neutron has nothing of it any more.
pub const FINALIZER: &str = "samplecrd.k8s.io/neutron";
/// If another client was faster, the cache needs a moment to show it.
pub(crate) const SOON: Duration = Duration::from_millis(100);

/// Makes Neutron equal to the Networks. One call reconciles one Network:
///
/// 1. The Network does not exist: step 2 has removed its networks in Neutron. If its finalizer was
///    removed by force, the sweep does.
/// 2. It is being deleted: the operator deletes its networks in Neutron, then removes the
///    finalizer. Ports that are in use delay this.
/// 3. The operator lists the networks that have its handle, and creates one if there is none. It
///    writes the id of the one to keep into the status, which fails if another operator was faster.
///    Only then does it delete the others. So two operators never delete both.
/// 4. Subnets of ours with other addresses are deleted, once the API server has confirmed that the
///    spec no longer has these addresses. The one with the desired addresses is created, or
///    changed.
/// 5. The status shows the result, or the message of the server that refused. After the resync
///    period the Network is reconciled again.
///
/// The operator may be killed at any point: each step is found done, or is repeated.
#[derive(Debug)]
pub(crate) struct NetworkReconciler {
    provider: Provider,
    finalizer: Finalizer<Network>,
    resync: Duration,
}

impl NetworkReconciler {
    pub(crate) fn new(provider: Provider, resync: Duration) -> Result<Self, steersman::Error> {
        let releasing = provider.clone();
        let finalizer = Finalizer::new(FINALIZER)?.hook("neutron", move |ctx, network| {
            let provider = releasing.clone();
            async move { release(&provider, &ctx, &*network.get()?).await }
        });
        Ok(Self { provider, finalizer, resync })
    }

    /// The Network from the cache, if it exists. It has the finalizer.
    async fn wanted(&self, ctx: &Context<Network>, key: &ObjectKey) -> Result<Option<Arc<Network>>, ReconcileError> {
        let networks = ctx.client().objects::<Network>();
        let Some(network) = networks.get_opt(key).await? else { return Ok(None) };
        match self.finalizer.ensure(ctx, &network).await? {
            FinalizerState::Finalized => Ok(None),
            // The finalizer may have been written just now.
            FinalizerState::Active => Ok(Some(networks.get(key).await?.get()?)),
        }
    }

    /// Makes Neutron equal to the Network.
    async fn sync(&self, ctx: &Context<Network>, network: &Network) -> Result<(), Problem> {
        if network.meta().deletion_timestamp.is_some() || !has_finalizer(network, FINALIZER) {
            return Err(Problem::Outdated);
        }
        let handle = self.provider.handle(uid(network)?).await?;
        let desired = Desired::new(network, &handle, self.provider.project_id.as_deref())?;

        let found = self.provider.find(&handle, known(network), &neutron_name(network)).await?;
        let ObjectNetworks { kept, duplicates } = match found {
            Some(found) => found,
            None => ObjectNetworks { kept: self.provider.create(&desired).await?, duplicates: Vec::new() },
        };
        let network = if known(network) == Some(&kept.id) {
            network.clone()
        } else {
            status::update(ctx.client(), network, |status, generation| status.claim(&kept.id, generation)).await?
        };
        for duplicate in &duplicates {
            self.provider.remove_duplicate(duplicate).await?;
        }
        self.provider.repair(&desired, &kept).await?;

        let (wanted, others): (Vec<_>, Vec<_>) =
            self.provider.subnets(&kept.id).await?.into_iter().partition(|subnet| desired.has_cidr(subnet));
        // The old one first: Neutron accepts no subnet that overlaps with another. Subnets of other
        // clients stay.
        for obsolete in others.iter().filter(|subnet| subnet.description == handle.to_string()) {
            confirm(ctx, &network).await?;
            self.provider.remove_subnet(obsolete).await?;
        }
        let subnet_id = self.provider.ensure_subnet(&desired, &kept.id, wanted.first()).await?;
        status::update(ctx.client(), &network, |status, generation| status.ready(&kept.id, &subnet_id, generation))
            .await?;
        Ok(())
    }
}

impl Reconciler<Network> for NetworkReconciler {
    type Error = ReconcileError;

    async fn reconcile(&self, ctx: &Context<Network>, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(network) = self.wanted(ctx, key).await? else { return Ok(Action::done()) };
        match self.sync(ctx, &network).await {
            Ok(()) => Ok(Action::requeue_after(self.resync)),
            Err(problem) if problem.is_race() => {
                tracing::debug!(%problem, "another client was faster");
                Ok(Action::requeue_after(SOON))
            }
            Err(problem) => Err(report(ctx, key, Phase::Failed, problem).await),
        }
    }
}

/// Deletes the networks of a Network in Neutron.
async fn release(provider: &Provider, ctx: &Context<Network>, network: &Network) -> Result<(), ReconcileError> {
    let handle = provider.handle(uid(network)?).await?;
    let released = provider.release(&handle, known(network), &neutron_name(network)).await;
    let Err(error) = released else { return Ok(()) };
    let key = ObjectKey::new(&network.namespace().unwrap_or_default(), &network.name_any());
    Err(report(ctx, &key, Phase::Deleting, error.into()).await)
}

/// Writes a problem into the status, and returns it as the error of the reconcile.
async fn report(ctx: &Context<Network>, key: &ObjectKey, phase: Phase, problem: Problem) -> ReconcileError {
    if let Some(reason) = problem.reason()
        && let Err(error) = write_failure(ctx, key, phase, reason, &problem.to_string()).await
        && !error.is_race()
    {
        tracing::warn!(%error, "cannot write the status");
    }
    problem.into_failure()
}

async fn write_failure(
    ctx: &Context<Network>,
    key: &ObjectKey,
    phase: Phase,
    reason: &str,
    message: &str,
) -> Result<(), Problem> {
    // It may have been written on the way.
    let network = ctx.client().get::<Network>(key).await?;
    let network = network.get().map_err(steersman::Error::from)?;
    status::update(ctx.client(), &network, |status, generation| status.failed(phase, reason, message, generation))
        .await?;
    Ok(())
}

/// Checks with the API server that the Network is still the one in the cache, before anything is
/// deleted.
async fn confirm(ctx: &Context<Network>, network: &Network) -> Result<(), Problem> {
    let networks = ctx.client().objects::<Network>().live(network.namespace().as_deref());
    let now = networks.metadata().get_opt(&network.name_any()).await?.ok_or(Problem::Outdated)?.metadata;
    let same = now.uid == network.uid() && now.generation == network.meta().generation;
    if same && now.deletion_timestamp.is_none() { Ok(()) } else { Err(Problem::Outdated) }
}

fn uid(network: &Network) -> Result<&str, Problem> {
    // Every object from a server has a uid. Without it, the handle would match any object.
    network.meta().uid.as_deref().ok_or(Problem::Outdated)
}

/// The id of the network in Neutron, from the status.
fn known(network: &Network) -> Option<&str> {
    network.status.as_ref()?.network_id.as_deref()
}
