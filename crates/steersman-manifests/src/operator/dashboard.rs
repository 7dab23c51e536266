//! A dashboard of Grafana: the metrics of controller-runtime's names, and those that only steersman
//! has.

use serde_json::{Value, json};

use super::model::Operator;
use super::objects::Manifest;
use super::yaml::MARK;

/// The label by which Grafana's sidecar finds ConfigMaps with dashboards.
const LABEL: &str = "grafana_dashboard";
/// The member with the mark of generated files.
const MARK_KEY: &str = "__generated";
/// The version of the dashboard's own format.
const SCHEMA_VERSION: u32 = 39;
/// Grafana's limit for the uid of a dashboard.
const UID_MAX: usize = 40;
/// The grid of Grafana has 24 columns; three panels are in a row.
const COLUMNS: usize = 3;
const WIDTH: usize = 24 / COLUMNS;
const HEIGHT: usize = 8;

/// The series of this operator.
const OWN: &str = r#"{job="$job", namespace="$namespace"}"#;
/// Stands for [`OWN`] in a query.
const SELECTOR: &str = "{}";
/// Stands for the window of a rate in a query.
const WINDOW: &str = "[]";

/// A section of the dashboard.
struct Row {
    title: &'static str,
    panels: &'static [Panel],
}

struct Panel {
    title: &'static str,
    /// What a reader has to know to act on it.
    description: &'static str,
    unit: &'static str,
    /// The queries, each with the legend of its series.
    queries: &'static [(&'static str, &'static str)],
}

const ROWS: &[Row] = &[
    Row {
        title: "Reconciles",
        panels: &[
            Panel {
                title: "Reconciles",
                description: "By result: success, error, requeue or requeue_after.",
                unit: "ops",
                queries: &[(
                    "sum by (controller, result) (rate(controller_runtime_reconcile_total{}[]))",
                    "{{controller}} {{result}}",
                )],
            },
            Panel {
                title: "Failures",
                description: "A terminal error is not retried. Panics and time-outs are errors, too.",
                unit: "ops",
                queries: &[
                    (
                        "sum by (controller) (rate(controller_runtime_reconcile_errors_total{}[]))",
                        "{{controller}} errors",
                    ),
                    (
                        "sum by (controller) (rate(controller_runtime_terminal_reconcile_errors_total{}[]))",
                        "{{controller}} terminal errors",
                    ),
                    (
                        "sum by (controller) (rate(controller_runtime_reconcile_panics_total{}[]))",
                        "{{controller}} panics",
                    ),
                    (
                        "sum by (controller) (rate(controller_runtime_reconcile_timeouts_total{}[]))",
                        "{{controller}} time-outs",
                    ),
                ],
            },
            Panel {
                title: "Time of a reconcile",
                description: "The median, and the time that one reconcile in a hundred exceeds.",
                unit: "s",
                queries: &[
                    (
                        "histogram_quantile(0.5, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket{}[])))",
                        "{{controller}} p50",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket{}[])))",
                        "{{controller}} p99",
                    ),
                ],
            },
            Panel {
                title: "Busy workers",
                description: "At 100 %, keys wait for a worker: allow more concurrent reconciles, or make them faster.",
                unit: "percentunit",
                queries: &[(
                    "sum by (controller) (controller_runtime_active_workers{}) / sum by (controller) (controller_runtime_max_concurrent_reconciles{})",
                    "{{controller}}",
                )],
            },
            Panel {
                title: "Causes of reconciles",
                description: "The source of the first cause of each reconcile.",
                unit: "ops",
                queries: &[(
                    "sum by (controller, source) (rate(reconcile_trigger_total{}[]))",
                    "{{controller}} {{source}}",
                )],
            },
            Panel {
                title: "Hot loops",
                description: "Objects that a controller writes again and again. /debug shows the writes.",
                unit: "short",
                queries: &[("sum by (controller) (increase(reconcile_hot_loops_total{}[]))", "{{controller}}")],
            },
        ],
    },
    Row {
        title: "Work queues",
        panels: &[
            Panel {
                title: "Waiting keys",
                description: "By priority. A depth that grows means too few or too slow workers.",
                unit: "short",
                queries: &[("sum by (name, priority) (workqueue_depth{})", "{{name}} priority {{priority}}")],
            },
            Panel {
                title: "Keys added and retried",
                description: "",
                unit: "ops",
                queries: &[
                    ("sum by (name) (rate(workqueue_adds_total{}[]))", "{{name}} added"),
                    ("sum by (name) (rate(workqueue_retries_total{}[]))", "{{name}} retried"),
                ],
            },
            Panel {
                title: "Time in the queue",
                description: "How long a key waits for a worker.",
                unit: "s",
                queries: &[
                    (
                        "histogram_quantile(0.5, sum by (name, le) (rate(workqueue_queue_duration_seconds_bucket{}[])))",
                        "{{name}} p50",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (name, le) (rate(workqueue_queue_duration_seconds_bucket{}[])))",
                        "{{name}} p99",
                    ),
                ],
            },
            Panel {
                title: "Time with a worker",
                description: "",
                unit: "s",
                queries: &[
                    (
                        "histogram_quantile(0.5, sum by (name, le) (rate(workqueue_work_duration_seconds_bucket{}[])))",
                        "{{name}} p50",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (name, le) (rate(workqueue_work_duration_seconds_bucket{}[])))",
                        "{{name}} p99",
                    ),
                ],
            },
            Panel {
                title: "Work in progress",
                description: "The age of all running reconciles together. A line that only rises is a stuck worker.",
                unit: "s",
                queries: &[("sum by (name) (workqueue_unfinished_work_seconds{})", "{{name}}")],
            },
            Panel {
                title: "Longest running reconcile",
                description: "",
                unit: "s",
                queries: &[("max by (name) (workqueue_longest_running_processor_seconds{})", "{{name}}")],
            },
        ],
    },
    Row {
        title: "Caches",
        panels: &[
            Panel {
                title: "Objects",
                description: "",
                unit: "short",
                queries: &[("sum by (pod, resource) (cache_objects{})", "{{pod}} {{resource}}")],
            },
            Panel {
                title: "Memory of the objects",
                description: "",
                unit: "bytes",
                queries: &[("sum by (pod, resource) (cache_bytes{})", "{{pod}} {{resource}}")],
            },
            Panel {
                title: "Decoded objects",
                description: "How often a reader needed a whole object, which is stored as bytes.",
                unit: "ops",
                queries: &[("sum by (resource) (rate(cache_decodes_total{}[]))", "{{resource}}")],
            },
            Panel {
                title: "Age of the caches",
                description: "The time since the server confirmed the state of the cache, by an event or a bookmark. Servers send a bookmark about once a minute.",
                unit: "s",
                queries: &[("max by (pod, resource) (informer_lag_seconds{})", "{{pod}} {{resource}}")],
            },
            Panel {
                title: "Events that wait for their handlers",
                description: "",
                unit: "short",
                queries: &[("sum by (pod, resource) (informer_handler_backlog{})", "{{pod}} {{resource}}")],
            },
            Panel {
                title: "Restarts of watches",
                description: "By reason. API servers end each watch after some minutes.",
                unit: "ops",
                queries: &[("sum by (resource, reason) (rate(watch_restarts_total{}[]))", "{{resource}} {{reason}}")],
            },
        ],
    },
    Row {
        title: "Requests",
        panels: &[
            Panel {
                title: "Requests to the API server",
                description: "",
                unit: "reqps",
                queries: &[("sum by (method, code) (rate(rest_client_requests_total{}[]))", "{{method}} {{code}}")],
            },
            Panel {
                title: "Time of a request",
                description: "Shown if the manager has detailed request metrics.",
                unit: "s",
                queries: &[(
                    "histogram_quantile(0.99, sum by (verb, le) (rate(rest_client_request_duration_seconds_bucket{}[])))",
                    "{{verb}} p99",
                )],
            },
            Panel {
                title: "Events",
                description: "A dropped Event did not reach the server.",
                unit: "ops",
                queries: &[
                    ("sum(rate(event_recorder_recorded_total{}[]))", "recorded"),
                    ("sum(rate(event_recorder_created_total{}[]))", "created"),
                    ("sum(rate(event_recorder_patched_total{}[]))", "patched"),
                    ("sum by (reason) (rate(event_recorder_dropped_total{}[]))", "dropped: {{reason}}"),
                ],
            },
        ],
    },
    Row {
        title: "Replicas",
        panels: &[
            Panel {
                title: "Leader",
                description: "1 for the replica that holds the Lease. Two lines at 1 are a fault.",
                unit: "short",
                queries: &[("max by (pod, name) (leader_election_master_status{})", "{{pod}} {{name}}")],
            },
            Panel {
                title: "Slow renewals of the Lease",
                description: "Renewals that had to read the Lease first: another client wrote it.",
                unit: "ops",
                queries: &[("sum by (pod) (rate(leader_election_slowpath_total{}[]))", "{{pod}}")],
            },
            Panel {
                title: "Unreadable certificates",
                description: "Reads of the certificate that failed. The earlier certificate stays in use.",
                unit: "short",
                queries: &[("sum by (pod) (increase(certwatcher_read_certificate_errors_total{}[]))", "{{pod}}")],
            },
            Panel {
                title: "CPU",
                description: "Cores in use.",
                unit: "short",
                queries: &[("sum by (pod) (rate(process_cpu_seconds_total{}[]))", "{{pod}}")],
            },
            Panel {
                title: "Memory",
                description: "",
                unit: "bytes",
                queries: &[("sum by (pod) (process_resident_memory_bytes{})", "{{pod}}")],
            },
            Panel {
                title: "Open files",
                description: "As a part of the limit.",
                unit: "percentunit",
                queries: &[("sum by (pod) (process_open_fds{}) / sum by (pod) (process_max_fds{})", "{{pod}}")],
            },
        ],
    },
];

/// How each file begins. The key sorts before all others. Grafana ignores it, and a dashboard that
/// Grafana exports does not have it: that one is the user's.
pub(super) fn header() -> String {
    format!("{{\n  \"{MARK_KEY}\": \"{MARK}\",")
}

/// The path of the file, and its text.
pub(super) fn file(operator: &Operator) -> (String, String) {
    (format!("grafana/{}.json", operator.name), text(operator))
}

/// The dashboard in a ConfigMap that Grafana's sidecar reads.
pub(super) fn config_map(operator: &Operator) -> Manifest {
    let mut metadata = operator.metadata("dashboard");
    metadata["labels"][LABEL] = "1".into();
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {format!("{}.json", operator.name): text(operator)},
    });
    Manifest::new("dashboard", object)
}

fn text(operator: &Operator) -> String {
    // The pretty form of a `Value` cannot fail.
    format!("{:#}\n", dashboard(operator))
}

fn dashboard(operator: &Operator) -> Value {
    let mut uid = format!("steersman-{}", operator.name);
    uid.truncate(UID_MAX);
    json!({
        MARK_KEY: MARK,
        "title": operator.name,
        "description": format!("The operator {}", operator.name),
        "uid": uid,
        "tags": ["steersman"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables(operator)},
        "panels": panels(),
    })
}

/// The source of the data, and the labels that a scraper adds. The labels of the ServiceMonitor are
/// chosen first.
fn variables(operator: &Operator) -> Value {
    let chosen = |text: &str| json!({"text": text, "value": text});
    let of_labels = |name: &str, query: &str, current: &str| {
        json!({
            "type": "query", "name": name, "label": name, "datasource": source(), "refresh": 2, "sort": 1,
            "query": {"query": query, "refId": name}, "definition": query, "current": chosen(current),
        })
    };
    let series = "controller_runtime_active_workers";
    json!([
        {"type": "datasource", "name": "datasource", "label": "data source", "query": "prometheus"},
        of_labels("namespace", &format!("label_values({series}, namespace)"), &operator.namespace),
        of_labels(
            "job",
            &format!(r#"label_values({series}{{namespace="$namespace"}}, job)"#),
            &format!("{}-metrics", operator.name),
        ),
    ])
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn panels() -> Vec<Value> {
    let mut panels = Vec::new();
    let mut y = 0;
    for row in ROWS {
        let id = panels.len() + 1;
        let position = json!({"x": 0, "y": y, "w": 24, "h": 1});
        panels.push(
            json!({"id": id, "type": "row", "title": row.title, "collapsed": false, "gridPos": position, "panels": []}),
        );
        y += 1;
        for (index, panel) in row.panels.iter().enumerate() {
            let place = (index % COLUMNS * WIDTH, y + index / COLUMNS * HEIGHT);
            panels.push(panel.json(panels.len() + 1, place));
        }
        y += row.panels.len().div_ceil(COLUMNS) * HEIGHT;
    }
    panels
}

impl Panel {
    fn json(&self, id: usize, (x, y): (usize, usize)) -> Value {
        let letters = 'A'..='Z';
        let targets = self.queries.iter().zip(letters).map(|((query, legend), letter)| {
            let expr = query.replace(SELECTOR, OWN).replace(WINDOW, "[$__rate_interval]");
            json!({"refId": letter, "datasource": source(), "expr": expr, "legendFormat": legend, "range": true})
        });
        json!({
            "id": id,
            "type": "timeseries",
            "title": self.title,
            "description": self.description,
            "datasource": source(),
            "gridPos": {"x": x, "y": y, "w": WIDTH, "h": HEIGHT},
            "fieldConfig": {"defaults": {"unit": self.unit, "min": 0}, "overrides": []},
            "options": {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true},
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
            "targets": targets.collect::<Vec<_>>(),
        })
    }
}
