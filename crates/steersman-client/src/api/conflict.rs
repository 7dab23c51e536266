//! Retries after a conflict.

use std::time::Duration;

use steersman_world::World;

use crate::Error;

/// How many times an operation is tried, and the delays in between.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Backoff {
    /// The largest number of tries, including the first.
    pub tries: u32,
    /// The delay before the second try.
    pub delay: Duration,
    /// The factor from each delay to the next.
    pub factor: f64,
    /// The largest random addition to a delay, as a share of it.
    pub jitter: f64,
}

impl Backoff {
    /// For occasional conflicts: 5 tries, 10 ms apart. client-go's `DefaultRetry`.
    pub const RETRY: Self = Self { tries: 5, delay: Duration::from_millis(10), factor: 1.0, jitter: 0.1 };
    /// For a writer that is always active: 4 tries, 10, 50 and 250 ms apart. client-go's
    /// `DefaultBackoff`.
    pub const BACKOFF: Self = Self { tries: 4, delay: Duration::from_millis(10), factor: 5.0, jitter: 0.1 };

    /// The delay before the try with index `next`.
    fn before(&self, next: u32, world: &World) -> Duration {
        let exponent = i32::try_from(next.saturating_sub(1)).unwrap_or(i32::MAX);
        let jittered = 1.0 + self.jitter * world.random_unit();
        let seconds = self.delay.as_secs_f64() * self.factor.powi(exponent) * jittered;
        // Zero times infinity is NaN: no delay either.
        Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
    }
}

/// Runs `update` again as long as it ends in a conflict: another client has changed the object
/// since it was read. `update` must read the object each time. Any other error, and the last
/// conflict, is returned.
///
/// ```no_run
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use steersman_client::{Backoff, Client, Error, PostParams, retry_on_conflict};
/// # async fn example(client: Client) -> Result<(), Error> {
/// let deployments = client.namespaced::<Deployment>("default");
/// retry_on_conflict(Backoff::RETRY, || async {
///     let mut web = deployments.get("web").await?;
///     web.spec.get_or_insert_default().replicas = Some(3);
///     deployments.update("web", &PostParams::default(), &web).await
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
pub async fn retry_on_conflict<T, F>(backoff: Backoff, update: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    retry_if(&World::system(), backoff, Error::is_conflict, update).await
}

/// Runs `update` again as long as it ends in an error that `retries` accepts, with any type of
/// error. Returns the last error.
pub async fn retry_if<T, E, F>(
    world: &World,
    backoff: Backoff,
    retries: impl Fn(&E) -> bool,
    mut update: impl FnMut() -> F,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut tried = 0;
    loop {
        let result = update().await;
        tried += 1;
        match result {
            Err(error) if retries(&error) && tried < backoff.tries => {
                tokio::time::sleep(backoff.before(tried, world)).await;
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_and_the_shortest_delay_stay_what_they_are() {
        for factor in [1.0, 5.0, f64::MAX] {
            for next in [1, 2, 1000, u32::MAX] {
                let backoff = |delay| Backoff { delay, factor, ..Backoff::BACKOFF }.before(next, &World::system());
                assert_eq!(backoff(Duration::ZERO), Duration::ZERO, "{factor} {next}");
                assert!(backoff(Duration::MAX) >= Duration::from_secs(u64::MAX / 2), "{factor} {next}");
            }
        }
    }
}
