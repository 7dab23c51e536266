//! Owner references: `metadata.ownerReferences`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube_core::Resource;

use crate::Error;

/// Makes `owner` the controller of `object`. The server then deletes the object together with its
/// owner, and a controller that [owns](crate::ControllerBuilder::owns) the kind reconciles the
/// owner when the object changes. If `object` has the reference already, nothing changes.
///
/// Fails, and leaves the object as it is, if the object has another controller
/// ([`Error::AlreadyControlled`]) or if a namespaced owner is in another namespace. An owner is
/// identified by kind and name: if the owner was deleted and created again, the new reference
/// replaces the old one.
///
/// ```
/// # use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// # use steersman_runtime::{CachedClient, Error};
/// use steersman_runtime::owner::set_controller_reference;
///
/// # async fn example(client: &CachedClient, owner: &ConfigMap, secret: Secret) -> Result<(), Error> {
/// client.create_or_update(secret, |secret| set_controller_reference(owner, secret)).await?;
/// # Ok(())
/// # }
/// ```
///
/// For an owner whose kind is known only at run time, use [`controller_reference`] and
/// [`set_reference`].
pub fn set_controller_reference<O, K>(owner: &O, object: &mut K) -> Result<(), Error>
where
    O: Resource<DynamicType = ()>,
    K: Resource,
{
    set_reference(owner, object, controller_reference(owner, &())?).map(drop)
}

/// Makes `owner` one of the owners of `object`, but not its controller. Otherwise as
/// [`set_controller_reference`].
pub fn set_owner_reference<O, K>(owner: &O, object: &mut K) -> Result<(), Error>
where
    O: Resource<DynamicType = ()>,
    K: Resource,
{
    set_reference(owner, object, owner_reference(owner, &())?).map(drop)
}

/// Creates a reference to an object as the controller of others.
pub fn controller_reference<O: Resource>(owner: &O, dynamic: &O::DynamicType) -> Result<OwnerReference, Error> {
    let reference = owner_reference(owner, dynamic)?;
    Ok(OwnerReference { controller: Some(true), block_owner_deletion: Some(true), ..reference })
}

/// Creates a reference to an object as an owner of others. Fails if the object has no name or no
/// uid.
pub fn owner_reference<O: Resource>(owner: &O, dynamic: &O::DynamicType) -> Result<OwnerReference, Error> {
    let meta = owner.meta();
    let (Some(name), Some(uid)) = (meta.name.clone(), meta.uid.clone()) else {
        let problem =
            format!("a {} without name and uid cannot own objects: read it from the server first", O::kind(dynamic));
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

/// Adds a reference to `owner` to the owners of `object`, for kinds that are known only at run
/// time. Returns `true` if the object has changed. Otherwise as [`set_controller_reference`].
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
            if namespace.is_empty() { "cluster-scoped".to_owned() } else { format!("in namespace {namespace}") };
        return Err(Error::InvalidObject(format!(
            "{} {} in namespace {owner_namespace} cannot own {name}, which is {place}: a namespaced owner and its objects are \
             in the same namespace",
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
    // An owner that is the controller already stays the controller.
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

/// Removes the owner with this uid from the owners of `object`. Returns `true` if it was one of
/// them.
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
