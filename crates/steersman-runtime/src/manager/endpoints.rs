//! The HTTP servers of a manager: metrics and probes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use steersman_http::{Listen, Router, ServeError};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Group, Life, Manager, WeakManager};
use crate::StopSignal;
use crate::metrics::BoundMetrics;
use crate::probes::BoundProbes;

/// How often the runtime shows that it makes progress, and how late it may be.
const TICK: Duration = Duration::from_secs(1);
const TICK_LATE: Duration = Duration::from_secs(15);

/// The servers that a manager has.
#[derive(Debug, Default)]
pub(super) struct Endpoints {
    pub(super) metrics: Option<BoundMetrics>,
    pub(super) probes: Option<BoundProbes>,
    pub(super) settings: EndpointSettings,
}

/// Where the servers of a manager listen, as its program has set it.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct EndpointSettings {
    /// With whether it is secure.
    pub(super) metrics: Option<(Listen, bool)>,
    pub(super) probes: Option<Listen>,
}

/// The port of a server, unless only this machine reaches it.
pub(super) fn reachable_port(listen: Listen) -> Option<u16> {
    match listen {
        Listen::AllInterfaces(port) => Some(port),
        Listen::At(address) => (!address.ip().is_loopback()).then(|| address.port()),
    }
}

impl Endpoints {
    /// Where the metrics and the probes are served.
    pub(super) fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let metrics = self.metrics.as_ref().map(BoundMetrics::address);
        (metrics, self.probes.as_ref().map(BoundProbes::address))
    }

    /// Lets the manager run the servers.
    pub(super) fn add_to(self, manager: &Manager) {
        // A manager that has not been started takes every server.
        if let Some(server) = self.metrics {
            let (metrics, client) = (manager.metrics().clone(), manager.client().live().clone());
            let mut router = Router::new();
            if server.has_debug_pages {
                router = manager.debug_routes(router);
            }
            let _ = manager.add_to(Group::Endpoints, "metrics", move |stop| {
                let (address, debug_pages) = (server.address(), server.has_debug_pages);
                tracing::info!(%address, secure = server.is_secure, debug_pages, "serving metrics");
                server.run(metrics, router, client, stop)
            });
        }
        if let Some(probes) = self.probes {
            let weak = manager.downgrade();
            let leadership = manager.leadership().cloned();
            let _ = manager.add_to(Group::Endpoints, "probes", move |stop| {
                let mut probes = probes;
                tracing::info!(address = %probes.address(), "serving probes");
                if let Some(leadership) = leadership {
                    probes.health.add("leader-election", move || std::future::ready(leadership.watchdog()));
                }
                let weak = Arc::new(weak);
                probes.ready.add("caches", move || std::future::ready(is_ready(&weak)));
                run_probes(probes, stop)
            });
        }
    }
}

async fn run_probes(mut probes: BoundProbes, stop: StopSignal) -> Result<(), ServeError> {
    let ticked = Arc::new(Mutex::new(Instant::now()));
    let last = Arc::clone(&ticked);
    probes.health.add("runtime", move || std::future::ready(is_on_time(*lock(&last), Instant::now())));
    let ticking = async {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            *lock(&ticked) = Instant::now();
        }
    };
    tokio::select! {
        biased;
        served = probes.run(stop) => served,
        () = ticking => Ok(()),
    }
}

fn lock(instant: &Mutex<Instant>) -> std::sync::MutexGuard<'_, Instant> {
    instant.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn is_on_time(ticked: Instant, now: Instant) -> Result<(), String> {
    let late = now.saturating_duration_since(ticked);
    if late > TICK_LATE {
        return Err(format!("the runtime has run no task for {} s", late.as_secs()));
    }
    Ok(())
}

fn is_ready(manager: &WeakManager) -> Result<(), String> {
    let manager = manager.upgrade().map_err(|error| error.to_string())?;
    if manager.is_ready() {
        return Ok(());
    }
    if matches!(manager.state().life, Life::Ended) {
        return Err("the manager is stopping".to_owned());
    }
    let waiting: Vec<_> = manager.inner.caches.waiting().iter().map(ToString::to_string).collect();
    Err(format!("not all caches have synced: {}", waiting.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_is_stuck_is_not_on_time() {
        let ticked = Instant::now();
        assert_eq!(is_on_time(ticked, ticked + Duration::from_secs(15)), Ok(()));
        assert!(is_on_time(ticked, ticked + Duration::from_secs(16)).is_err());
    }
}
