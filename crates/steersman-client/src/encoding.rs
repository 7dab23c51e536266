//! Which encoding is spoken with the server: protobuf for kinds that are built in, JSON for all others.

use std::sync::atomic::{AtomicU8, Ordering};

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request};
use kube_client::client::Body;
use kube_core::Resource;
use serde::de::DeserializeOwned;
use steersman_wire::{Encoding, protobuf};

use crate::api::Form;
use crate::{Api, Error};

/// What is known of the server: it is asked for protobuf from the beginning, as it answers with JSON if it has none, but is sent
/// protobuf only after it has answered with it.
#[derive(Debug)]
pub(crate) struct Spoken {
    state: AtomicU8,
}

/// The client does not want protobuf.
const UNWANTED: u8 = 0;
/// It is not known whether the server has it.
const ASKED_FOR: u8 = 1;
/// The server has answered with it.
const ANSWERED: u8 = 2;
/// The server does not read it.
const REFUSED: u8 = 3;

impl Spoken {
    pub(crate) fn new(protobuf: bool) -> Self {
        Self { state: AtomicU8::new(if protobuf { ASKED_FOR } else { UNWANTED }) }
    }

    fn is_wanted(&self) -> bool {
        self.state.load(Ordering::Relaxed) != UNWANTED
    }

    fn is_read(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ANSWERED
    }

    /// Learns from an answer.
    pub(crate) fn answered(&self, encoding: Encoding) {
        if encoding == Encoding::Protobuf && self.state.load(Ordering::Relaxed) == ASKED_FOR {
            let _ = self.state.compare_exchange(ASKED_FOR, ANSWERED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn refused(&self) {
        self.state.store(REFUSED, Ordering::Relaxed);
    }
}

/// The encoding of an answer.
pub(crate) fn encoding_of(headers: &HeaderMap) -> Encoding {
    Encoding::of(headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()))
}

/// Whether the type was made of Kubernetes' own description, and so has no field that a message of its release has not. Other types of built-in
/// kinds may have been written for what only a newer server sends.
fn is_generated<T>() -> bool {
    std::any::type_name::<T>().starts_with("k8s_openapi::")
}

/// Asks for protobuf before the JSON that is asked for.
fn prefer_protobuf(headers: &mut HeaderMap) {
    let json = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("application/json");
    let preferred = format!("{},{json}", json.replace("application/json", protobuf::MEDIA_TYPE));
    if let Ok(preferred) = HeaderValue::try_from(preferred) {
        headers.insert(ACCEPT, preferred);
    }
}

impl<K: Resource> Api<K> {
    /// Whether these objects can come as protobuf. Of dynamic ones everything is wanted that the server has, whether or not it
    /// was known when this was written.
    fn has_messages(&self) -> bool {
        match self.form {
            Form::Metadata => true,
            Form::Full => {
                is_generated::<K>() && protobuf::has_kind(&K::api_version(&self.dynamic), &K::kind(&self.dynamic))
            }
        }
    }

    /// A request about these objects, which asks for protobuf if they have it.
    pub(crate) fn asking(&self, mut request: Request<Body>) -> Request<Body> {
        if self.client.spoken.is_wanted() && self.has_messages() {
            prefer_protobuf(request.headers_mut());
        }
        request
    }

    /// Sends an object that is written as JSON so far, of the type `B`, and decodes the answer.
    pub(crate) async fn write<B, T: DeserializeOwned>(&self, mut request: Request<Vec<u8>>) -> Result<T, Error> {
        let spoken = &self.client.spoken;
        let writes = spoken.is_read() && is_generated::<B>() && self.has_messages();
        if writes && let Some(message) = protobuf::from_json(request.body()) {
            let json = request.clone();
            *request.body_mut() = message;
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(protobuf::MEDIA_TYPE));
            match self.ask_for::<T>(request.map(Body::from)).await {
                // It has not been looked at, so it can be sent again.
                Err(Error::Api { status, .. }) if status.code == 415 => {
                    spoken.refused();
                    request = json;
                }
                answer => return answer,
            }
        }
        self.ask_for::<T>(request.map(Body::from)).await
    }

    /// Sends a request about these objects and decodes the answer. It may come as protobuf if the type says that it is one of
    /// Kubernetes' own.
    pub(crate) async fn ask_for<T: DeserializeOwned>(&self, request: Request<Body>) -> Result<T, Error> {
        let of_objects = self.form == Form::Metadata || is_generated::<T>();
        let request = if of_objects { self.asking(request) } else { request };
        self.client.ask_for(request).await
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube_core::DynamicObject;

    use super::*;

    #[test]
    fn types_of_kubernetes_are_told_from_others() {
        assert!(is_generated::<Pod>());
        assert!(!is_generated::<DynamicObject>());
        assert!(!is_generated::<serde_json::Value>());
    }

    #[test]
    fn whatever_is_asked_for_is_asked_for_as_protobuf_first() {
        let mut headers = HeaderMap::new();
        prefer_protobuf(&mut headers);
        assert_eq!(headers[ACCEPT], "application/vnd.kubernetes.protobuf,application/json");
        headers.insert(ACCEPT, HeaderValue::from_static("application/json;as=PartialObjectMetadata;v=v1"));
        prefer_protobuf(&mut headers);
        let expected = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1,\
            application/json;as=PartialObjectMetadata;v=v1";
        assert_eq!(headers[ACCEPT], expected);
    }

    #[test]
    fn a_server_is_sent_protobuf_once_it_has_answered_with_it_until_it_refuses() {
        let spoken = Spoken::new(true);
        spoken.answered(Encoding::Json);
        assert_eq!((spoken.is_wanted(), spoken.is_read()), (true, false));
        spoken.answered(Encoding::Protobuf);
        assert_eq!((spoken.is_wanted(), spoken.is_read()), (true, true));
        spoken.refused();
        spoken.answered(Encoding::Protobuf);
        assert_eq!((spoken.is_wanted(), spoken.is_read()), (true, false));
        let unwanted = Spoken::new(false);
        unwanted.answered(Encoding::Protobuf);
        assert_eq!((unwanted.is_wanted(), unwanted.is_read()), (false, false));
    }
}
