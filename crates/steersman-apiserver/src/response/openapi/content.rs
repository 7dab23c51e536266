//! The bytes of a document, and the headers that let clients keep them.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, ETAG, IF_NONE_MATCH, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Full};

use super::custom::CustomPart;
use super::node::Node;
use super::protobuf::{DOCUMENT_V2, DOCUMENT_V3, encode};
use super::schema::Version;
use super::sources::Source;
use super::table::table;
use super::{builtin, document, empty, insert};
use crate::request::budget;
use crate::response::status::Status;
use crate::response::{Body, HandlerResult};
use crate::server::Shared;

/// A shorter body is not compressed.
const COMPRESSED_MIN: usize = 1400;
/// The work on one version of a definition beside its schema. It bounds the document of version 2
/// to about 60 MB.
const PART_STEPS: usize = 8192;
/// The bytes of a document that take a step to write.
const STEP: usize = 16;

/// The form of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    Json,
    Protobuf,
}

/// A document of the server.
pub(super) struct Served {
    origin: Origin,
    hash: String,
}

enum Origin {
    /// Without custom resources, by its name.
    BuiltIn(String),
    Custom(Definitions),
    /// Made already.
    Plain(Bytes),
}

/// A document with custom resources, and the definitions that it is made of.
pub(super) struct Definitions {
    pub(super) document: String,
    pub(super) version: Version,
    pub(super) sources: Vec<Source>,
}

impl Definitions {
    /// Makes the document. The definitions are stored, so this has limits of its own.
    fn content(&self, form: Form) -> Result<Bytes, Status> {
        let made = budget::apart(|| {
            budget::step(PART_STEPS.saturating_mul(self.sources.len()));
            let parts = self.sources.iter().take_while(|_| !budget::is_spent());
            let parts: Vec<CustomPart> = parts.filter_map(|source| source.part(self.version)).collect();
            if budget::is_spent() {
                return Bytes::new();
            }
            let tree = match self.version {
                Version::V2 => document::v2(parts),
                Version::V3 => document::custom_v3(parts),
            };
            let bytes = Bytes::from(in_form(&tree, self.version, form));
            budget::step(bytes.len() / STEP);
            bytes
        });
        made.ok_or_else(|| {
            Status::too_large(format!(
                "Request entity too large: the OpenAPI document {} takes too many steps to make: use definitions with \
                 smaller schemas, or delete some",
                self.document
            ))
        })
    }
}

/// Documents without custom resources, by name, form and whether they are compressed.
static BUILT_IN: Mutex<BTreeMap<(String, Form, bool), Bytes>> = Mutex::new(BTreeMap::new());

fn kept(name: &str, form: Form, is_compressed: bool, make: impl FnOnce() -> Bytes) -> Bytes {
    let key = (name.to_owned(), form, is_compressed);
    let find = || BUILT_IN.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    find().unwrap_or_else(|| {
        let made = make();
        BUILT_IN.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), made.clone());
        made
    })
}

impl Served {
    /// The document of this name without custom resources, if there is one.
    pub(super) fn built_in(name: &str) -> Option<Self> {
        let hash = table().hash(name)?.to_owned();
        Some(Self { origin: Origin::BuiltIn(name.to_owned()), hash })
    }

    /// A document with custom resources.
    pub(super) fn custom(definitions: Definitions, hash: String) -> Self {
        Self { origin: Origin::Custom(definitions), hash }
    }

    /// A text without a hash.
    pub(super) fn plain(text: String) -> Self {
        Self { origin: Origin::Plain(text.into()), hash: String::new() }
    }

    pub(super) fn hash(&self) -> &str {
        &self.hash
    }

    pub(super) fn content(&self, form: Form) -> Result<Bytes, Status> {
        Ok(match &self.origin {
            Origin::BuiltIn(name) => kept(name, form, false, || {
                let (tree, version) = match builtin::part(name) {
                    Some(part) => (document::builtin_v3(part), Version::V3),
                    None => (document::v2(Vec::new()), Version::V2),
                };
                in_form(&tree, version, form).into()
            }),
            Origin::Custom(definitions) => definitions.content(form)?,
            Origin::Plain(text) => text.clone(),
        })
    }

    /// The content, compressed if it is long, and whether it is.
    fn compressed(&self, form: Form) -> Result<(Bytes, bool), Status> {
        let content = self.content(form)?;
        if content.len() < COMPRESSED_MIN {
            return Ok((content, false));
        }
        let bytes = match &self.origin {
            Origin::BuiltIn(name) => kept(name, form, true, || gzip(&content)),
            Origin::Custom(_) | Origin::Plain(_) => gzip(&content),
        };
        Ok((bytes, true))
    }
}

fn in_form(tree: &Node, version: Version, form: Form) -> Vec<u8> {
    match (form, version) {
        (Form::Json, version) => document::json(tree, version),
        (Form::Protobuf, Version::V2) => encode(tree, &DOCUMENT_V2),
        (Form::Protobuf, Version::V3) => encode(tree, &DOCUMENT_V3),
    }
}

/// Bytes as capital digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The header that identifies the document.
pub(super) fn tag(response: &mut Response<Body>, served: &Served) {
    if !served.hash.is_empty() {
        insert(response, ETAG, &format!("\"{}\"", served.hash));
    }
}

impl Shared {
    /// The document in this form, compressed if the client accepts that, or 304 if it has it.
    pub(super) fn conditional(
        &self,
        served: &Served,
        form: Form,
        headers: &HeaderMap,
        compression: Compressed,
    ) -> HandlerResult {
        let mut response = if is_known(served, headers) {
            empty(StatusCode::NOT_MODIFIED)
        } else {
            let is_wanted = compression == Compressed::IfAccepted && accepts_gzip(headers);
            let (content, is_compressed) =
                if is_wanted { served.compressed(form)? } else { (served.content(form)?, false) };
            let mut response = Response::new(Full::new(content).boxed_unsync());
            if is_compressed {
                response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            let now = self.world.now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
            insert(&mut response, LAST_MODIFIED, &now);
            response
        };
        tag(&mut response, served);
        Ok(response)
    }
}

/// Whether a response may be compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Compressed {
    Never,
    IfAccepted,
}

/// Whether the client has this document already.
fn is_known(served: &Served, headers: &HeaderMap) -> bool {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_same = |known: &str| {
        let known = known.trim();
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == format!("\"{}\"", served.hash)
    };
    !served.hash.is_empty() && known.flat_map(|value| value.split(',')).any(is_same)
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let encodings = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    encodings.flat_map(|value| value.split(',')).any(|encoding| {
        let mut parts = encoding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let quality = parts.find_map(|parameter| parameter.strip_prefix("q=")?.parse::<f64>().ok());
        is_gzip && quality.is_none_or(|quality| quality > 0.0)
    })
}

fn gzip(content: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let _ = encoder.write_all(content);
    encoder.finish().unwrap_or_default().into()
}
