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
use super::record::{Record, WaitedRead, Write};
use super::{ControllerRecorder, Hub, Turn};

tokio::task_local! {
    /// In a box, because each poll of the worker moves it in and out.
    static LOG: Box<WorkerLog>;
}

/// What the reconcile of a worker does. The client finds it in the task, so that it sees the writes
/// of every clone. Tasks that a reconciler spawns have none.
struct WorkerLog {
    hub: Arc<Hub>,
    controller: Arc<str>,
    /// The reconcile that runs.
    current: RefCell<Option<Record>>,
}

/// Runs a worker whose reconciles are recorded.
pub(crate) async fn logged<F: Future>(recorder: &ControllerRecorder, work: F) -> F::Output {
    let (hub, controller) = (Arc::clone(&recorder.hub), Arc::clone(&recorder.name));
    LOG.scope(Box::new(WorkerLog { hub, controller, current: RefCell::default() }), work).await
}

/// A reconcile of the worker of this task begins.
pub(crate) fn begin(record: Record) {
    let _ = LOG.try_with(|log| *log.current.borrow_mut() = Some(record));
}

/// The reconcile has ended.
pub(super) fn end() -> Option<Record> {
    LOG.try_with(|log| log.current.take()).ok().flatten()
}

/// The beginning of the reconcile of this task.
pub(crate) fn with_started<T>(read: impl FnOnce(&Record) -> T) -> Option<T> {
    LOG.try_with(|log| log.current.try_borrow().ok()?.as_ref().map(read)).ok().flatten()
}

fn with_current(act: impl FnOnce(&WorkerLog, &mut Record)) {
    // Without a reconcile there is nothing to record.
    let _ = LOG.try_with(|log| {
        if let Ok(mut current) = log.current.try_borrow_mut()
            && let Some(record) = &mut *current
        {
            act(log, record);
        }
    });
}

/// A read has waited for an earlier write.
pub(crate) fn waited(kind: &str, waited: Duration) {
    with_current(|_, current| current.actions.get_or_insert_default().waited(WaitedRead { kind: kind.into(), waited }));
}

/// A write was successful. The server has returned `meta`, and `object` if it is whole.
pub(crate) fn wrote<T: Serialize>(verb: &'static str, kind: &str, key: &ObjectKey, meta: &ObjectMeta, object: &T) {
    with_current(|WorkerLog { hub, controller, .. }, current| {
        let version = meta.resource_version.as_deref().map_or(0, version_number);
        let content = hub.is_suspected(kind, key).then(|| content_hash(object));
        let write = Write { verb, kind: kind.into(), key: key.clone(), version, content };
        let writes = std::slice::from_ref(&write);
        hub.wrote(Turn { controller, key: &current.key, causes: &current.causes, writes, writes_total: 1 });
        current.actions.get_or_insert_default().wrote(write);
    });
}

/// An object was deleted.
pub(crate) fn deleted(kind: &str, key: &ObjectKey) {
    with_current(|_, current| {
        current.actions.get_or_insert_default().wrote(Write {
            verb: "delete",
            kind: kind.into(),
            key: key.clone(),
            version: 0,
            content: None,
        });
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
