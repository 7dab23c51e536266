//! A scripted watch.

use std::sync::{Arc, Mutex, PoisonError};

use steersman_cache::{
    Informer, InformerConfig, ListOptions, ListStream, ListerWatcher, Object, ReflectorOptions, StorageOptions,
    WatchOptions, WatchStream,
};
use steersman_client::Error;
use steersman_wire::{ListMeta, ObjectError, RawItem, WatchEvent};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// An event, or an object that cannot be read.
pub(crate) type Scripted = Result<WatchEvent, ObjectError>;

/// The test's end of all watches: an event is sent to the watch that is open.
#[derive(Clone)]
pub(crate) struct Script(Arc<Mutex<Option<UnboundedSender<Scripted>>>>);

pub(crate) struct ScriptedWatch(UnboundedReceiver<Scripted>);
pub(crate) struct NoList(ListMeta);

/// An informer of a scripted watch.
pub(crate) fn scripted<K: Object>(storage: StorageOptions<K>) -> (Informer<K>, Script) {
    let script = Script(Arc::default());
    (scripted_in(vec![(None, script.clone())], storage), script)
}

pub(crate) fn scripted_in<K: Object>(
    sources: Vec<(Option<String>, Script)>,
    storage: StorageOptions<K>,
) -> Informer<K> {
    Informer::new(
        sources,
        InformerConfig {
            kind: "things".to_owned(),
            storage,
            reflector: ReflectorOptions::default(),
            world: steersman_client::World::system(),
        },
    )
}

impl Script {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn send(&self, event: Scripted) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sender.as_ref().expect("no watch is open").send(event).expect("the watch has ended");
    }

    /// Whether a watch is open.
    pub(crate) fn is_watched(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|sender| !sender.is_closed())
    }

    pub(crate) fn added(&self, object: &serde_json::Value) {
        self.send(Ok(WatchEvent::Added(bytes::Bytes::from(object.to_string()).into())));
    }

    pub(crate) fn modified(&self, object: &serde_json::Value) {
        self.send(Ok(WatchEvent::Modified(bytes::Bytes::from(object.to_string()).into())));
    }

    pub(crate) fn deleted(&self, object: &serde_json::Value) {
        self.send(Ok(WatchEvent::Deleted(bytes::Bytes::from(object.to_string()).into())));
    }

    /// Sends a bookmark.
    pub(crate) fn bookmark(&self, version: u64) {
        self.send(Ok(WatchEvent::Bookmark { resource_version: version.to_string(), initial_events_end: false }));
    }

    /// Sends the bookmark that ends the streaming list.
    pub(crate) fn listed(&self, version: u64) {
        self.send(Ok(WatchEvent::Bookmark { resource_version: version.to_string(), initial_events_end: true }));
    }
}

impl ListerWatcher for Script {
    type List = NoList;
    type Watch = ScriptedWatch;

    fn describe(&self) -> String {
        "the script".to_owned()
    }

    async fn list(&self, _: &ListOptions) -> Result<NoList, Error> {
        std::future::pending().await
    }

    async fn watch(&self, _: &WatchOptions) -> Result<ScriptedWatch, Error> {
        let (sender, receiver) = unbounded_channel();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        Ok(ScriptedWatch(receiver))
    }
}

impl WatchStream for ScriptedWatch {
    async fn next(&mut self) -> Result<Option<Scripted>, Error> {
        // All waiting events come before another task runs, like the events of one chunk.
        Ok(tokio::task::coop::unconstrained(self.0.recv()).await)
    }
}

impl ListStream for NoList {
    async fn next(&mut self) -> Result<Option<Result<RawItem, ObjectError>>, Error> {
        Ok(None)
    }

    fn meta(&self) -> &ListMeta {
        &self.0
    }
}

/// A ConfigMap in the namespace `default`.
pub(crate) fn map_json(name: &str, version: u64, value: &str) -> serde_json::Value {
    map_json_in("default", name, version, value)
}

pub(crate) fn map_json_in(namespace: &str, name: &str, version: u64, value: &str) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}"), "resourceVersion": version.to_string()},
        "data": {"value": value},
    })
}
