//! JSON.
//!
//! [`list`] and [`watch`] split bodies. Both put values together that arrive in pieces with
//! [`gather`], which finds their ends with [`extent`]. [`scan`] and [`read`] walk over one object
//! with a [`cursor`]; [`remainder`] completes an object again. All of them skip strings and
//! brackets 64 bytes at a time ([`block`]).

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

pub(crate) use list::JsonListSplitter;
pub(crate) use text::push_text;
pub(crate) use watch::JsonWatchSplitter;
pub(crate) use watch::bookmark;

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use self::scan::Output;
use crate::codec::object_error::{ObjectError, ObjectFault};
use crate::codec::outline::Outline;
use crate::codec::{Form, RawItem, Scanned, TypeMeta, Value};
use crate::{FieldPath, Metadata, Strip};

/// How deep objects and lists may be nested: as deep as Go's decoder, and so the API server,
/// accepts.
pub(crate) const DEPTH_MAX: usize = 10_000;

/// `application/json`, the encoding in which objects are stored.
///
/// It reads what a cache needs of an object from its bytes: the metadata ([`Json::scan`]) and
/// single fields ([`Json::read`]). Only [`Json::decode`] decodes the object.
///
/// Of members with the same name in one object, the last counts. Names and texts may be written
/// with escapes. Numbers stay as they are written. [`Json::decode`] reads 128 levels of nesting and
/// no more, as decoding uses the stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Json;

impl Json {
    /// Reads an object's metadata and copies the object, without what `strip` names, into an
    /// allocation of exactly its size. If the object does not have a type, `type_meta` is filled
    /// in, both in the metadata and in the copy. Items of lists of built-in kinds have none.
    ///
    /// The object is checked to be UTF-8 and not nested too deep. What is in fields that are
    /// skipped is otherwise not checked; [`Json::decode`] does that.
    pub fn scan(&self, object: &[u8], strip: &Strip, type_meta: Option<&TypeMeta>) -> Result<Scanned, ObjectError> {
        scan(object, strip, type_meta, Output::Whole)
    }

    /// Like [`Json::scan`], for an item of a list or of an event. It is faster, because it uses
    /// what was learned while splitting, and an error has the item's index.
    pub fn scan_item(
        &self,
        item: &RawItem,
        strip: &Strip,
        type_meta: Option<&TypeMeta>,
    ) -> Result<Scanned, ObjectError> {
        scan_item(item, strip, type_meta, Output::Whole)
    }

    /// Like [`Json::scan`], but returns the object's remainder: the object without what the
    /// metadata holds, so that a cache does not store it twice. A remainder is not an object;
    /// [`Json::restore`] makes one of it.
    pub fn scan_remainder(
        &self,
        object: &[u8],
        strip: &Strip,
        type_meta: Option<&TypeMeta>,
    ) -> Result<Scanned, ObjectError> {
        scan(object, strip, type_meta, Output::Remainder)
    }

    /// Like [`Json::scan_item`], but returns the object's remainder.
    pub fn scan_item_remainder(
        &self,
        item: &RawItem,
        strip: &Strip,
        type_meta: Option<&TypeMeta>,
    ) -> Result<Scanned, ObjectError> {
        scan_item(item, strip, type_meta, Output::Remainder)
    }

    /// Makes the object that [`Json::scan`] would have returned of its remainder and its metadata.
    /// It means the same, but fields that the metadata holds may be written in another way. A whole
    /// object is returned as it is. None if the remainder is broken.
    pub fn restore<'a>(&self, remainder: &'a [u8], metadata: &Metadata) -> Option<Cow<'a, [u8]>> {
        remainder::restore(remainder, metadata)
    }

    /// The part of a remainder that is an object: all fields but the type and those in the
    /// metadata. Any other field can be read from it. None if the remainder is broken.
    pub fn rest<'a>(&self, remainder: &'a [u8]) -> Option<&'a [u8]> {
        remainder::rest(remainder)
    }

    /// Reads an object's metadata only.
    pub fn metadata(&self, object: &[u8]) -> Result<Metadata, ObjectError> {
        scan::metadata(object).map_err(|fault| error(object, fault))
    }

    /// Reads one field of an object. None if the field is absent.
    pub fn read<'a>(&self, object: &'a [u8], path: &FieldPath) -> Result<Option<Value<'a>>, ObjectError> {
        read::read(object, path).map_err(|fault| error(object, fault))
    }

    /// Decodes an object, or the bytes of a [`Value::Raw`]. A type with fewer fields reads only
    /// those.
    pub fn decode<T: DeserializeOwned>(&self, object: &[u8]) -> Result<T, ObjectError> {
        // Checked as a whole, which is much faster than text by text.
        let decoded = std::str::from_utf8(object).map_or_else(|_| serde_json::from_slice(object), serde_json::from_str);
        decoded.map_err(|fault| {
            let (line, column) = (fault.line(), fault.column());
            error(object, ObjectFault::Decode { message: fault.to_string(), line, column })
        })
    }
}

fn scan(object: &[u8], strip: &Strip, type_meta: Option<&TypeMeta>, output: Output) -> Result<Scanned, ObjectError> {
    scan::scan(object, &Outline::default(), strip, type_meta, output).map_err(|fault| error(object, fault))
}

fn scan_item(
    item: &RawItem,
    strip: &Strip,
    type_meta: Option<&TypeMeta>,
    output: Output,
) -> Result<Scanned, ObjectError> {
    match &item.form {
        Form::Json(outline) => scan::scan(&item.object, outline, strip, type_meta, output)
            .map_err(|fault| error(&item.object, fault).at_index(item.index)),
        Form::Protobuf(item_type) => item_type
            .to_json(&item.object, strip)
            .and_then(|(json, outline)| {
                let scanned = scan::scan(&json, &outline, strip, type_meta, output);
                scanned.map_err(|fault| error(&json, fault))
            })
            .map_err(|error| error.at_index(item.index)),
    }
}

/// The error of an object, with its key if it can be read.
#[cold]
fn error(object: &[u8], fault: ObjectFault) -> ObjectError {
    ObjectError { index: None, key: scan::key(object), fault }
}
