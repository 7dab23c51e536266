//! Splits watch streams into events.

use std::ops::Range;

use bytes::Bytes;

use super::cursor::Cursor;
use super::gather::{Capture, Gather, Gathered};
use super::scan;
use super::text::unescape;
use crate::codec::object_error::{ObjectError, ObjectFault};
use crate::codec::outline::{EVENT_LEVELS, Outline};
use crate::codec::status::ErrorStatus;
use crate::codec::{Form, Limits, RawItem, WatchEvent, WireError};

/// The annotation of the bookmark that follows the objects that existed when the watch began.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Splits a watch stream in JSON into its events.
///
/// An event is one JSON object. Servers write each on a line of its own. Lines matter only where
/// the stream has no object: then the splitter skips the rest of the line.
#[derive(Debug)]
pub(crate) struct JsonWatchSplitter {
    gather: Gather,
    /// How many events were read.
    events: usize,
    /// Within a line that is not an event.
    in_garbage: bool,
}

impl JsonWatchSplitter {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { gather: Gather::new(limits), events: 0, in_garbage: false }
    }

    fn advance(&mut self) -> Option<Result<WatchEvent, EventFault>> {
        if self.in_garbage {
            self.in_garbage = !self.gather.skip_line();
        }
        if !self.gather.is_within() {
            let first = self.gather.peek()?;
            if first != b'{' {
                self.in_garbage = true;
                return Some(Err(EventFault::without_key(ObjectFault::Syntax {
                    offset: 0,
                    expected: "an event, which is an object",
                })));
            }
            self.gather.begin(first, Capture::Outlined(EVENT_LEVELS));
        }
        Some(match self.gather.proceed()? {
            Gathered::Whole(event, outline) => read_event(&event, outline, self.events),
            Gathered::TooLarge(beginning) => {
                let mut parts = Parts::default();
                // The event is cut off, so this fails. What came before is known.
                let _ = parts.find(&beginning, &Outline::default());
                let object = parts.object.map(|place| scan::key(&beginning[place.start..]));
                Err(EventFault { key: object.flatten(), fault: ObjectFault::TooLarge { limit: self.gather.limit() } })
            }
            Gathered::Skipped => Err(EventFault::without_key(ObjectFault::Event { found: "nothing".to_owned() })),
        })
    }
}

impl JsonWatchSplitter {
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.gather.push(chunk);
    }

    pub(crate) fn next_event(&mut self) -> Result<Option<Result<WatchEvent, ObjectError>>, WireError> {
        let Some(event) = self.advance() else { return Ok(None) };
        let index = self.events;
        self.events += 1;
        Ok(Some(event.map_err(|EventFault { key, fault }| ObjectError { index: Some(index), key, fault })))
    }

    pub(crate) fn finish(mut self) -> Result<(), WireError> {
        while self.next_event()?.is_some() {}
        if self.gather.is_within() {
            return Err(WireError::Truncated { length: self.gather.offset(), within: "an event" });
        }
        Ok(())
    }
}

/// What is wrong with an event, and the key of its object.
struct EventFault {
    key: Option<String>,
    fault: ObjectFault,
}

impl EventFault {
    fn without_key(fault: ObjectFault) -> Self {
        Self { key: None, fault }
    }
}

/// The places of the parts of an event.
#[derive(Debug, Default)]
struct Parts {
    kind: Option<Range<usize>>,
    object: Option<Range<usize>>,
}

impl Parts {
    fn find(&mut self, event: &[u8], outline: &Outline) -> Result<(), ObjectFault> {
        let mut cursor = Cursor::with_outline(event, outline);
        let mut members = cursor.object()?;
        while let Some(member) = cursor.member(&mut members)? {
            let name = member.name.text()?;
            let start = cursor.at();
            if &*name == b"object" {
                self.object = Some(start..start);
            }
            let value = cursor.skip()?;
            match &*name {
                b"type" => self.kind = Some(value),
                b"object" => self.object = Some(value),
                _ => {}
            }
        }
        cursor.end()
    }
}

fn read_event(event: &Bytes, outline: Outline, index: usize) -> Result<WatchEvent, EventFault> {
    let mut parts = Parts::default();
    let found = parts.find(event, &outline);
    let key = |parts: &Parts| parts.object.as_ref().and_then(|place| scan::key(&event[place.start..]));
    found.map_err(|fault| EventFault { key: key(&parts), fault })?;
    let fault = |fault| EventFault { key: key(&parts), fault };
    let Parts { kind: Some(kind), object: Some(object) } = &parts else {
        let found = if parts.object.is_some() { "no type" } else { "no object" };
        return Err(fault(ObjectFault::Event { found: found.to_owned() }));
    };
    let item = || RawItem { index, object: event.slice(object.clone()), form: Form::Json(outline.into_part(object)) };
    let object = || &event[object.clone()];
    match &event[kind.clone()] {
        br#""ADDED""# => Ok(WatchEvent::Added(item())),
        br#""MODIFIED""# => Ok(WatchEvent::Modified(item())),
        br#""DELETED""# => Ok(WatchEvent::Deleted(item())),
        other => {
            let kind = match other {
                [b'"', kind @ .., b'"'] => unescape(kind).map_err(fault)?,
                _ => return Err(fault(ObjectFault::Event { found: "a type that is no text".to_owned() })),
            };
            match &*kind {
                "ADDED" => Ok(WatchEvent::Added(item())),
                "MODIFIED" => Ok(WatchEvent::Modified(item())),
                "DELETED" => Ok(WatchEvent::Deleted(item())),
                "BOOKMARK" => bookmark(object()).map_err(fault),
                "ERROR" => ErrorStatus::from_json(object()).map(WatchEvent::Error).map_err(|error| {
                    fault(ObjectFault::Decode {
                        message: error.to_string(),
                        line: error.line(),
                        column: error.column(),
                    })
                }),
                other => Err(fault(ObjectFault::Event { found: format!("the type {other:?}") })),
            }
        }
    }
}

pub(crate) fn bookmark(object: &[u8]) -> Result<WatchEvent, ObjectFault> {
    let metadata = scan::metadata(object)?;
    Ok(WatchEvent::Bookmark {
        resource_version: metadata.resource_version().to_owned(),
        initial_events_end: metadata.annotation(INITIAL_EVENTS_END) == Some("true"),
    })
}
