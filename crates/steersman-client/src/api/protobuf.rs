//! Protobuf for built-in kinds, JSON for all others.

use std::any::type_name;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request};
use kube_client::client::Body;
use kube_core::Resource;
use serde::de::DeserializeOwned;
use steersman_wire::{Encoding, protobuf};

use super::{Api, Form};
use crate::Error;

/// Whether the server supports protobuf. The client accepts protobuf from the first request on: a
/// server without it responds with JSON. The client sends protobuf only after the server has
/// responded with it.
#[derive(Debug)]
pub(crate) struct ProtobufSupport {
    state: AtomicU8,
}

/// The client does not use protobuf.
const DISABLED: u8 = 0;
/// The server has not responded with protobuf yet.
const UNKNOWN: u8 = 1;
/// The server has responded with protobuf.
const CONFIRMED: u8 = 2;
/// The server does not accept protobuf.
const REJECTED: u8 = 3;

impl ProtobufSupport {
    pub(crate) fn new(protobuf: bool) -> Self {
        Self { state: AtomicU8::new(if protobuf { UNKNOWN } else { DISABLED }) }
    }

    fn is_enabled(&self) -> bool {
        self.state.load(Ordering::Relaxed) != DISABLED
    }

    fn is_confirmed(&self) -> bool {
        self.state.load(Ordering::Relaxed) == CONFIRMED
    }

    /// Learns from the encoding of a response.
    pub(crate) fn observe(&self, encoding: Encoding) {
        if encoding == Encoding::Protobuf && self.state.load(Ordering::Relaxed) == UNKNOWN {
            let _ = self.state.compare_exchange(UNKNOWN, CONFIRMED, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn reject(&self) {
        self.state.store(REJECTED, Ordering::Relaxed);
    }
}

/// Whether objects of a kind lose nothing when `T` reads them from protobuf. Computed once for each
/// type and kind.
fn is_covered<T: DeserializeOwned>(api_version: &str, kind: &str) -> bool {
    /// The version and name of each kind that a type reads, and the result.
    type Kinds = Vec<(String, String, bool)>;
    static KNOWN: LazyLock<Mutex<HashMap<(&str, usize), Kinds>>> = LazyLock::new(Mutex::default);
    if !protobuf::has_kind(api_version, kind) {
        return false;
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // Two versions of a crate can have types with the same name.
    let kinds = known.entry((type_name::<T>(), size_of::<T>())).or_default();
    if let Some((_, _, covered)) =
        kinds.iter().find(|known| (known.0.as_str(), known.1.as_str()) == (api_version, kind))
    {
        return *covered;
    }
    let covered = protobuf::covers::<T>(api_version, kind);
    kinds.push((api_version.to_owned(), kind.to_owned(), covered));
    covered
}

/// Puts protobuf before the JSON of the `Accept` header.
fn prefer_protobuf(headers: &mut HeaderMap) {
    let json = accept_header(headers);
    let preferred = format!("{},{json}", json.replace("application/json", protobuf::MEDIA_TYPE));
    if let Ok(preferred) = HeaderValue::try_from(preferred) {
        headers.insert(ACCEPT, preferred);
    }
}

fn accept_header(headers: &HeaderMap) -> &str {
    headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("application/json")
}

impl<K: Resource> Api<K> {
    /// Whether these objects can travel as protobuf, written and read as `T`: the kind is built in,
    /// and the type reads no field beyond its messages. A dynamic object reads every field that the
    /// server has.
    fn is_covered_by_messages<T: DeserializeOwned>(&self) -> bool {
        self.form == Form::Full
            && type_name::<T>() == type_name::<K>()
            && is_covered::<T>(&K::api_version(&self.dynamic), &K::kind(&self.dynamic))
    }

    /// Accepts protobuf for these objects, if they have it.
    pub(crate) fn accept_protobuf<T: DeserializeOwned>(&self, mut request: Request<Body>) -> Request<Body> {
        // Metadata can come as protobuf for every kind.
        let is_metadata = || accept_header(request.headers()).contains("as=PartialObjectMetadata");
        if self.client.protobuf.is_enabled() && (is_metadata() || self.is_covered_by_messages::<T>()) {
            prefer_protobuf(request.headers_mut());
        }
        request
    }

    /// Sends an object in JSON, or in protobuf if a message can hold all of it. Decodes the
    /// response.
    pub(crate) async fn send_object<T: DeserializeOwned>(&self, mut request: Request<Vec<u8>>) -> Result<T, Error> {
        let support = &self.client.protobuf;
        if support.is_confirmed()
            && self.is_covered_by_messages::<T>()
            && let Some(message) = protobuf::from_json(request.body())
        {
            let json = request.clone();
            *request.body_mut() = message;
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(protobuf::MEDIA_TYPE));
            match self.send_decode::<T>(request.map(Body::from)).await {
                // The server has not processed the request, so it can be sent again.
                Err(Error::Api { status, .. }) if status.code == 415 => {
                    support.reject();
                    request = json;
                }
                response => return response,
            }
        }
        self.send_decode::<T>(request.map(Body::from)).await
    }

    /// Sends a request for these objects and decodes the response.
    pub(crate) async fn send_decode<T: DeserializeOwned>(&self, request: Request<Body>) -> Result<T, Error> {
        self.client.send_decode(self.accept_protobuf::<T>(request)).await
    }
}

#[cfg(test)]
mod tests {
    use kube_core::DynamicObject;

    use super::*;

    #[test]
    fn types_whose_fields_the_messages_have_are_covered() {
        use k8s_openapi::api::{
            apps::v1 as apps, batch::v1 as batch, coordination::v1 as coordination, core::v1 as core,
        };
        use k8s_openapi::api::{
            events::v1 as events, networking::v1 as networking, policy::v1 as policy, rbac::v1 as rbac,
        };

        fn covered<K: Resource<DynamicType = ()> + DeserializeOwned>() -> bool {
            is_covered::<K>(&K::api_version(&()), &K::kind(&()))
        }
        assert!(covered::<core::Pod>());
        assert!(covered::<core::Secret>());
        assert!(covered::<core::Service>());
        assert!(covered::<core::Node>());
        assert!(covered::<core::Namespace>());
        assert!(covered::<core::ConfigMap>());
        assert!(covered::<core::Event>());
        assert!(covered::<core::PersistentVolume>());
        assert!(covered::<core::ServiceAccount>());
        assert!(covered::<apps::Deployment>());
        assert!(covered::<apps::StatefulSet>());
        assert!(covered::<apps::DaemonSet>());
        assert!(covered::<apps::ControllerRevision>());
        assert!(covered::<batch::CronJob>());
        assert!(covered::<coordination::Lease>());
        assert!(covered::<events::Event>());
        assert!(covered::<networking::Ingress>());
        assert!(covered::<networking::NetworkPolicy>());
        assert!(covered::<policy::PodDisruptionBudget>());
        assert!(covered::<rbac::ClusterRole>());
        assert!(!is_covered::<DynamicObject>("v1", "Pod"));
        assert!(!is_covered::<serde_json::Value>("v1", "Pod"));
        assert!(!is_covered::<core::Pod>("example.com/v1", "Thing"));
        assert!(!is_covered::<core::Pod>("v1", "ConfigMap"), "the same type of another kind");
    }

    #[test]
    fn protobuf_is_accepted_before_json() {
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
    fn protobuf_is_sent_after_the_server_has_responded_with_it_until_the_server_refuses() {
        let support = ProtobufSupport::new(true);
        support.observe(Encoding::Json);
        assert_eq!((support.is_enabled(), support.is_confirmed()), (true, false));
        support.observe(Encoding::Protobuf);
        assert_eq!((support.is_enabled(), support.is_confirmed()), (true, true));
        support.reject();
        support.observe(Encoding::Protobuf);
        assert_eq!((support.is_enabled(), support.is_confirmed()), (true, false));
        let unwanted = ProtobufSupport::new(false);
        unwanted.observe(Encoding::Protobuf);
        assert_eq!((unwanted.is_enabled(), unwanted.is_confirmed()), (false, false));
    }
}
