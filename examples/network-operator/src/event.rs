use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use steersman::client::Error;
use steersman::client::{PatchParams, PostParams};
use steersman::{Client, ObjectMeta, Patch};
use steersman::{Resource, ResourceExt};

/// The component in the Event.
const COMPONENT: &str = "network-operator";
/// A name has at most 253 characters, including the reason.
const NAME_MAX: usize = 200;

/// Reports a problem of a Deployment as an Event. A repeated problem increases the count of the
/// Event.
pub(crate) async fn warn(client: &Client, about: &Deployment, reason: &str, message: &str) -> Result<(), Error> {
    let namespace = about.namespace().unwrap_or_default();
    let name: String = about.name_any().chars().take(NAME_MAX).collect();
    let name = format!("{name}.{}", reason.to_lowercase());
    let events = client.namespaced::<Event>(&namespace);
    let now = Time(Timestamp::now());
    if let Some(earlier) = events.get_opt(&name).await? {
        let count = earlier.count.unwrap_or_default().saturating_add(1);
        let patch = json!({"count": count, "lastTimestamp": now, "message": message});
        events.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        return Ok(());
    }
    let event = Event {
        metadata: ObjectMeta { name: Some(name), namespace: Some(namespace.clone()), ..ObjectMeta::default() },
        involved_object: ObjectReference {
            api_version: Some(Deployment::api_version(&()).into_owned()),
            kind: Some(Deployment::kind(&()).into_owned()),
            name: about.metadata.name.clone(),
            namespace: Some(namespace),
            uid: about.metadata.uid.clone(),
            ..ObjectReference::default()
        },
        type_: Some("Warning".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    };
    events.create(&PostParams::default(), &event).await?;
    Ok(())
}
