//! Who belongs to whom.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::Resource;

use crate::Error;

/// A reference to an object as the owner that controls others.
pub fn controller_reference<O: Resource>(owner: &O, dynamic: &O::DynamicType) -> Result<OwnerReference, Error> {
    let reference = owner_reference(owner, dynamic)?;
    Ok(OwnerReference { controller: Some(true), block_owner_deletion: Some(true), ..reference })
}

/// A reference to an object as an owner of others.
pub fn owner_reference<O: Resource>(owner: &O, dynamic: &O::DynamicType) -> Result<OwnerReference, Error> {
    let meta = owner.meta();
    let (Some(name), Some(uid)) = (meta.name.clone(), meta.uid.clone()) else {
        let problem =
            format!("a {} without name and uid owns nothing: read it from the server first", O::kind(dynamic));
        return Err(Error::InvalidObject(problem));
    };
    Ok(OwnerReference {
        api_version: O::api_version(dynamic).into_owned(),
        kind: O::kind(dynamic).into_owned(),
        name,
        uid,
        controller: None,
        block_owner_deletion: None,
    })
}

/// Makes `owner` the controller of `object`: garbage collection takes the object along, and a controller that
/// [owns](crate::ControllerBuilder::owns) its kind is told of its changes. Done again, it changes nothing. Says whether something
/// changed.
///
/// An object has one controller at most ([`Error::AlreadyControlled`]), and an owner in a namespace owns only objects in the same one:
/// otherwise it is an error, and the object is as it was. An owner is known by its kind and name: one that was deleted and made again
/// takes the place of the old one.
pub fn set_controller_reference<O, K>(owner: &O, object: &mut K) -> Result<bool, Error>
where
    O: Resource<DynamicType = ()>,
    K: Resource,
{
    set_reference(owner, object, controller_reference(owner, &())?)
}

/// Makes `owner` an owner of `object` beside others. See [`set_controller_reference`].
pub fn set_owner_reference<O, K>(owner: &O, object: &mut K) -> Result<bool, Error>
where
    O: Resource<DynamicType = ()>,
    K: Resource,
{
    set_reference(owner, object, owner_reference(owner, &())?)
}

/// As the others, for owners whose kind is known at run time only.
pub fn set_reference<O: Resource, K: Resource>(
    owner: &O,
    object: &mut K,
    reference: OwnerReference,
) -> Result<bool, Error> {
    let owner_namespace = owner.meta().namespace.as_deref().unwrap_or_default();
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    let name = object.meta().name.clone().unwrap_or_default();
    if !owner_namespace.is_empty() && owner_namespace != namespace {
        let place =
            if namespace.is_empty() { "in no namespace".to_owned() } else { format!("in namespace {namespace}") };
        return Err(Error::InvalidObject(format!(
            "{} {} in namespace {owner_namespace} cannot own {name}, which is {place}: owners and what they own are in the same \
             namespace",
            reference.kind, reference.name
        )));
    }
    let same = |other: &OwnerReference| {
        group_of(&other.api_version) == group_of(&reference.api_version)
            && other.kind == reference.kind
            && other.name == reference.name
    };
    let references = object.meta().owner_references.as_deref().unwrap_or_default();
    if reference.controller == Some(true)
        && let Some(other) = references.iter().find(|other| other.controller == Some(true) && !same(other))
    {
        return Err(Error::AlreadyControlled {
            object: name,
            by: format!("{} {}", other.kind, other.name),
            wanted: format!("{} {}", reference.kind, reference.name),
        });
    }
    let references = object.meta_mut().owner_references.get_or_insert_default();
    let Some(existing) = references.iter_mut().find(|other| same(other)) else {
        references.push(reference);
        return Ok(true);
    };
    // Who controls an object does not cease to do so by owning it.
    let reference = OwnerReference {
        controller: reference.controller.or(existing.controller),
        block_owner_deletion: reference.block_owner_deletion.or(existing.block_owner_deletion),
        ..reference
    };
    let changed = *existing != reference;
    *existing = reference;
    Ok(changed)
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Takes `owner` from the owners of `object`. Says whether it was one.
pub fn remove_owner_reference<K: Resource>(object: &mut K, owner_uid: &str) -> bool {
    let Some(references) = &mut object.meta_mut().owner_references else { return false };
    let before = references.len();
    references.retain(|reference| reference.uid != owner_uid);
    let changed = references.len() != before;
    if references.is_empty() {
        object.meta_mut().owner_references = None;
    }
    changed
}
