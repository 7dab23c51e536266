//! Properties of kinds that are not in the table.

use std::sync::Arc;

use crate::request::ResourceRequest;
use crate::response::status::Named;
use crate::rules::kinds::Kind;
use crate::store::{Key, ResourceId};

/// Built-in kinds whose spec has a generation. Custom kinds have one, too.
const WITH_GENERATION: &[(&str, &str)] = &[
    ("", "pods"),
    ("", "podtemplates"),
    ("", "replicationcontrollers"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "ingresses"),
    ("networking.k8s.io", "networkpolicies"),
    ("policy", "poddisruptionbudgets"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("discovery.k8s.io", "endpointslices"),
];

/// Built-in kinds whose update validation checks labels and annotations once, not twice.
const LABELS_LOOKED_AT_ONCE: &[(&str, &str)] = &[
    ("", "limitranges"),
    ("", "podtemplates"),
    ("", "replicationcontrollers"),
    ("", "resourcequotas"),
    ("", "services"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("batch", "cronjobs"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
    ("events.k8s.io", "events"),
    ("networking.k8s.io", "networkpolicies"),
    ("scheduling.k8s.io", "priorityclasses"),
];

/// Built-in kinds whose update validation does not check labels and annotations.
const LABELS_NOT_LOOKED_AT: &[(&str, &str)] = &[("", "events"), ("policy", "poddisruptionbudgets")];

/// Built-in kinds whose metadata does not change with a write of the status.
const STATUS_KEEPS_METADATA: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("apiregistration.k8s.io", "apiservices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "servicecidrs"),
    ("resource.k8s.io", "resourceclaims"),
    ("storage.k8s.io", "volumeattachments"),
];

/// The selectable fields of built-in kinds, besides name and namespace.
const SELECTABLE: &[(&str, &str, &[&str])] = &[
    (
        "",
        "events",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    (
        "events.k8s.io",
        "events",
        &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
    ),
    ("", "namespaces", &["status.phase"]),
    ("", "nodes", &["spec.unschedulable"]),
    (
        "",
        "pods",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
    ),
    ("", "secrets", &["type"]),
    ("", "services", &["spec.clusterIP", "spec.type"]),
    ("", "replicationcontrollers", &["status.replicas"]),
    ("batch", "jobs", &["status.successful"]),
    ("certificates.k8s.io", "certificatesigningrequests", &["spec.signerName"]),
    ("resource.k8s.io", "resourceslices", &["spec.nodeName", "spec.driver"]),
];

/// Built-in kinds that new programs should not use, with the warning for each request.
const DEPRECATED: &[(&str, &str)] = &[
    ("componentstatuses", "v1 ComponentStatus is deprecated in v1.19+"),
    ("endpoints", "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
];

/// The warning for requests to a built-in kind.
pub(crate) fn deprecation(group: &str, plural: &str) -> Option<&'static str> {
    DEPRECATED.iter().find(|(deprecated, _)| group.is_empty() && *deprecated == plural).map(|(_, warning)| *warning)
}

/// The selectable fields of a built-in kind, besides name and namespace.
pub(crate) fn selectable(group: &str, plural: &str) -> Vec<Arc<str>> {
    let of_kind = SELECTABLE.iter().filter(|(of_group, of_plural, _)| *of_group == group && *of_plural == plural);
    of_kind.flat_map(|(_, _, fields)| fields.iter().map(|field| Arc::from(*field))).collect()
}

impl Kind {
    pub(crate) fn is_event(&self) -> bool {
        self.plural == "events" && matches!(self.group.as_str(), "" | "events.k8s.io")
    }

    pub(crate) fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }

    pub(crate) fn is_pod(&self) -> bool {
        self.group.is_empty() && self.plural == "pods"
    }

    /// Whether this is the older way to bind a Pod, by a request to its namespace.
    pub(crate) fn is_binding(&self) -> bool {
        self.group.is_empty() && self.plural == "bindings"
    }

    /// Whether objects of this kind define other kinds.
    pub(crate) fn is_definition(&self) -> bool {
        self.group == "apiextensions.k8s.io" && self.plural == "customresourcedefinitions"
    }

    /// The store of its objects: all versions of a kind have one.
    pub(crate) fn id(&self) -> ResourceId {
        // Events of both groups are the same objects.
        let group = if self.is_event() { "" } else { self.group.as_str() };
        ResourceId { group: group.into(), plural: self.plural.as_str().into() }
    }

    /// The key of the object in the real server's storage, which some messages contain.
    pub(crate) fn storage_path(&self, key: &Key) -> String {
        let mut path = "/registry/".to_owned();
        if !self.is_built_in() || matches!(self.plural.as_str(), "customresourcedefinitions" | "apiservices") {
            path.push_str(&self.group);
            path.push('/');
        }
        path.push_str(match (self.group.as_str(), self.plural.as_str()) {
            ("", "replicationcontrollers") => "controllers",
            ("", "endpoints") => "services/endpoints",
            ("", "nodes") => "minions",
            ("", "services") => "services/specs",
            ("networking.k8s.io", "ingresses") => "ingress",
            (_, plural) => plural,
        });
        for part in [&key.namespace, &key.name] {
            if !part.is_empty() {
                path.push('/');
                path.push_str(part);
            }
        }
        path
    }

    /// The name of its resource in messages.
    pub(crate) fn named(&self) -> Named<'_> {
        Named { group: &self.group, resource: &self.plural }
    }

    /// The name of the kind in messages.
    pub(crate) fn named_kind(&self) -> Named<'_> {
        // An Event belongs to the core group, in any request.
        let group = if self.is_event() { "" } else { self.group.as_str() };
        Named { group, resource: &self.kind }
    }

    pub(crate) fn is_built_in(&self) -> bool {
        self.fields.is_some()
    }

    /// Whether `metadata.generation` counts the changes of its spec.
    pub(crate) fn has_generation(&self) -> bool {
        !self.is_built_in() || WITH_GENERATION.contains(&(self.group.as_str(), self.plural.as_str()))
    }

    /// The refusal of a field that objects of this kind are not selected by.
    pub(crate) fn not_selectable(&self, field: &str) -> String {
        let quoted = || steersman_wire::quote(field);
        match (self.group.as_str(), self.kind.as_str()) {
            ("batch", "Job") => format!("field label {} not supported for Job", quoted()),
            ("resource.k8s.io", "ResourceSlice") => {
                let Self { group, version, kind, .. } = self;
                format!("field label not supported for {group}/{version}, Kind={kind}: {field}")
            }
            // Kinds with fields of their own have a list of their own, with another message.
            _ if !self.selectable.is_empty() || !self.is_built_in() => format!("field label not supported: {field}"),
            _ => {
                format!("{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", quoted())
            }
        }
    }

    /// Whether an update must have the version that it replaces.
    pub(crate) fn insists_on_version(&self) -> bool {
        !self.is_built_in() || matches!(self.plural.as_str(), "leases" | "customresourcedefinitions" | "apiservices")
    }

    /// How often an update reports an error in labels and annotations: every check that finds it
    /// adds a cause to the refusal, the check for all objects and that of the kind.
    pub(crate) fn label_checks(&self, subresource: &str) -> usize {
        let own = (self.group.as_str(), self.plural.as_str());
        match subresource {
            "status" if own == ("batch", "cronjobs") => 2,
            _ if LABELS_NOT_LOOKED_AT.contains(&own) => 2,
            "" if self.is_built_in() && !LABELS_LOOKED_AT_ONCE.contains(&own) => 4,
            _ => 3,
        }
    }

    /// The metadata fields that a write of the status does not change; `None` if it changes none.
    pub(crate) fn metadata_kept_by_status(&self) -> Option<&'static [&'static str]> {
        match (self.group.as_str(), self.plural.as_str()) {
            _ if !self.is_built_in() => None,
            own if STATUS_KEEPS_METADATA.contains(&own) => None,
            ("apps", "deployments") => Some(&["labels"]),
            ("", "pods") => Some(&["ownerReferences"]),
            _ => Some(&[]),
        }
    }

    /// Whether the status is written separately.
    pub(crate) fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }
}

impl ResourceRequest {
    /// The object that the path names.
    pub(crate) fn key(&self) -> Key {
        Key { namespace: self.namespace.as_str().into(), name: self.name.as_str().into() }
    }
}
