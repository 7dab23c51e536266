//! Records the objects that a new cluster has before any client writes.
//!
//! The output has one object a line, in the order of discovery and by name. Values that differ from
//! run to run are placeholders: the embedded server fills in its own.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::proxy::{Answer, Proxy};
use super::{DATA, is_time, text};
use crate::step::Progress;
use crate::workspace;

const FILE: &str = "bootstrap.jsonl";
/// The server creates its objects in the background, one controller after the other.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
const POLLS_MAX: usize = 60;
/// The object that the server creates last.
const LAST: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
/// Stands for the time of the start.
const TIME: &str = "1970-01-01T00:00:00Z";
/// Stands for the day of the start.
const DAY: &str = "1970-01-01";
/// The port in the recorded objects. The recorded server has another one each time.
const PORT: u64 = 6443;
/// Metadata that each server has for itself.
const OWN_METADATA: [&str; 3] = ["uid", "resourceVersion", "creationTimestamp"];

/// Reads every object of a new server, and writes them.
pub(super) fn record(proxy: &Proxy, kinds: &Value) -> Result<()> {
    let progress = Progress::start(format!("recording {FILE}"), None);
    let text = settled(proxy, kinds)?;
    progress.finish();
    let path = workspace::root().join(DATA).join(FILE);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

/// The objects, once two looks in a row find the same ones.
fn settled(proxy: &Proxy, kinds: &Value) -> Result<String> {
    let mut before = None;
    for _ in 0..POLLS_MAX {
        if proxy.get(LAST)?.status == 200 {
            let now = objects(proxy, kinds)?;
            if before.as_ref() == Some(&now) {
                return Ok(now);
            }
            before = Some(now);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    anyhow::bail!("the server still changes its own objects, or has no object {LAST}")
}

fn objects(proxy: &Proxy, kinds: &Value) -> Result<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut lines = Vec::new();
    let mut seen = BTreeSet::new();
    for group in list(&kinds["groups"]) {
        let group_name = group["name"].as_str().unwrap_or_default();
        for version in list(&group["versions"]).iter().filter(|one| one["version"] == group["preferred"]) {
            for resource in list(&version["resources"]) {
                let verbs = list(&resource["verbs"]);
                if !["create", "list"].iter().all(|verb| verbs.iter().any(|one| one == verb)) || is_own(&resource) {
                    continue;
                }
                let (version, plural) = (text(&version["version"])?, text(&resource["plural"])?);
                let root = if group_name.is_empty() { "api".to_owned() } else { format!("apis/{group_name}") };
                let path = format!("/{root}/{version}/{plural}");
                let Answer { status, body } = proxy.get(&path)?;
                ensure!(status == 200, "{path} is answered with {status}: {}", body["message"]);
                for mut object in list(&body["items"]) {
                    object["apiVersion"] = body["apiVersion"].clone();
                    object["kind"] = resource["kind"].clone();
                    let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                    if seen.insert(uid) {
                        lines.push(line(object)?);
                    }
                }
            }
        }
    }
    // Namespaces come first: they hold the others.
    lines.sort_by_key(|line| !line.contains(r#""kind":"Namespace""#));
    Ok(lines.join("\n") + "\n")
}

/// Whether only the recorded server can have such objects: its Lease has a random name.
fn is_own(resource: &Value) -> bool {
    ["Lease", "Event"].iter().any(|kind| resource["kind"] == *kind)
}

/// The object without the values of this run.
fn line(mut object: Value) -> Result<String> {
    let metadata = object["metadata"].as_object_mut().context("an object has no metadata")?;
    metadata.retain(|name, _| !OWN_METADATA.contains(&name.as_str()));
    if ["Service", "Endpoints", "EndpointSlice"].iter().any(|kind| object["kind"] == *kind) {
        replace_port(&mut object);
    }
    if let Some(data) = object.get_mut("data").and_then(Value::as_object_mut) {
        for (name, value) in data {
            *value = if name == "client-ca-file" { "".into() } else { DAY.into() };
        }
    }
    replace_times(&mut object);
    Ok(object.to_string())
}

/// Replaces the port that the recorded server listens on.
fn replace_port(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_u64().is_some_and(|number| number > 1023) => *value = PORT.into(),
        Value::Array(items) => items.iter_mut().for_each(replace_port),
        Value::Object(members) => members.values_mut().for_each(replace_port),
        _ => {}
    }
}

fn replace_times(value: &mut Value) {
    match value {
        Value::String(text) if is_time(text) => *text = TIME.to_owned(),
        Value::Array(items) => items.iter_mut().for_each(replace_times),
        Value::Object(members) => members.values_mut().for_each(replace_times),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_one_run_are_placeholders() {
        let object = json!({
            "kind": "Service",
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-03-02T08:14:21Z",
                "managedFields": [{"time": "2026-03-02T08:14:21Z"}]},
            "spec": {"ports": [{"port": 443, "targetPort": 40123}]},
        });
        let expected = json!({
            "kind": "Service",
            "metadata": {"name": "a", "managedFields": [{"time": TIME}]},
            "spec": {"ports": [{"port": 443, "targetPort": PORT}]},
        });
        assert_eq!(line(object).unwrap(), expected.to_string());
        let object = json!({"metadata": {}, "data": {"client-ca-file": "pem", "since": "2026-03-02"}});
        let expected = json!({"metadata": {}, "data": {"client-ca-file": "", "since": DAY}});
        assert_eq!(line(object).unwrap(), expected.to_string());
    }
}
