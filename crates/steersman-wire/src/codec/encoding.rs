//! The encodings that a body can be in.

use std::borrow::Cow;

use bytes::Bytes;

use crate::codec::object_error::ObjectError;
use crate::codec::protobuf::{self, ProtobufListSplitter, ProtobufWatchSplitter};
use crate::codec::{Item, Limits, ListMeta, ListSplitter, WatchEvent, WatchSplitter, WireError};
use crate::{Codec, Json, JsonListSplitter, JsonWatchSplitter};

/// How a body is encoded. Whoever sends it decides, among what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/vnd.kubernetes.protobuf`, for kinds that are built in.
    Protobuf,
}

impl Encoding {
    /// The encoding that a `Content-Type` says. What it does not say is JSON.
    pub fn of(content_type: Option<&str>) -> Self {
        let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if media_type.eq_ignore_ascii_case(protobuf::MEDIA_TYPE) { Self::Protobuf } else { Self::Json }
    }

    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => Json.media_type(),
            Self::Protobuf => protobuf::MEDIA_TYPE,
        }
    }

    /// An object that is a whole body, as JSON.
    pub fn object(self, body: &[u8]) -> Result<Cow<'_, [u8]>, ObjectError> {
        match self {
            Self::Json => Ok(Cow::Borrowed(body)),
            Self::Protobuf => protobuf::to_json(body).map(Cow::Owned),
        }
    }

    /// Starts on the body of a list.
    pub fn split_list(self, limits: Limits) -> ListBody {
        match self {
            Self::Json => ListBody::Json(Json.split_list(limits)),
            Self::Protobuf => ListBody::Protobuf(ProtobufListSplitter::new(limits)),
        }
    }

    /// Starts on the body of a watch.
    pub fn split_watch(self, limits: Limits) -> WatchBody {
        match self {
            Self::Json => WatchBody::Json(Json.split_watch(limits)),
            Self::Protobuf => WatchBody::Protobuf(ProtobufWatchSplitter::new(limits)),
        }
    }
}

/// Splits a list in whichever encoding it comes; made by [`Encoding::split_list`].
// There is one for each list.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum ListBody {
    /// In JSON.
    Json(JsonListSplitter),
    /// In protobuf.
    Protobuf(ProtobufListSplitter),
}

impl ListSplitter for ListBody {
    fn push(&mut self, chunk: Bytes) {
        match self {
            Self::Json(list) => list.push(chunk),
            Self::Protobuf(list) => list.push(chunk),
        }
    }

    fn next_item(&mut self) -> Result<Option<Result<Item, ObjectError>>, WireError> {
        match self {
            Self::Json(list) => list.next_item(),
            Self::Protobuf(list) => list.next_item(),
        }
    }

    fn list(&self) -> &ListMeta {
        match self {
            Self::Json(list) => list.list(),
            Self::Protobuf(list) => list.list(),
        }
    }

    fn finish(self) -> Result<ListMeta, WireError> {
        match self {
            Self::Json(list) => list.finish(),
            Self::Protobuf(list) => list.finish(),
        }
    }
}

/// Splits a watch in whichever encoding it comes; made by [`Encoding::split_watch`].
// There is one for each watch.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub enum WatchBody {
    /// In JSON.
    Json(JsonWatchSplitter),
    /// In protobuf.
    Protobuf(ProtobufWatchSplitter),
}

impl WatchSplitter for WatchBody {
    fn push(&mut self, chunk: Bytes) {
        match self {
            Self::Json(watch) => watch.push(chunk),
            Self::Protobuf(watch) => watch.push(chunk),
        }
    }

    fn next_event(&mut self) -> Result<Option<Result<WatchEvent, ObjectError>>, WireError> {
        match self {
            Self::Json(watch) => watch.next_event(),
            Self::Protobuf(watch) => watch.next_event(),
        }
    }

    fn finish(self) -> Result<(), WireError> {
        match self {
            Self::Json(watch) => watch.finish(),
            Self::Protobuf(watch) => watch.finish(),
        }
    }
}
