//! Bodies that are collected in memory.

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;

use super::transport_error;
use crate::Error;
use crate::error::RequestInfo;
use crate::layers::ResponseBody;

/// The next chunk of a body.
pub(super) async fn next_chunk(body: &mut ResponseBody, info: &RequestInfo) -> Result<Option<Bytes>, Error> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| transport_error(info.clone(), error))?;
        if let Ok(chunk) = frame.into_data() {
            return Ok(Some(chunk));
        }
    }
    Ok(None)
}

/// Reads a body until it ends or has at least `enough` bytes.
pub(super) async fn collect_start(info: &RequestInfo, mut body: ResponseBody, enough: usize) -> Result<Bytes, Error> {
    let mut read = BytesMut::new();
    while read.len() < enough {
        let Some(chunk) = next_chunk(&mut body, info).await? else { break };
        read.extend_from_slice(&chunk);
    }
    Ok(read.freeze())
}

/// How many bytes of a collected response may still come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimit {
    limit: usize,
    left: usize,
}

impl BodyLimit {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, left: limit }
    }

    /// Reads a body to its end.
    pub(crate) async fn collect(mut self, info: &RequestInfo, mut body: ResponseBody) -> Result<Bytes, Error> {
        // The length that the server announces.
        if body.size_hint().lower() > self.limit as u64 {
            return Err(self.exceeded(info));
        }
        let mut chunks = Vec::new();
        while let Some(chunk) = next_chunk(&mut body, info).await? {
            self.take(info, chunk.len())?;
            chunks.push(chunk);
        }
        Ok(match chunks.as_mut_slice() {
            [one] => std::mem::take(one),
            _ => chunks.concat().into(),
        })
    }

    /// Subtracts a chunk that has come.
    pub(super) fn take(&mut self, info: &RequestInfo, bytes: usize) -> Result<(), Error> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| self.exceeded(info))?;
        Ok(())
    }

    fn exceeded(&self, info: &RequestInfo) -> Error {
        Error::TooLarge { request: info.clone(), limit: self.limit }
    }
}
