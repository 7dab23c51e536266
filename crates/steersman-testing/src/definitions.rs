//! Definitions of custom resources, installed and served.

use std::time::Duration;

use http::{Request, StatusCode};
use kube_client::{Client, Error as ClientError};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::error::Error;

const COLLECTION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How long a server may take to serve a definition.
const DEADLINE: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(20);

/// Installs definitions, replaces those that exist, and waits until the server serves each version
/// of them.
pub(crate) async fn install<D: Serialize>(
    client: &Client,
    definitions: impl IntoIterator<Item = D>,
) -> Result<(), Error> {
    let mut installed = Vec::new();
    for definition in definitions {
        let definition = serde_json::to_value(definition).map_err(|error| Error::Definition {
            name: std::any::type_name::<D>().to_owned(),
            reason: format!("it cannot be written as JSON: {error}"),
        })?;
        write(client, &definition).await?;
        installed.push(definition);
    }
    for definition in &installed {
        wait(client, definition).await?;
    }
    Ok(())
}

/// Creates a definition, or replaces the one that exists. Another test may write it at the same
/// time.
async fn write(client: &Client, definition: &Value) -> Result<(), Error> {
    let name = name(definition);
    let deadline = Instant::now() + DEADLINE;
    loop {
        let mut written = send(client, "POST", COLLECTION, definition).await;
        if code(&written) == Some(StatusCode::CONFLICT) {
            written = replace(client, &name, definition.clone()).await;
        }
        let raced = matches!(code(&written), Some(StatusCode::CONFLICT | StatusCode::NOT_FOUND));
        if !raced || Instant::now() >= deadline {
            return written.map(drop).map_err(|error| refused(&name, &error));
        }
        sleep(INTERVAL).await;
    }
}

async fn replace(client: &Client, name: &str, mut definition: Value) -> Result<Value, ClientError> {
    let path = format!("{COLLECTION}/{name}");
    let found = send(client, "GET", &path, &Value::Null).await?;
    definition["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
    send(client, "PUT", &path, &definition).await
}

/// Waits until a definition is established and the paths of all its served versions answer.
///
/// The condition alone is not enough: a real server serves the paths a moment later.
async fn wait(client: &Client, definition: &Value) -> Result<(), Error> {
    let name = name(definition);
    let path = format!("{COLLECTION}/{name}");
    let deadline = Instant::now() + DEADLINE;
    loop {
        let found = send(client, "GET", &path, &Value::Null).await.map_err(|error| refused(&name, &error))?;
        let waits_for = match missing(&found) {
            None => unserved(client, definition).await?,
            Some(missing) => Some(missing),
        };
        let Some(waits_for) = waits_for else { return Ok(()) };
        if Instant::now() >= deadline {
            let reason = format!("it is not served after {} s: {waits_for}", DEADLINE.as_secs());
            return Err(Error::Definition { name, reason });
        }
        sleep(INTERVAL).await;
    }
}

/// What a definition lacks to be established.
fn missing(definition: &Value) -> Option<String> {
    let conditions = definition["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let of_type = |name: &str| conditions.iter().find(|condition| condition["type"] == name);
    if of_type("Established").is_some_and(|condition| condition["status"] == "True") {
        return None;
    }
    let refused = conditions.iter().find(|condition| condition["status"] == "False");
    let message = refused.and_then(|condition| condition["message"].as_str());
    Some(message.unwrap_or("the condition Established is missing").to_owned())
}

/// The first path of a definition that the server does not know yet.
async fn unserved(client: &Client, definition: &Value) -> Result<Option<String>, Error> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&definition["spec"]["group"]), text(&definition["spec"]["names"]["plural"]));
    for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
        if version["served"] != true {
            continue;
        }
        let path = format!("/apis/{group}/{}/{plural}", text(&version["name"]));
        let listed = send(client, "GET", &format!("{path}?limit=1"), &Value::Null).await;
        if code(&listed) == Some(StatusCode::NOT_FOUND) {
            return Ok(Some(format!("{path} is not found")));
        }
        listed.map_err(|error| refused(&name(definition), &error))?;
    }
    Ok(None)
}

async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Result<Value, ClientError> {
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).map_err(ClientError::SerdeError)? };
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    client.request(request.body(body).map_err(ClientError::HttpError)?).await
}

fn name(definition: &Value) -> String {
    definition["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn code(result: &Result<Value, ClientError>) -> Option<StatusCode> {
    match result {
        Err(ClientError::Api(status)) => StatusCode::from_u16(status.code).ok(),
        _ => None,
    }
}

fn refused(name: &str, error: &ClientError) -> Error {
    let reason = match error {
        ClientError::Api(status) => status.message.clone(),
        other => other.to_string(),
    };
    Error::Definition { name: name.to_owned(), reason }
}
