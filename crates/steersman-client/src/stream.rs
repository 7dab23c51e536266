//! Lists and watches as they arrive: one object after the other, never the whole body.

use futures::{Stream, stream};
use http::Request;
use kube_client::client::Body;
use kube_core::params::{ListParams, WatchParams};
use kube_core::{ObjectList, Resource};
use serde::de::DeserializeOwned;
use steersman_wire::{
    Fault, Item, Json, Limits, ListMeta, ListSplitter, ObjectError, TypeMeta, WatchEvent, WatchSplitter, WireError,
};

use crate::api::{Form, request};
use crate::client::{BytesLeft, next_chunk};
use crate::encoding::encoding_of;
use crate::error::{Asked, DecodeError};
use crate::layers::AnswerBody;
use crate::{Api, Client, Error};

/// The items of a list as they arrive: what [`Client::list_raw`] returns.
pub struct RawList {
    asked: Asked,
    body: AnswerBody,
    /// `None` at the end.
    splitter: Option<ListSplitter>,
    meta: ListMeta,
    /// Set if the items are collected.
    bytes_left: Option<BytesLeft>,
}

/// The events of a watch as they arrive: what [`Client::watch_raw`] returns.
pub struct RawWatch {
    asked: Asked,
    body: AnswerBody,
    /// `None` at the end.
    splitter: Option<WatchSplitter>,
}

impl std::fmt::Debug for RawList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawList").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RawWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawWatch").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl RawList {
    /// The next item; `None` at the end. An item that cannot be read is an inner error, and the next one comes all the same.
    pub async fn next(&mut self) -> Result<Option<Result<Item, ObjectError>>, Error> {
        let broken = |error: WireError| wire_error(&self.asked, error);
        loop {
            let Some(splitter) = &mut self.splitter else { return Ok(None) };
            if let Some(item) = splitter.next_item().map_err(broken)? {
                return Ok(Some(item));
            }
            match next_chunk(&mut self.body, &self.asked).await? {
                Some(chunk) => {
                    if let Some(left) = &mut self.bytes_left {
                        left.take(&self.asked, chunk.len())?;
                    }
                    splitter.push(chunk);
                }
                None => {
                    let finished = self.splitter.take().map(ListSplitter::finish);
                    self.meta = finished.transpose().map_err(broken)?.unwrap_or_default();
                    return Ok(None);
                }
            }
        }
    }

    /// What the list says of itself, as far as it has arrived: all of it when the last item has been taken.
    pub fn meta(&self) -> &ListMeta {
        self.splitter.as_ref().map_or(&self.meta, ListSplitter::list)
    }
}

impl RawWatch {
    /// The next event; `None` when the server has ended the watch. An object that cannot be read is an inner error, and the
    /// next event comes all the same. The server's refusal in the middle of a watch is an [`Error::Api`], after which there
    /// is nothing more.
    pub async fn next(&mut self) -> Result<Option<Result<WatchEvent, ObjectError>>, Error> {
        let broken = |error: WireError| wire_error(&self.asked, error);
        loop {
            let Some(splitter) = &mut self.splitter else { return Ok(None) };
            if let Some(event) = splitter.next_event().map_err(broken)? {
                if let Ok(WatchEvent::Error(status)) = event {
                    self.splitter = None;
                    return Err(Error::Api { asked: self.asked.clone(), status: Box::new(status_of(status)) });
                }
                return Ok(Some(event));
            }
            match next_chunk(&mut self.body, &self.asked).await? {
                Some(chunk) => splitter.push(chunk),
                None => {
                    let finished = self.splitter.take().map(WatchSplitter::finish);
                    finished.transpose().map_err(broken)?;
                    return Ok(None);
                }
            }
        }
    }
}

fn status_of(status: steersman_wire::Status) -> kube_core::Status {
    use kube_core::response::{Status, StatusCause, StatusDetails};
    let cause = |reason: String| StatusCause { reason, message: String::new(), field: String::new() };
    let details = StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: status.causes.into_iter().map(cause).collect(),
        retry_after_seconds: status.retry_after_seconds.unwrap_or(0),
    };
    Status::failure(&status.message, &status.reason).with_code(status.code).with_details(details)
}

fn wire_error(asked: &Asked, error: WireError) -> Error {
    match error {
        WireError::Status(status) => Error::Api { asked: asked.clone(), status: Box::new(status_of(*status)) },
        error => Error::Decode { asked: asked.clone(), problem: DecodeError::Broken(error.to_string()) },
    }
}

impl Client {
    /// Sends a request for a list and returns its items as they arrive, as bytes. The answer may be JSON or, for kinds that are built
    /// in, protobuf, as the request asks for it.
    pub async fn list_raw(&self, request: Request<Body>, limits: Limits) -> Result<RawList, Error> {
        let asked = self.asked(&request);
        let answer = self.send_ok(request).await?;
        let splitter = Some(encoding_of(answer.headers()).split_list(limits));
        Ok(RawList { asked, body: answer.into_body(), splitter, meta: ListMeta::default(), bytes_left: None })
    }

    /// Sends a request for a watch and returns its events as they arrive, as bytes.
    pub async fn watch_raw(&self, request: Request<Body>, limits: Limits) -> Result<RawWatch, Error> {
        let asked = self.asked(&request);
        let answer = self.send_ok(request).await?;
        let splitter = Some(encoding_of(answer.headers()).split_watch(limits));
        Ok(RawWatch { asked, body: answer.into_body(), splitter })
    }
}

/// What a watch tells of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<K> {
    /// It is there.
    Added(K),
    /// It has changed.
    Modified(K),
    /// It is gone; this is its last state.
    Deleted(K),
    /// Everything up to this version has been sent.
    Bookmark {
        /// The version.
        resource_version: String,
        /// Whether all objects that were there at the start have been sent.
        initial_events_end: bool,
    },
}

/// Decodes an object, which may be a Secret: the decoder's own words are not kept.
fn decoded<K: DeserializeOwned>(asked: &Asked, object: &Item) -> Result<K, Error> {
    object.json().and_then(|json| Json.decode(&json)).map_err(|error| object_error::<K>(asked, error))
}

fn object_error<K>(asked: &Asked, mut error: ObjectError) -> Error {
    if let Fault::Decode { message, .. } = &mut error.fault {
        *message = format!("it is not a {}", std::any::type_name::<K>());
    }
    Error::Object { asked: asked.clone(), error: Box::new(error) }
}

impl<K: Resource + DeserializeOwned> Api<K> {
    /// The request that [`list_raw`](Self::list_raw) sends.
    fn list_request(&self, params: &ListParams) -> Result<Request<Body>, Error> {
        let requests = self.requests();
        let built = request(match self.form {
            Form::Full => requests.list(params),
            Form::Metadata => requests.list_metadata(params),
        });
        built.map(|request| self.asking::<K>(request))
    }

    /// The items of a list as they arrive, as bytes. Items of built-in kinds do not say what they are: see
    /// [`ListMeta::item_type`].
    pub async fn list_raw(&self, params: &ListParams) -> Result<RawList, Error> {
        self.client.list_raw(self.list_request(params)?, Limits::default()).await
    }

    /// The events of a watch from `version` on, as they arrive, as bytes.
    pub async fn watch_raw(&self, params: &WatchParams, version: &str) -> Result<RawWatch, Error> {
        let requests = self.requests();
        let built = match self.form {
            Form::Full => requests.watch(params, version),
            Form::Metadata => requests.watch_metadata(params, version),
        };
        self.client.watch_raw(self.asking::<K>(request(built)?), Limits::default()).await
    }

    /// Reads objects, all together. They are decoded as they arrive; the body is never in memory as a whole. One that cannot
    /// be decoded is an error that names it; [`list_raw`](Self::list_raw) goes on after it.
    pub async fn list(&self, params: &ListParams) -> Result<ObjectList<K>, Error>
    where
        K: Clone,
    {
        let mut raw = self.list_raw(params).await?;
        raw.bytes_left = Some(self.client.bytes_left());
        let mut items = Vec::new();
        while let Some(item) = raw.next().await? {
            let item = item.map_err(|error| object_error::<K>(&raw.asked, error))?;
            items.push(decoded(&raw.asked, &item)?);
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

    /// Watches objects from `version` on. The stream ends when the server ends the watch; an object that cannot be decoded is
    /// an error in it, after which it goes on, and any other error is its last item.
    pub async fn watch(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> Result<impl Stream<Item = Result<Event<K>, Error>> + Send + use<K>, Error> {
        let raw = self.watch_raw(params, version).await?;
        let next = |raw: Option<RawWatch>| async move {
            let mut raw = raw?;
            match raw.next().await {
                Ok(None) => None,
                Ok(Some(event)) => {
                    let event = event.map_err(|error| object_error::<K>(&raw.asked, error));
                    let event = event.and_then(|event| typed::<K>(&raw.asked, event));
                    Some((event, Some(raw)))
                }
                Err(error) => Some((Err(error), None)),
            }
        };
        Ok(stream::unfold(Some(raw), next))
    }
}

fn typed<K: DeserializeOwned>(asked: &Asked, event: WatchEvent) -> Result<Event<K>, Error> {
    Ok(match event {
        WatchEvent::Added(object) => Event::Added(decoded(asked, &object)?),
        WatchEvent::Modified(object) => Event::Modified(decoded(asked, &object)?),
        WatchEvent::Deleted(object) => Event::Deleted(decoded(asked, &object)?),
        WatchEvent::Bookmark { resource_version, initial_events_end } => {
            Event::Bookmark { resource_version, initial_events_end }
        }
        // `RawWatch` makes an error of it.
        WatchEvent::Error(status) => {
            return Err(Error::Api { asked: asked.clone(), status: Box::new(status_of(status)) });
        }
    })
}
