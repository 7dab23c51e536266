//! The cells of Pods: a summary of the states of their containers.

use std::collections::HashSet;

use serde_json::Value;

use super::super::age::{self, Now};
use super::{NONE, Row};

pub(super) fn cells(kind: &str, row: Row<'_>) -> Option<Vec<Value>> {
    (kind == "Pod").then(|| pod(row))
}

/// The restarts of containers, and when the last one was.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<i64>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += container["restartCount"].as_i64().unwrap_or_default();
        let finished = age::parse(&container["lastState"]["terminated"]["finishedAt"]);
        self.last = self.last.max(finished);
    }

    fn text(self, now: Now) -> String {
        match self.last {
            Some(last) if self.count != 0 => format!("{} ({} ago)", self.count, age::human(now.0 - last)),
            _ => self.count.to_string(),
        }
    }
}

/// The summary of a Pod's containers.
struct Summary {
    reason: String,
    ready: usize,
    restarts: Restarts,
}

fn pod(row: Row<'_>) -> Vec<Value> {
    let restartable = row.list("/spec/initContainers").iter().filter(|container| is_restartable(container));
    let restartable: Vec<&Value> = restartable.map(|container| &container["name"]).collect();
    let total = row.count("/spec/containers") + restartable.len();
    let restartable: HashSet<&str> = restartable.into_iter().filter_map(Value::as_str).collect();
    let mut reason = row.text_or("/status/reason", row.text("/status/phase")).to_owned();
    let conditions = row.list("/status/conditions");
    if conditions.iter().any(|one| one["type"] == "PodScheduled" && one["reason"] == "SchedulingGated") {
        "SchedulingGated".clone_into(&mut reason);
    }
    let mut summary = Summary { reason, ready: 0, restarts: Restarts::default() };
    let (is_initializing, of_restartable) = summary.add_init_containers(row, &restartable);
    if !is_initializing || row.condition("Initialized") == Some("True") {
        summary.restarts = of_restartable;
        summary.add_containers(row);
    }
    let phase = row.text("/status/phase");
    if row.is_deleting() && row.text("/status/reason") == "NodeLost" {
        "Unknown".clone_into(&mut summary.reason);
    } else if row.is_deleting() && !matches!(phase, "Failed" | "Succeeded") {
        "Terminating".clone_into(&mut summary.reason);
    }
    let address = row.text_or("/status/podIPs/0/ip", NONE);
    let gates = row.list("/spec/readinessGates");
    let open =
        gates.iter().filter(|gate| row.condition(gate["conditionType"].as_str().unwrap_or_default()) == Some("True"));
    let gates = if gates.is_empty() { NONE.to_owned() } else { format!("{}/{}", open.count(), gates.len()) };
    vec![
        row.name(),
        format!("{}/{total}", summary.ready).into(),
        summary.reason.into(),
        summary.restarts.text(row.now).into(),
        row.age(),
        address.into(),
        row.text_or("/spec/nodeName", NONE).into(),
        row.text_or("/status/nominatedNodeName", NONE).into(),
        gates.into(),
    ]
}

impl Summary {
    /// Returns whether an init container is still to finish, and the restarts of those that keep
    /// running.
    fn add_init_containers(&mut self, row: Row<'_>, restartable: &HashSet<&str>) -> (bool, Restarts) {
        let mut of_restartable = Restarts::default();
        let total = row.count("/spec/initContainers");
        for (index, container) in row.list("/status/initContainerStatuses").iter().enumerate() {
            self.restarts.add(container);
            let is_restartable = container["name"].as_str().is_some_and(|name| restartable.contains(name));
            if is_restartable {
                of_restartable.add(container);
            }
            let terminated = &container["state"]["terminated"];
            if terminated.is_object() && exit_code(terminated) == 0 {
                continue;
            }
            if is_restartable && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            let waiting = container["state"]["waiting"]["reason"].as_str().unwrap_or_default();
            self.reason = if terminated.is_object() {
                format!("Init:{}", end_of(terminated))
            } else if !matches!(waiting, "" | "PodInitializing") {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{total}")
            };
            return (true, of_restartable);
        }
        (false, of_restartable)
    }

    fn add_containers(&mut self, row: Row<'_>) {
        let (mut has_running, mut error) = (false, None);
        for container in row.list("/status/containerStatuses").iter().rev() {
            self.restarts.add(container);
            let state = &container["state"];
            let waiting = state["waiting"]["reason"].as_str().unwrap_or_default();
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if state["terminated"].is_object() {
                self.reason = end_of(&state["terminated"]);
                if exit_code(&state["terminated"]) != 0 {
                    error = Some(self.reason.clone());
                }
            } else if container["ready"] == true && state["running"].is_object() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if has_running && row.condition("Ready") == Some("True") {
                "Running".clone_into(&mut self.reason);
            } else if let Some(error) = error {
                self.reason = error;
            } else if has_running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }
}

fn is_restartable(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn exit_code(terminated: &Value) -> i64 {
    terminated["exitCode"].as_i64().unwrap_or_default()
}

/// Why a container has ended.
fn end_of(terminated: &Value) -> String {
    match (terminated["reason"].as_str().unwrap_or_default(), terminated["signal"].as_i64().unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", exit_code(terminated)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
