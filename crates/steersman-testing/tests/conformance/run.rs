use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::case::{self, Action, Case, Expectation, Request, Step};
use super::target::{Events, Target};

/// How often an `until` step asks.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What a server answered to a case, step by step.
pub(crate) struct Record {
    /// The name that `${id}` and `${ns}` stood for.
    pub(crate) id: String,
    pub(crate) steps: Vec<Value>,
    /// The expectations that were not met.
    pub(crate) complaints: Vec<String>,
}

/// Plays a case. Every case leaves a record: a step that cannot go on records the reason.
pub(crate) async fn run(case: &Case, target: &Target) -> Record {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let id = format!("x{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let mut player =
        Player { target, patience: target.patience, id: &id, answers: HashMap::new(), watches: HashMap::new() };
    let (mut steps, mut complaints) = (Vec::new(), Vec::new());
    if case.mentions("${ns}") {
        player.create_namespace().await;
    }
    for (number, step) in case.steps.iter().enumerate() {
        let mut value = player.play(step).await;
        let missed: Vec<_> =
            step.expectations.iter().filter_map(|expectation| player.complaint(expectation, &value)).collect();
        if !missed.is_empty() {
            let answer = serde_json::to_string_pretty(&value).expect("JSON can be written");
            let (step, missed) = (step.title(), missed.join("; "));
            complaints.push(format!("step {} ({step}): {missed}\n{answer}", number + 1));
        }
        for pointer in &step.ignored {
            match *pointer {
                "" => value["body"] = Value::Null,
                pointer => remove(&mut value["body"], pointer),
            }
        }
        if !step.compared.is_empty() {
            let kept = step.compared.iter().map(|pointer| {
                let pointer = player.fill(pointer);
                (pointer.clone(), value["body"].pointer(&pointer).cloned().unwrap_or(Value::Null))
            });
            value["body"] = kept.collect::<serde_json::Map<_, _>>().into();
        }
        if step.only_builtin {
            let (of_run, _) = id.split_once('-').unwrap_or_default();
            leave_out(&mut value["body"], &format!("{of_run}-"));
        }
        steps.push(value);
    }
    Record { id, steps, complaints }
}

struct Player<'a> {
    target: &'a Target,
    /// How long to wait for what a step expects. After the first wait that fails, the case has
    /// failed and does not wait again.
    patience: Duration,
    id: &'a str,
    answers: HashMap<&'static str, Value>,
    watches: HashMap<&'static str, Events>,
}

impl Player<'_> {
    async fn create_namespace(&self) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.id}});
        let request = http::Request::post("/api/v1/namespaces").header("content-type", "application/json");
        let request = request.body(body.to_string().into_bytes()).expect("the parts of this request are valid");
        let answer = self.target.send(request).await.map(|answer| answer.status);
        assert_eq!(answer, Ok(http::StatusCode::CREATED), "{}: creating a namespace", self.target.name);
    }

    async fn play(&mut self, step: &Step) -> Value {
        let value = match &step.action {
            Action::Send(request) => self.send(request).await,
            Action::Until(request) => self.until(request, &step.expectations).await,
            Action::Watch(request) => self.open(step.name.expect("a watch has a name"), request).await,
            Action::Events(events) => self.collect(events).await,
        };
        let waits = matches!(step.action, Action::Until(_) | Action::Events(_));
        if waits && step.expectations.iter().any(|expectation| self.complaint(expectation, &value).is_some()) {
            self.patience = POLL_INTERVAL;
        }
        if let Some(name) = step.name {
            self.answers.insert(name, value["body"].clone());
        }
        value
    }

    /// Sends a request. The real server answers a few with 503 while it replaces the storage of a
    /// kind that has just been defined or changed; every client asks again then, and so do we.
    async fn send(&self, request: &Request) -> Value {
        ask_until(self.target.patience, async || {
            let value = self.try_send(request).await.unwrap_or_else(|error| json!({ "error": error }));
            (value["status"] != 503, value)
        })
        .await
    }

    async fn try_send(&self, request: &Request) -> Result<Value, String> {
        let answer = self.target.send(self.fill_request(request)?).await?;
        let (status, mut headers) = (answer.status.as_u16(), answer.headers(&request.compared));
        if request.ignores_warnings
            && let Some(headers) = headers.as_object_mut()
        {
            headers.remove("warning");
        }
        let (body, indented) = answer.body().await?;
        let mut value = json!({"status": status, "headers": headers, "body": body});
        if indented {
            value["indented"] = true.into();
        }
        Ok(value)
    }

    async fn until(&self, request: &Request, expectations: &[Expectation]) -> Value {
        self.target.compact();
        ask_until(self.patience, async || {
            let value = self.send(request).await;
            let met = expectations.iter().all(|expectation| self.complaint(expectation, &value).is_none());
            (met, value)
        })
        .await
    }

    async fn open(&mut self, name: &'static str, request: &Request) -> Value {
        let answer = match self.fill_request(request) {
            Ok(request) => self.target.send(request).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(answer) => {
                let mut value = json!({"status": answer.status.as_u16(), "headers": answer.headers(&request.compared)});
                if answer.status.is_success() {
                    self.watches.insert(name, answer.events());
                } else {
                    value["body"] = answer.body().await.map_or_else(Value::String, |(body, _)| body);
                }
                value
            }
            Err(error) => json!({ "error": error }),
        }
    }

    async fn collect(&mut self, wanted: &case::Events) -> Value {
        let Some(watch) = self.watches.get_mut(wanted.watch) else { return json!({"error": "there is no such watch"}) };
        let mut events = Vec::new();
        let collecting = async {
            while wanted.count != Some(events.len()) {
                match watch.next().await? {
                    Some(event) if event["type"] == "BOOKMARK" && !wanted.bookmarks => {}
                    Some(event) => events.push(event),
                    None if wanted.count.is_none() => return Ok(()),
                    None => return Err("the watch ended".to_owned()),
                }
            }
            Ok(())
        };
        let patience = self.patience;
        let error = tokio::time::timeout(patience, collecting).await.unwrap_or(Err(format!("nothing in {patience:?}")));
        match error {
            Ok(()) => json!({ "events": events }),
            Err(error) => json!({ "events": events, "error": error }),
        }
    }

    fn fill_request(&self, request: &Request) -> Result<http::Request<Vec<u8>>, String> {
        let mut filled = http::Request::builder().method(request.method).uri(self.fill(&request.path));
        for (name, value) in request.headers.iter().filter(|(_, value)| !value.is_empty()) {
            filled = filled.header(*name, self.fill(value));
        }
        let mut body = self.fill(&request.body).into_bytes();
        if request.is_protobuf {
            body = steersman_wire::protobuf::from_json(&body).ok_or("the body has no form in protobuf")?;
        }
        filled.body(body).map_err(|error| error.to_string())
    }

    /// Replaces the variables in `text`.
    fn fill(&self, text: &str) -> String {
        let mut parts = text.split("${");
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let Some((variable, rest)) = part.split_once('}') else {
                filled.push_str("${");
                filled.push_str(part);
                continue;
            };
            filled.push_str(&self.variable(variable));
            filled.push_str(rest);
        }
        filled
    }

    fn variable(&self, variable: &str) -> String {
        let (what, answer) = match variable.split_once(':') {
            None if ["id", "ns"].contains(&variable) => return self.id.to_owned(),
            None => panic!("no such variable: {variable}"),
            Some((answer, pointer)) if pointer.starts_with('/') => (pointer.to_owned(), answer),
            Some(("rv", answer)) => ("/metadata/resourceVersion".to_owned(), answer),
            Some((field, answer)) => (format!("/metadata/{field}"), answer),
        };
        let value = self.answers.get(answer).and_then(|value| value.pointer(&what)).and_then(Value::as_str);
        // A server that is wrong may not have it. The record should go on and show where that
        // leads.
        value.map_or_else(|| "missing".to_owned(), str::to_owned)
    }

    /// What is wrong with an answer, if anything.
    fn complaint(&self, expectation: &Expectation, answer: &Value) -> Option<String> {
        let body = answer.get("body").or(answer.get("events")).unwrap_or(&Value::Null);
        let met = match expectation {
            Expectation::Status(status) => answer["status"] == *status,
            Expectation::Value(pointer, value) => {
                let wanted = self.fill(&value.to_string());
                // Compared as text, as variables are filled in there.
                body.pointer(&self.fill(pointer)).map(Value::to_string) == Some(wanted)
            }
            Expectation::Absent(pointer) => body.pointer(&self.fill(pointer)).is_none(),
            Expectation::Words(words) => {
                let text = body["message"].as_str().or(body.as_str()).unwrap_or_default();
                text.contains(&self.fill(words))
            }
            Expectation::Warning(words) => answer["headers"]["warning"].to_string().contains(words),
            Expectation::Events(events) => {
                let wanted: Vec<String> = events.iter().map(|event| self.fill(event)).collect();
                answer.get("error").is_none() && summary(&answer["events"]) == wanted
            }
        };
        (!met).then(|| format!("expected {expectation:?}"))
    }
}

/// Each event as its type and the name of its object.
fn summary(events: &Value) -> Vec<String> {
    let events = events.as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let event = |event: &Value| {
        let object = &event["object"];
        let name = match object["kind"].as_str() {
            Some("Status") => object["code"].to_string(),
            Some("Table") => text(&object["rows"][0]["object"]["metadata"]["name"]),
            _ => text(&object["metadata"]["name"]),
        };
        format!("{} {name}", text(&event["type"])).trim_end().to_owned()
    };
    events.iter().map(event).collect()
}

/// Removes a field. A star stands for each item of an array.
fn remove(value: &mut Value, pointer: &str) {
    if let Some((items, rest)) = pointer.split_once("/*") {
        let items = value.pointer_mut(items).and_then(Value::as_array_mut);
        return items.into_iter().flatten().for_each(|item| remove(item, rest));
    }
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(parent)) = value.pointer_mut(parent) {
        parent.remove(key);
    }
}

/// Removes members with this text in their name, at any depth.
fn leave_out(value: &mut Value, text: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| leave_out(item, text)),
        Value::Object(fields) => {
            fields.retain(|name, _| !name.contains(text));
            fields.values_mut().for_each(|field| leave_out(field, text));
        }
        _ => {}
    }
}

/// Asks until `condition` holds or patience ends, and returns the last response: a difference
/// between two servers is compared, and not a failure of the script.
async fn ask_until(patience: Duration, condition: impl AsyncFn() -> (bool, Value)) -> Value {
    let (started, mut polls) = (Instant::now(), tokio::time::interval(POLL_INTERVAL));
    loop {
        polls.tick().await;
        let (met, value) = condition().await;
        if met || started.elapsed() > patience {
            return value;
        }
    }
}
