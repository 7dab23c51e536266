//! HorizontalPodAutoscalers: `autoscaling/v1` has annotations for what it has no fields for.

use serde_json::{Map, Value, json};

use crate::rules::metadata;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const ANNOTATIONS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// The fields of one type of metric, in the order of `autoscaling/v1`: the name there, and the path
/// in `autoscaling/v2`.
type Fields = &'static [(&'static str, &'static str)];

/// The types of metrics in the order of `autoscaling/v1`, each with its fields in the spec and in
/// the status.
const METRIC_KINDS: &[(&str, Fields, Fields)] = &[
    (
        "object",
        &[
            ("target", "describedObject"),
            ("metricName", "metric.name"),
            ("targetValue", "target.value"),
            ("selector", "metric.selector"),
            ("averageValue", "target.averageValue"),
        ],
        &[
            ("target", "describedObject"),
            ("metricName", "metric.name"),
            ("currentValue", "current.value"),
            ("selector", "metric.selector"),
            ("averageValue", "current.averageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "metric.name"),
            ("targetAverageValue", "target.averageValue"),
            ("selector", "metric.selector"),
        ],
        &[
            ("metricName", "metric.name"),
            ("currentAverageValue", "current.averageValue"),
            ("selector", "metric.selector"),
        ],
    ),
    ("resource", RESOURCE, RESOURCE_STATUS),
    ("containerResource", CONTAINER_RESOURCE, CONTAINER_RESOURCE_STATUS),
    (
        "external",
        &[
            ("metricName", "metric.name"),
            ("metricSelector", "metric.selector"),
            ("targetValue", "target.value"),
            ("targetAverageValue", "target.averageValue"),
        ],
        &[
            ("metricName", "metric.name"),
            ("metricSelector", "metric.selector"),
            ("currentValue", "current.value"),
            ("currentAverageValue", "current.averageValue"),
        ],
    ),
];

const RESOURCE: Fields = &[
    ("name", "name"),
    ("targetAverageUtilization", "target.averageUtilization"),
    ("targetAverageValue", "target.averageValue"),
];
const RESOURCE_STATUS: Fields = &[
    ("name", "name"),
    ("currentAverageUtilization", "current.averageUtilization"),
    ("currentAverageValue", "current.averageValue"),
];
const CONTAINER_RESOURCE: Fields = &[
    ("name", "name"),
    ("targetAverageUtilization", "target.averageUtilization"),
    ("targetAverageValue", "target.averageValue"),
    ("container", "container"),
];
const CONTAINER_RESOURCE_STATUS: Fields = &[
    ("name", "name"),
    ("currentAverageUtilization", "current.averageUtilization"),
    ("currentAverageValue", "current.averageValue"),
    ("container", "container"),
];

/// Converts `autoscaling/v1` to `autoscaling/v2`.
pub(super) fn to_v2(value: &mut Value) {
    let annotation = |value: &Value, name: &str| -> Option<Value> {
        serde_json::from_str(value["metadata"]["annotations"][name].as_str()?).ok()
    };
    let list = |found: Option<Value>| found.and_then(|found| found.as_array().cloned());
    let (others, current) = (list(annotation(value, METRICS)), list(annotation(value, CURRENT_METRICS)));
    let (conditions, behavior) = (list(annotation(value, CONDITIONS)), annotation(value, BEHAVIOR));
    drop_annotations(value);

    let mut metrics: Vec<Value> = others.unwrap_or_default().iter().map(|metric| metric_to_v2(metric, true)).collect();
    let target = value["spec"].as_object_mut().and_then(|spec| spec.remove("targetCPUUtilizationPercentage"));
    if let Some(percent) = target.filter(|percent| !percent.is_null()) {
        metrics.push(cpu(&json!({"target": {"type": "Utilization", "averageUtilization": percent}})));
    }
    if !metrics.is_empty() {
        value["spec"]["metrics"] = metrics.into();
    }
    if let Some(behavior) = behavior.filter(Value::is_object) {
        value["spec"]["behavior"] = with_names(&behavior, lower);
    }
    let percent = value["status"].as_object_mut().and_then(|status| status.remove("currentCPUUtilizationPercentage"));
    if let Some(percent) = percent.filter(|percent| !percent.is_null()) {
        value["status"]["currentMetrics"] = json!([cpu(&json!({"current": {"averageUtilization": percent}}))]);
    }
    if let Some(current) = current {
        let current: Vec<Value> = current.iter().map(|metric| metric_to_v2(metric, false)).collect();
        value["status"]["currentMetrics"] = current.into();
    }
    if let Some(conditions) = conditions {
        value["status"]["conditions"] = conditions.into();
    }
}

/// Converts `autoscaling/v2` to `autoscaling/v1`.
pub(super) fn to_v1(value: &mut Value) {
    drop_annotations(value);
    let take = |value: &mut Value, part: &str, field: &str| {
        value[part].as_object_mut().and_then(|part| part.remove(field)).unwrap_or(Value::Null)
    };
    let metrics = take(value, "spec", "metrics");
    let behavior = take(value, "spec", "behavior");
    let current = take(value, "status", "currentMetrics");
    let conditions = take(value, "status", "conditions");
    let items = |list: &Value| list.as_array().cloned().unwrap_or_default();

    let (of_cpu, others): (Vec<Value>, Vec<Value>) = items(&metrics)
        .into_iter()
        .partition(|metric| is_cpu(metric) && !metric["resource"]["target"]["averageUtilization"].is_null());
    if let Some(metric) = of_cpu.first() {
        let percent = &metric["resource"]["target"]["averageUtilization"];
        value["spec"]["targetCPUUtilizationPercentage"] = percent.clone();
    }
    let mut carried: Vec<(&str, String)> = Vec::new();
    if !others.is_empty() {
        carried.push((METRICS, joined(others.iter().map(|metric| metric_to_v1(metric, true)))));
    }
    let current = items(&current);
    for metric in current.iter().filter(|metric| is_cpu(metric)) {
        let percent = &metric["resource"]["current"]["averageUtilization"];
        if !percent.is_null() {
            value["status"]["currentCPUUtilizationPercentage"] = percent.clone();
        }
    }
    if !current.is_empty() {
        carried.push((CURRENT_METRICS, joined(current.iter().map(|metric| metric_to_v1(metric, false)))));
    }
    if behavior.is_object() {
        carried.push((BEHAVIOR, behavior_text(&behavior)));
    }
    let conditions = items(&conditions);
    if !conditions.is_empty() {
        let fields = ["type", "status", "lastTransitionTime", "reason", "message"];
        let condition = |condition: &Value| ordered(&fields.map(|name| (name, condition[name].clone())));
        carried.push((CONDITIONS, joined(conditions.iter().map(condition))));
    }
    let has_status = value["status"].as_object().is_some_and(|status| !status.is_empty());
    if !has_status {
        value["status"] = json!({});
    }
    for field in ["currentReplicas", "desiredReplicas"] {
        if value["status"][field].is_null() {
            value["status"][field] = 0.into();
        }
    }
    for (name, text) in carried {
        let meta = metadata::of(value);
        let annotations = meta.entry("annotations").or_insert_with(|| json!({}));
        annotations[name] = text.into();
    }
}

fn cpu(fields: &Value) -> Value {
    let mut metric = json!({"type": "Resource", "resource": {"name": "cpu"}});
    for (name, field) in fields.as_object().into_iter().flatten() {
        metric["resource"][name] = field.clone();
    }
    metric
}

fn is_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

fn drop_annotations(value: &mut Value) {
    let meta = metadata::of(value);
    let Some(annotations) = meta.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.retain(|name, _| !ANNOTATIONS.contains(&name.as_str()));
    if annotations.is_empty() {
        meta.remove("annotations");
    }
}

fn fields_of(kind: &(&str, Fields, Fields), spec: bool) -> Fields {
    if spec { kind.1 } else { kind.2 }
}

fn metric_to_v2(metric: &Value, spec: bool) -> Value {
    let mut converted = json!({"type": metric["type"]});
    for kind in METRIC_KINDS {
        let Some(source) = metric.get(kind.0).filter(|source| source.is_object()) else { continue };
        let mut target = json!({});
        for (name, path) in fields_of(kind, spec) {
            let Some(found) = source.get(*name).filter(|found| !found.is_null()) else { continue };
            let place = path.split('.').fold(&mut target, |place, step| &mut place[step]);
            *place = found.clone();
        }
        if spec {
            target["target"]["type"] = target_type(kind.0, source).into();
        }
        converted[kind.0] = target;
    }
    converted
}

/// The type of the target of a metric, which `autoscaling/v1` lacks.
fn target_type(kind: &str, source: &Value) -> &'static str {
    let has = |field: &str| source.get(field).is_some_and(|found| !found.is_null());
    match kind {
        "object" if !has("averageValue") => "Value",
        "external" if has("targetValue") => "Value",
        "resource" | "containerResource" if has("targetAverageUtilization") => "Utilization",
        _ => "AverageValue",
    }
}

fn metric_to_v1(metric: &Value, spec: bool) -> String {
    let mut parts = vec![("type", metric["type"].to_string())];
    for kind in METRIC_KINDS {
        let Some(source) = metric.get(kind.0).filter(|source| source.is_object()) else { continue };
        let fields = fields_of(kind, spec)
            .iter()
            .map(|(name, path)| (*name, path.split('.').fold(source, |value, step| &value[step]).clone()));
        parts.push((kind.0, ordered(&fields.collect::<Vec<_>>())));
    }
    braced(&parts)
}

/// An object with these fields in this order, without those that are null.
fn ordered(fields: &[(&str, Value)]) -> String {
    let picked = |value: &Value, names: &[&'static str]| {
        ordered(&names.iter().map(|name| (*name, value[*name].clone())).collect::<Vec<_>>())
    };
    let parts = fields.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| match *name {
        "target" => (*name, picked(value, &["kind", "name", "apiVersion"])),
        "selector" | "metricSelector" => (*name, picked(value, &["matchLabels", "matchExpressions"])),
        _ => (*name, value.to_string()),
    });
    braced(&parts.collect::<Vec<_>>())
}

fn braced(parts: &[(&str, String)]) -> String {
    let parts: Vec<String> = parts.iter().map(|(name, text)| format!("{}:{text}", Value::from(*name))).collect();
    format!("{{{}}}", parts.join(","))
}

fn joined(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// The behavior in the real server's internal form: with names in upper case and all unset fields.
fn behavior_text(behavior: &Value) -> String {
    let rules = |rules: &Value| {
        if !rules.is_object() {
            return "null".to_owned();
        }
        let policies = rules["policies"].as_array().map_or("null".to_owned(), |policies| {
            joined(policies.iter().map(|policy| {
                let fields = ["type", "value", "periodSeconds"];
                braced(&fields.map(|field| (upper_name(field), policy[field].to_string())))
            }))
        });
        braced(&[
            ("StabilizationWindowSeconds", rules["stabilizationWindowSeconds"].to_string()),
            ("SelectPolicy", rules["selectPolicy"].to_string()),
            ("Policies", policies),
            ("Tolerance", rules["tolerance"].to_string()),
        ])
    };
    braced(&[("ScaleUp", rules(&behavior["scaleUp"])), ("ScaleDown", rules(&behavior["scaleDown"]))])
}

fn upper_name(field: &str) -> &'static str {
    match field {
        "type" => "Type",
        "value" => "Value",
        _ => "PeriodSeconds",
    }
}

/// The value with other names and without nulls.
fn with_names(value: &Value, rename: fn(&str) -> String) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(_, member)| !member.is_null());
            members.map(|(name, member)| (rename(name), with_names(member, rename))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(|item| with_names(item, rename)).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

fn lower(name: &str) -> String {
    let mut characters = name.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_on_the_way_through_the_older_version() {
        let whole = json!({
            "metadata": {"name": "a", "annotations": {"x": "y"}},
            "spec": {
                "maxReplicas": 3,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                    {"type": "External", "external": {"metric": {"name": "q", "selector": {"matchLabels": {"a": "b"}}},
                        "target": {"type": "Value", "value": "30"}}},
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                ],
                "behavior": {"scaleUp": {"selectPolicy": "Max", "stabilizationWindowSeconds": 0,
                    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}},
            },
            "status": {"currentReplicas": 1, "desiredReplicas": 2,
                "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": null}]},
        });
        let mut v1 = whole.clone();
        to_v1(&mut v1);
        assert_eq!(v1["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}));
        assert_eq!(
            v1["metadata"]["annotations"][METRICS],
            r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}},{"type":"External","external":{"metricName":"q","metricSelector":{"matchLabels":{"a":"b"}},"targetValue":"30"}}]"#
        );
        let mut back = v1;
        to_v2(&mut back);
        let mut expected = whole;
        expected["status"]["conditions"][0].as_object_mut().unwrap().remove("lastTransitionTime");
        assert_eq!(back, expected);
    }
}
