//! JSON.
//!
//! [`list`] and [`watch`] split bodies; both gather values that come in pieces with [`gather`], which finds their ends with
//! [`extent`]. [`scan`] and [`read`] walk over one object with a [`cursor`]; [`remainder`] makes one whole again. All of them pass over strings and brackets 64
//! bytes at a time ([`block`]).

mod block;
mod cursor;
mod extent;
mod gather;
mod list;
mod read;
mod remainder;
mod scan;
mod text;
mod watch;

pub use list::JsonListSplitter;
pub(crate) use text::push_text;
pub use watch::JsonWatchSplitter;
pub(crate) use watch::bookmark;

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use self::scan::Wanted;
use crate::codec::object_error::{Fault, ObjectError};
use crate::codec::outline::Outline;
use crate::codec::{Codec, Form, Item, Limits, Scanned, TypeMeta, Value};
use crate::{FieldPath, Metadata, Strip};

/// How deep objects and lists may be nested within each other: as deep as Go's decoder reads, and so the API server.
pub(crate) const DEPTH_MAX: usize = 10_000;

/// `application/json`.
///
/// Of members with the same name in one object, the last counts. Names and texts may be written with escapes. Numbers stay as
/// they are written. [`Codec::decode`] reads 128 levels of nesting and no more, as decoding uses the stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Json;

impl Codec for Json {
    type ListSplitter = JsonListSplitter;
    type WatchSplitter = JsonWatchSplitter;

    fn media_type(&self) -> &'static str {
        "application/json"
    }

    fn split_list(&self, limits: Limits) -> JsonListSplitter {
        JsonListSplitter::new(limits)
    }

    fn split_watch(&self, limits: Limits) -> JsonWatchSplitter {
        JsonWatchSplitter::new(limits)
    }

    fn scan(&self, object: &[u8], strip: &Strip, type_meta: Option<&TypeMeta>) -> Result<Scanned, ObjectError> {
        scan(object, strip, type_meta, Wanted::Whole)
    }

    fn scan_item(&self, item: &Item, strip: &Strip, type_meta: Option<&TypeMeta>) -> Result<Scanned, ObjectError> {
        scan_item(item, strip, type_meta, Wanted::Whole)
    }

    fn scan_remainder(
        &self,
        object: &[u8],
        strip: &Strip,
        type_meta: Option<&TypeMeta>,
    ) -> Result<Scanned, ObjectError> {
        scan(object, strip, type_meta, Wanted::Remainder)
    }

    fn scan_item_remainder(
        &self,
        item: &Item,
        strip: &Strip,
        type_meta: Option<&TypeMeta>,
    ) -> Result<Scanned, ObjectError> {
        scan_item(item, strip, type_meta, Wanted::Remainder)
    }

    fn restore<'a>(&self, remainder: &'a [u8], metadata: &Metadata) -> Option<Cow<'a, [u8]>> {
        remainder::restore(remainder, metadata)
    }

    fn rest<'a>(&self, remainder: &'a [u8]) -> Option<&'a [u8]> {
        remainder::rest(remainder)
    }

    fn metadata(&self, object: &[u8]) -> Result<Metadata, ObjectError> {
        scan::metadata(object).map_err(|fault| error(object, fault))
    }

    fn read<'a>(&self, object: &'a [u8], path: &FieldPath) -> Result<Option<Value<'a>>, ObjectError> {
        read::read(object, path).map_err(|fault| error(object, fault))
    }

    fn decode<T: DeserializeOwned>(&self, object: &[u8]) -> Result<T, ObjectError> {
        // Checked as a whole, which is much faster than text by text.
        let decoded = std::str::from_utf8(object).map_or_else(|_| serde_json::from_slice(object), serde_json::from_str);
        decoded.map_err(|fault| {
            let (line, column) = (fault.line(), fault.column());
            error(object, Fault::Decode { message: fault.to_string(), line, column })
        })
    }
}

fn scan(object: &[u8], strip: &Strip, type_meta: Option<&TypeMeta>, wanted: Wanted) -> Result<Scanned, ObjectError> {
    scan::scan(object, &Outline::default(), strip, type_meta, wanted).map_err(|fault| error(object, fault))
}

fn scan_item(item: &Item, strip: &Strip, type_meta: Option<&TypeMeta>, wanted: Wanted) -> Result<Scanned, ObjectError> {
    match &item.form {
        Form::Json(outline) => scan::scan(&item.object, outline, strip, type_meta, wanted)
            .map_err(|fault| error(&item.object, fault).at_index(item.index)),
        Form::Protobuf(sent) => sent
            .to_json(&item.object, strip)
            .and_then(|(json, outline)| {
                let scanned = scan::scan(&json, &outline, strip, type_meta, wanted);
                scanned.map_err(|fault| error(&json, fault))
            })
            .map_err(|error| error.at_index(item.index)),
    }
}

/// The error of an object, with its key if that can be told.
#[cold]
fn error(object: &[u8], fault: Fault) -> ObjectError {
    ObjectError { index: None, key: scan::key(object), fault }
}
