//! What the server serves: groups, versions, resources.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use k8s_openapi::apimachinery::pkg::version::Info;
use tokio::time::Instant;

use crate::{Client, Error};

mod document;
mod fetch;
pub(crate) mod similar;
pub(crate) mod snapshot;

pub use snapshot::{Cause, Discovery, Failure, ServedGroup, ServedResource, ServedSubresource, ServedVersion};

/// So many times in a row something that is missing makes the client ask the server anew …
const REFRESH_BURST: u32 = 5;
/// … and then once in that time.
const REFRESH_EVERY: Duration = Duration::from_secs(10);

impl Client {
    /// What the server serves. All clones of a client share what is known of it.
    pub fn discovery(&self) -> DiscoveryClient {
        DiscoveryClient { client: self.clone() }
    }
}

/// Tells which groups, versions and resources a server serves: what Go's `CachedDiscoveryInterface` is.
///
/// The first question asks the server, in two requests if it knows aggregated discovery (since Kubernetes 1.26), else
/// with one request for each version of each group. The answer is kept until [`invalidate`](Self::invalidate). Whoever
/// asks while a request is under way waits for its answer and makes no further one.
///
/// A group that cannot be had, because the server behind it is down, takes nothing from the others: it is named by
/// [`Discovery::failures`].
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
    /// The server's version. It is asked each time.
    pub async fn version(&self) -> Result<Info, Error> {
        self.client.rest().get().abs_path("/version").send_for().await
    }

    /// All that is known of what the server serves.
    pub async fn get(&self) -> Result<Arc<Discovery>, Error> {
        let fetch = {
            let mut state = self.cache().state();
            if let Some(known) = &state.known {
                return Ok(known.clone());
            }
            match state.underway() {
                Some((_, fetch)) => fetch,
                None => state.begin(&self.client),
            }
        };
        fetch.await.map_err(Error::Discovery)
    }

    /// Asks the server anew, and returns all that is known then. What was known before stays for others until then, and
    /// if the server does not answer.
    pub async fn refresh(&self) -> Result<Arc<Discovery>, Error> {
        let since = self.fetches();
        match self.after(since, |_| true).await? {
            Some(newer) => Ok(newer),
            None => self.get().await,
        }
    }

    /// Forgets what is known, so that the next question asks the server. An answer that is under way reaches only those
    /// who wait for it already.
    pub fn invalidate(&self) {
        let mut state = self.cache().state();
        state.known = None;
        state.underway = None;
    }

    /// The groups and their versions.
    pub async fn groups(&self) -> Result<Vec<ServedGroup>, Error> {
        Ok(self.get().await?.groups().to_vec())
    }

    /// What is in a version of a group; the core group's name is empty. `None` if there is no such version. One that
    /// could not be had is asked for once more, though not too often, and is an error if it still cannot be had.
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

    /// All resources in all versions, see [`Discovery::resources`].
    pub async fn resources(&self) -> Result<Vec<ServedResource>, Error> {
        Ok(self.get().await?.resources().cloned().collect())
    }

    /// All resources, each in one version, see [`Discovery::preferred_resources`].
    pub async fn preferred_resources(&self) -> Result<Vec<ServedResource>, Error> {
        Ok(self.get().await?.preferred_resources().cloned().collect())
    }

    /// How often the server was asked so far.
    pub(crate) fn fetches(&self) -> u64 {
        self.cache().state().fetches
    }

    /// What the server says later than `old`, for somebody who missed something there. It may be what it says already
    /// to others. `None` if that cannot help: `old` itself was asked for after the `since`th time, or things were
    /// missed too often of late.
    pub(crate) async fn newer(&self, old: &Discovery, since: u64) -> Result<Option<Arc<Discovery>>, Error> {
        if old.fetch > since {
            return Ok(None);
        }
        self.after(old.fetch, |state| state.refreshes.take(Instant::now())).await
    }

    /// What the server says when it is asked after the `since`th time. Many who want that cause one request, after the
    /// one under way, if there is one. `None` if one would have to be begun and `may_begin` says no.
    async fn after(&self, since: u64, may_begin: impl Fn(&mut State) -> bool) -> Result<Option<Arc<Discovery>>, Error> {
        loop {
            let (number, fetch) = {
                let mut state = self.cache().state();
                if let Some(known) = state.known.as_ref().filter(|known| known.fetch > since) {
                    return Ok(Some(known.clone()));
                }
                match state.underway() {
                    Some(underway) => underway,
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

    fn cache(&self) -> &Cache {
        &self.client.served
    }
}

/// What is known to all clones of a client.
#[derive(Default)]
pub(crate) struct Cache(Mutex<State>);

/// A request that several wait for. Whoever of them is polled drives it; when none is left it is dropped.
type Fetch = Shared<BoxFuture<'static, Result<Arc<Discovery>, Arc<Error>>>>;
type WeakFetch = WeakShared<BoxFuture<'static, Result<Arc<Discovery>, Arc<Error>>>>;

#[derive(Default)]
struct State {
    known: Option<Arc<Discovery>>,
    /// What came last, also if it is forgotten: the server does not have to tell that again.
    last: Option<Arc<Discovery>>,
    /// The request under way and its number, if its answer is still wanted.
    underway: Option<(u64, WeakFetch)>,
    /// How many requests were begun.
    fetches: u64,
    refreshes: Refreshes,
}

impl Cache {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn underway(&self) -> Option<(u64, Fetch)> {
        let (number, fetch) = self.underway.as_ref()?;
        Some((*number, fetch.upgrade()?))
    }

    fn begin(&mut self, client: &Client) -> Fetch {
        self.fetches += 1;
        let fetch = fetch(client.clone(), self.fetches, self.last.clone()).boxed().shared();
        self.underway = fetch.downgrade().map(|weak| (self.fetches, weak));
        fetch
    }
}

/// Asks the server, and keeps the answer unless it was said meanwhile that it would be out of date.
async fn fetch(client: Client, number: u64, last: Option<Arc<Discovery>>) -> Result<Arc<Discovery>, Arc<Error>> {
    let fetched = fetch::groups(&client, last.as_deref()).await.map_err(Arc::new);
    let mut state = client.served.state();
    let wanted = state.underway.take_if(|(underway, _)| *underway == number).is_some();
    let served = Arc::new(Discovery::new(fetched?, number));
    state.last = Some(served.clone());
    for failure in served.failures() {
        tracing::warn!(
            group = failure.group,
            version = failure.version,
            "what is in it is not known: {}",
            failure.cause
        );
    }
    if wanted {
        state.known = Some(served.clone());
    }
    Ok(served)
}

/// How often something missing may make the client ask again: a bucket of tokens that starts full.
struct Refreshes {
    left: f64,
    filled: Option<Instant>,
}

impl Default for Refreshes {
    fn default() -> Self {
        Self { left: f64::from(REFRESH_BURST), filled: None }
    }
}

impl Refreshes {
    fn take(&mut self, now: Instant) -> bool {
        let passed = self.filled.map_or(Duration::ZERO, |filled| now.saturating_duration_since(filled));
        let filled = passed.as_secs_f64() / REFRESH_EVERY.as_secs_f64();
        self.left = (self.left + filled).min(f64::from(REFRESH_BURST));
        self.filled = Some(now);
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
    async fn refreshes_are_few() {
        let mut refreshes = Refreshes::default();
        let start = Instant::now();
        let taken = |refreshes: &mut Refreshes, now| (0..100).filter(|_| refreshes.take(now)).count();
        assert_eq!(taken(&mut refreshes, start), 5);
        assert_eq!(taken(&mut refreshes, start + REFRESH_EVERY / 2), 0);
        assert_eq!(taken(&mut refreshes, start + REFRESH_EVERY * 2), 2);
        assert_eq!(taken(&mut refreshes, start + REFRESH_EVERY * 1000), 5);
    }
}
