//! Small objects of ten kinds that clusters have, 0.7 to 1.3 KB of JSON each. Like the Pods, they
//! are the same on every machine and in every run.

use std::io::Write;
use std::ops::Range;

use crate::contestant::small_object;

/// A kind, by its names in paths and discovery. All of ours are namespaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Empty for the oldest kinds.
    pub group: &'static str,
    /// The version within the group.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The kind in paths.
    pub plural: &'static str,
}

impl Resource {
    /// Group and version, as objects have them.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The discovery path of the kind and its siblings.
    pub fn group_path(&self) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        format!("{root}/{}", self.api_version())
    }

    /// The path of its objects in all namespaces.
    pub fn path(&self) -> String {
        format!("{}/{}", self.group_path(), self.plural)
    }
}

/// The Pods of [`crate::pods`].
pub const POD: Resource = Resource { group: "", version: "v1", kind: "Pod", plural: "pods" };

/// A kind with the fields of its objects besides their metadata.
#[derive(Clone, Copy, Debug)]
pub struct SmallKind {
    /// The kind.
    pub resource: Resource,
    /// The fields after the metadata.
    body: &'static str,
}

macro_rules! pod_template {
    () => {
        r#"{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"server","image":"registry.example.com/apps/server:v1.2.3","ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"resources":{"requests":{"cpu":"100m","memory":"128Mi"}},"imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30}}"#
    };
}

/// The ten kinds.
pub const KINDS: [SmallKind; 10] = [
    small("", "v1", "ConfigMap", "configmaps", r#""data":{"log.level":"info","listen":"0.0.0.0:8080"}"#),
    small("", "v1", "Secret", "secrets", r#""type":"Opaque","data":{"password":"c3RlZXJzbWFu"}"#),
    small(
        "",
        "v1",
        "Service",
        "services",
        r#""spec":{"type":"ClusterIP","clusterIP":"10.96.0.7","selector":{"app":"web"},"ports":[{"name":"http","port":80,"targetPort":8080,"protocol":"TCP"}]}"#,
    ),
    small("", "v1", "ServiceAccount", "serviceaccounts", r#""automountServiceAccountToken":false"#),
    small(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        r#""spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"fast","resources":{"requests":{"storage":"10Gi"}}},"status":{"phase":"Bound"}"#,
    ),
    small(
        "apps",
        "v1",
        "Deployment",
        "deployments",
        concat!(
            r#""spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":"#,
            pod_template!(),
            r#"},"status":{"observedGeneration":1,"replicas":2,"readyReplicas":2}"#
        ),
    ),
    small(
        "apps",
        "v1",
        "StatefulSet",
        "statefulsets",
        concat!(
            r#""spec":{"replicas":3,"serviceName":"web","selector":{"matchLabels":{"app":"web"}},"template":"#,
            pod_template!(),
            r#"},"status":{"observedGeneration":1,"replicas":3,"readyReplicas":3}"#
        ),
    ),
    small(
        "apps",
        "v1",
        "DaemonSet",
        "daemonsets",
        concat!(
            r#""spec":{"selector":{"matchLabels":{"app":"web"}},"template":"#,
            pod_template!(),
            r#"},"status":{"currentNumberScheduled":3,"desiredNumberScheduled":3,"numberMisscheduled":0,"numberReady":3}"#
        ),
    ),
    small(
        "batch",
        "v1",
        "Job",
        "jobs",
        concat!(r#""spec":{"backoffLimit":6,"template":"#, pod_template!(), r#"},"status":{"succeeded":1}"#),
    ),
    small(
        "networking.k8s.io",
        "v1",
        "Ingress",
        "ingresses",
        r#""spec":{"ingressClassName":"nginx","rules":[{"host":"web.example.com","http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"web","port":{"number":80}}}}]}}]}"#,
    ),
];

const fn small(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    body: &'static str,
) -> SmallKind {
    SmallKind { resource: Resource { group, version, kind, plural }, body }
}

impl SmallKind {
    /// Appends object `index` to `out` as compact JSON and returns the range of its resource
    /// version (the digits alone) within `out`.
    pub fn write(&self, index: u64, resource_version: u64, out: &mut Vec<u8>) -> Range<usize> {
        let (namespace, name) = small_object(index);
        let (api_version, kind) = (self.resource.api_version(), self.resource.kind);
        let mut put = |text: std::fmt::Arguments<'_>| {
            out.write_fmt(text).expect("writing to memory does not fail");
            out.len()
        };
        let start = put(format_args!(
            r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{:08x}-5d1c-4b7e-9a30-{index:012x}","resourceVersion":""#,
            // Multiplying by an odd number spreads the first digits and keeps them distinct within
            // a kind.
            (index as u32).wrapping_mul(0x9E37_79B1) ^ self.body.len() as u32,
        ));
        let end = put(format_args!("{resource_version}"));
        put(format_args!(
            r#"","generation":1,"creationTimestamp":"2026-03-02T08:14:21Z","labels":{{"app.kubernetes.io/name":"{name}","app.kubernetes.io/part-of":"shop","team":"{namespace}"}},"annotations":{{"checksum/config":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}},"managedFields":[{{"manager":"kubectl","operation":"Apply","apiVersion":"{api_version}","time":"2026-03-02T08:14:21Z","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:annotations":{{"f:checksum/config":{{}}}},"f:labels":{{"f:app.kubernetes.io/name":{{}},"f:app.kubernetes.io/part-of":{{}},"f:team":{{}}}}}}}}}}]}},{}}}"#,
            self.body,
        ));
        start..end
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
    use k8s_openapi::api::batch::v1::Job;
    use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount};
    use k8s_openapi::api::networking::v1::Ingress;
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::*;

    /// The first object of a kind, with its length, after it was decoded as its type.
    fn object<K: k8s_openapi::Resource + DeserializeOwned>() -> (Value, usize) {
        let kind = KINDS.iter().find(|kind| kind.resource.kind == K::KIND).expect("the kind is among the ten");
        assert_eq!((kind.resource.api_version().as_str(), kind.resource.plural), (K::API_VERSION, K::URL_PATH_SEGMENT));
        let mut out = b"before".to_vec();
        let version = kind.write(7, 1_000_007, &mut out);
        assert_eq!(&out[version], b"1000007");
        let json = &out["before".len()..];
        serde_json::from_slice::<K>(json).expect("an object is of its type");
        (serde_json::from_slice(json).expect("an object is JSON"), json.len())
    }

    #[test]
    fn objects_of_every_kind_are_small_and_of_their_type() {
        let all = [
            object::<ConfigMap>(),
            object::<Secret>(),
            object::<Service>(),
            object::<ServiceAccount>(),
            object::<PersistentVolumeClaim>(),
            object::<Deployment>(),
            object::<StatefulSet>(),
            object::<DaemonSet>(),
            object::<Job>(),
            object::<Ingress>(),
        ];
        for (object, length) in &all {
            assert_eq!(object["metadata"]["name"], "object-000007");
            assert!((700..=1300).contains(length), "{} has {length} bytes", object["kind"]);
        }
        assert_eq!(all.len(), KINDS.len());
    }
}
