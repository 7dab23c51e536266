//! Binding: a scheduler assigns a Pod to a node.

use serde_json::{Map, Value, json};

use crate::lifecycle::garbage::Work;
use crate::request::RequestContext;
use crate::request::write_options::{field_validation, is_dry_run};
use crate::response::status::{FieldError, Named, Status};
use crate::response::warnings::Warnings;
use crate::response::{self, HandlerResult};
use crate::rules::kinds;
use crate::rules::metadata;
use crate::server::Shared;
use crate::store::Key;
use crate::verbs::eviction::set_condition;

impl Shared {
    /// Assigns a Pod to a node. The path names the Pod, or only the namespace: then the body names
    /// the Pod.
    pub(crate) fn bind(&self, request: &RequestContext<'_>) -> HandlerResult {
        let RequestContext { target, query, .. } = *request;
        let dry_run = is_dry_run(query, "CreateOptions")?;
        let kind = kinds::builtin().resource("", "v1", "bindings").expect("there are Bindings");
        let mut binding = self.decode(kind, request, field_validation(query, "CreateOptions")?)?;
        metadata::settle_namespace(metadata::of(&mut binding.value), kind, &target.namespace)?;
        let name = binding.value["metadata"]["name"].as_str().unwrap_or_default();
        let of = if target.subresource.is_empty() { kind } else { kinds::pods() };
        self.check_namespace(of, &target.namespace, name)?;
        if !target.name.is_empty() && name != target.name {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        check(&binding.value)?;
        let key = Key { namespace: target.namespace.as_str().into(), name: name.into() };
        let mut work = Work::default();
        let bound = self.assign(&key, &binding.value, dry_run, &mut work);
        self.collect(work);
        bound?;
        Ok(response::created().warning(&binding.warnings))
    }

    fn assign(&self, key: &Key, binding: &Value, dry_run: bool, work: &mut Work) -> Result<(), Status> {
        loop {
            let pod = self
                .store
                .get(&kinds::pods().id(), key)
                .ok_or_else(|| Status::not_found(kinds::pods().named(), &key.name))?;
            let precondition = |what: &str, wanted: &str, found: &str| {
                let why = format!(
                    "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
                     Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}",
                    kinds::pods().storage_path(key)
                );
                Status::conflict(kinds::pods().named(), &key.name, &why)
            };
            let given = |name: &str| binding["metadata"][name].as_str().filter(|text| !text.is_empty());
            if let Some(uid) = given("uid").filter(|uid| *uid != pod.uid()) {
                return Err(precondition("UID", uid, pod.uid()));
            }
            let version = pod.revision().to_string();
            if let Some(wanted) = given("resourceVersion").filter(|wanted| *wanted != version) {
                return Err(precondition("ResourceVersion", wanted, &version));
            }
            let mut value = pod.value();
            check_free(&key.name, &value)?;
            value["spec"]["nodeName"] = binding["target"]["name"].clone();
            if let Some(status) = value["status"].as_object_mut() {
                status.remove("nominatedNodeName");
            }
            for field in ["annotations", "labels"] {
                copy_members(&mut value, binding, field);
            }
            set_condition(&mut value["status"], json!({"type": "PodScheduled", "status": "True"}), &self.now());
            if dry_run {
                return Ok(());
            }
            match self.put(kinds::pods(), &pod, &value, work) {
                // Another client wrote it: the new state is bound.
                Err(status) if status.code == 409 => {}
                result => return result.map(drop),
            }
        }
    }
}

/// The fields of the binding that the Pod gets besides its node.
fn copy_members(pod: &mut Value, binding: &Value, field: &str) {
    let Some(given) = binding["metadata"][field].as_object().filter(|given| !given.is_empty()) else { return };
    let members = metadata::of(pod).entry(field).or_insert_with(|| Value::Object(Map::new()));
    if let Some(members) = members.as_object_mut() {
        members.extend(given.clone());
    }
}

/// Refuses a binding without a node. The real server's message is unintended.
fn check(binding: &Value) -> Result<(), Status> {
    let text = |name: &str| binding["target"][name].as_str().unwrap_or_default();
    let mut errors = Vec::new();
    if !matches!(text("kind"), "" | "Node") {
        errors.push(FieldError::not_supported("target.kind", text("kind"), &["Node", "<empty>"]).to_string());
    }
    if text("name").is_empty() {
        errors.push(FieldError::required("target.name", "").to_string());
    }
    match &errors[..] {
        [] => Ok(()),
        [one] => Err(Status::unexpected(one)),
        many => Err(Status::unexpected(format!("[{}]", many.join(", ")))),
    }
}

/// Refuses a Pod that has a node, or must not get one.
fn check_free(name: &str, pod: &Value) -> Result<(), Status> {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let why = if !pod["metadata"]["deletionTimestamp"].is_null() {
        format!("pod {name} is being deleted, cannot be assigned to a host")
    } else if !node.is_empty() {
        format!("pod {name} is already assigned to node {node:?}")
    } else if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        format!("pod {name} has non-empty .spec.schedulingGates")
    } else {
        return Ok(());
    };
    Err(Status::conflict(Named { group: "", resource: "pods/binding" }, name, &why))
}
