//! Which encoding is spoken with the server: protobuf for kinds that are built in, JSON for all others.

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

/// Whether objects of a kind, read as `T`, lose nothing when they come as protobuf. Each type is asked once for each kind.
fn is_covered<T: DeserializeOwned>(api_version: &str, kind: &str) -> bool {
    /// For each kind that a type is read of, its version and name, and what was found.
    type Kinds = Vec<(String, String, bool)>;
    static KNOWN: LazyLock<Mutex<HashMap<(&str, usize), Kinds>>> = LazyLock::new(Mutex::default);
    if !protobuf::has_kind(api_version, kind) {
        return false;
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // A name alone could be that of two types, from two versions of a crate.
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

/// Asks for protobuf before the JSON that is asked for.
fn prefer_protobuf(headers: &mut HeaderMap) {
    let json = accepted(headers);
    let preferred = format!("{},{json}", json.replace("application/json", protobuf::MEDIA_TYPE));
    if let Ok(preferred) = HeaderValue::try_from(preferred) {
        headers.insert(ACCEPT, preferred);
    }
}

fn accepted(headers: &HeaderMap) -> &str {
    headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("application/json")
}

impl<K: Resource> Api<K> {
    /// Whether these objects, written and read as `T`, can travel as protobuf: they are of a built-in kind, and the type reads nothing that is
    /// not in its messages. Of a dynamic one everything is wanted that the server has.
    fn has_messages<T: DeserializeOwned>(&self) -> bool {
        self.form == Form::Full
            && type_name::<T>() == type_name::<K>()
            && is_covered::<T>(&K::api_version(&self.dynamic), &K::kind(&self.dynamic))
    }

    /// A request about these objects, which asks for protobuf if they have it.
    pub(crate) fn asking<T: DeserializeOwned>(&self, mut request: Request<Body>) -> Request<Body> {
        // Metadata alone can come as protobuf of every kind.
        let is_metadata = || accepted(request.headers()).contains("as=PartialObjectMetadata");
        if self.client.spoken.is_wanted() && (is_metadata() || self.has_messages::<T>()) {
            prefer_protobuf(request.headers_mut());
        }
        request
    }

    /// Sends an object, which is written as JSON so far, and decodes the answer. It is sent as protobuf if a message can hold all of it.
    pub(crate) async fn write<T: DeserializeOwned>(&self, mut request: Request<Vec<u8>>) -> Result<T, Error> {
        let spoken = &self.client.spoken;
        if spoken.is_read()
            && self.has_messages::<T>()
            && let Some(message) = protobuf::from_json(request.body())
        {
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

    /// Sends a request about these objects and decodes the answer.
    pub(crate) async fn ask_for<T: DeserializeOwned>(&self, request: Request<Body>) -> Result<T, Error> {
        self.client.ask_for(self.asking::<T>(request)).await
    }
}

#[cfg(test)]
mod tests {
    use kube_core::DynamicObject;

    use super::*;

    #[test]
    fn types_are_asked_what_they_read() {
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
