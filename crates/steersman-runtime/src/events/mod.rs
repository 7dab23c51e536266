//! Events about objects: what `kubectl describe` shows below an object.
//!
//! [`Context::events`](crate::Context::events) has the recorder of a controller,
//! [`Manager::events`](crate::Manager::events) makes one for other code.

mod correlator;
mod text;
mod writer;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use kube_core::{DynamicObject, Resource};
use steersman_cache::Cached;
use steersman_client::World;
use tokio::sync::Notify;

use crate::Error;
use correlator::{Correlator, Group, KNOWN_MAX};
use text::{NOTE_BYTES_MAX, SHORT_BYTES_MAX, truncate, truncate_cow};

pub(crate) use text::qualified_name_problem;
pub(crate) use writer::Writer;

/// Records Events (`events.k8s.io/v1`) about objects. Clones are cheap.
///
/// ```
/// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # use steersman_runtime::Context;
/// # fn example(ctx: &Context<ConfigMap>, map: &ConfigMap, secret: &Secret) {
/// ctx.events().normal(map, "Copied", "Copy", "copied to 3 namespaces");
/// ctx.events().related(secret).warning(map, "NoAccess", "Copy", "the Secret has no token");
/// # }
/// ```
///
/// `reason` and `action` are words in upper camel case: why, and what the controller did or tried
/// to do. The note is a sentence for people. Do not put contents of Secrets into it.
///
/// **What is promised.**
/// - A call sends no request and waits for none. It takes a short lock, and the manager writes the
///   Events in the background (`a_reconcile_does_not_wait_for_its_events`).
/// - Events of one object are written in the order of the calls
///   (`events_of_an_object_come_in_order`).
/// - Equal events are counted in one Event: the second is written at once, later counts 1, 2, 4, 8,
///   16 and then every 30 minutes after. Of events that differ only in their notes, 10 within
///   10 minutes have Events of their own; the others are counted in one.
/// - Each object has a burst of 25 writes, creates and patches together, and one more every 10 s.
///   Further events about it are dropped and counted (`ten_thousand_events_stay_within_the_bound`).
/// - Memory is bounded: 4,096 objects and as many series; the least recent are forgotten.
/// - Texts are cut to the limits of the server: 128 bytes for reason and action, 1,024 for the
///   note.
/// - Writes are repeated if the server is overloaded, fails, or cannot be reached. Those that it
///   refuses are logged and counted; in a namespace that is being deleted, only counted.
/// - When the manager stops, what is not written yet is written once, within the grace period and
///   after the release of the lease (`events_are_flushed_when_the_manager_stops`).
/// - [`EventMetrics`] counts all of this.
///
/// Events are no part of the promise of
/// [leader election](crate::leader_election::LeaderElection): they are also written by a replica
/// that does not lead any more.
#[derive(Clone)]
pub struct EventRecorder {
    events: Events,
    controller: Arc<str>,
    related: Option<Arc<EventObject>>,
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventRecorder").field("controller", &self.controller).finish_non_exhaustive()
    }
}

impl EventRecorder {
    /// Records an Event of type `Normal`.
    pub fn normal(
        &self,
        regarding: impl Into<EventObject>,
        reason: impl Into<Cow<'static, str>>,
        action: impl Into<Cow<'static, str>>,
        note: impl Into<String>,
    ) {
        self.record(EventType::Normal, regarding.into(), reason.into(), action.into(), note.into());
    }

    /// Records an Event of type `Warning`.
    pub fn warning(
        &self,
        regarding: impl Into<EventObject>,
        reason: impl Into<Cow<'static, str>>,
        action: impl Into<Cow<'static, str>>,
        note: impl Into<String>,
    ) {
        self.record(EventType::Warning, regarding.into(), reason.into(), action.into(), note.into());
    }

    /// The same recorder, whose Events name a second object.
    pub fn related(&self, object: impl Into<EventObject>) -> Self {
        Self { related: Some(Arc::new(object.into())), ..self.clone() }
    }

    fn record(
        &self,
        event_type: EventType,
        regarding: EventObject,
        mut reason: Cow<'static, str>,
        mut action: Cow<'static, str>,
        mut note: String,
    ) {
        let cut = [
            truncate_cow(&mut reason, SHORT_BYTES_MAX),
            truncate_cow(&mut action, SHORT_BYTES_MAX),
            truncate(&mut note, NOTE_BYTES_MAX),
        ];
        let (controller, related) = (Arc::clone(&self.controller), self.related.clone());
        let group = Group { controller, event_type, reason, action, regarding: Arc::new(regarding), related };
        let truncated = cut.into_iter().map(u64::from).sum();
        self.events.record(group, note, truncated);
    }
}

/// An object that an Event is about. References to typed objects and [`ObjectReference`]s become
/// one by themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventObject {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) field_path: String,
}

impl<K: Resource<DynamicType = ()>> From<&K> for EventObject {
    fn from(object: &K) -> Self {
        let meta = object.meta();
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            field_path: String::new(),
        }
    }
}

impl From<ObjectReference> for EventObject {
    fn from(reference: ObjectReference) -> Self {
        Self {
            api_version: reference.api_version.unwrap_or_default(),
            kind: reference.kind.unwrap_or_default(),
            namespace: reference.namespace.unwrap_or_default(),
            name: reference.name.unwrap_or_default(),
            uid: reference.uid.unwrap_or_default(),
            field_path: reference.field_path.unwrap_or_default(),
        }
    }
}

impl EventObject {
    /// An object of a cache, which need not be decoded for this.
    pub fn cached<K: Resource<DynamicType = ()>>(object: &Cached<K>) -> Self {
        let meta = object.meta();
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: meta.namespace().to_owned(),
            name: meta.name().to_owned(),
            uid: meta.uid().to_owned(),
            field_path: String::new(),
        }
    }

    /// An object whose kind is known only at run time.
    pub fn dynamic(object: &DynamicObject) -> Self {
        let types = object.types.clone().unwrap_or_default();
        let meta = &object.metadata;
        Self {
            api_version: types.api_version,
            kind: types.kind,
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            field_path: String::new(),
        }
    }

    fn reference(&self) -> ObjectReference {
        let given = |text: &String| (!text.is_empty()).then(|| text.clone());
        ObjectReference {
            api_version: given(&self.api_version),
            kind: given(&self.kind),
            namespace: given(&self.namespace),
            name: given(&self.name),
            uid: given(&self.uid),
            field_path: given(&self.field_path),
            resource_version: None,
        }
    }

    /// The namespace of its Events.
    fn event_namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum EventType {
    Normal,
    Warning,
}

/// What the event recorder of a manager has done.
///
/// Each occurrence of `recorded_total` is in an Event on the server, `pending`, or in one of
/// `rate_limited_total`, `evicted_total`, `failed_total`, `refused_total` and `discarded_total`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventMetrics {
    /// Calls of the recorders.
    pub recorded_total: u64,
    /// Events created on the server.
    pub created_total: u64,
    /// Counts of Events written to the server.
    pub patched_total: u64,
    /// Requests that were sent again after an error.
    pub retries_total: u64,
    /// Texts that were longer than the server allows.
    pub truncated_total: u64,
    /// Occurrences that the server does not know yet.
    pub pending: u64,
    /// Occurrences dropped because their object had too many Events.
    pub rate_limited_total: u64,
    /// Occurrences dropped to bound the memory.
    pub evicted_total: u64,
    /// Occurrences dropped because the server could not be reached, or the manager has stopped.
    pub failed_total: u64,
    /// Occurrences that the server refused.
    pub refused_total: u64,
    /// Occurrences in namespaces that do not exist or are being deleted.
    pub discarded_total: u64,
}

/// The events of a manager.
#[derive(Clone)]
pub(crate) struct Events {
    shared: Arc<Shared>,
}

struct Shared {
    correlator: Mutex<Correlator>,
    /// There is a new series, or one has to be written.
    changed: Notify,
    world: World,
    host: String,
}

impl Events {
    pub(crate) fn new(world: World) -> Self {
        let correlator = Mutex::new(Correlator::new(KNOWN_MAX));
        let host = crate::host_name();
        Self { shared: Arc::new(Shared { correlator, changed: Notify::new(), world, host }) }
    }

    /// A recorder of events that this controller reports.
    pub(crate) fn recorder(&self, controller: &str) -> Result<EventRecorder, Error> {
        if let Some(problem) = qualified_name_problem(controller) {
            return Err(Error::InvalidName { name: controller.to_owned(), problem });
        }
        Ok(EventRecorder { events: self.clone(), controller: controller.into(), related: None })
    }

    pub(crate) fn metrics(&self) -> EventMetrics {
        self.correlator().metrics()
    }

    fn correlator(&self) -> MutexGuard<'_, Correlator> {
        self.shared.correlator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, group: Group, note: String, truncated: u64) {
        let world = &self.shared.world;
        let (now, wall) = (world.uptime(), world.now());
        let is_due = {
            let mut correlator = self.correlator();
            correlator.truncated(truncated);
            correlator.record(group, note, now, wall, || world.random_bytes())
        };
        if is_due {
            self.shared.changed.notify_one();
        }
    }
}
