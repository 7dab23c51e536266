//! Lists and watches of one kind, decoded.

use futures::{Stream, stream};
use http::Request;
use kube_client::client::Body;
use kube_core::params::{ListParams, WatchParams};
use kube_core::{ObjectList, Resource};
use serde::de::DeserializeOwned;
use steersman_wire::{Json, Limits, ListMeta, ObjectError, ObjectFault, RawItem, TypeMeta, WatchEvent};

use super::requests::request;
use super::{Api, Form};
use crate::error::{Error, RequestInfo};
use crate::response::{RawList, RawWatch, from_wire_status};

/// An event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum TypedEvent<K> {
    /// The object exists.
    Added(K),
    /// The object has changed.
    Modified(K),
    /// The object is deleted. This is its last state.
    Deleted(K),
    /// Every event up to this version has been sent.
    Bookmark {
        /// The version.
        resource_version: String,
        /// Whether all objects that existed at the start have been sent.
        initial_events_end: bool,
    },
}

/// Decodes an object. It may be a Secret, so the error leaves the decoder's message out.
fn decoded<K: DeserializeOwned>(info: &RequestInfo, object: &RawItem) -> Result<K, Error> {
    object.json().and_then(|json| Json.decode(&json)).map_err(|error| object_error::<K>(info, error))
}

fn object_error<K>(info: &RequestInfo, mut error: ObjectError) -> Error {
    if let ObjectFault::Decode { message, .. } = &mut error.fault {
        *message = format!("it is not a {}", std::any::type_name::<K>());
    }
    Error::Object { request: info.clone(), error: Box::new(error) }
}

impl<K: Resource + DeserializeOwned> Api<K> {
    /// The request that [`list_raw`](Self::list_raw) sends.
    fn list_request(&self, params: &ListParams) -> Result<Request<Body>, Error> {
        let requests = self.requests();
        let built = request(match self.form {
            Form::Full => requests.list(params),
            Form::Metadata => requests.list_metadata(params),
        });
        built.map(|request| self.accept_protobuf::<K>(request))
    }

    /// Lists objects, as bytes, as they arrive. Items of built-in kinds have no `apiVersion` and
    /// `kind`: see [`ListMeta::item_type`].
    pub async fn list_raw(&self, params: &ListParams) -> Result<RawList, Error> {
        self.client.list_raw(self.list_request(params)?, Limits::default()).await
    }

    /// Watches objects from `version` on, as bytes.
    pub async fn watch_raw(&self, params: &WatchParams, version: &str) -> Result<RawWatch, Error> {
        let requests = self.requests();
        let built = match self.form {
            Form::Full => requests.watch(params, version),
            Form::Metadata => requests.watch_metadata(params, version),
        };
        self.client.watch_raw(self.accept_protobuf::<K>(request(built)?), Limits::default()).await
    }

    /// Lists objects. They are decoded as they arrive, so the body is never in memory as a whole.
    /// If an object cannot be decoded, the error names it; [`list_raw`](Self::list_raw) continues
    /// with the next one.
    pub async fn list(&self, params: &ListParams) -> Result<ObjectList<K>, Error>
    where
        K: Clone,
    {
        let mut raw = self.list_raw(params).await?;
        raw.limit = Some(self.client.body_limit());
        let mut items = Vec::new();
        while let Some(item) = raw.next().await? {
            let item = item.map_err(|error| object_error::<K>(&raw.request, error))?;
            items.push(decoded(&raw.request, &item)?);
        }
        let ListMeta { type_meta: TypeMeta { api_version, kind }, .. } = raw.meta().clone();
        let meta = raw.meta();
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Ok(ObjectList {
            types: kube_core::TypeMeta { api_version, kind },
            metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta {
                continue_: text(&meta.continue_token),
                remaining_item_count: meta.remaining_item_count,
                resource_version: text(&meta.resource_version),
                ..Default::default()
            },
            items,
        })
    }

    /// Watches objects from `version` on. The stream ends when the server ends the watch. An object
    /// that cannot be decoded is an error, and the stream continues; any other error is its last
    /// item.
    pub async fn watch(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> Result<impl Stream<Item = Result<TypedEvent<K>, Error>> + Send + use<K>, Error> {
        let raw = self.watch_raw(params, version).await?;
        let next = |raw: Option<RawWatch>| async move {
            let mut raw = raw?;
            match raw.next().await {
                Ok(None) => None,
                Ok(Some(event)) => {
                    let event = event.map_err(|error| object_error::<K>(&raw.request, error));
                    let event = event.and_then(|event| typed::<K>(&raw.request, event));
                    Some((event, Some(raw)))
                }
                Err(error) => Some((Err(error), None)),
            }
        };
        Ok(stream::unfold(Some(raw), next))
    }
}

fn typed<K: DeserializeOwned>(info: &RequestInfo, event: WatchEvent) -> Result<TypedEvent<K>, Error> {
    Ok(match event {
        WatchEvent::Added(object) => TypedEvent::Added(decoded(info, &object)?),
        WatchEvent::Modified(object) => TypedEvent::Modified(decoded(info, &object)?),
        WatchEvent::Deleted(object) => TypedEvent::Deleted(decoded(info, &object)?),
        WatchEvent::Bookmark { resource_version, initial_events_end } => {
            TypedEvent::Bookmark { resource_version, initial_events_end }
        }
        // Not reached: `RawWatch` returns it as an error.
        WatchEvent::Error(status) => {
            return Err(Error::Api { request: info.clone(), status: Box::new(from_wire_status(status)) });
        }
    })
}
