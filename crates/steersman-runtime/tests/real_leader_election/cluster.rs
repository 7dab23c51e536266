//! A real server, and the judge: what its audit log shows about the replicas.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_client::{Client, ObjectMeta, PostParams};
use steersman_testing::{AuditEvent, RealServer, eventually_within};
use tokio::sync::{Mutex, MutexGuard};

/// The Lease of the replicas.
pub(crate) const LEASE: &str = "operator";
/// The ConfigMap that the leader writes again and again.
pub(crate) const BEAT: &str = "beat";
/// How long something that must happen may take. Less than the fallback poll of the replicas.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// One server for all tests, which use it one after another: replicas renew every second, and two
/// cores do not run a dozen of them in time.
static SERVER: Mutex<Option<RealServer>> = Mutex::const_new(None);

pub(crate) struct Cluster {
    server: MutexGuard<'static, Option<RealServer>>,
    pub(crate) namespace: String,
    client: Client,
}

/// A write of the Lease that the server carried out.
#[derive(Debug, Clone)]
pub(crate) struct LeaseWrite {
    pub(crate) by: String,
    pub(crate) holder: String,
    pub(crate) received: Timestamp,
    pub(crate) done: Timestamp,
}

/// A write of the ConfigMap.
#[derive(Debug, Clone)]
pub(crate) struct Beat {
    pub(crate) by: String,
    pub(crate) received: Timestamp,
    pub(crate) code: u16,
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        let mut server = SERVER.lock().await;
        if server.is_none() {
            *server = Some(RealServer::builder().audit_log().start().await.unwrap());
        }
        let started = server.as_ref().unwrap();
        let namespace = started.namespace("lease").await.unwrap();
        // It ends with the runtime of this test.
        let client = started.client().await.unwrap();
        let metadata = ObjectMeta { name: Some(BEAT.into()), ..ObjectMeta::default() };
        let beat = ConfigMap { metadata, ..ConfigMap::default() };
        client.namespaced(&namespace).create(&PostParams::default(), &beat).await.unwrap();
        Self { server, namespace, client }
    }

    pub(crate) fn server(&self) -> &RealServer {
        self.server.deref().as_ref().unwrap()
    }

    pub(crate) fn server_mut(&mut self) -> &mut RealServer {
        self.server.deref_mut().as_mut().unwrap()
    }

    pub(crate) async fn lease(&self) -> LeaseSpec {
        self.client.namespaced::<Lease>(&self.namespace).get(LEASE).await.unwrap().spec.unwrap()
    }

    /// The requests for an object of this test.
    pub(crate) fn requests(&self, resource: &str, name: &str) -> Vec<AuditEvent> {
        let mut events = self.server().audit_log().unwrap();
        events.retain(|event| {
            let object = &event.object_ref;
            // A watch of one object has its name in the query, and a create in the body.
            let is_named = object.name == name || object.name.is_empty();
            object.resource == resource && object.namespace == self.namespace && is_named
        });
        events.sort_by_key(|event| event.stage_timestamp);
        events
    }

    pub(crate) fn lease_writes(&self) -> Vec<LeaseWrite> {
        let events = self.requests("leases", LEASE).into_iter().filter(AuditEvent::is_done_write);
        events
            .map(|event| LeaseWrite {
                by: event.user_agent.trim_end_matches("/leader-election").to_owned(),
                holder: event.request_object["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned(),
                received: event.request_received_timestamp,
                done: event.stage_timestamp,
            })
            .collect()
    }

    pub(crate) fn beats(&self) -> Vec<Beat> {
        let events = self.requests("configmaps", BEAT).into_iter().filter(|event| event.verb == "update");
        events
            .map(|event| Beat {
                by: event.user_agent,
                received: event.request_received_timestamp,
                code: event.response_status.code,
            })
            .collect()
    }

    /// The time of the last request in the log.
    pub(crate) fn now(&self) -> Timestamp {
        self.server().audit_log().unwrap().iter().map(|event| event.stage_timestamp).max().unwrap()
    }

    /// Waits until the log shows this.
    pub(crate) async fn shows<T>(&self, what: &str, mut look: impl FnMut(&Self) -> Option<T>) -> T {
        eventually_within(PATIENCE, what, || std::future::ready(look(self))).await
    }

    /// Waits until one of these replicas has written `count` times since `since`. Returns its name.
    pub(crate) async fn acts(&self, replicas: &[&'static str], since: Timestamp, count: usize) -> &'static str {
        let acts = |cluster: &Self| {
            let beats = cluster.beats();
            let is_new = |beat: &&Beat| beat.code == 200 && beat.received > since;
            let of = |by: &str| beats.iter().filter(is_new).filter(|beat| beat.by == by).count();
            replicas.iter().copied().find(|by| of(by) >= count)
        };
        self.shows(&format!("one of {replicas:?} writes"), acts).await
    }

    /// Waits until a replica contends: it has watched the Lease, or asked for it, since then.
    pub(crate) async fn contends(&self, identity: &str, since: Timestamp) {
        let agent = format!("{identity}/leader-election");
        let asks = |cluster: &Self| {
            let requests = cluster.requests("leases", LEASE);
            requests
                .iter()
                .any(|event| event.user_agent == agent && event.request_received_timestamp > since)
                .then_some(())
        };
        self.shows(&format!("{identity} contends"), asks).await;
    }

    /// Checks that each write was one of the replica that the Lease named when the server received
    /// it. Returns the number of those that were not, all of which the server has refused with 409.
    pub(crate) fn one_acts(&self) -> usize {
        let (leases, beats) = (self.lease_writes(), self.beats());
        assert!(!leases.is_empty() && !beats.is_empty());
        let mut late = 0;
        for beat in &beats {
            // The log has the time of an answer a moment after the replica may have received it.
            let before = leases.iter().rfind(|lease| lease.done <= beat.received);
            let asked =
                leases.iter().filter(|lease| lease.received <= beat.received).max_by_key(|lease| lease.received);
            if [before, asked].iter().flatten().all(|lease| lease.holder != beat.by) {
                assert_eq!(beat.code, 409, "{beat:?} came although the Lease was {before:?}");
                late += 1;
            }
        }
        late
    }
}
