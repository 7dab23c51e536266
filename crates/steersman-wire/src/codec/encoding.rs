//! The encodings of bodies.

use std::borrow::Cow;

use crate::codec::Limits;
use crate::codec::object_error::ObjectError;
use crate::codec::protobuf;
use crate::codec::splitter::{ListSplitter, WatchSplitter};

/// The encoding of a body. The sender chooses it among those that the request accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/vnd.kubernetes.protobuf`, for built-in kinds.
    Protobuf,
}

impl Encoding {
    /// The encoding of a `Content-Type`. Anything unknown counts as JSON.
    pub fn of(content_type: Option<&str>) -> Self {
        let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if media_type.eq_ignore_ascii_case(protobuf::MEDIA_TYPE) { Self::Protobuf } else { Self::Json }
    }

    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => protobuf::MEDIA_TYPE,
        }
    }

    /// Converts a body that is one object to JSON.
    pub fn object(self, body: &[u8]) -> Result<Cow<'_, [u8]>, ObjectError> {
        match self {
            Self::Json => Ok(Cow::Borrowed(body)),
            Self::Protobuf => protobuf::to_json(body).map(Cow::Owned),
        }
    }

    /// A splitter for the body of a list.
    pub fn split_list(self, limits: Limits) -> ListSplitter {
        ListSplitter::new(self, limits)
    }

    /// A splitter for the body of a watch.
    pub fn split_watch(self, limits: Limits) -> WatchSplitter {
        WatchSplitter::new(self, limits)
    }
}
