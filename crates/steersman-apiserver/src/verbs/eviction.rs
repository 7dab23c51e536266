//! Eviction: the deletion of a Pod, if its disruption budgets allow it.

use http::StatusCode;
use serde_json::{Map, Value, json};
use steersman_wire::LabelSelector;

use crate::lifecycle::garbage::Work;
use crate::request::RequestContext;
use crate::request::delete_options::DeleteOptions;
use crate::request::write_options::{field_validation, is_dry_run};
use crate::response::status::{Named, Status};
use crate::response::warnings::Warnings;
use crate::response::{self, HandlerResult};
use crate::rules::kinds::{self, Kind};
use crate::rules::metadata;
use crate::server::Shared;
use crate::store::Key;
use crate::store::object::Object;
use crate::verbs::managed::Controller;

/// A budget with more evicted Pods that still exist allows nothing.
const DISRUPTED_MAX: usize = 2_000;
const VIOLATES: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// The decision of the budgets.
enum Outcome {
    Allowed,
    /// Allowed as long as the Pod does not change: it is not healthy, so that it needs no budget.
    AllowedUnchanged(String),
    /// More than one budget applies.
    Unsupported,
}

impl Shared {
    pub(crate) fn evict(&self, request: &RequestContext<'_>) -> HandlerResult {
        let RequestContext { target, query, .. } = *request;
        let dry_run = is_dry_run(query, "CreateOptions")?;
        let mut eviction = self.decode(&eviction(), request, field_validation(query, "CreateOptions")?)?;
        metadata::settle_namespace(metadata::of(&mut eviction.value), kinds::pods(), &target.namespace)?;
        self.check_namespace(kinds::pods(), &target.namespace, &target.name)?;
        if eviction.value["metadata"]["name"] != target.name.as_str() {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let mut options = DeleteOptions::from_value(&eviction.value["deleteOptions"])?;
        options.dry_run |= dry_run;
        let mut work = Work::default();
        let evicted = self.evict_pod(&target.key(), &options, &mut work);
        self.collect(work);
        Ok(evicted?.warning(&eviction.warnings))
    }

    fn evict_pod(&self, key: &Key, options: &DeleteOptions, work: &mut Work) -> HandlerResult {
        loop {
            let pod = self
                .store
                .get(&kinds::pods().id(), key)
                .ok_or_else(|| Status::not_found(kinds::pods().named(), &key.name))?;
            let value = pod.value();
            let outcome = if needs_no_budget(&pod, &value) {
                Outcome::Allowed
            } else {
                self.ask_budgets(&pod, &value, options.dry_run, work)?
            };
            if let Outcome::Unsupported = outcome {
                let message =
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
                    "code": 500,
                });
                return Ok(response::json(StatusCode::INTERNAL_SERVER_ERROR, status.to_string()));
            }
            // It needs no budget only as long as it does not change.
            let ended = matches!(value["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            let pending = needs_no_budget(&pod, &value) && !ended && !pod.is_deleting();
            let pinned = options.version.is_none() && (pending || matches!(outcome, Outcome::AllowedUnchanged(_)));
            let mut options = options.clone();
            if pinned {
                options.version = Some(pod.revision().to_string());
            }
            match (self.mark_and_delete(key, options, work), outcome) {
                (Ok(()), _) => return Ok(response::created()),
                (Err(status), _) if status.code != 409 || !pinned => return Err(status),
                (Err(_), Outcome::AllowedUnchanged(budget)) => return Err(still_processed(&budget)),
                // Another client wrote in between.
                (Err(_), _) => {}
            }
        }
    }

    /// Sets the reason in the status of the Pod, and deletes it.
    fn mark_and_delete(&self, key: &Key, mut options: DeleteOptions, work: &mut Work) -> Result<(), Status> {
        while !options.dry_run {
            let pod = self
                .store
                .get(&kinds::pods().id(), key)
                .ok_or_else(|| Status::not_found(kinds::pods().named(), &key.name))?;
            options.check(kinds::pods(), &pod)?;
            let mut value = pod.value();
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            set_condition(&mut value["status"], condition, &self.now());
            match self.put(kinds::pods(), &pod, &value, work) {
                // Another client wrote it: the new state is evicted.
                Err(status) if status.code == 409 => {}
                Err(status) => return Err(status),
                Ok(marked) => {
                    options.version = options.version.map(|_| marked.revision().to_string());
                    break;
                }
            }
        }
        self.delete_one(kinds::pods(), key, &options, work).map(drop)
    }

    /// Takes one disruption from the budget that applies to the Pod, if there is one.
    fn ask_budgets(&self, pod: &Object, value: &Value, dry_run: bool, work: &mut Work) -> Result<Outcome, Status> {
        let kind = kinds::builtin().resource("policy", "v1", "poddisruptionbudgets").expect("there are budgets");
        let all = self.store.list(&kind.id(), Some(&pod.key().namespace)).objects;
        let mut budgets = all.into_iter().map(|budget| (budget.value(), budget)).filter(|(budget, _)| {
            let selector = &budget["spec"]["selector"];
            !selector.is_null()
                && LabelSelector::from_json(selector).is_ok_and(|selector| selector.matches(|label| pod.label(label)))
        });
        let Some((mut budget, object)) = budgets.next() else { return Ok(Outcome::Allowed) };
        if budgets.next().is_some() {
            return Ok(Outcome::Unsupported);
        }
        let status = |name: &str| budget["status"][name].as_i64().unwrap_or(0);
        if !is_ready(value) {
            let healthy = status("currentHealthy") >= status("desiredHealthy") && status("desiredHealthy") > 0;
            if healthy || budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" {
                return Ok(Outcome::AllowedUnchanged(object.key().name.to_string()));
            }
        }
        check_budget(&budget, &object.key().name)?;
        if !dry_run {
            let now = self.now();
            take_one(&mut budget, &pod.key().name, &now);
            self.put_by(kind, &object, (&budget, Controller::STATUS), work)?;
        }
        Ok(Outcome::Allowed)
    }
}

/// Refuses an eviction that the budget does not allow.
fn check_budget(budget: &Value, name: &str) -> Result<(), Status> {
    let status = &budget["status"];
    let number = |name: &str| status[name].as_i64().unwrap_or(0);
    let named = Named { group: "policy", resource: "poddisruptionbudget" };
    if number("observedGeneration") < budget["metadata"]["generation"].as_i64().unwrap_or(0) {
        return Err(still_processed(name));
    }
    if number("disruptionsAllowed") < 0 {
        return Err(Status::forbidden(named, name, "pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > DISRUPTED_MAX) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden(named, name, why));
    }
    if number("disruptionsAllowed") > 0 {
        return Ok(());
    }
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let condition = conditions.find(|condition| condition["type"] == "DisruptionAllowed");
    let failed = condition.filter(|condition| condition["status"] == "False");
    let why =
        failed.map(|one| (one["reason"].as_str().unwrap_or_default(), one["message"].as_str().unwrap_or_default()));
    let (healthy, desired) = (number("currentHealthy"), number("desiredHealthy"));
    let message = match why.filter(|(_, message)| !message.is_empty()) {
        Some(("SyncFailed", message)) => {
            format!(
                "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
            )
        }
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => {
            format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    };
    Err(Status::too_many_requests(VIOLATES, 0, cause(&message)))
}

/// Records in a budget that a Pod is being evicted.
fn take_one(budget: &mut Value, pod: &str, now: &str) {
    let observed = budget["status"]["observedGeneration"].clone();
    let status = &mut budget["status"];
    let left = status["disruptionsAllowed"].as_i64().unwrap_or(0) - 1;
    status["disruptionsAllowed"] = left.into();
    if left == 0 {
        let mut condition = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
        });
        if !observed.is_null() {
            condition["observedGeneration"] = observed;
        }
        set_plain_condition(status, condition, now);
    }
    if !status["disruptedPods"].is_object() {
        status["disruptedPods"] = Value::Object(Map::new());
    }
    status["disruptedPods"][pod] = now.into();
}

/// Sets a condition of a Pod, which has a time of its last probe, too.
pub(crate) fn set_condition(status: &mut Value, mut condition: Value, now: &str) {
    condition["lastProbeTime"] = Value::Null;
    set_plain_condition(status, condition, now);
}

/// Sets a condition. Its time is that of the last change of its status.
fn set_plain_condition(status: &mut Value, mut condition: Value, now: &str) {
    condition["lastTransitionTime"] = now.into();
    if !status["conditions"].is_array() {
        status["conditions"] = Value::Array(Vec::new());
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|old| old["type"] == condition["type"]) {
        Some(old) => {
            if old["status"] == condition["status"] {
                condition["lastTransitionTime"] = old["lastTransitionTime"].take();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}

/// A Pod that does not run, or is being deleted already, needs no budget.
fn needs_no_budget(pod: &Object, value: &Value) -> bool {
    pod.is_deleting() || matches!(value["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending"))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn still_processed(budget: &str) -> Status {
    let message = format!("The disruption budget {budget} is still being processed by the server.");
    Status::too_many_requests(VIOLATES, 10, cause(&message))
}

fn cause(message: &str) -> Value {
    json!({"reason": "DisruptionBudget", "message": message})
}

/// The kind of the body.
fn eviction() -> Kind {
    Kind {
        group: "policy".to_owned(),
        kind: "Eviction".to_owned(),
        fields: kinds::builtin().types.find("policy.v1.Eviction"),
        ..Kind::clone(kinds::pods())
    }
}
