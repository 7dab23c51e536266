//! Owner references: the checks, and the treatment of references that exist already.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use steersman_client::{ApiResource, DynamicObject, ObjectMeta};
use steersman_runtime::Error;
use steersman_runtime::owner::{
    controller_reference, owner_reference, remove_owner_reference, set_controller_reference, set_owner_reference,
    set_reference,
};

fn meta(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(format!("uid-of-{name}")),
        ..ObjectMeta::default()
    }
}

fn map(namespace: &str) -> ConfigMap {
    ConfigMap { metadata: meta(namespace, "owned"), ..ConfigMap::default() }
}

fn deployment(name: &str) -> Deployment {
    Deployment { metadata: meta("a", name), ..Deployment::default() }
}

fn references(object: &ConfigMap) -> &[OwnerReference] {
    object.metadata.owner_references.as_deref().unwrap_or_default()
}

#[test]
fn a_controller_reference_names_its_owner_and_blocks_its_deletion() {
    let mut object = map("a");
    set_controller_reference(&deployment("d"), &mut object).unwrap();
    let expected = OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        name: "d".to_owned(),
        uid: "uid-of-d".to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    assert_eq!(references(&object), [expected]);
}

#[test]
fn the_same_owner_is_there_once() {
    let mut object = map("a");
    set_controller_reference(&deployment("d"), &mut object).unwrap();
    let before = object.clone();
    set_controller_reference(&deployment("d"), &mut object).unwrap();
    set_owner_reference(&deployment("d"), &mut object).unwrap();
    assert_eq!(object, before);
    assert_eq!(references(&object).len(), 1);
    assert_eq!(references(&object)[0].controller, Some(true), "to own it as well does not end its control");
}

#[test]
fn an_owner_that_was_made_again_takes_the_place_of_the_old_one() {
    let mut object = map("a");
    set_controller_reference(&deployment("d"), &mut object).unwrap();
    let mut again = deployment("d");
    again.metadata.uid = Some("another".to_owned());
    set_controller_reference(&again, &mut object).unwrap();
    assert_eq!(references(&object).len(), 1);
    assert_eq!(references(&object)[0].uid, "another");
}

#[test]
fn an_owner_is_the_same_in_another_version_of_its_group() {
    let mut object = map("a");
    let reference = controller_reference(&deployment("d"), &()).unwrap();
    let old = OwnerReference { api_version: "apps/v1beta1".to_owned(), ..reference };
    object.metadata.owner_references = Some(vec![old]);
    set_controller_reference(&deployment("d"), &mut object).unwrap();
    assert_eq!(references(&object).len(), 1);
    assert_eq!(references(&object)[0].api_version, "apps/v1");
}

#[test]
fn an_object_that_another_controls_is_an_error_and_stays_as_it_was() {
    let mut object = map("a");
    set_controller_reference(&deployment("first"), &mut object).unwrap();
    let before = object.clone();
    let error = set_controller_reference(&deployment("second"), &mut object).unwrap_err();
    assert!(matches!(error, Error::AlreadyControlled { .. }));
    let text = error.to_string();
    assert!(["owned", "Deployment first", "Deployment second"].iter().all(|part| text.contains(part)), "{text}");
    assert_eq!(object, before);
    set_owner_reference(&deployment("second"), &mut object).unwrap();
    assert_eq!(references(&object).len(), 2);
    assert_eq!(references(&object)[1].controller, None);
}

#[test]
fn an_owner_can_become_the_controller_if_there_is_none() {
    let mut object = map("a");
    set_owner_reference(&deployment("d"), &mut object).unwrap();
    set_controller_reference(&deployment("d"), &mut object).unwrap();
    assert_eq!(references(&object).len(), 1);
    assert_eq!(references(&object)[0].controller, Some(true));
}

#[test]
fn owners_and_what_they_own_are_in_the_same_namespace() {
    for namespace in ["b", ""] {
        let mut object = map(namespace);
        for error in [
            set_controller_reference(&deployment("d"), &mut object).unwrap_err(),
            set_owner_reference(&deployment("d"), &mut object).unwrap_err(),
        ] {
            assert!(error.to_string().contains("same namespace"), "{error}");
        }
        assert_eq!(object, map(namespace));
    }
}

#[test]
fn an_owner_in_no_namespace_owns_objects_in_any() {
    let node = Node { metadata: meta("", "n"), ..Node::default() };
    set_controller_reference(&node, &mut map("a")).unwrap();
    set_controller_reference(&node, &mut map("")).unwrap();
}

#[test]
fn an_owner_that_was_not_read_from_the_server_owns_nothing() {
    let mut new = deployment("d");
    new.metadata.uid = None;
    let error = set_controller_reference(&new, &mut map("a")).unwrap_err().to_string();
    assert!(error.contains("Deployment") && error.contains("uid"), "{error}");
    assert!(owner_reference(&new, &()).is_err());
}

#[test]
fn owners_of_a_kind_that_is_known_at_run_time_only_own_as_well() {
    let resource = ApiResource::erase::<Deployment>(&());
    let mut owner = DynamicObject::new("d", &resource).within("a");
    owner.metadata.uid = Some("uid-of-d".to_owned());
    let reference = controller_reference(&owner, &resource).unwrap();
    let mut object = map("a");
    assert!(set_reference(&owner, &mut object, reference).unwrap());
    let reference = controller_reference(&deployment("d"), &()).unwrap();
    assert!(!set_reference(&owner, &mut object, reference).unwrap(), "the object has the reference already");
}

#[test]
fn an_owner_is_taken_away_by_its_uid() {
    let mut object = map("a");
    assert!(!remove_owner_reference(&mut object, "uid-of-d"));
    set_controller_reference(&deployment("d"), &mut object).unwrap();
    set_owner_reference(&deployment("e"), &mut object).unwrap();
    assert!(remove_owner_reference(&mut object, "uid-of-d"));
    assert_eq!(references(&object)[0].name, "e");
    assert!(remove_owner_reference(&mut object, "uid-of-e"));
    assert_eq!(object, map("a"));
}
