//! The default scenario: samples come, change and go.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use steersman_client::{Client, GroupVersionKind, ServedResource};
use steersman_manifests::operator::{AccessReason, Operator};
use steersman_runtime::Verb;
use tokio::time::{Instant, sleep};

use super::run::Running;

/// How many fields of one object are changed.
const FIELDS_MAX: usize = 16;
/// How long a sample may take to be deleted.
const DELETION_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// An object at the server.
struct Placed {
    path: String,
    uid: String,
}

impl Running<'_> {
    pub(super) async fn play_samples(
        &self,
        client: &Client,
        operator: &Operator,
        samples: &[Value],
    ) -> Result<(), String> {
        let written = written_resources(client, operator).await?;
        let before = objects(client, &written).await?;
        let before: BTreeSet<&str> = before.iter().map(|object| object.uid.as_str()).collect();
        let mut placed = Vec::new();
        for sample in samples {
            placed.push(create(client, sample).await?);
            self.idle("a sample was created").await?;
        }
        for sample in &placed {
            let annotation = json!({"metadata": {"annotations": {"steersman.dev/changed-by-a-test": "true"}}});
            let _ = patch(client, &sample.path, "application/merge-patch+json", &annotation).await;
            self.idle("a sample was annotated").await?;
            self.change_fields(client, &sample.path, false).await?;
        }
        let is_sample = |object: &Placed| placed.iter().any(|sample| sample.uid == object.uid);
        let mut created = objects(client, &written).await?;
        created.retain(|object| !before.contains(object.uid.as_str()) && !is_sample(object));
        for object in &created {
            self.change_fields(client, &object.path, true).await?;
        }
        for object in &created {
            // The operator may have deleted it.
            let _ = client.rest().delete().abs_path(object.path.as_str()).send().await;
            self.idle("an object of the operator was deleted").await?;
        }
        for sample in placed.iter().rev() {
            self.delete(client, sample).await?;
        }
        Ok(())
    }

    /// Changes each number and flag of an object. Of an object of the operator texts, too, and it
    /// is left to the operator to change them back.
    async fn change_fields(&self, client: &Client, path: &str, is_of_operator: bool) -> Result<(), String> {
        let Ok(object) = get(client, path).await else { return Ok(()) };
        for (pointer, old, new) in changes(&object, is_of_operator) {
            let replace = |value: &Value| json!([{"op": "replace", "path": pointer, "value": value}]);
            let mut is_changed = false;
            for new in new {
                is_changed =
                    is_changed || patch(client, path, "application/json-patch+json", &replace(&new)).await.is_ok();
            }
            if !is_changed {
                continue;
            }
            self.idle(&format!("{pointer} of {path} was changed")).await?;
            if !is_of_operator {
                let _ = patch(client, path, "application/json-patch+json", &replace(&old)).await;
                self.idle(&format!("{pointer} of {path} was changed back")).await?;
            }
        }
        Ok(())
    }

    async fn delete(&self, client: &Client, sample: &Placed) -> Result<(), String> {
        let _ = client.rest().delete().abs_path(sample.path.as_str()).send().await;
        let deadline = Instant::now() + DELETION_MAX;
        while let Ok(object) = get(client, &sample.path).await {
            if object["metadata"]["uid"] != *sample.uid {
                break;
            }
            if Instant::now() >= deadline {
                let finalizers = &object["metadata"]["finalizers"];
                return Err(format!(
                    "{} was not deleted within {DELETION_MAX:?}; its finalizers: {finalizers}",
                    sample.path
                ));
            }
            sleep(LOOK_EVERY).await;
        }
        self.idle("a sample was deleted").await
    }
}

/// The resources of which the operator creates objects.
async fn written_resources(client: &Client, operator: &Operator) -> Result<Vec<ServedResource>, String> {
    let mut names = BTreeSet::new();
    for access in operator.access.iter().filter(|access| access.reason == AccessReason::Write) {
        if access.verbs.contains(&Verb::Create) || access.verbs.contains(&Verb::Patch) {
            let (group, name) = (&access.resource.group, &access.resource.name);
            names.insert(if group.is_empty() { name.clone() } else { format!("{name}.{group}") });
        }
    }
    let mut resources = Vec::new();
    for name in names {
        resources.push(client.mapper().resource(&name).await.map_err(|error| error.to_string())?);
    }
    Ok(resources)
}

async fn objects(client: &Client, resources: &[ServedResource]) -> Result<Vec<Placed>, String> {
    let mut all = Vec::new();
    for resource in resources {
        let list: Value = client
            .rest()
            .get()
            .abs_path(collection(resource, None))
            .send_for()
            .await
            .map_err(|error| error.to_string())?;
        for object in list["items"].as_array().into_iter().flatten() {
            all.push(placed(resource, object));
        }
    }
    Ok(all)
}

fn collection(resource: &ServedResource, namespace: Option<&str>) -> String {
    let resource = &resource.resource;
    let base = if resource.group.is_empty() { "/api" } else { "/apis" };
    let namespace = namespace.map_or_else(String::new, |namespace| format!("namespaces/{namespace}/"));
    format!("{base}/{}/{namespace}{}", resource.api_version, resource.plural)
}

fn placed(resource: &ServedResource, object: &Value) -> Placed {
    let text = |name: &str| object["metadata"][name].as_str();
    let name = text("name").unwrap_or_default();
    let path = format!("{}/{name}", collection(resource, text("namespace")));
    Placed { path, uid: text("uid").unwrap_or_default().to_owned() }
}

async fn create(client: &Client, sample: &Value) -> Result<Placed, String> {
    let (api_version, kind) = (sample["apiVersion"].as_str().unwrap_or_default(), sample["kind"].as_str());
    let kind = kind.ok_or_else(|| format!("a sample has no kind: {sample}"))?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = GroupVersionKind::gvk(group, version, kind);
    let resource = client.mapper().kind(&kind).await.map_err(|error| format!("a sample is not served: {error}"))?;
    let namespace = sample["metadata"]["namespace"].as_str().unwrap_or("default");
    let path = collection(&resource, resource.namespaced.then_some(namespace));
    let created: Result<Value, _> = client.rest().post().abs_path(path).json(sample).send_for().await;
    created.map(|object| placed(&resource, &object)).map_err(|error| format!("a sample cannot be created: {error}"))
}

async fn get(client: &Client, path: &str) -> Result<Value, steersman_client::Error> {
    client.rest().get().abs_path(path).send_for().await
}

async fn patch(
    client: &Client,
    path: &str,
    content_type: &'static str,
    patch: &Value,
) -> Result<(), steersman_client::Error> {
    client.rest().patch().abs_path(path).body(content_type, patch.to_string()).send().await.map(drop)
}

/// The fields to change: the JSON pointer, the value, and the values to try.
fn changes(object: &Value, with_texts: bool) -> Vec<(String, Value, Vec<Value>)> {
    let mut found = Vec::new();
    let fields = object.as_object().into_iter().flatten();
    let kept = ["apiVersion", "kind", "metadata", "status"];
    for (name, value) in fields.filter(|(name, _)| !kept.contains(&name.as_str())) {
        collect(&format!("/{}", escaped(name)), value, with_texts, &mut found);
    }
    found.truncate(FIELDS_MAX);
    found
}

fn collect(pointer: &str, value: &Value, with_texts: bool, found: &mut Vec<(String, Value, Vec<Value>)>) {
    if found.len() >= FIELDS_MAX {
        return;
    }
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| {
                collect(&format!("{pointer}/{}", escaped(name)), value, with_texts, found);
            });
        }
        Value::Array(items) => {
            let numbered = items.iter().enumerate();
            numbered.for_each(|(at, value)| collect(&format!("{pointer}/{at}"), value, with_texts, found));
        }
        Value::Bool(flag) => found.push((pointer.to_owned(), value.clone(), vec![(!flag).into()])),
        Value::Number(number) => {
            let other = number.as_i64().map_or_else(Vec::new, |number| vec![json!(number + 1), json!(number - 1)]);
            found.push((pointer.to_owned(), value.clone(), other));
        }
        Value::String(text) if with_texts => {
            found.push((pointer.to_owned(), value.clone(), vec![format!("{text}x").into()]));
        }
        Value::String(_) | Value::Null => {}
    }
}

/// A name in a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_an_object_are_changed_one_by_one() {
        let object = json!({
            "apiVersion": "v1", "kind": "Thing", "metadata": {"generation": 1}, "status": {"ready": true},
            "spec": {"size": 3, "on": false, "name": "a", "list": [{"a/b": 1}]},
        });
        let pointers = |with_texts| {
            let changes = changes(&object, with_texts).into_iter();
            changes.map(|(pointer, _, new)| format!("{pointer} {}", Value::Array(new))).collect::<Vec<_>>()
        };
        assert_eq!(pointers(false), ["/spec/list/0/a~1b [2,0]", "/spec/on [true]", "/spec/size [4,2]"]);
        assert!(pointers(true).contains(&"/spec/name [\"ax\"]".to_owned()));
    }
}
