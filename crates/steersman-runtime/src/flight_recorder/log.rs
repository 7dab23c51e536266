//! What the reconcile of the current task does.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use steersman_cache::ObjectKey;
use steersman_client::ObjectMeta;

use super::cause::version_number;
use super::record::{Actions, WaitedRead, Write};
use super::{ControllerRecorder, Hub, Started, Turn};

tokio::task_local! {
    static LOG: ReconcileLog;
}

/// The writes and the waiting reads of a reconcile. The client finds it in the task, so that it
/// sees the writes of every clone. Tasks that a reconciler spawns have none.
pub(crate) struct ReconcileLog {
    hub: Arc<Hub>,
    controller: Arc<str>,
    key: ObjectKey,
    started: Started,
    /// Empty for most reconciles.
    actions: RefCell<Option<Box<Actions>>>,
}

/// Runs a reconcile, and returns what it did.
pub(crate) async fn logged<F: Future>(
    recorder: &ControllerRecorder,
    key: &ObjectKey,
    started: Started,
    reconcile: F,
) -> (F::Output, Option<(Started, Option<Box<Actions>>)>) {
    let (hub, controller) = (Arc::clone(&recorder.hub), Arc::clone(&recorder.name));
    let log = ReconcileLog { hub, controller, key: key.clone(), started, actions: RefCell::default() };
    let mut scoped = std::pin::pin!(LOG.scope(log, reconcile));
    let result = scoped.as_mut().await;
    let recorded = scoped.take_value().map(|log| (log.started, log.actions.into_inner()));
    (result, recorded)
}

/// The beginning of the reconcile of this task.
pub(crate) fn with_started<T>(read: impl FnOnce(&Started) -> T) -> Option<T> {
    LOG.try_with(|log| read(&log.started)).ok()
}

fn with_actions(act: impl FnOnce(&ReconcileLog, &mut Actions)) {
    // Without a reconcile there is nothing to record.
    let _ = LOG.try_with(|log| {
        if let Ok(mut actions) = log.actions.try_borrow_mut() {
            act(log, actions.get_or_insert_default());
        }
    });
}

/// A read has waited for an earlier write.
pub(crate) fn waited(kind: &str, waited: Duration) {
    with_actions(|_, actions| actions.waited(WaitedRead { kind: kind.into(), waited }));
}

/// A write was successful. The server has returned `meta`, and `object` if it is whole.
pub(crate) fn wrote<T: Serialize>(verb: &'static str, kind: &str, key: &ObjectKey, meta: &ObjectMeta, object: &T) {
    with_actions(|ReconcileLog { hub, controller, key: reconciled, started, .. }, actions| {
        let version = meta.resource_version.as_deref().map_or(0, version_number);
        let content = hub.is_suspected(kind, key).then(|| content_hash(object));
        let write = Write { verb, kind: kind.into(), key: key.clone(), version, content };
        let writes = std::slice::from_ref(&write);
        hub.wrote(Turn { controller, key: reconciled, causes: &started.causes, writes, writes_total: 1 });
        actions.wrote(write);
    });
}

/// An object was deleted.
pub(crate) fn deleted(kind: &str, key: &ObjectKey) {
    with_actions(|_, actions| {
        actions.wrote(Write { verb: "delete", kind: kind.into(), key: key.clone(), version: 0, content: None });
    });
}

/// The recorder that has to know who owned the fields of this object before it is written.
pub(crate) fn needs_managers(kind: &str, key: &ObjectKey) -> Option<Arc<Hub>> {
    let hub = LOG.try_with(|log| log.hub.has_suspects().then(|| Arc::clone(&log.hub))).ok().flatten()?;
    hub.begin_naming(kind, key).then_some(hub)
}

/// A field manager, and the length of the list of its fields.
pub(crate) type Manager = (String, usize);

/// The field managers of an object.
pub(crate) fn managers(object: &Value) -> Vec<Manager> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries
        .map(|entry| (entry["manager"].as_str().unwrap_or_default().to_owned(), entry["fieldsV1"].to_string().len()))
        .collect()
}

/// A hash of everything but the version.
fn content_hash<T: Serialize>(object: &T) -> u64 {
    let mut value = serde_json::to_value(object).unwrap_or(Value::Null);
    if let Some(Value::Object(meta)) = value.get_mut("metadata") {
        meta.retain(|field, _| !matches!(field.as_str(), "resourceVersion" | "managedFields" | "generation"));
    }
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}
