//! Lists and watches as they arrive: one object at a time, never the whole body.

use http::Request;
use kube_client::client::Body;
use steersman_wire::{Limits, ListMeta, ListSplitter, ObjectError, RawItem, WatchEvent, WatchSplitter, WireError};

use super::body::{BodyLimit, next_chunk};
use super::{encoding_of, from_wire_status};
use crate::error::{RequestInfo, ResponseError};
use crate::layers::ResponseBody;
use crate::{Client, Error};

/// The items of a list, as they arrive: what [`Client::list_raw`] returns.
pub struct RawList {
    pub(crate) request: RequestInfo,
    body: ResponseBody,
    /// `None` after the end.
    splitter: Option<ListSplitter>,
    meta: ListMeta,
    /// Set if the caller collects the items.
    pub(crate) limit: Option<BodyLimit>,
}

/// The events of a watch, as they arrive: what [`Client::watch_raw`] returns.
pub struct RawWatch {
    pub(crate) request: RequestInfo,
    body: ResponseBody,
    /// `None` after the end.
    splitter: Option<WatchSplitter>,
}

impl std::fmt::Debug for RawList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawList").field("request", &self.request).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RawWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawWatch").field("request", &self.request).finish_non_exhaustive()
    }
}

impl RawList {
    /// The next item, or `None` at the end. An item that cannot be read is an inner error, and the
    /// list continues.
    pub async fn next(&mut self) -> Result<Option<Result<RawItem, ObjectError>>, Error> {
        let broken = |error: WireError| wire_error(&self.request, error);
        loop {
            let Some(splitter) = &mut self.splitter else { return Ok(None) };
            if let Some(item) = splitter.next_item().map_err(broken)? {
                return Ok(Some(item));
            }
            match next_chunk(&mut self.body, &self.request).await? {
                Some(chunk) => {
                    if let Some(limit) = &mut self.limit {
                        limit.take(&self.request, chunk.len())?;
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

    /// The list's own metadata, as far as it has arrived. Complete after the last item.
    pub fn meta(&self) -> &ListMeta {
        self.splitter.as_ref().map_or(&self.meta, ListSplitter::list)
    }
}

impl RawWatch {
    /// The next event, or `None` after the server has ended the watch. An object that cannot be
    /// read is an inner error, and the watch continues. An error event of the server is an
    /// [`Error::Api`], and ends the watch.
    pub async fn next(&mut self) -> Result<Option<Result<WatchEvent, ObjectError>>, Error> {
        let broken = |error: WireError| wire_error(&self.request, error);
        loop {
            let Some(splitter) = &mut self.splitter else { return Ok(None) };
            if let Some(event) = splitter.next_event().map_err(broken)? {
                if let Ok(WatchEvent::Error(status)) = event {
                    self.splitter = None;
                    return Err(Error::Api {
                        request: self.request.clone(),
                        status: Box::new(from_wire_status(status)),
                    });
                }
                return Ok(Some(event));
            }
            match next_chunk(&mut self.body, &self.request).await? {
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

fn wire_error(info: &RequestInfo, error: WireError) -> Error {
    match error {
        WireError::Status(status) => Error::Api { request: info.clone(), status: Box::new(from_wire_status(*status)) },
        error => Error::Decode { request: info.clone(), problem: ResponseError::Broken(error.to_string()) },
    }
}

impl Client {
    /// Sends a request for a list and returns its items as bytes, as they arrive. The request's
    /// `Accept` header chooses JSON or, for built-in kinds, protobuf.
    pub async fn list_raw(&self, request: Request<Body>, limits: Limits) -> Result<RawList, Error> {
        let info = self.request_info(&request);
        let response = self.send_ok(request).await?;
        let splitter = Some(encoding_of(response.headers()).split_list(limits));
        Ok(RawList { request: info, body: response.into_body(), splitter, meta: ListMeta::default(), limit: None })
    }

    /// Sends a request for a watch and returns its events as bytes, as they arrive.
    pub async fn watch_raw(&self, request: Request<Body>, limits: Limits) -> Result<RawWatch, Error> {
        let info = self.request_info(&request);
        let response = self.send_ok(request).await?;
        let splitter = Some(encoding_of(response.headers()).split_watch(limits));
        Ok(RawWatch { request: info, body: response.into_body(), splitter })
    }
}
