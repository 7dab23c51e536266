//! What each namespace has from its beginning: a ServiceAccount for its Pods, and the certificate
//! of the server for their clients.

use std::sync::{Arc, PoisonError};

use serde_json::{Value, json};

use crate::lifecycle::garbage::Work;
use crate::rules::convert;
use crate::rules::kinds::{Kind, builtin};
use crate::rules::metadata;
use crate::server::Shared;
use crate::store::Key;
use crate::store::object::Object;
use crate::verbs::managed::Controller;

const ACCOUNT: &str = "default";
const ROOT: &str = "kube-root-ca.crt";
/// The annotation of the ConfigMap.
const DESCRIPTION: (&str, &str) = (
    "kubernetes.io/description",
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the \
     internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes \
     clusters.",
);
/// The ConfigMap by which other servers know the clients of this one.
const AUTHENTICATION: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// The objects of a namespace, with the certificate of the server.
pub(crate) fn objects(namespace: &str, authority: &str) -> [Value; 2] {
    let account = json!({
        "kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": ACCOUNT, "namespace": namespace},
    });
    let fields = json!({
        "f:data": {".": {}, "f:ca.crt": {}},
        "f:metadata": {"f:annotations": {".": {}, format!("f:{}", DESCRIPTION.0): {}}},
    });
    let root = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {
            "name": ROOT, "namespace": namespace, "annotations": {DESCRIPTION.0: DESCRIPTION.1},
            "managedFields": [{
                "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "fieldsV1": fields,
            }],
        },
        "data": {"ca.crt": authority},
    });
    [account, root]
}

/// Whether this is an object that its namespace always has.
pub(crate) fn is_provided(kind: &Kind, key: &Key) -> bool {
    kind.group.is_empty()
        && matches!((kind.plural.as_str(), &*key.name), ("serviceaccounts", ACCOUNT) | ("configmaps", ROOT))
}

impl Shared {
    /// Creates what a namespace lacks, and restores the certificate of the server.
    pub(crate) fn provide(&self, namespace: &str, work: &mut Work) {
        if !self.bootstrap || self.namespace(namespace).is_none_or(|namespace| namespace.is_deleting()) {
            return;
        }
        let authority = self.authority();
        for mut wanted in objects(namespace, &authority) {
            let name = wanted["kind"].as_str().unwrap_or_default();
            let kind = builtin().kind("", "v1", name).expect("these are built-in kinds");
            let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
            let key = Key { namespace: namespace.into(), name: name.into() };
            if let Some(current) = self.store.get(&kind.id(), &key) {
                self.restore(kind, &current, &wanted, work);
                continue;
            }
            let now = self.now();
            for managed in wanted["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
                managed["time"] = now.as_str().into();
            }
            metadata::fill_new(metadata::of(&mut wanted), kind, &now, &self.world);
            let fields = convert::selectable(kind, &wanted);
            // Another client may have created it: it stays as that client wants it.
            let managed = Object::own_managed(&wanted);
            let object = |revision| Object::managed_by(&wanted, managed.as_bytes(), revision, fields);
            let _ = self.store.put(&kind.id(), &key, None, object);
        }
    }

    /// Restores the contents that matter to readers.
    fn restore(&self, kind: &Kind, current: &Arc<Object>, wanted: &Value, work: &mut Work) {
        if kind.plural != "configmaps" {
            return;
        }
        let mut value = current.value();
        let described = value["metadata"]["annotations"][DESCRIPTION.0].as_str().is_some_and(|text| !text.is_empty());
        if described && value["data"] == wanted["data"] {
            return;
        }
        value["data"] = wanted["data"].clone();
        value["metadata"]["annotations"][DESCRIPTION.0] = DESCRIPTION.1.into();
        // A client that writes at the same time causes another look.
        let _ = self.put_by(kind, current, (&value, Controller::MANAGER), work);
    }

    /// The certificate of the server's authority. Empty before the server listens on a socket.
    fn authority(&self) -> String {
        self.authority.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Publishes the certificate of the server's authority in every namespace.
    pub(crate) fn publish_authority(&self, certificate: &str) {
        certificate.clone_into(&mut self.authority.lock().unwrap_or_else(PoisonError::into_inner));
        let mut work = Work::default();
        let maps = builtin().kind("", "v1", "ConfigMap").expect("there are ConfigMaps");
        let (namespace, name) = AUTHENTICATION;
        let key = Key { namespace: namespace.into(), name: name.into() };
        if let Some(current) = self.store.get(&maps.id(), &key) {
            let mut value = current.value();
            value["data"]["client-ca-file"] = certificate.into();
            let _ = self.put_by(maps, &current, (&value, Controller::API_SERVER), &mut work);
        }
        if self.controllers {
            let namespaces = builtin().kind("", "v1", "Namespace").expect("there are Namespaces");
            for namespace in self.store.list(&namespaces.id(), None).objects {
                self.provide(&namespace.key().name, &mut work);
            }
        }
        self.collect(work);
    }
}
