//! Protection of storage in use: the finalizers of new claims and volumes.
//!
//! In a real cluster, a controller removes them once the storage is not in use. Here it is part of
//! the consequences of a write, like garbage collection.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::lifecycle::garbage::Work;
use crate::response::status::Status;
use crate::rules::kinds::{self, Kind};
use crate::server::Shared;
use crate::store::object::Object;
use crate::store::{Key, ResourceId};

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

/// The finalizer that protects objects of this kind.
pub(crate) fn finalizer(kind: &Kind) -> Option<&'static str> {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "persistentvolumeclaims") => Some(CLAIM),
        ("", "persistentvolumes") => Some(VOLUME),
        _ => None,
    }
}

/// The Pods on a node that name each claim. A Pod without claims takes no memory.
#[derive(Default)]
pub(crate) struct ClaimUsers(HashMap<Key, BTreeSet<Key>>);

impl ClaimUsers {
    /// Records that an object changed from one state to another.
    pub(crate) fn change(&mut self, resource: &ResourceId, before: Option<&Object>, after: Option<&Object>) {
        let claims = |object: Option<&Object>| object.map_or(0, |object| object.claims().len());
        if claims(before) + claims(after) == 0 || *resource != kinds::pods().id() {
            return;
        }
        let claim = |pod: &Object, name: &str| Key { namespace: Arc::clone(&pod.key().namespace), name: name.into() };
        for (pod, name) in before.into_iter().flat_map(|pod| pod.claims().iter().map(move |name| (pod, name))) {
            let claim = claim(pod, name);
            if let Some(users) = self.0.get_mut(&claim) {
                users.remove(pod.key());
                if users.is_empty() {
                    self.0.remove(&claim);
                }
            }
        }
        for (pod, name) in after.into_iter().flat_map(|pod| pod.claims().iter().map(move |name| (pod, name))) {
            self.0.entry(claim(pod, name)).or_default().insert(pod.key().clone());
        }
    }

    /// The Pods that name this claim.
    pub(crate) fn of(&self, claim: &Key) -> impl Iterator<Item = &Key> {
        self.0.get(claim).into_iter().flatten()
    }
}

/// The claims that the volumes of a Pod name, if the Pod is on a node. Other objects have none.
pub(crate) fn used_claims(value: &Value) -> Box<[Box<str>]> {
    if value["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
        return Box::default();
    }
    claims(value).into_iter().map(String::into_boxed_str).collect()
}

/// The claims that a Pod may have used.
pub(crate) fn claims(pod: &Value) -> Vec<String> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    let claim = |volume: &Value| {
        let direct = volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned);
        direct.or_else(|| ephemeral_claim(name, volume))
    };
    volumes.filter_map(claim).collect()
}

/// The claim that is made for a volume of a Pod.
fn ephemeral_claim(pod: &str, volume: &Value) -> Option<String> {
    volume["ephemeral"].as_object()?;
    Some(format!("{pod}-{}", volume["name"].as_str()?))
}

/// Whether a Pod that has a node uses the claim.
fn uses(pod: &Object, value: &Value, claim: &Object) -> bool {
    if value["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
        return false;
    }
    let ended = pod.is_deleting() && value["metadata"]["deletionGracePeriodSeconds"] == 0;
    let of_pod = !ended && claim.owners().iter().any(|owner| *owner.uid == *pod.uid());
    let volumes = value["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.into_iter().any(|volume| {
        let direct = volume["persistentVolumeClaim"]["claimName"] == *claim.key().name;
        let made = || ephemeral_claim(&pod.key().name, volume).is_some_and(|name| *name == *claim.key().name);
        direct || (of_pod && made())
    })
}

impl Shared {
    /// Releases a claim or a volume that is being deleted when it is not in use.
    pub(crate) fn unprotect(&self, kind: &Kind, object: &Arc<Object>, work: &mut Work) -> Result<(), Status> {
        let Some(finalizer) = finalizer(kind).filter(|_| object.is_deleting()) else { return Ok(()) };
        let used = if finalizer == VOLUME {
            object.value()["status"]["phase"] == "Bound"
        } else {
            let pods = self.store.claim_users(object.key());
            pods.iter().any(|pod| uses(pod, &pod.value(), object))
        };
        if used { Ok(()) } else { self.drop_finalizer(kind, object, finalizer, work) }
    }
}
