//! Reports problems of a Service as Events, which `kubectl describe service` shows to its owner.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use steersman::client::{Api, PostParams};
use steersman::client::{Backoff, Error, retry_on_conflict};
use steersman::{Context, ObjectMeta, ReconcileError};

use crate::Problem;

/// The longest message. Annotations may be longer.
const MESSAGE_MAX: usize = 1024;

/// Adds an Event to the Service.
///
/// The name of the Event follows from its content. So there is one Event for each problem, however
/// often it occurs, also after a restart of this process: a repetition increases its count. The
/// server deletes Events after an hour.
pub(crate) async fn report(ctx: &Context<Service>, service: &Service, problem: &Problem) -> Result<(), ReconcileError> {
    let event = event(ctx.controller(), service, problem);
    tracing::warn!(service = service.metadata.name, reason = problem.reason(), "{problem}");
    // Without the cache, which would hold all Events of the cluster.
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    let events: Api<Event> = ctx.client().live().namespaced(namespace);
    match events.create(&PostParams::default(), &event).await {
        Err(error) if error.is_already_exists() => Ok(count(&events, &event).await?),
        created => Ok(created.map(drop)?),
    }
}

/// Increases the count of an existing Event.
async fn count(events: &Api<Event>, again: &Event) -> Result<(), Error> {
    let name = again.metadata.name.as_deref().unwrap_or_default();
    retry_on_conflict(Backoff::RETRY, || async {
        // It was deleted in between. The next occurrence creates it again.
        let Some(mut event) = events.get_opt(name).await? else { return Ok(()) };
        event.count = Some(event.count.unwrap_or(1).saturating_add(1));
        event.last_timestamp = again.last_timestamp.clone();
        events.update(name, &PostParams::default(), &event).await.map(drop)
    })
    .await
}

fn event(controller: &str, service: &Service, problem: &Problem) -> Event {
    let ObjectMeta { name, namespace, uid, resource_version, .. } = service.metadata.clone();
    let message: String = problem.to_string().chars().take(MESSAGE_MAX).collect();
    let contents = fingerprint(&[uid.as_deref().unwrap_or_default(), problem.reason(), &message]);
    let now = Some(Time(Timestamp::now()));
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{contents:016x}", name.as_deref().unwrap_or_default())),
            namespace: namespace.clone(),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Service".to_owned()),
            name,
            namespace,
            uid,
            resource_version,
            field_path: None,
        },
        type_: Some("Warning".to_owned()),
        reason: Some(problem.reason().to_owned()),
        message: Some(message),
        source: Some(EventSource { component: Some(controller.to_owned()), host: None }),
        reporting_component: Some(controller.to_owned()),
        first_timestamp: now.clone(),
        last_timestamp: now,
        count: Some(1),
        ..Event::default()
    }
}

/// FNV-1a: the same in every process and every build, which the hasher of the standard library does
/// not guarantee.
fn fingerprint(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_event_follows_from_its_content() {
        let service = |uid: &str| {
            serde_json::from_value(serde_json::json!({"metadata": {"name": "web", "namespace": "shop", "uid": uid}}))
                .unwrap()
        };
        let name =
            |service: &Service, problem: Problem| event("ingress-manager", service, &problem).metadata.name.unwrap();
        let (ours, other) = (service("1"), service("2"));
        assert_eq!(name(&ours, Problem::NoPort), name(&ours, Problem::NoPort));
        assert_ne!(name(&ours, Problem::NoPort), name(&other, Problem::NoPort));
        let (yes, no) = ["yes", "no"].map(|value| Problem::NotTrueOrFalse { value: value.into() }).into();
        assert_ne!(name(&ours, yes), name(&ours, no));
    }

    #[test]
    fn the_message_is_short_however_long_the_annotation_is() {
        let problem = Problem::NotTrueOrFalse { value: "é".repeat(100_000) };
        let event = event("ingress-manager", &Service::default(), &problem);
        assert_eq!(event.message.unwrap().chars().count(), MESSAGE_MAX);
    }
}
