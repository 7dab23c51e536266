//! HorizontalPodAutoscalers and PodDisruptionBudgets.

use serde_json::{Value, json};

use super::fields::{self, Default, fill_all, get, items, number, object, text};
use crate::response::status::{Errors, FieldError};
use crate::rules::kinds::Kind;

const BUDGET: &[(&str, Default)] = &[
    ("spec", Default::Object),
    ("status.disruptionsAllowed", Default::Int(0)),
    ("status.currentHealthy", Default::Int(0)),
    ("status.desiredHealthy", Default::Int(0)),
    ("status.expectedPods", Default::Int(0)),
];

pub(super) fn fill(kind: &Kind, value: &mut Value) {
    match (kind.kind.as_str(), kind.version.as_str()) {
        ("PodDisruptionBudget", _) => fill_all(value, BUDGET),
        ("HorizontalPodAutoscaler", "v2") => fill_autoscaler(value),
        ("HorizontalPodAutoscaler", _) => fields::fill(value, "spec.minReplicas", 1),
        _ => {}
    }
}

fn fill_autoscaler(value: &mut Value) {
    fields::fill(value, "spec.minReplicas", 1);
    if items(value, "spec.metrics").is_empty() {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let metric = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
        fields::put(value, "spec.metrics", metric);
    }
    if get(value, "spec.behavior").is_object() {
        let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        let rules = [("scaleUp", json!([pods, percent])), ("scaleDown", json!([percent]))];
        for (direction, policies) in rules {
            let at = format!("spec.behavior.{direction}");
            fields::fill(value, &at, object());
            fields::fill(value, &format!("{at}.selectPolicy"), "Max");
            fields::fill(value, &format!("{at}.policies"), policies);
        }
        fields::fill(value, "spec.behavior.scaleUp.stabilizationWindowSeconds", 0);
    }
    fields::fill(value, "status.desiredReplicas", 0);
    fields::fill(value, "status.currentMetrics", Value::Null);
}

pub(super) fn validate(kind: &Kind, value: &Value, errors: &mut Errors) {
    let spec = &value["spec"];
    match kind.kind.as_str() {
        "HorizontalPodAutoscaler" => {
            let (min, max) = (number(spec, "minReplicas"), number(spec, "maxReplicas"));
            if !spec["minReplicas"].is_null() && min < 1 {
                errors.push(FieldError::invalid("spec.minReplicas", min, "must be greater than or equal to 1"));
            }
            if max < 1 {
                errors.push(FieldError::required("spec.maxReplicas", "must be set and greater than 0"));
            }
            if !spec["minReplicas"].is_null() && max < min {
                let detail = "must be greater than or equal to `minReplicas`";
                errors.push(FieldError::invalid("spec.maxReplicas", max, detail));
            }
            let target = &spec["scaleTargetRef"];
            for field in ["kind", "name"] {
                if text(target, field).is_empty() {
                    errors.push(FieldError::required(format!("spec.scaleTargetRef.{field}"), ""));
                }
            }
            if text(target, "apiVersion").is_empty() {
                let detail = "apiVersion must specify API group";
                errors.push(FieldError::invalid("spec.scaleTargetRef.apiVersion", "", detail));
            }
        }
        "PodDisruptionBudget" => {
            let (min, max) = (&spec["minAvailable"], &spec["maxUnavailable"]);
            if !min.is_null() && !max.is_null() {
                let of_server = json!({
                    "MinAvailable": min,
                    "Selector": spec["selector"],
                    "MaxUnavailable": max,
                    "UnhealthyPodEvictionPolicy": spec["unhealthyPodEvictionPolicy"],
                });
                let detail = "minAvailable and maxUnavailable cannot be both set";
                errors.push(FieldError::invalid("spec", of_server, detail));
            }
            fields::not_negative(spec, "spec", &["minAvailable", "maxUnavailable"], errors);
            super::meta::selector(&spec["selector"], "spec.selector", errors);
        }
        _ => {}
    }
}
