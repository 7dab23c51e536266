//! Splits the bodies of lists and watches, in either encoding.

use bytes::Bytes;

use crate::Encoding;
use crate::codec::json::{JsonListSplitter, JsonWatchSplitter};
use crate::codec::object_error::ObjectError;
use crate::codec::protobuf::{ProtobufListSplitter, ProtobufWatchSplitter};
use crate::codec::{Limits, ListMeta, RawItem, WatchEvent, WireError};

/// Splits the body of a list into its items. Made by [`Encoding::split_list`].
///
/// Push a chunk, take items until there are none, push the next chunk; finish when the body has
/// ended. An item within one chunk is a slice of it and keeps the whole chunk alive. An item that
/// spans chunks is a buffer of its own.
///
/// **One object harms only itself.** If one object cannot be read, its [`ObjectError`] names it,
/// and the objects before and after it are returned. A [`WireError`] means that the list itself
/// cannot be read any further; nothing comes after it.
#[derive(Debug)]
pub struct ListSplitter(ListForm);

#[expect(clippy::large_enum_variant, reason = "there is one for each list")]
#[derive(Debug)]
enum ListForm {
    Json(JsonListSplitter),
    Protobuf(ProtobufListSplitter),
}

impl ListSplitter {
    pub(crate) fn new(encoding: Encoding, limits: Limits) -> Self {
        Self(match encoding {
            Encoding::Json => ListForm::Json(JsonListSplitter::new(limits)),
            Encoding::Protobuf => ListForm::Protobuf(ProtobufListSplitter::new(limits)),
        })
    }

    /// Adds the next chunk of the body.
    pub fn push(&mut self, chunk: Bytes) {
        match &mut self.0 {
            ListForm::Json(list) => list.push(chunk),
            ListForm::Protobuf(list) => list.push(chunk),
        }
    }

    /// The next item. `None` until another chunk is pushed.
    pub fn next_item(&mut self) -> Result<Option<Result<RawItem, ObjectError>>, WireError> {
        match &mut self.0 {
            ListForm::Json(list) => list.next_item(),
            ListForm::Protobuf(list) => list.next_item(),
        }
    }

    /// The metadata of the list, as far as it has arrived. Servers usually send it before the
    /// items, but need not.
    pub fn list(&self) -> &ListMeta {
        match &self.0 {
            ListForm::Json(list) => list.list(),
            ListForm::Protobuf(list) => list.list(),
        }
    }

    /// Ends the body. Returns the metadata of the list, or an error if the list is incomplete.
    pub fn finish(self) -> Result<ListMeta, WireError> {
        match self.0 {
            ListForm::Json(list) => list.finish(),
            ListForm::Protobuf(list) => list.finish(),
        }
    }
}

/// Splits the body of a watch into its events. Made by [`Encoding::split_watch`] and used like a
/// [`ListSplitter`].
#[derive(Debug)]
pub struct WatchSplitter(WatchForm);

#[expect(clippy::large_enum_variant, reason = "there is one for each watch")]
#[derive(Debug)]
enum WatchForm {
    Json(JsonWatchSplitter),
    Protobuf(ProtobufWatchSplitter),
}

impl WatchSplitter {
    pub(crate) fn new(encoding: Encoding, limits: Limits) -> Self {
        Self(match encoding {
            Encoding::Json => WatchForm::Json(JsonWatchSplitter::new(limits)),
            Encoding::Protobuf => WatchForm::Protobuf(ProtobufWatchSplitter::new(limits)),
        })
    }

    /// Adds the next chunk of the body.
    pub fn push(&mut self, chunk: Bytes) {
        match &mut self.0 {
            WatchForm::Json(watch) => watch.push(chunk),
            WatchForm::Protobuf(watch) => watch.push(chunk),
        }
    }

    /// The next event. `None` until another chunk is pushed.
    pub fn next_event(&mut self) -> Result<Option<Result<WatchEvent, ObjectError>>, WireError> {
        match &mut self.0 {
            WatchForm::Json(watch) => watch.next_event(),
            WatchForm::Protobuf(watch) => watch.next_event(),
        }
    }

    /// Ends the body. Fails if it ended within an event.
    pub fn finish(self) -> Result<(), WireError> {
        match self.0 {
            WatchForm::Json(watch) => watch.finish(),
            WatchForm::Protobuf(watch) => watch.finish(),
        }
    }
}
