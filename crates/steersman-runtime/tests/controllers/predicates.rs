//! Which changes cause a reconcile.

use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;
use steersman_cache::{InformerOptions, SharedInformerFactory, handler};
use steersman_client::{DeleteParams, Patch, PatchParams, PostParams};
use steersman_runtime::Event;
use steersman_runtime::predicate::{
    AnnotationsChanged, Change, ChangeKind, GenerationChanged, LabelsChanged, LabelsMatch, Predicate,
    ResourceVersionChanged,
};
use steersman_testing::Embedded;

use crate::support::*;

/// The events of a Deployment's life: created, labels, annotations, spec and status changed,
/// resynced, deleted.
async fn life() -> Vec<Event<Deployment>> {
    let client = client(&Embedded::empty());
    let factory = SharedInformerFactory::new(client.clone());
    let informer = factory.informer::<Deployment>(InformerOptions::all()).unwrap();
    let log = Log::new();
    let notes = log.clone();
    informer.add_event_handler(handler(move |event: &Event<Deployment>| notes.push(event.clone()))).unwrap();
    factory.start().unwrap();
    factory.wait_for_cache_sync(LONG).await.unwrap();
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    }))
    .unwrap();
    let api = client.namespaced::<Deployment>("default");
    api.create(&PostParams::default(), &deployment).await.unwrap();
    settle().await;
    for patch in [
        json!({"metadata": {"labels": {"app": "other"}}}),
        json!({"metadata": {"annotations": {"a": "1"}}}),
        json!({"spec": {"replicas": 3}}),
    ] {
        api.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        settle().await;
    }
    let status = Patch::Merge(json!({"status": {"observedGeneration": 2}}));
    let _: Deployment = api.status().patch("web", &PatchParams::default(), &status).await.unwrap();
    settle().await;
    let Event::Update { new, .. } = log.all().last().unwrap().clone() else { panic!("{:?}", log.all()) };
    log.push(Event::Update { old: new.clone(), new });
    api.delete("web", &DeleteParams::default()).await.unwrap();
    settle().await;
    factory.shutdown().await.unwrap();
    log.all()
}

/// Which of the seven events a predicate accepts.
fn which(events: &[Event<Deployment>], predicate: &impl Predicate) -> String {
    let names = ["create", "labels", "annotations", "spec", "status", "again", "delete"];
    assert_eq!(events.len(), names.len(), "{events:#?}");
    let matters = events.iter().zip(names).filter(|(event, _)| predicate.matters(&Change::of(event)));
    matters.map(|(_, name)| name).collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn each_predicate_accepts_its_changes() {
    let events = life().await;
    let selector = |text| LabelsMatch::parse(text).unwrap();
    // The server counts annotations of a Deployment in its generation.
    assert_eq!(which(&events, &GenerationChanged), "create annotations spec delete");
    assert_eq!(which(&events, &LabelsChanged), "create labels delete");
    assert_eq!(which(&events, &AnnotationsChanged), "create annotations delete");
    assert_eq!(which(&events, &ResourceVersionChanged), "create labels annotations spec status delete");
    assert_eq!(which(&events, &selector("app=web")), "create labels", "leaving a selector is a change");
    assert_eq!(which(&events, &selector("app in (other)")), "labels annotations spec status again delete");
    assert!(LabelsMatch::parse("app in (").is_err());
}

#[tokio::test(start_paused = true)]
async fn predicates_are_put_together_and_written_as_functions() {
    let events = life().await;
    assert_eq!(which(&events, &LabelsChanged.or(GenerationChanged)), "create labels annotations spec delete");
    assert_eq!(which(&events, &LabelsChanged.and(GenerationChanged)), "create delete");
    assert_eq!(which(&events, &ResourceVersionChanged.not()), "again");
    let by_kind = |change: &Change<'_>| change.kind == ChangeKind::Delete;
    assert_eq!(which(&events, &by_kind), "delete");
    let both_states = |change: &Change<'_>| {
        change.old.is_some_and(|old| old.label("app") == Some("web") && change.object.label("app") == Some("other"))
    };
    assert_eq!(which(&events, &both_states), "labels");
}
