//! Splits lists into items.

use std::fmt;

use bytes::Bytes;
use serde::Deserialize;

use super::gather::{Capture, Gather, Gathered};
use super::scan;
use super::text::unescape;
use crate::codec::object_error::{ObjectError, ObjectFault};
use crate::codec::outline::LEVELS;
use crate::codec::status::ErrorStatus;
use crate::codec::{Form, Limits, ListMeta, RawItem, WireError};

/// Splits a list in JSON into its items.
pub(crate) struct JsonListSplitter {
    gather: Gather,
    state: State,
    /// How many items were read.
    items: usize,
    /// Whether the list has `items`, even if there are none.
    has_items: bool,
    list: ListMeta,
    /// The members of the body that belong to a `Status`, as they are written.
    status: Vec<(&'static str, Bytes)>,
    /// Invalid fields of the list itself, with the reasons. They are an error unless a valid one
    /// follows.
    invalid: Vec<(String, String)>,
    failed: Option<WireError>,
}

impl fmt::Debug for JsonListSplitter {
    /// Leaves out the contents, which may be Secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonListSplitter")
            .field("gather", &self.gather)
            .field("items", &self.items)
            .field("list", &self.list)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

/// What the splitter expects next.
#[derive(Clone, PartialEq, Eq)]
enum State {
    /// The body.
    Start,
    /// The name of a member, or the end of the body if `may_end`.
    Name { may_end: bool },
    /// The colon after this name.
    Colon(String),
    /// The value of this member.
    Value(String),
    /// A comma, or the end of the body.
    AfterValue,
    /// An item, or the end of the items if `may_end`.
    Item { may_end: bool },
    /// A comma, or the end of the items.
    AfterItem,
    /// Nothing.
    End,
}

/// The length of the longest name of a kind.
const KIND_MAX: usize = 63;
/// The members of a `Status` beyond those of every object.
const STATUS_FIELDS: [&str; 5] = ["status", "message", "reason", "details", "code"];

impl JsonListSplitter {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            gather: Gather::new(limits),
            state: State::Start,
            items: 0,
            has_items: false,
            list: ListMeta::default(),
            status: Vec::new(),
            invalid: Vec::new(),
            failed: None,
        }
    }

    fn advance(&mut self) -> Result<Option<Result<RawItem, ObjectError>>, WireError> {
        loop {
            if self.gather.is_within() {
                let Some(value) = self.gather.proceed() else { return Ok(None) };
                if let Some(item) = self.take(value)? {
                    return Ok(Some(item));
                }
                continue;
            }
            let Some(byte) = self.gather.peek() else { return Ok(None) };
            self.token(byte)?;
        }
    }

    /// Handles a byte that is not white space and outside of values.
    fn token(&mut self, byte: u8) -> Result<(), WireError> {
        let next = match (&self.state, byte) {
            (State::Start, b'{') => State::Name { may_end: true },
            (State::Start, _) => return Err(self.gather.structure("a list, which is an object")),
            (State::Name { .. }, b'"') => {
                self.gather.begin(byte, Capture::Value);
                return Ok(());
            }
            (State::Name { may_end: true } | State::AfterValue, b'}') => State::End,
            (State::Name { .. }, _) => return Err(self.gather.structure("a member's name")),
            (State::Colon(name), b':') => State::Value(name.clone()),
            (State::Colon(_), _) => return Err(self.gather.structure("a colon after a member's name")),
            (State::Value(name), b'[') if name == "items" => {
                self.see_items()?;
                State::Item { may_end: true }
            }
            (State::Value(_), b',' | b':' | b'}' | b']') => return Err(self.gather.structure("a value")),
            (State::Value(name), _) => {
                let name = name.clone();
                self.begin_value(&name, byte)?;
                return Ok(());
            }
            (State::AfterValue, b',') => State::Name { may_end: false },
            (State::AfterValue, _) => return Err(self.gather.structure("a comma or the end of the list")),
            (State::Item { may_end: true } | State::AfterItem, b']') => State::AfterValue,
            (State::Item { .. }, b',' | b':' | b'}' | b']') => return Err(self.gather.structure("an item")),
            (State::Item { .. }, _) => {
                self.gather.begin(byte, Capture::Outlined(LEVELS));
                return Ok(());
            }
            (State::AfterItem, b',') => State::Item { may_end: false },
            (State::AfterItem, _) => return Err(self.gather.structure("a comma or the end of the items")),
            (State::End, _) => return Err(self.gather.structure("nothing after the list")),
        };
        self.gather.step();
        self.state = next;
        Ok(())
    }

    fn begin_value(&mut self, name: &str, first: u8) -> Result<(), WireError> {
        if name == "items" {
            // Go writes `null` for no items.
            self.see_items()?;
            if first != b'n' {
                return Err(self.gather.structure("items to be a list"));
            }
        }
        let keep = matches!(name, "kind" | "apiVersion" | "metadata" | "items") || STATUS_FIELDS.contains(&name);
        self.gather.begin(first, if keep { Capture::Value } else { Capture::Nothing });
        Ok(())
    }

    /// Items that were returned cannot be taken back, so the last of two members cannot win.
    fn see_items(&mut self) -> Result<(), WireError> {
        if std::mem::replace(&mut self.has_items, true) {
            return Err(self.gather.structure("items only once"));
        }
        Ok(())
    }

    /// Handles a complete value, and returns it if it is an item.
    fn take(&mut self, value: Gathered) -> Result<Option<Result<RawItem, ObjectError>>, WireError> {
        match std::mem::replace(&mut self.state, State::AfterValue) {
            State::Item { .. } => {
                self.state = State::AfterItem;
                let index = self.items;
                self.items += 1;
                Ok(Some(match value {
                    Gathered::Whole(object, outline) => Ok(RawItem { index, object, form: Form::Json(outline) }),
                    Gathered::TooLarge(beginning) => {
                        let fault = ObjectFault::TooLarge { limit: self.gather.limit() };
                        Err(ObjectError { index: Some(index), key: scan::key(&beginning), fault })
                    }
                    Gathered::Skipped => return Err(self.gather.structure("an item")),
                }))
            }
            State::Value(name) => self.take_field(&name, value).map(|()| None),
            _ => {
                let name = match value {
                    Gathered::Whole(name, _) => name,
                    _ => return Err(self.too_large("member's name")),
                };
                let name = unescape(&name[1..name.len() - 1]);
                let name = name.map_err(|_| self.gather.structure("a member's name that is a text"))?.into_owned();
                self.state = State::Colon(name);
                Ok(None)
            }
        }
    }

    fn too_large(&self, name: &str) -> WireError {
        WireError::TooLarge { name: name.to_owned(), limit: self.gather.limit() }
    }

    fn take_field(&mut self, name: &str, value: Gathered) -> Result<(), WireError> {
        let value = match value {
            Gathered::Whole(value, _) => value,
            Gathered::TooLarge(_) => return Err(self.too_large(name)),
            Gathered::Skipped => return Ok(()),
        };
        let taken = match name {
            "kind" => text(&value).map(|kind| self.list.type_meta.kind = kind),
            "apiVersion" => text(&value).map(|version| self.list.type_meta.api_version = version),
            "metadata" => self.take_metadata(&value),
            "items" if &value[..] != b"null" => return Err(self.gather.structure("items to be a list")),
            _ => Ok(()),
        };
        self.invalid.retain(|(found, _)| found != name);
        if let Err(error) = taken {
            self.invalid.push((name.to_owned(), error.to_string()));
        }
        if let Some(name) = STATUS_FIELDS.iter().find(|field| **field == name) {
            self.status.retain(|(found, _)| found != name);
            self.status.push((name, value));
        }
        Ok(())
    }

    fn take_metadata(&mut self, metadata: &[u8]) -> Result<(), serde_json::Error> {
        // A map first, in which the last of several equal members counts.
        let metadata: serde_json::Value = serde_json::from_slice(metadata)?;
        let metadata: Option<Written> = Deserialize::deserialize(metadata)?;
        let metadata = metadata.unwrap_or_default();
        self.list.resource_version = metadata.resource_version.unwrap_or_default();
        self.list.continue_token = metadata.continue_token.unwrap_or_default();
        self.list.remaining_item_count = metadata.remaining_item_count;
        Ok(())
    }

    /// The error for a body that is a `Status`.
    fn refusal(&self) -> WireError {
        let mut text = Vec::from(*b"{");
        for (name, value) in &self.status {
            let comma = if text.len() > 1 { "," } else { "" };
            text.extend_from_slice(format!("{comma}\"{name}\":").as_bytes());
            text.extend_from_slice(value);
        }
        text.push(b'}');
        match ErrorStatus::from_json(&text) {
            Ok(status) => WireError::Status(Box::new(status)),
            Err(error) => WireError::ListMeta { message: format!("the server's refusal: {error}") },
        }
    }
}

impl JsonListSplitter {
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.gather.push(chunk);
    }

    pub(crate) fn next_item(&mut self) -> Result<Option<Result<RawItem, ObjectError>>, WireError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.advance().inspect_err(|error| self.failed = Some(error.clone()))
    }

    pub(crate) fn list(&self) -> &ListMeta {
        &self.list
    }

    pub(crate) fn finish(mut self) -> Result<ListMeta, WireError> {
        // Skips the remaining items: fields of the list may follow them.
        while self.next_item()?.is_some() {}
        if self.state != State::End {
            let within = if self.state == State::Start { "nothing at all" } else { "a list" };
            return Err(WireError::Truncated { length: self.gather.offset(), within });
        }
        if let Some((name, why)) = self.invalid.first() {
            return Err(WireError::ListMeta { message: format!("{name}: {why}") });
        }
        let kind = &self.list.type_meta.kind;
        match kind.as_str() {
            _ if self.has_items => Ok(self.list),
            "Status" => Err(self.refusal()),
            list if list.ends_with("List") => Ok(self.list),
            "" => Err(WireError::NotAList { kind: "an object without a kind".to_owned() }),
            // A kind is one word. Anything else may be a part of a Secret and is not shown.
            kind if kind.len() <= KIND_MAX && kind.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                Err(WireError::NotAList { kind: kind.to_owned() })
            }
            _ => Err(WireError::NotAList { kind: "an object with an invalid kind".to_owned() }),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Written {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
    remaining_item_count: Option<i64>,
}

fn text(value: &[u8]) -> Result<String, serde_json::Error> {
    serde_json::from_slice::<Option<String>>(value).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However large an object and however small the chunks, no buffer exceeds twice the largest
    /// object.
    #[test]
    fn buffers_are_no_larger_than_twice_the_largest_object() {
        for sizes in [&[1_000_000][..], &[100, 70_000, 300_000, 200, 299_000], &[40_000; 50]] {
            let items: Vec<_> = sizes.iter().map(|size| format!(r#"{{"text":"{}"}}"#, "x".repeat(*size))).collect();
            let largest = items.iter().map(String::len).max().unwrap();
            let body = Bytes::from(format!(r#"{{"kind":"PodList","items":[{}]}}"#, items.join(",")));
            let mut splitter = JsonListSplitter::new(Limits::default());
            let mut found = Vec::new();
            for start in (0..body.len()).step_by(1 << 14) {
                splitter.push(body.slice(start..body.len().min(start + (1 << 14))));
                while let Some(item) = splitter.next_item().unwrap() {
                    found.push(item.unwrap().object);
                }
                assert!(splitter.gather.room() <= 2 * largest, "{} for {largest}", splitter.gather.room());
            }
            assert_eq!(found, items);
        }
    }
}
