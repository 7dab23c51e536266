use std::sync::Arc;
use std::time::Duration;

use steersman::finalizer::{Finalizer, FinalizerState, has_finalizer};
use steersman::{Action, Context, ObjectKey, ReconcileError, Reconciler};
use steersman::{Resource, ResourceExt};

use crate::desired::neutron_name;
use crate::error::Problem;
use crate::provider::{Found, Provider};
use crate::{Desired, Network, Phase, status};

/// Holds a Network until Neutron has nothing of it any more.
pub const FINALIZER: &str = "samplecrd.k8s.io/neutron";
/// When somebody else was faster, the cache needs a moment to show it.
pub(crate) const SOON: Duration = Duration::from_millis(100);

/// Makes Neutron as Networks say. One call looks at one of them:
///
/// 1. It is gone: so is what it had in Neutron, by step 2. (If somebody took the finalizer away by
///    force: by the sweep.)
/// 2. It is being deleted: its networks are deleted in Neutron, then the finalizer is taken away.
///    Ports that are still in use hold it up.
/// 3. The networks that carry its handle are listed. If there is none, one is created. The one that
///    stays is written into the status, which fails if another operator was faster; only then are
///    others deleted. So two operators never delete both.
/// 4. Subnets of ours with other addresses are deleted, once the API server has confirmed that
///    these are not wanted any more. The one with the right addresses is created, or changed.
/// 5. The status says what was done, or in the server's own words why not. After the resync period
///    it looks again.
///
/// It may be killed anywhere: each step is found done, or is done again.
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

    /// The Network as the cache has it, if it is wanted, and has the finalizer for sure.
    async fn wanted(&self, ctx: &Context<Network>, key: &ObjectKey) -> Result<Option<Arc<Network>>, ReconcileError> {
        let networks = ctx.client().objects::<Network>();
        let Some(network) = networks.get_opt(key).await? else { return Ok(None) };
        match self.finalizer.ensure(ctx, &network).await? {
            FinalizerState::Finalized => Ok(None),
            // The finalizer may have been written just now.
            FinalizerState::Active => Ok(Some(networks.get(key).await?.get()?)),
        }
    }

    /// Makes Neutron as the Network says.
    async fn sync(&self, ctx: &Context<Network>, network: &Network) -> Result<(), Problem> {
        if network.meta().deletion_timestamp.is_some() || !has_finalizer(network, FINALIZER) {
            return Err(Problem::Outdated);
        }
        let handle = self.provider.handle(uid(network)?);
        let desired = Desired::new(network, &handle, self.provider.project_id.as_deref())?;

        let found = self.provider.find(&handle, known(network), &neutron_name(network)).await?;
        let Found { kept, duplicates } = match found {
            Some(found) => found,
            None => Found { kept: self.provider.create(&desired).await?, duplicates: Vec::new() },
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
        // First the old one: Neutron takes no subnet that overlaps with another. Those that others
        // have added are theirs.
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
                tracing::debug!(%problem, "somebody else was faster");
                Ok(Action::requeue_after(SOON))
            }
            Err(problem) => Err(report(ctx, key, Phase::Failed, problem).await),
        }
    }
}

/// Deletes what a Network has in Neutron.
async fn release(provider: &Provider, ctx: &Context<Network>, network: &Network) -> Result<(), ReconcileError> {
    let handle = provider.handle(uid(network)?);
    let released = provider.release(&handle, known(network), &neutron_name(network)).await;
    let Err(error) = released else { return Ok(()) };
    let key = ObjectKey::new(&network.namespace().unwrap_or_default(), &network.name_any());
    Err(report(ctx, &key, Phase::Deleting, error.into()).await)
}

/// Tells in the status what is wrong, and makes it the failure of the reconcile.
async fn report(ctx: &Context<Network>, key: &ObjectKey, phase: Phase, problem: Problem) -> ReconcileError {
    if let Some(reason) = problem.reason()
        && let Err(error) = tell(ctx, key, phase, reason, &problem.to_string()).await
        && !error.is_race()
    {
        tracing::warn!(%error, "the status cannot be written");
    }
    problem.into_failure()
}

async fn tell(
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

/// Asks the API server itself whether the Network is still the one that the cache has shown, before
/// something is destroyed.
async fn confirm(ctx: &Context<Network>, network: &Network) -> Result<(), Problem> {
    let networks = ctx.client().objects::<Network>().live(network.namespace().as_deref());
    let now = networks.metadata().get_opt(&network.name_any()).await?.ok_or(Problem::Outdated)?.metadata;
    let same = now.uid == network.uid() && now.generation == network.meta().generation;
    if same && now.deletion_timestamp.is_none() { Ok(()) } else { Err(Problem::Outdated) }
}

fn uid(network: &Network) -> Result<&str, Problem> {
    // Every object that a server has sent has one, and without it the handle would be anybody's.
    network.meta().uid.as_deref().ok_or(Problem::Outdated)
}

/// The id of the network in Neutron as the status has it.
fn known(network: &Network) -> Option<&str> {
    network.status.as_ref()?.network_id.as_deref()
}
