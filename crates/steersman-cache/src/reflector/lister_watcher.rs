//! Where a [`Reflector`](crate::Reflector) reads from.

use std::future::Future;

use kube_core::Resource;
use serde::de::DeserializeOwned;
use steersman_client::{Api, Error, ListParams, RawList, RawWatch, WatchParams};
use steersman_wire::{ListMeta, ObjectError, RawItem, WatchEvent};

/// Lists and watches the objects of one kind. [`ApiListerWatcher`] reads from an API server.
pub trait ListerWatcher: Send + Sync + 'static {
    /// The items of a list as they arrive.
    type List: ListStream;
    /// The events of a watch as they arrive.
    type Watch: WatchStream;

    /// What it lists, for logs: `pods in namespace shop`.
    fn describe(&self) -> String;

    /// Starts a list.
    fn list(&self, options: &ListOptions) -> impl Future<Output = Result<Self::List, Error>> + Send;

    /// Starts a watch.
    fn watch(&self, options: &WatchOptions) -> impl Future<Output = Result<Self::Watch, Error>> + Send;
}

/// Version and page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListOptions {
    /// Version of the list: `"0"` for any, empty for the newest.
    pub resource_version: String,
    /// Largest number of items; all without.
    pub limit: Option<u32>,
    /// The token of the previous page.
    pub continue_token: Option<String>,
}

/// Version, beginning and duration of a watch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchOptions {
    /// Version to start from.
    pub resource_version: String,
    /// Whether the watch begins with all existing objects and a bookmark after them.
    pub send_initial_events: bool,
    /// Seconds after which the server ends the watch.
    pub timeout_seconds: u32,
}

/// The items of a list as they arrive.
pub trait ListStream: Send {
    /// The next item; `None` at the end. An item that cannot be read is an inner error, and more
    /// items may follow it.
    fn next(&mut self) -> impl Future<Output = Result<Option<Result<RawItem, ObjectError>>, Error>> + Send;

    /// The metadata of the list, as far as it has arrived.
    fn meta(&self) -> &ListMeta;
}

/// The events of a watch as they arrive.
pub trait WatchStream: Send {
    /// The next event; `None` when the watch has ended. An event that cannot be read is an inner
    /// error, and more events may follow it.
    fn next(&mut self) -> impl Future<Output = Result<Option<Result<WatchEvent, ObjectError>>, Error>> + Send;
}

impl ListStream for RawList {
    fn next(&mut self) -> impl Future<Output = Result<Option<Result<RawItem, ObjectError>>, Error>> + Send {
        self.next()
    }

    fn meta(&self) -> &ListMeta {
        self.meta()
    }
}

impl WatchStream for RawWatch {
    fn next(&mut self) -> impl Future<Output = Result<Option<Result<WatchEvent, ObjectError>>, Error>> + Send {
        self.next()
    }
}

/// Reads from an API server the objects that the selectors match.
pub struct ApiListerWatcher<K: Resource> {
    api: Api<K>,
    label_selector: Option<String>,
    field_selector: Option<String>,
}

impl<K: Resource> std::fmt::Debug for ApiListerWatcher<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiListerWatcher")
            .field("api", &self.api)
            .field("label_selector", &self.label_selector)
            .field("field_selector", &self.field_selector)
            .finish()
    }
}

impl<K: Resource> ApiListerWatcher<K> {
    /// All objects of `api`.
    pub fn new(api: Api<K>) -> Self {
        Self { api, label_selector: None, field_selector: None }
    }

    /// Only objects whose labels match, such as `app=web,tier in (a, b)`.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = Some(selector.into());
        self
    }

    /// Only objects whose fields match, such as `spec.nodeName=node-1`. Each kind supports its own
    /// fields.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = Some(selector.into());
        self
    }
}

impl<K> ListerWatcher for ApiListerWatcher<K>
where
    K: Resource<DynamicType: Send + Sync> + DeserializeOwned + 'static,
{
    type List = RawList;
    type Watch = RawWatch;

    fn describe(&self) -> String {
        let mut text = self.api.path();
        for (name, selector) in [("labels", &self.label_selector), ("fields", &self.field_selector)] {
            if let Some(selector) = selector {
                text.push_str(&format!(" with {name} {selector}"));
            }
        }
        text
    }

    async fn list(&self, options: &ListOptions) -> Result<RawList, Error> {
        let params = ListParams {
            label_selector: self.label_selector.clone(),
            field_selector: self.field_selector.clone(),
            limit: options.limit,
            continue_token: options.continue_token.clone(),
            // The token contains the version of the next page.
            resource_version: options.continue_token.is_none().then(|| options.resource_version.clone()),
            ..ListParams::default()
        };
        self.api.list_raw(&params).await
    }

    async fn watch(&self, options: &WatchOptions) -> Result<RawWatch, Error> {
        let params = WatchParams {
            label_selector: self.label_selector.clone(),
            field_selector: self.field_selector.clone(),
            timeout: Some(options.timeout_seconds),
            bookmarks: true,
            send_initial_events: options.send_initial_events,
        };
        self.api.watch_raw(&params, &options.resource_version).await
    }
}
