use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Long enough for a busy machine: only a test that fails waits so long.
const DEADLINE: Duration = Duration::from_secs(30);
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// With paused time a test may wait for hours: each look costs CPU, and no time passes otherwise.
const INTERVAL_MAX: Duration = Duration::from_secs(1);

/// Calls `look` until it returns a value, for at most 30 s: every 10 ms at first, then each time a
/// tenth of the time has passed again, and at least every second.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
/// use k8s_openapi::api::core::v1::Namespace;
/// use kube_client::Api;
/// use steersman_testing::{Embedded, eventually};
///
/// let namespaces: Api<Namespace> = Api::all(Embedded::start().kube_client());
/// let default = eventually("the namespace exists", || async { namespaces.get_opt("default").await.unwrap() }).await;
/// assert_eq!(default.metadata.name.unwrap(), "default");
///
/// // A condition without a value:
/// eventually("there are four namespaces", || async {
///     let found = namespaces.list(&Default::default()).await.unwrap();
///     (found.items.len() == 4).then_some(())
/// })
/// .await;
/// # }
/// ```
///
/// The time is tokio's. With paused time it passes as soon as all tasks wait, so a test does not
/// wait at all.
///
/// # Panics
///
/// After 30 s, with `what` and the place of the call.
#[track_caller]
pub fn eventually<T, L: Future<Output = Option<T>>>(what: &str, look: impl FnMut() -> L) -> impl Future<Output = T> {
    eventually_within(DEADLINE, what, look)
}

/// [`eventually`] with another deadline.
///
/// # Panics
///
/// After `deadline`, with `what` and the place of the call.
// A closure that returns a future, because the future of an `async` closure cannot be sent to
// another thread here.
#[track_caller]
pub fn eventually_within<T, L: Future<Output = Option<T>>>(
    deadline: Duration,
    what: &str,
    mut look: impl FnMut() -> L,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        let started = Instant::now();
        loop {
            if let Some(found) = look().await {
                return found;
            }
            let elapsed = started.elapsed();
            assert!(elapsed < deadline, "{caller}: did not happen within {deadline:?}: {what}");
            sleep((elapsed / 10).clamp(INTERVAL_MIN, INTERVAL_MAX).min(deadline - elapsed)).await;
        }
    }
}
