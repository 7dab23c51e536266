//! The cells of workloads, and of what scales and protects them.

use serde_json::Value;

use super::super::age;
use super::{NONE, Row, UNSET};

pub(super) fn cells(kind: &str, row: Row<'_>) -> Option<Vec<Value>> {
    Some(match kind {
        "Deployment" => deployment(row),
        "ReplicaSet" => replica_set(row, row.selector_cell("/spec/selector")),
        "ReplicationController" => replica_set(row, row.labels("/spec/selector")),
        "StatefulSet" => {
            let [names, images] = row.containers("/spec/template/spec/containers");
            vec![row.name(), ready(row), row.age(), names, images]
        }
        "DaemonSet" => daemon_set(row),
        "Job" => job(row),
        "CronJob" => cron_job(row),
        "ControllerRevision" => controller_revision(row),
        "PodTemplate" => {
            let [names, images] = row.containers("/template/spec/containers");
            vec![row.name(), names, images, row.labels("/template/metadata/labels")]
        }
        "PodDisruptionBudget" => {
            let limit = |pointer: &str| int_or_string(row.at(pointer)).unwrap_or_else(|| "N/A".to_owned());
            let (least, most) = (limit("/spec/minAvailable"), limit("/spec/maxUnavailable"));
            vec![row.name(), least.into(), most.into(), row.number("/status/disruptionsAllowed").into(), row.age()]
        }
        "HorizontalPodAutoscaler" => autoscaler(row),
        "Scale" => {
            let (wanted, found) = (row.number("/spec/replicas"), row.number("/status/replicas"));
            vec![row.name(), wanted.into(), found.into(), row.age()]
        }
        _ => return None,
    })
}

fn ready(row: Row<'_>) -> Value {
    format!("{}/{}", row.number("/status/readyReplicas"), row.number("/spec/replicas")).into()
}

fn deployment(row: Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers("/spec/template/spec/containers");
    let selector = row.selector("/spec/selector").unwrap_or_else(|()| "<invalid>".to_owned());
    let (updated, available) = (row.number("/status/updatedReplicas"), row.number("/status/availableReplicas"));
    vec![row.name(), ready(row), updated.into(), available.into(), row.age(), names, images, selector.into()]
}

fn replica_set(row: Row<'_>, selector: Value) -> Vec<Value> {
    let [names, images] = row.containers("/spec/template/spec/containers");
    let numbers = ["/spec/replicas", "/status/replicas", "/status/readyReplicas"].map(|at| Value::from(row.number(at)));
    let [wanted, found, ready] = numbers;
    vec![row.name(), wanted, found, ready, row.age(), names, images, selector]
}

fn daemon_set(row: Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers("/spec/template/spec/containers");
    let numbers = [
        "/status/desiredNumberScheduled",
        "/status/currentNumberScheduled",
        "/status/numberReady",
        "/status/updatedNumberScheduled",
        "/status/numberAvailable",
    ];
    let mut cells = vec![row.name()];
    cells.extend(numbers.map(|at| Value::from(row.number(at))));
    cells.extend([row.labels("/spec/template/spec/nodeSelector"), row.age()]);
    cells.extend([names, images, row.selector_cell("/spec/selector")]);
    cells
}

fn job(row: Row<'_>) -> Vec<Value> {
    let succeeded = row.number("/status/succeeded");
    let completions = match (row.at("/spec/completions").as_i64(), row.number("/spec/parallelism")) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let start = age::parse(row.at("/status/startTime"));
    let end = age::parse(row.at("/status/completionTime")).unwrap_or(row.now.0);
    let duration = start.map(|start| age::human(end - start)).unwrap_or_default();
    let has = |condition: &str| row.condition(condition) == Some("True");
    let status = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if row.is_deleting() => "Terminating",
        () if has("Suspended") => "Suspended",
        () if has("FailureTarget") => "FailureTarget",
        () if has("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let [names, images] = row.containers("/spec/template/spec/containers");
    let selector = row.selector_cell("/spec/selector");
    vec![row.name(), status.into(), completions.into(), duration.into(), row.age(), names, images, selector]
}

fn cron_job(row: Row<'_>) -> Vec<Value> {
    let suspend = match row.at("/spec/suspend").as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    let last = row.at("/status/lastScheduleTime");
    let [names, images] = row.containers("/spec/jobTemplate/spec/template/spec/containers");
    vec![
        row.name(),
        row.text("/spec/schedule").into(),
        row.optional("/spec/timeZone", NONE).into(),
        suspend.into(),
        row.count("/status/active").into(),
        if last.is_null() { NONE.into() } else { row.now.since(last).into() },
        row.age(),
        names,
        images,
        row.selector_cell("/spec/jobTemplate/spec/selector"),
    ]
}

fn controller_revision(row: Row<'_>) -> Vec<Value> {
    let controller = row.list("/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true);
    let controller = controller.map_or_else(
        || NONE.to_owned(),
        |owner| {
            let text = |field: &str| owner[field].as_str().unwrap_or_default();
            let group = text("apiVersion").split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
            format!("{}/{}", format!("{}{group}", text("kind")).to_lowercase(), text("name"))
        },
    );
    vec![row.name(), controller.into(), row.number("/revision").into(), row.age()]
}

fn autoscaler(row: Row<'_>) -> Vec<Value> {
    let target = format!("{}/{}", row.text("/spec/scaleTargetRef/kind"), row.text("/spec/scaleTargetRef/name"));
    let least = row.at("/spec/minReplicas").as_i64().map_or_else(|| UNSET.to_owned(), |least| least.to_string());
    vec![
        row.name(),
        target.into(),
        metrics(row).into(),
        least.into(),
        row.number("/spec/maxReplicas").into(),
        row.number("/status/currentReplicas").into(),
        row.age(),
    ]
}

/// The first two metrics of an autoscaler, as current and wanted values.
fn metrics(row: Row<'_>) -> String {
    const SHOWN: usize = 2;
    let metrics = row.list("/spec/metrics");
    if metrics.is_empty() {
        return NONE.to_owned();
    }
    let current = row.list("/status/currentMetrics");
    let texts = metrics.iter().enumerate().map(|(index, metric)| metric_text(metric, current.get(index)));
    let shown = texts.take(SHOWN).collect::<Vec<_>>().join(", ");
    match metrics.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ => shown,
    }
}

fn metric_text(metric: &Value, current: Option<&Value>) -> String {
    let (source, is_resource) = match metric["type"].as_str() {
        Some("External") => ("external", false),
        Some("Pods") => ("pods", false),
        Some("Object") => ("object", false),
        Some("Resource") => ("resource", true),
        Some("ContainerResource") => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let target = &metric[source]["target"];
    let of_current = current.map(|current| &current[source]).filter(|current| current.is_object());
    let unknown = || "<unknown>".to_owned();
    // A value without a pointer in Go is zero if it is absent.
    let quantity = |value: &Value| value.as_str().unwrap_or("0").to_owned();
    let average = || match of_current {
        Some(current) if is_resource || source == "pods" => quantity(&current["current"]["averageValue"]),
        Some(current) => current["current"]["averageValue"].as_str().map_or_else(unknown, str::to_owned),
        None => unknown(),
    };
    let name = metric[source]["name"].as_str().unwrap_or_default();
    if is_resource {
        if let Some(wanted) = target["averageValue"].as_str() {
            return format!("{name}: {}/{wanted}", average());
        }
        let percent = |value: &Value| value.as_i64().map(|percent| format!("{percent}%"));
        let found = of_current.and_then(|current| percent(&current["current"]["averageUtilization"]));
        let wanted = percent(&target["averageUtilization"]).unwrap_or_else(|| "<auto>".to_owned());
        return format!("{name}: {}/{wanted}", found.unwrap_or_else(unknown));
    }
    match target["averageValue"].as_str() {
        Some(wanted) if source == "pods" => format!("{}/{wanted}", average()),
        Some(wanted) => format!("{}/{wanted} (avg)", average()),
        None => {
            let found = of_current.map_or_else(unknown, |current| quantity(&current["current"]["value"]));
            format!("{found}/{}", quantity(&target["value"]))
        }
    }
}

fn int_or_string(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
