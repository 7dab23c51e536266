use std::fmt::Display;
use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Long enough for a busy machine: only a test that fails waits so long.
const DEADLINE: Duration = Duration::from_secs(30);
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// With paused time a test may wait for hours: each call costs CPU, and no time passes otherwise.
const INTERVAL_MAX: Duration = Duration::from_secs(1);

/// The state of a condition: `bool`, `Option` or `Result`.
pub trait Awaited {
    /// What [`eventually`] returns when the condition holds.
    type Value;

    /// The value, or the reason why it is not there yet.
    fn value(self) -> Result<Self::Value, Option<String>>;
}

impl Awaited for bool {
    type Value = ();

    fn value(self) -> Result<(), Option<String>> {
        if self { Ok(()) } else { Err(None) }
    }
}

impl<T> Awaited for Option<T> {
    type Value = T;

    fn value(self) -> Result<T, Option<String>> {
        self.ok_or(None)
    }
}

impl<T, E: Display> Awaited for Result<T, E> {
    type Value = T;

    fn value(self) -> Result<T, Option<String>> {
        self.map_err(|reason| Some(reason.to_string()))
    }
}

/// Calls `condition` until it returns `true`, `Some` or `Ok`, for at most 30 s: every 10 ms at
/// first, then each time a fiftieth of the time has passed again, and at least every second.
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
///     namespaces.list(&Default::default()).await.unwrap().items.len() == 4
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
/// After 30 s, with `what`, the place of the call and the last error that `condition` returned.
#[track_caller]
pub fn eventually<T, L>(what: &str, condition: impl FnMut() -> L) -> impl Future<Output = T>
where
    L: Future<Output: Awaited<Value = T>>,
{
    eventually_within(DEADLINE, what, condition)
}

/// [`eventually`] with another deadline.
///
/// # Panics
///
/// After `deadline`, as [`eventually`].
// A closure that returns a future, because the future of an `async` closure cannot be sent to
// another thread here.
#[track_caller]
pub fn eventually_within<T, L>(
    deadline: Duration,
    what: &str,
    mut condition: impl FnMut() -> L,
) -> impl Future<Output = T>
where
    L: Future<Output: Awaited<Value = T>>,
{
    let caller = Location::caller();
    async move {
        let started = Instant::now();
        loop {
            let reason = match condition().await.value() {
                Ok(value) => return value,
                Err(reason) => reason.map(|reason| format!(": {reason}")).unwrap_or_default(),
            };
            let elapsed = started.elapsed();
            assert!(elapsed < deadline, "{caller}: did not happen within {deadline:?}: {what}{reason}");
            sleep((elapsed / 50).clamp(INTERVAL_MIN, INTERVAL_MAX).min(deadline - elapsed)).await;
        }
    }
}
