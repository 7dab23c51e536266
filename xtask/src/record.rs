//! Records the responses of a real API server again: the objects of a new cluster, the defaults of
//! objects of built-in kinds, the messages of refusals, and the columns of Tables.
//!
//! The requests are in the files with the responses (`data/defaults` and `data/refusals` of the
//! embedded server): each case has the object that was `sent`, and for an update the `old` one. A
//! new case is a line with `kind`, `apiVersion` and `sent`; a new Kubernetes release is a readable
//! diff. All requests are dry runs, except those that create the objects to update. Values that
//! only differ from run to run (times, uids) stay as they were first recorded.

mod bootstrap;
mod columns;
mod proxy;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

use crate::real_server::RealServer;
use crate::servers::{self, Program};
use crate::step::Progress;
use crate::workspace;
use proxy::{Answer, Proxy};

/// The folders of the responses, and the recorded part of each response.
const FOLDERS: [(&str, Recorded); 2] = [("defaults", Recorded::Object), ("refusals", Recorded::Causes)];
const DATA: &str = "crates/steersman-apiserver/data";
/// The placeholder for the uid of the object.
const UID: &str = "u-1";
/// Metadata about when and by which client an object was written.
const CIRCUMSTANCES: [&str; 6] =
    ["uid", "creationTimestamp", "managedFields", "resourceVersion", "namespace", "generation"];

/// The recorded part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recorded {
    /// The object with its defaults: `came`.
    Object,
    /// The reasons of the refusal: `causes`.
    Causes,
}

/// Sends all requests again, and writes the responses.
pub(crate) fn run() -> Result<()> {
    let kubectl = servers::provide(Program::Kubectl)?;
    // With the address of the server in its Service.
    let server = RealServer::with_flags(&["--endpoint-reconciler-type=master-count"])?;
    let proxy = Proxy::start(&kubectl, server.kubeconfig())?;
    let kinds = read(&workspace::root().join(DATA).join("kinds.json"))?;
    // Before any other object is written.
    bootstrap::record(&proxy, &kinds)?;
    let mut recorder = Recorder { proxy, kinds, current: None };
    for (folder, kept) in FOLDERS {
        for file in files(&workspace::root().join(DATA).join(folder))? {
            let name = format!("{folder}/{}", file.file_name().unwrap_or_default().to_string_lossy());
            let Value::Array(cases) = read(&file)? else { bail!("{name} is no list of cases") };
            let progress = Progress::start(format!("recording {name}"), Some(cases.len() as u64));
            let mut lines = Vec::new();
            for case in &cases {
                let answered = recorder.record(case, kept);
                lines.push(line(&answered.with_context(|| format!("{name}, the case {}", case["sent"]))?));
                progress.set(lines.len() as u64);
            }
            recorder.remove()?;
            progress.finish();
            let text = format!("[\n{}\n]\n", lines.join(",\n"));
            fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        }
    }
    let progress = Progress::start("recording the columns of Tables", None);
    columns::record(&recorder.proxy, &recorder.kinds)?;
    progress.finish();
    Ok(())
}

fn read(file: &Path) -> Result<Value> {
    let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", file.display()))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.sort();
    Ok(files)
}

/// A case as one line, with the request before the response.
fn line(case: &Value) -> String {
    let names = ["kind", "apiVersion", "old", "sent", "came", "causes"];
    let members = names.iter().filter_map(|name| Some(format!("\"{name}\":{}", case.get(*name)?)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

struct Recorder {
    proxy: Proxy,
    kinds: Value,
    /// The object to update: its case's kind and `old`, and the object from the server.
    current: Option<(Value, Value)>,
}

impl Recorder {
    /// The case with the present response.
    fn record(&mut self, case: &Value, kept: Recorded) -> Result<Value> {
        let mut new = case.clone();
        let (answer, uid) = if case["old"].is_null() {
            (self.proxy.send("POST", &format!("{}?dryRun=All", self.path(case)?), &whole(case, &case["sent"]))?, None)
        } else {
            let object = self.current(case)?;
            let uid = object["metadata"]["uid"].as_str().context("an object has no uid")?.to_owned();
            let recorded = recorded_uid(&case["old"]);
            new["old"] = replaced(&kept_of(&object), &uid, UID);
            new["sent"] = replaced(&case["sent"], &recorded, UID);
            let sent = replaced(&whole(case, &case["sent"]), &recorded, &uid);
            let path = format!("{}/{}?dryRun=All", self.path(case)?, name(&case["old"]));
            (self.proxy.send("PUT", &path, &sent)?, Some(uid))
        };
        let Answer { status, body } = answer;
        let body = replaced(&body, uid.as_deref().unwrap_or(UID), UID);
        match kept {
            Recorded::Object => {
                ensure!(matches!(status, 200 | 201), "refused with {status}: {}", body["message"]);
                new["came"] = kept_of(&body);
                // A uid that a dry run generated is seen in labels only.
                let made_up = recorded_uid(&new["came"]);
                new["came"] = replaced(&new["came"], &made_up, UID);
                let before = replaced(&case["came"], &recorded_uid(&case["came"]), UID);
                keep_circumstances(&mut new["came"], &before);
            }
            Recorded::Causes => {
                ensure!(status == 422, "answered with {status}: {}", body["message"]);
                let causes = body["details"]["causes"].as_array().context("a refusal has no causes")?;
                let cause = |cause: &Value| json!([cause["field"], cause["reason"], cause["message"]]);
                new["causes"] = causes.iter().map(cause).collect();
                let made_up = recorded_uid(&new["causes"]);
                new["causes"] = replaced(&new["causes"], &made_up, UID);
            }
        }
        if !new["old"].is_null() {
            keep_circumstances(&mut new["old"], &replaced(&case["old"], &recorded_uid(&case["old"]), UID));
        }
        Ok(new)
    }

    /// The path of the case's resource.
    fn path(&self, case: &Value) -> Result<String> {
        let (version, kind) = (text(&case["apiVersion"])?, text(&case["kind"])?);
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let groups = list(&self.kinds["groups"]).into_iter().filter(|one| one["name"] == group);
        let versions = groups.flat_map(|one| list(&one["versions"])).filter(|one| one["version"] == version);
        let mut resources = versions.flat_map(|one| list(&one["resources"])).filter(|one| one["kind"] == kind);
        let resource = resources.next().with_context(|| format!("{group}/{version} {kind} is not served"))?;
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let namespace = if resource["namespaced"] == true { "/namespaces/default" } else { "" };
        Ok(format!("{root}{namespace}/{}", text(&resource["plural"])?))
    }

    /// The object that the case updates. It is created unless the previous case has the same one.
    fn current(&mut self, case: &Value) -> Result<Value> {
        let key = json!([case["apiVersion"], case["kind"], case["old"]]);
        if let Some((known, object)) = self.current.as_ref()
            && *known == key
        {
            return Ok(object.clone());
        }
        self.remove()?;
        let Answer { status, body } = self.proxy.send("POST", &self.path(case)?, &without_generated(case))?;
        ensure!(status == 201, "the object to update was refused with {status}: {}", body["message"]);
        self.current = Some((key, body.clone()));
        Ok(body)
    }

    /// Deletes the object to update.
    fn remove(&mut self) -> Result<()> {
        let Some((key, _)) = self.current.take() else { return Ok(()) };
        let case = json!({"apiVersion": key[0], "kind": key[1]});
        let path = format!("{}/{}", self.path(&case)?, name(&key[2]));
        let options = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        let Answer { status, body } = self.proxy.send("DELETE", &path, &options)?;
        ensure!(status < 300, "the object was not deleted: {status}: {}", body["message"]);
        // The controllers do not run, so no other component deletes it. It may be deleted already.
        let finalizers = json!({"metadata": {"finalizers": null}});
        self.proxy.send("PATCH", &path, &finalizers).map(drop)
    }
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().with_context(|| format!("{value} is no text"))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// The object with its kind and version, which cases store separately.
fn whole(case: &Value, object: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = case["apiVersion"].clone();
    object["kind"] = case["kind"].clone();
    object
}

/// The `old` object as it can be created: without the fields that the server generates for a Job
/// and refuses in a request.
fn without_generated(case: &Value) -> Value {
    let mut object = whole(case, &case["old"]);
    if case["kind"] == "Job" {
        object["spec"].as_object_mut().map(|spec| spec.remove("selector"));
        for place in ["/metadata/labels", "/spec/template/metadata/labels"] {
            if let Some(labels) = object.pointer_mut(place).and_then(Value::as_object_mut) {
                labels.retain(|label, _| !label.ends_with("controller-uid") && !label.ends_with("job-name"));
            }
        }
    }
    object
}

/// The recorded part of an object.
fn kept_of(object: &Value) -> Value {
    let mut kept: Map<String, Value> = object.as_object().cloned().unwrap_or_default();
    kept.retain(|name, _| name != "kind" && name != "apiVersion");
    if let Some(metadata) = kept.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !CIRCUMSTANCES.contains(&name.as_str()));
    }
    kept.into()
}

/// The uid in the labels of a Job's Pods, wherever they are.
fn recorded_uid(value: &Value) -> String {
    let text = value.to_string();
    let after = ["controller-uid\":\"", "controller-uid\\\":\\\""].iter().find_map(|label| text.split(label).nth(1));
    after.and_then(|rest| rest.split(['"', '\\']).next()).unwrap_or(UID).to_owned()
}

/// The value with one text replaced by the other, everywhere.
fn replaced(value: &Value, text: &str, by: &str) -> Value {
    match value {
        Value::String(string) => string.replace(text, by).into(),
        Value::Array(items) => items.iter().map(|item| replaced(item, text, by)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.replace(text, by), replaced(member, text, by))).collect()
        }
        other => other.clone(),
    }
}

/// Times stay as in the first recording, if there were times before.
fn keep_circumstances(new: &mut Value, recorded: &Value) {
    match (new, recorded) {
        (Value::String(new), Value::String(recorded)) if is_time(new) && is_time(recorded) => new.clone_from(recorded),
        (Value::Array(new), Value::Array(recorded)) => {
            new.iter_mut().zip(recorded).for_each(|(new, recorded)| keep_circumstances(new, recorded));
        }
        (Value::Object(new), Value::Object(recorded)) => {
            for (name, new) in new {
                keep_circumstances(new, recorded.get(name).unwrap_or(&Value::Null));
            }
        }
        _ => {}
    }
}

/// Whether the text is a time as Kubernetes writes it: `2026-03-02T08:14:21Z`.
fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape == "0000-00-00T00:00:00Z"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stay_and_everything_else_is_new() {
        let mut new =
            json!({"at": "2030-01-01T00:00:00Z", "other": "2030-01-01T00:00:00Z", "list": [{"x": 2}], "n": 2});
        keep_circumstances(&mut new, &json!({"at": "2026-03-02T08:14:21Z", "other": "x", "list": [{"x": 1}]}));
        let expected =
            json!({"at": "2026-03-02T08:14:21Z", "other": "2030-01-01T00:00:00Z", "list": [{"x": 2}], "n": 2});
        assert_eq!(new, expected);
    }

    #[test]
    fn a_uid_is_found_in_labels_and_in_texts_that_quote_them() {
        let labels = json!({"labels": {"batch.kubernetes.io/controller-uid": "4711"}});
        assert_eq!(recorded_uid(&labels), "4711");
        assert_eq!(recorded_uid(&json!(["spec", labels.to_string()])), "4711");
        assert_eq!(recorded_uid(&json!({})), UID);
    }

    #[test]
    fn a_case_is_one_line_with_the_question_first() {
        let case = json!({"came": {"b": 1, "a": 2}, "sent": {}, "apiVersion": "v1", "kind": "Pod"});
        assert_eq!(line(&case), r#"{"kind":"Pod","apiVersion":"v1","sent":{},"came":{"a":2,"b":1}}"#);
    }

    #[test]
    fn what_a_job_is_given_by_the_server_is_not_sent_to_it() {
        let old = json!({"metadata": {"name": "a"}, "spec": {"selector": {}, "template": {"metadata": {"labels":
            {"batch.kubernetes.io/controller-uid": "u", "job-name": "a", "q": "r"}}}}});
        let case = json!({"kind": "Job", "apiVersion": "batch/v1", "old": old});
        let expected = json!({"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "a"},
            "spec": {"template": {"metadata": {"labels": {"q": "r"}}}}});
        assert_eq!(without_generated(&case), expected);
    }
}
