//! Storage that is in use is not taken away: the finalizers that claims and volumes are created with.
//!
//! As in the real cluster a controller takes them away once nobody uses the storage. Here it is part of what follows from a
//! write, as garbage collection is.

use std::sync::Arc;

use serde_json::Value;

use crate::eviction::pods;
use crate::garbage::Work;
use crate::kinds::Kind;
use crate::object::Object;
use crate::server::Shared;
use crate::status::Status;

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
    /// Lets a claim or a volume that is being deleted go when nobody uses it.
    pub(crate) fn unprotect(&self, kind: &Kind, object: &Arc<Object>, work: &mut Work) -> Result<(), Status> {
        let Some(finalizer) = finalizer(kind).filter(|_| object.is_deleting()) else { return Ok(()) };
        let used = if finalizer == VOLUME {
            object.value()["status"]["phase"] == "Bound"
        } else {
            let pods = self.store.list(&pods().id(), Some(&object.key().namespace)).objects;
            pods.iter().any(|pod| uses(pod, &pod.value(), object))
        };
        if used { Ok(()) } else { self.drop_finalizer(kind, object, finalizer, work) }
    }
}
