//! A manager whose role lacks a verb: what the log shows, and that it continues when the role has
//! it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde_json::{Value, json};
use steersman_client::{Client, Patch, PatchParams, PostParams, World};
use steersman_runtime::leader_election::LeaderElection;
use steersman_runtime::{
    Action, Context, Error, Manager, ObjectKey, OperationResult, ReconcileError, kind, reconcile_fn,
};
use steersman_testing::{Embedded, eventually_within};
use tokio::time::sleep;

use crate::support::*;

/// What the manager below needs: API group, resource and verbs.
const NEEDED: [(&str, &str, &[&str]); 4] = [
    ("", "configmaps", &["list", "watch"]),
    ("", "secrets", &["list", "watch", "create", "update"]),
    ("coordination.k8s.io", "leases", &["get", "create", "update", "watch"]),
    ("events.k8s.io", "events", &["create", "patch"]),
];

/// The role without one verb of one resource.
fn role_without(resource: &str, verb: &str) -> ClusterRole {
    let rule = |(group, name, verbs): &(&str, &str, &[&str])| {
        let left: Vec<_> = verbs.iter().filter(|other| (*name, **other) != (resource, verb)).collect();
        json!({"apiGroups": [group], "resources": [name], "verbs": left})
    };
    // A rule without verbs is invalid.
    let has_verbs = |rule: &Value| rule["verbs"].as_array().is_some_and(|verbs| !verbs.is_empty());
    let rules: Vec<_> = NEEDED.iter().map(rule).filter(has_verbs).collect();
    serde_json::from_value(json!({"metadata": {"name": "copies"}, "rules": rules})).unwrap()
}

/// Copies each ConfigMap into a Secret, and records an Event for each write.
async fn copy(ctx: Context<ConfigMap>, key: ObjectKey) -> Result<Action, ReconcileError> {
    // Each namespace has a ConfigMap of its own.
    let Some(map) = ctx.get(&key).await?.filter(|_| key.name() == "a") else { return Ok(Action::done()) };
    let secret = Secret { metadata: named(key.name()), ..Secret::default() };
    let value = map.data.as_ref().and_then(|data| data.get("value")).cloned().unwrap_or_default();
    let copied = ctx.client().create_or_update(secret, |secret| {
        secret.metadata.labels = Some([("value".to_owned(), value.clone())].into());
    });
    let (_, result) = copied.await?;
    if result != OperationResult::Unchanged {
        ctx.events().normal(&*map, "Copied", "Copy", format!("copied the value {value}"));
    }
    Ok(Action::done())
}

/// What the manager has written: the label of the Secret, and the notes of the Events.
async fn written(server: &Embedded) -> (Option<String>, Vec<String>) {
    let client = server.client();
    let secret = client.namespaced::<Secret>("default").get_opt("a").await.unwrap();
    let value = secret.and_then(|secret| secret.metadata.labels?.remove("value"));
    let events = client.namespaced::<Event>("default").list(&Default::default()).await.unwrap().items;
    let copied = events.into_iter().filter(|event| event.reason.as_deref() == Some("Copied"));
    (value, copied.filter_map(|event| event.note).collect())
}

/// A server with RBAC, and the role of the manager without one verb of one resource.
async fn server_without(resource: &str, verb: &str) -> Embedded {
    let server = Embedded::start().with_rbac();
    let admin = server.client();
    let (roles, params) = (admin.cluster::<ClusterRole>(), PostParams::default());
    roles.create(&params, &role_without(resource, verb)).await.unwrap();
    let binding = json!({
        "metadata": {"name": "copies"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "copies"},
        "subjects": [{"kind": "ServiceAccount", "name": "copies", "namespace": "default"}],
    });
    let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
    admin.cluster().create(&params, &binding).await.unwrap();
    Maps::new(&admin).create("a").await;
    server
}

/// A client with the role.
fn user(server: &Embedded) -> Client {
    server.user("system:serviceaccount:default:copies", ["system:serviceaccounts"])
}

/// A replica whose controller copies ConfigMaps.
fn replica(client: Client, seed: u64) -> Manager {
    // The clocks of leader election follow paused time, too.
    let world = World::seeded(seed, "2026-01-31T10:00:00Z".parse().unwrap());
    let builder = Manager::builder(client).world(world).leader_election(LeaderElection::new("copies")).unwrap();
    let manager = builder.build();
    manager
        .controller(kind::<ConfigMap>().namespace("default"))
        .owns(kind::<Secret>().namespace("default"))
        .complete(reconcile_fn(copy))
        .unwrap();
    manager
}

/// Runs the manager without the verb, then with it. Returns what it had written by then, and its
/// log.
async fn run_without(resource: &str, verb: &str) -> ((Option<String>, Vec<String>), String) {
    let server = server_without(resource, verb).await;
    let (admin, (logged, _guard)) = (server.client(), traced());
    let (maps, manager) = (Maps::new(&admin), replica(user(&server), 1));
    let running = start(&manager);
    sleep(Duration::from_secs(10)).await;
    maps.set("a", "2").await;
    sleep(Duration::from_secs(50)).await;
    let (before, text) = (written(&server).await, logged.text());

    let whole = Patch::Merge(json!({"rules": role_without("", "").rules}));
    admin.cluster::<ClusterRole>().patch("copies", &PatchParams::default(), &whole).await.unwrap();
    maps.set("a", "3").await;
    let has_copied = async || {
        let (found, notes) = written(&server).await;
        let is_reported = notes.iter().any(|note| note == "copied the value 3");
        (found.as_deref() == Some("3") && is_reported && manager.is_ready()).then_some(())
    };
    let what = format!("a change is copied after {verb} of {resource} was permitted");
    eventually_within(Duration::from_secs(60), &what, has_copied).await;
    running.stop().await.unwrap();
    (before, text)
}

#[tokio::test(start_paused = true)]
async fn a_verb_that_the_role_lacks_is_logged_and_the_manager_continues_when_the_role_has_it() {
    for (resource, verb, copied_before) in [
        // Lists are read by watches again and again.
        ("configmaps", "watch", Some("2")),
        ("secrets", "watch", Some("2")),
        ("secrets", "create", None),
        ("secrets", "update", Some("1")),
        ("leases", "get", None),
        ("leases", "create", None),
        ("events", "create", Some("2")),
    ] {
        let ((copied, notes), text) = run_without(resource, verb).await;
        assert_eq!(copied.as_deref(), copied_before, "{verb} of {resource}");
        assert_eq!(notes.is_empty(), resource == "events" || copied.is_none(), "{verb} of {resource}: {notes:?}");
        let refusal =
            format!("User \"system:serviceaccount:default:copies\" cannot {verb} resource \"{resource}\" in API group");
        let is_warning = |line: &str| line.contains("WARN") && line.contains(&refusal);
        assert!(text.lines().any(is_warning), "{verb} of {resource}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_with_watch_alone_is_enough_on_a_server_with_watch_lists() {
    for resource in ["configmaps", "secrets"] {
        let ((copied, _), text) = run_without(resource, "list").await;
        assert_eq!(copied.as_deref(), Some("2"));
        assert!(!text.contains("WARN"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_may_not_renew_its_lease_stops_with_an_error() {
    let server = server_without("leases", "update").await;
    let (logged, _guard) = traced();
    let error = start(&replica(user(&server), 1)).ended().await.unwrap_err();
    assert!(matches!(&error, Error::LeadershipLost { lease, .. } if lease == "copies"), "{error}");
    let text = logged.text();
    assert!(text.contains("this replica leads") && text.contains("cannot update resource \"leases\""), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_may_not_watch_the_lease_logs_it_once_and_takes_over_later() {
    let server = server_without("leases", "watch").await;
    let first = replica(server.client(), 1);
    let leading = run(&first).await;
    let leads = |manager: &Manager| manager.leadership().unwrap().is_leader();
    eventually("the first replica leads", || leads(&first)).await;
    let (logged, _guard) = traced();
    let standby = replica(user(&server), 2);
    let running = run(&standby).await;
    sleep(Duration::from_secs(120)).await;
    let text = logged.text();
    assert_eq!(text.matches("cannot watch the lease").count(), 1, "{text}");
    assert!(text.contains("cannot watch resource \"leases\""), "{text}");
    assert_eq!(text.matches("another replica leads").count(), 1, "{text}");
    leading.stop().await.unwrap();
    eventually("the standby reads the Lease and leads", || leads(&standby)).await;
    assert!(logged.text().contains("this replica leads"), "{}", logged.text());
    running.stop().await.unwrap();
    assert!(logged.text().contains("this replica does not lead any more"), "{}", logged.text());
}
