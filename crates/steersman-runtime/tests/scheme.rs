//! Kinds and types both ways, and conditions.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::jiff::Timestamp;
use kube_core::Resource;
use serde::{Deserialize, Serialize};
use steersman_client::{GroupVersionKind, ObjectMeta};
use steersman_runtime::condition::{is_condition_true, new_condition, remove_condition, set_condition};
use steersman_runtime::{DecodedObject, Error, Scheme};

fn gvk(group: &str, kind: &str) -> GroupVersionKind {
    GroupVersionKind::gvk(group, "v1", kind)
}

#[test]
fn kinds_and_types_are_found_both_ways() {
    let scheme = Scheme::new().with::<Pod>().unwrap().with::<ConfigMap>().unwrap();
    assert_eq!(*scheme.kind_of::<Pod>().unwrap(), gvk("", "Pod"));
    assert_eq!(scheme.type_of(&gvk("", "ConfigMap")), Some(std::any::type_name::<ConfigMap>()));
    assert_eq!(scheme.type_of(&gvk("other", "ConfigMap")), None, "another group is another kind");
    let error = scheme.kind_of::<Secret>().unwrap_err().to_string();
    assert!(error.contains("Secret") && error.contains("Scheme::register"), "{error}");
}

#[test]
fn an_object_is_decoded_into_the_type_of_its_kind() {
    let scheme = Scheme::new().with::<ConfigMap>().unwrap().with::<Pod>().unwrap();
    let object = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"a":"1"}}"#;
    let map = scheme.decode(object).unwrap().downcast::<ConfigMap>().unwrap();
    assert_eq!(map.data.unwrap()["a"], "1");
    assert!(scheme.decode(object).unwrap().downcast::<Pod>().is_none(), "it is not a Pod");
}

#[test]
fn an_object_of_an_unknown_kind_stays_dynamic() {
    let scheme = Scheme::new().with::<ConfigMap>().unwrap();
    for (api_version, kind) in [("v1", "Secret"), ("example.com/v1", "ConfigMap"), ("v2", "ConfigMap")] {
        let object =
            format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{"name":"m"}},"a":{{"b":1}}}}"#);
        let DecodedObject::Dynamic(object) = scheme.decode(object.as_bytes()).unwrap() else { panic!("{kind}") };
        assert_eq!(object.types.unwrap().kind, kind);
        assert_eq!(object.data["a"]["b"], 1);
    }
}

#[test]
fn an_object_that_cannot_be_read_is_an_error_that_does_not_quote_it() {
    let scheme = Scheme::new().with::<Secret>().unwrap();
    let secret = br#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"m"},"data":"hunter2"}"#;
    for object in [secret.as_slice(), b"{", b"", b"[]", br#"{"kind":"Secret"}"#, br#"{"apiVersion":"v1"}"#, b"\xff"] {
        let error = scheme.decode(object).unwrap_err();
        assert!(matches!(error, Error::InvalidObject(_)), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

/// A decoded object is printed by its kind and name.
#[test]
fn a_decoded_secret_is_not_printed() {
    let object = br#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"database","annotations":{"a":"hunter2"}},"stringData":{"a":"hunter2"}}"#;
    for scheme in [Scheme::new(), Scheme::new().with::<Secret>().unwrap()] {
        let printed = format!("{:?}", scheme.decode(object).unwrap());
        assert!(!printed.contains("hunter2"), "{printed}");
    }
    let printed = format!("{:?}", Scheme::new().decode(object).unwrap());
    assert!(printed.contains("Secret") && printed.contains("database"), "{printed}");
}

/// Claims to be a ConfigMap.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Pretender {
    metadata: ObjectMeta,
}

impl Resource for Pretender {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> std::borrow::Cow<'_, str> {
        "ConfigMap".into()
    }

    fn group((): &()) -> std::borrow::Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> std::borrow::Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> std::borrow::Cow<'_, str> {
        "configmaps".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[test]
fn two_types_for_one_kind_are_an_error_that_names_both() {
    let mut scheme = Scheme::new();
    scheme.register::<ConfigMap>().unwrap();
    scheme.register::<ConfigMap>().unwrap();
    let error = scheme.register::<Pretender>().unwrap_err();
    assert!(matches!(error, Error::SchemeClash { .. }));
    let text = error.to_string();
    assert!(["v1, Kind=ConfigMap", "core::v1", "Pretender"].iter().all(|part| text.contains(part)), "{text}");
    assert!(scheme.kind_of::<Pretender>().is_err());
    assert_eq!(scheme.type_of(&gvk("", "ConfigMap")), Some(std::any::type_name::<ConfigMap>()), "as it was");
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn the_time_of_a_transition_changes_only_with_the_status() {
    let mut conditions = Vec::new();
    assert!(set_condition(&mut conditions, new_condition("Ready", false, "New", "just made", Some(1)), at(1)));
    assert!(!set_condition(&mut conditions, new_condition("Ready", false, "New", "just made", Some(1)), at(2)));
    assert_eq!(conditions[0].last_transition_time.0, at(1));
    for (reason, message, generation) in [("Old", "just made", 1), ("Old", "made", 1), ("Old", "made", 2)] {
        let changed =
            set_condition(&mut conditions, new_condition("Ready", false, reason, message, Some(generation)), at(3));
        assert!(changed, "{reason} {message} {generation}");
        assert_eq!((&*conditions[0].reason, &*conditions[0].message), (reason, message));
        assert_eq!(conditions[0].observed_generation, Some(generation));
        assert_eq!(conditions[0].last_transition_time.0, at(1), "its status is the same");
    }
    assert!(set_condition(&mut conditions, new_condition("Ready", true, "Old", "made", Some(2)), at(4)));
    assert_eq!(conditions[0].last_transition_time.0, at(4));
    assert_eq!(conditions.len(), 1);
}

#[test]
fn conditions_are_kept_apart_by_their_types() {
    let mut conditions = Vec::new();
    set_condition(&mut conditions, new_condition("Ready", true, "A", "", None), at(1));
    set_condition(&mut conditions, new_condition("Degraded", false, "A", "", None), at(1));
    let mut unknown = new_condition("Synced", true, "A", "", None);
    unknown.status = "Unknown".to_owned();
    set_condition(&mut conditions, unknown, at(1));
    let is_true = |type_| is_condition_true(&conditions, type_);
    assert_eq!((is_true("Ready"), is_true("Degraded"), is_true("Synced"), is_true("No")), (true, false, false, false));
    assert!(remove_condition(&mut conditions, "Ready") && !remove_condition(&mut conditions, "Ready"));
    assert_eq!(conditions.len(), 2);
}
