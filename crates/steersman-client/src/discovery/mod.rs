//! Discovery: the groups, versions and resources that the server serves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use k8s_openapi::apimachinery::pkg::version::Info;
use tokio::time::Instant;

use crate::{Client, Error};

mod document;
mod fetch;
mod rest_mapper;
mod similar;
mod snapshot;

pub use rest_mapper::{MappingError, RestMapper};
pub use snapshot::{
    Discovery, DiscoveryCause, DiscoveryFailure, ServedGroup, ServedResource, ServedSubresource, ServedVersion,
};

/// How many lookups in a row may refresh discovery because they found nothing …
const REFRESH_BURST: u32 = 5;
/// … and the interval between such refreshes after that.
const REFRESH_EVERY: Duration = Duration::from_secs(10);

impl Client {
    /// Discovery. All clones of a client share its cache.
    pub fn discovery(&self) -> DiscoveryClient {
        DiscoveryClient { client: self.clone() }
    }
}

/// Knows which groups, versions and resources the server serves, as Go's
/// `CachedDiscoveryInterface` does.
///
/// The first call asks the server: two requests if it has aggregated discovery (since Kubernetes
/// 1.26), else one request for each version of each group. The result is cached until
/// [`invalidate`](Self::invalidate). Concurrent calls share one request.
///
/// A group whose server is down does not affect the others: [`Discovery::failures`] names it.
///
/// ```no_run
/// # async fn example(client: steersman_client::Client) -> Result<(), steersman_client::Error> {
/// let served = client.discovery().get().await?;
/// for resource in served.preferred_resources().filter(|resource| resource.supports("list")) {
///     println!("{} {}", resource.resource.api_version, resource.resource.plural);
/// }
/// for failure in served.failures() {
///     println!("not known: {failure}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct DiscoveryClient {
    client: Client,
}

impl DiscoveryClient {
    /// The server's version. Not cached.
    pub async fn version(&self) -> Result<Info, Error> {
        self.client.rest().get().abs_path("/version").send_for().await
    }

    /// The cached discovery, or the server's if there is none.
    pub async fn get(&self) -> Result<Arc<Discovery>, Error> {
        let fetch = {
            let mut state = self.cache().state();
            if let Some(known) = &state.current {
                return Ok(known.clone());
            }
            match state.in_flight() {
                Some((_, fetch)) => fetch,
                None => state.begin(&self.client),
            }
        };
        fetch.await.map_err(Error::Discovery)
    }

    /// Asks the server and returns the result. Other callers get the cached discovery until then,
    /// and if the request fails.
    pub async fn refresh(&self) -> Result<Arc<Discovery>, Error> {
        let since = self.fetches();
        match self.after(since, |_| true).await? {
            Some(newer) => Ok(newer),
            None => self.get().await,
        }
    }

    /// Drops the cached discovery, so the next call asks the server. A request in flight completes
    /// for its callers alone.
    pub fn invalidate(&self) {
        let mut state = self.cache().state();
        state.current = None;
        state.in_flight = None;
    }

    /// The resources in a version of a group, or `None` if there is no such version. The core
    /// group's name is empty. If the version failed, it is requested once more, within a rate
    /// limit; if it fails again, the result is an error.
    pub async fn resources_of(&self, group: &str, version: &str) -> Result<Option<Vec<ServedResource>>, Error> {
        let since = self.fetches();
        let mut served = self.get().await?;
        loop {
            let Some(found) = served.group(group).and_then(|group| group.version(version)) else { return Ok(None) };
            let Some(failure) = &found.failure else { return Ok(Some(found.resources.clone())) };
            match self.newer(&served, since).await? {
                Some(newer) => served = newer,
                None => return Err(failure.error(group, version)),
            }
        }
    }

    /// How many requests have begun.
    pub(crate) fn fetches(&self) -> u64 {
        self.cache().state().fetches
    }

    /// A discovery that is newer than `old`, for a lookup that found nothing in `old`. `None` if a
    /// newer one cannot help: `old` comes from a fetch after number `since`, or the budget of
    /// refreshes is used up.
    pub(crate) async fn newer(&self, old: &Discovery, since: u64) -> Result<Option<Arc<Discovery>>, Error> {
        if old.fetch > since {
            return Ok(None);
        }
        self.after(old.fetch, |state| state.refresh_budget.take(Instant::now())).await
    }

    /// The result of a fetch after number `since`. Concurrent callers share one fetch, which begins
    /// after the one in flight. `None` if a fetch would have to begin and `may_begin` refuses.
    async fn after(&self, since: u64, may_begin: impl Fn(&mut State) -> bool) -> Result<Option<Arc<Discovery>>, Error> {
        loop {
            let (number, fetch) = {
                let mut state = self.cache().state();
                if let Some(known) = state.current.as_ref().filter(|known| known.fetch > since) {
                    return Ok(Some(known.clone()));
                }
                match state.in_flight() {
                    Some(in_flight) => in_flight,
                    None if !may_begin(&mut state) => return Ok(None),
                    None => {
                        let fetch = state.begin(&self.client);
                        (state.fetches, fetch)
                    }
                }
            };
            let result = fetch.await;
            if number > since {
                return result.map(Some).map_err(Error::Discovery);
            }
        }
    }

    fn cache(&self) -> &DiscoveryCache {
        &self.client.discovery_cache
    }
}

/// The discovery that all clones of a client share.
#[derive(Default)]
pub(crate) struct DiscoveryCache(Mutex<State>);

/// A shared fetch. The waiting callers poll it; when all are dropped, so is the fetch.
type Fetch = Shared<BoxFuture<'static, Result<Arc<Discovery>, Arc<Error>>>>;
type WeakFetch = WeakShared<BoxFuture<'static, Result<Arc<Discovery>, Arc<Error>>>>;

#[derive(Default)]
struct State {
    current: Option<Arc<Discovery>>,
    /// The latest result, even if it was invalidated: its etags spare the server a full response.
    last: Option<Arc<Discovery>>,
    /// The fetch in flight and its number, unless it was invalidated.
    in_flight: Option<(u64, WeakFetch)>,
    /// How many fetches have begun.
    fetches: u64,
    refresh_budget: RefreshBudget,
}

impl DiscoveryCache {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn in_flight(&self) -> Option<(u64, Fetch)> {
        let (number, fetch) = self.in_flight.as_ref()?;
        Some((*number, fetch.upgrade()?))
    }

    fn begin(&mut self, client: &Client) -> Fetch {
        self.fetches += 1;
        let fetch = fetch(client.clone(), self.fetches, self.last.clone()).boxed().shared();
        self.in_flight = fetch.downgrade().map(|weak| (self.fetches, weak));
        fetch
    }
}

/// Asks the server, and caches the result unless it was invalidated in the meantime.
async fn fetch(client: Client, number: u64, last: Option<Arc<Discovery>>) -> Result<Arc<Discovery>, Arc<Error>> {
    let fetched = fetch::groups(&client, last.as_deref()).await.map_err(Arc::new);
    let mut state = client.discovery_cache.state();
    let wanted = state.in_flight.take_if(|(in_flight, _)| *in_flight == number).is_some();
    let served = Arc::new(Discovery::new(fetched?, number));
    state.last = Some(served.clone());
    for failure in served.failures() {
        tracing::warn!(
            group = failure.group,
            version = failure.version,
            error = %failure.cause,
            "discovery of a group version failed"
        );
    }
    if wanted {
        state.current = Some(served.clone());
    }
    Ok(served)
}

/// Limits the refreshes of lookups that found nothing: a token bucket that starts full.
struct RefreshBudget {
    left: f64,
    refilled_at: Option<Instant>,
}

impl Default for RefreshBudget {
    fn default() -> Self {
        Self { left: f64::from(REFRESH_BURST), refilled_at: None }
    }
}

impl RefreshBudget {
    fn take(&mut self, now: Instant) -> bool {
        let passed = self.refilled_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let refilled = passed.as_secs_f64() / REFRESH_EVERY.as_secs_f64();
        self.left = (self.left + refilled).min(f64::from(REFRESH_BURST));
        self.refilled_at = Some(now);
        let taken = self.left >= 1.0;
        if taken {
            self.left -= 1.0;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refreshes_are_limited() {
        let mut refresh_budget = RefreshBudget::default();
        let start = Instant::now();
        let taken = |refresh_budget: &mut RefreshBudget, now| (0..100).filter(|_| refresh_budget.take(now)).count();
        assert_eq!(taken(&mut refresh_budget, start), 5);
        assert_eq!(taken(&mut refresh_budget, start + REFRESH_EVERY / 2), 0);
        assert_eq!(taken(&mut refresh_budget, start + REFRESH_EVERY * 2), 2);
        assert_eq!(taken(&mut refresh_budget, start + REFRESH_EVERY * 1000), 5);
    }
}
