//! What a manager declares to do at the API server.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use steersman_client::{ApiResource, Client, DeleteParams, ListParams, Patch, PostParams};
use steersman_manifests::operator::{Operator, WatchScope};
use steersman_runtime::leader_election::LeaderElection;
use steersman_runtime::metrics::MetricsServer;
use steersman_runtime::{
    Access, Action, CacheDefaults, Context, Error, Manager, ObjectKey, Probes, ReconcileError, ReflectorOptions, Verb,
    dynamic, kind, metadata, reconcile_fn,
};
use steersman_testing::{Embedded, eventually as eventually_async};

use crate::support::*;

async fn nothing<K>(_: Context<K>, _: ObjectKey) -> Result<Action, ReconcileError> {
    Ok(Action::done())
}

/// One line for each access: `group/resource[names] verbs: reason, by @scope`.
fn lines(all: &[Access]) -> Vec<String> {
    let line = |access: &Access| {
        let verbs: Vec<_> = access.verbs.iter().map(|verb| verb.as_str()).collect();
        let names: Vec<_> = access.names.iter().map(String::as_str).collect();
        let by: Vec<_> = access.by.iter().map(String::as_str).collect();
        let names = if names.is_empty() { String::new() } else { format!("[{}]", names.join(" ")) };
        let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(" ")) };
        let scope = match &access.scope {
            None => String::new(),
            Some(WatchScope::Cluster) => " @cluster".to_owned(),
            Some(WatchScope::Namespaces(names)) => format!(" @{}", names.join(" ")),
        };
        let (group, name) = (&access.resource.group, &access.resource.name);
        format!("{group}/{name}{names} {}: {:?}{by}{scope}", verbs.join(" "), access.reason)
    };
    all.iter().map(line).collect()
}

#[test]
fn rules_are_derived_from_what_controllers_declare() -> Result<(), Error> {
    let manager = Manager::new(Client::offline());
    manager
        .controller(kind::<Deployment>().finalizers().writes_status([Verb::Patch]))
        .owns(kind::<ConfigMap>().writes([Verb::Create, Verb::Update]))
        .watches(metadata::<Namespace>(), |_| None::<ObjectKey>)
        .uses(kind::<Secret>().live([Verb::Get]))
        .records_events()
        .complete(reconcile_fn(nothing))?;
    manager
        .controller(kind::<ConfigMap>())
        .named("second")
        // It owns Secrets and writes none: no owner reference.
        .owns(kind::<Secret>().reflector(ReflectorOptions { streaming: false, ..ReflectorOptions::default() }))
        .complete(reconcile_fn(nothing))?;
    manager.uses(kind::<Deployment>().writes_subresource("scale", [Verb::Get, Verb::Update]))?;
    let expected = [
        "/configmaps watch: Watch by deployment second",
        "/configmaps list: ListFallback by deployment second",
        "/configmaps create update: Write by deployment",
        "/namespaces watch: Watch by deployment",
        "/namespaces list: ListFallback by deployment",
        "/secrets list watch: Watch by second",
        "/secrets get: Live by deployment",
        "apps/deployments watch: Watch by deployment",
        "apps/deployments list: ListFallback by deployment",
        "apps/deployments patch: Finalizer by deployment",
        "apps/deployments/finalizers update: OwnerReferences by deployment",
        "apps/deployments/scale get update: Subresource",
        "apps/deployments/status patch: Status by deployment",
        "events.k8s.io/events create patch: Events by deployment",
    ];
    assert_eq!(lines(&manager.access()), expected);
    Ok(())
}

#[test]
fn a_cache_of_some_namespaces_or_of_one_object_needs_no_more() -> Result<(), Error> {
    let defaults = CacheDefaults::new().namespace("shop").namespace("bar").namespace("shop");
    let manager = Manager::builder(Client::offline()).cache_defaults(defaults).build();
    manager
        .controller(kind::<Namespace>())
        .owns(kind::<ConfigMap>().writes([Verb::Patch]))
        .watches(kind::<Secret>().namespace("vault").fields("metadata.name=key"), |_| None::<ObjectKey>)
        .uses(kind::<Deployment>().all_namespaces().live([Verb::List]))
        .records_events()
        .complete(reconcile_fn(nothing))?;
    let expected = [
        "/configmaps watch: Watch by namespace",
        "/configmaps list: ListFallback by namespace",
        "/configmaps patch: Write by namespace",
        "/namespaces watch: Watch by namespace",
        "/namespaces list: ListFallback by namespace",
        "/namespaces/finalizers update: OwnerReferences by namespace",
        "/secrets[key] watch: Watch by namespace @vault",
        "/secrets[key] list: ListFallback by namespace @vault",
        "apps/deployments list: Live by namespace @cluster",
        // Events about objects in no namespace are in this one.
        "events.k8s.io/events create patch: Events by namespace @bar default shop",
    ];
    assert_eq!(lines(&manager.access()), expected);
    let mut operator = Operator::new("demo", "demo:1");
    manager.describe(&mut operator);
    assert_eq!(operator.scope, WatchScope::Namespaces(vec!["bar".to_owned(), "shop".to_owned()]));
    Ok(())
}

#[test]
fn a_use_of_one_object_is_limited_to_its_name() -> Result<(), Error> {
    let manager = Manager::new(Client::offline());
    let one = || kind::<Namespace>().fields("metadata.name=kube-system");
    manager.uses(one().live([Verb::Get]).writes([Verb::Patch]))?;
    // RBAC knows no name of an object that is created.
    manager.uses(one().writes_status([Verb::Create, Verb::Update]))?;
    let expected = [
        "/namespaces[kube-system] get: Live",
        "/namespaces[kube-system] patch: Write",
        "/namespaces/status create update: Status",
    ];
    assert_eq!(lines(&manager.access()), expected);
    Ok(())
}

#[test]
fn a_manager_describes_its_operator() -> Result<(), Error> {
    let bare = Manager::new(Client::offline());
    let mut operator = Operator::new("demo", "demo:1");
    bare.describe(&mut operator);
    let seen = (&operator.lease, &operator.metrics, operator.probes, operator.replicas, operator.shutdown_seconds);
    assert_eq!(seen, (&None, &None, None, 1, 30));
    assert!(operator.access.is_empty() && operator.scope == WatchScope::Cluster);

    // The ports are not bound, and the certificate is not read.
    let tls = steersman_http::Tls::files("/nowhere/tls.crt", "/nowhere/tls.key");
    let manager = Manager::builder(Client::offline())
        .leader_election(LeaderElection::new("demo").namespace("leases"))?
        .metrics(MetricsServer::new().listen(":9443".parse().unwrap()).secure(tls))?
        .probes(Probes::new())?
        .grace_period(std::time::Duration::from_millis(10_500))
        .build();
    let expected = [
        "authentication.k8s.io/tokenreviews create: MetricsReview",
        "authorization.k8s.io/subjectaccessreviews create: MetricsReview",
        "coordination.k8s.io/leases create: Lease @leases",
        "coordination.k8s.io/leases[demo] get watch update: Lease @leases",
        "events.k8s.io/events create patch: Lease @leases",
    ];
    let mut access = lines(&manager.access());
    access.sort();
    assert_eq!(access, expected);
    let mut operator = Operator::new("demo", "demo:1");
    operator.metrics.as_mut().unwrap().ca_secret = Some("ca".to_owned());
    manager.describe(&mut operator);
    assert!(operator.access.is_empty(), "the model has these rules: {:?}", operator.access);
    assert_eq!((operator.lease.as_deref(), operator.lease_namespace.as_deref()), (Some("demo"), Some("leases")));
    let metrics = operator.metrics.unwrap();
    assert_eq!((metrics.port, metrics.is_secure, metrics.ca_secret.as_deref()), (9443, true, Some("ca")));
    assert_eq!((operator.probes, operator.replicas, operator.shutdown_seconds), (Some(8081), 2, 11));
    Ok(())
}

#[test]
fn servers_that_only_the_pod_reaches_are_left_out() -> Result<(), Error> {
    let probes = Probes::new().listen("127.0.0.1:8081".parse().unwrap());
    let manager = Manager::builder(Client::offline()).metrics(MetricsServer::new())?.probes(probes)?.build();
    let mut operator = Operator::new("demo", "demo:1");
    manager.describe(&mut operator);
    assert_eq!((operator.metrics, operator.probes), (None, None));
    Ok(())
}

#[test]
fn a_dynamic_kind_of_an_offline_manager_states_its_scope() {
    let resource = ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: "Network".to_owned(),
        plural: "networks".to_owned(),
    };
    let manager = Manager::new(Client::offline());
    let unknown = "the scope of Network is not known without a server: call namespaced() or cluster_scoped() on \
                   dynamic(<networks>), so that its roles can be derived";
    assert_eq!(manager.declare(dynamic(&resource)).unwrap_err().to_string(), unknown);
    assert_eq!(manager.uses(dynamic(&resource).live([Verb::Get])).unwrap_err().to_string(), unknown);
    manager.declare(dynamic(&resource).namespaced()).unwrap();
    assert!(manager.access().iter().all(|access| access.resource.is_namespaced));
    manager.uses(dynamic(&resource).cluster_scoped().live([Verb::Get])).unwrap();
    let cluster: Vec<_> = manager.access().into_iter().filter(|access| !access.resource.is_namespaced).collect();
    assert_eq!(lines(&cluster), ["example.com/networks get: Live"]);
}

#[tokio::test]
async fn a_request_during_setup_is_an_error_that_is_remembered() {
    let manager = Manager::new(Client::offline());
    let client = manager.client().live();
    assert!(client.refused_request().is_none());
    let error = client.namespaced::<Secret>("shop").get("key").await.unwrap_err();
    assert_eq!(error.to_string(), "GET /api/v1/namespaces/shop/secrets/key: not sent, because the client is offline");
    let _ = client.namespaced::<Secret>("shop").get("other").await;
    let kube = kube_client::Client::from(client.clone());
    assert!(kube.apiserver_version().await.is_err());
    assert!(client.refused_request().unwrap().url.ends_with("/secrets/key"), "the first one");
    let kube = kube_client::Client::from(Client::offline());
    assert!(kube.apiserver_version().await.is_err());
}

/// A manager that permits only what this declares, on a server of its own.
fn strict(declare: impl Fn(&Manager)) -> (Manager, Client) {
    let server = Embedded::start();
    let manager = Manager::builder(server.client()).only_declared_writes().build();
    declare(&manager);
    (manager, server.client())
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_not_declared_is_refused_with_the_line_to_add() {
    let (manager, server) = strict(|manager| {
        let maps = kind::<ConfigMap>().writes([Verb::Create]).writes_status([Verb::Update]);
        manager.uses(maps).unwrap();
        manager.uses(kind::<Deployment>().namespace("shop").finalizers()).unwrap();
    });
    let client = manager.client();
    client.create(&map("a", "1")).await.unwrap();

    let refused = |error: Error| {
        assert!(matches!(error, Error::UndeclaredWrite(_)), "{error}");
        let text = error.to_string();
        text.split_once(": not sent: ").unwrap_or_else(|| panic!("{text}")).1.to_owned()
    };
    let patch = Patch::Merge(serde_json::json!({"data": {"value": "2"}}));
    let maps = client.objects::<ConfigMap>();
    assert_eq!(
        refused(maps.patch(&key("a"), &patch).await.unwrap_err()),
        "the manager does not declare patch on configmaps: add .writes([Verb::Patch]) to kind::<ConfigMap>()"
    );
    assert_eq!(
        refused(maps.patch_status(&key("a"), &patch).await.unwrap_err()),
        "the manager does not declare patch on configmaps/status: add .writes_status([Verb::Patch]) to \
         kind::<ConfigMap>()"
    );
    assert_eq!(
        refused(client.delete::<Secret>(&key("a")).await.unwrap_err()),
        "the manager does not declare delete on secrets: add .uses(kind::<…>().writes([Verb::Delete])) to the \
         controller, with the type of secrets"
    );
    assert_eq!(
        refused(client.objects::<Deployment>().patch(&key("a"), &patch).await.unwrap_err()),
        "the manager declares patch on deployments for other namespaces, and not for \"default\": declare the kind \
         with .namespace(\"default\"), or with .all_namespaces()"
    );
    // The client without caches is the same one.
    let live = client.live().namespaced::<ConfigMap>("default");
    let error = live.delete("a", &DeleteParams::default()).await.unwrap_err();
    assert!(error.to_string().ends_with("add .writes([Verb::Delete]) to kind::<ConfigMap>()"), "{error}");
    let error = live.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap_err();
    assert!(error.to_string().contains("deletecollection on configmaps"), "{error}");
    assert!(server.namespaced::<ConfigMap>("default").get("a").await.unwrap().data.unwrap()["value"] == "1");
    // Reads are not checked, and everyone may ask about themselves.
    live.get("a").await.unwrap();
    let review = serde_json::json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let review: SelfSubjectAccessReview = serde_json::from_value(review).unwrap();
    client.live().cluster::<SelfSubjectAccessReview>().create(&PostParams::default(), &review).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_with_an_undeclared_write_is_not_tried_again() {
    async fn delete(ctx: Context<ConfigMap>, key: ObjectKey) -> Result<Action, ReconcileError> {
        ctx.client().delete::<ConfigMap>(&key).await?;
        Ok(Action::done())
    }
    let (manager, client) = strict(|_| {});
    let controller = manager.controller(kind::<ConfigMap>()).complete(reconcile_fn(delete)).unwrap();
    client.namespaced("default").create(&PostParams::default(), &map("a", "1")).await.unwrap();
    let test = async {
        eventually("the reconcile fails", || controller.last_error(&key("a")).is_some()).await;
        tokio::time::sleep(LONG).await;
        assert_eq!(controller.failures(&key("a")), 1);
        let error = controller.last_error(&key("a")).unwrap();
        assert!(error.is_terminal() && error.to_string().contains("add .writes([Verb::Delete])"), "{error}");
    };
    manager.start(test).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn events_and_leases_need_a_declaration_too() {
    async fn report(ctx: Context<ConfigMap>, key: ObjectKey) -> Result<Action, ReconcileError> {
        if let Some(map) = ctx.get(&key).await?.filter(|map| map.metadata.name.as_deref() == Some("a")) {
            ctx.events().normal(&*map, "Seen", "See", "it was seen");
        }
        Ok(Action::done())
    }
    for declares in [false, true] {
        let server = Embedded::start();
        let client = server.client();
        let (logged, _guard) = traced();
        let builder = Manager::builder(client.clone()).only_declared_writes();
        let manager = builder.leader_election(LeaderElection::new("demo").namespace("kube-system")).unwrap().build();
        let controller = manager.controller(kind::<ConfigMap>());
        let controller = if declares { controller.records_events() } else { controller };
        controller.complete(reconcile_fn(report)).unwrap();
        client.namespaced("default").create(&PostParams::default(), &map("a", "1")).await.unwrap();
        let test = async {
            let leadership = manager.leadership().unwrap();
            eventually("the manager leads, so that its Lease is declared", || leadership.is_leader()).await;
            if declares {
                let events = client.namespaced::<Event>("default");
                let reason = |event: Event| event.reason.as_deref() == Some("Seen");
                eventually_async("the Event exists", || async {
                    events.list(&ListParams::default()).await.unwrap().items.into_iter().any(reason)
                })
                .await;
            } else {
                let fix = "add .records_events() to the controller";
                eventually("the refusal is logged", || logged.text().contains(fix)).await;
            }
        };
        manager.start(test).await.unwrap();
    }
}

/// A manager that declares its requests has rights for these alone: what the runtime asks by itself
/// to explain something would be refused.
#[tokio::test(start_paused = true)]
async fn hints_are_not_asked_for_without_the_right() {
    for declares in [false, true] {
        let server = Embedded::start().with_request_record();
        let manager = Manager::new(server.user("operator", ["operators"]));
        manager.declare(kind::<ConfigMap>().namespace("missing")).unwrap();
        if declares {
            manager.uses(kind::<ConfigMap>().writes([Verb::Create])).unwrap();
        }
        manager.start(tokio::time::sleep(LONG)).await.unwrap();
        let requests = server.requests().requests;
        let asked = requests.iter().any(|seen| seen.user == "operator" && seen.resource == "namespaces");
        assert_eq!(asked, !declares);
    }
}
