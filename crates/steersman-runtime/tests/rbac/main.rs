//! Roles that are derived from what a manager declares, under which it runs.

mod sites;

use futures::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;
use steersman_client::{Client, NamespaceScope, PostParams};
use steersman_manifests::operator::{Operator, RuleResource};
use steersman_runtime::finalizer::Finalizer;
use steersman_runtime::leader_election::LeaderElection;
use steersman_runtime::{Access, CacheDefaults, Error, Manager, Verb, dynamic, kind};
use steersman_testing::eventually;
use steersman_testing::rbac::{RbacError, Scenario, check};

use sites::{Sites, crds, setup, sites};

const SAMPLES: &str = "
apiVersion: example.com/v1
kind: Site
metadata: {name: one}
spec: {size: 1, name: first}
---
apiVersion: example.com/v1
kind: Site
metadata: {name: two, namespace: default}
spec: {size: 2}
";

fn scenario() -> Scenario {
    Scenario::samples(crds(), SAMPLES)
}

/// Its problems, one a line, after the name of the run.
fn text(error: &RbacError) -> String {
    format!("{}: {}", error.run, error.problems.join("; "))
}

async fn failure(scenario: Scenario) -> String {
    text(&check(setup, scenario).await.expect_err("the roles are enough"))
}

#[tokio::test(start_paused = true)]
async fn an_operator_runs_under_the_roles_that_are_derived_from_its_declarations() {
    check(setup, scenario().every_rule_is_used()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operator_of_some_namespaces_runs_under_roles_in_these() {
    let in_shop = SAMPLES.replace("{name: one}", "{name: one, namespace: shop}");
    let defaults = || CacheDefaults::new().namespace("shop").namespace("default").namespace("empty");
    let scenario = Scenario::samples(crds(), &in_shop)
        .every_rule_is_used()
        .manager(move |builder| Ok(builder.cache_defaults(defaults())));
    check(setup, scenario).await.unwrap();
}

/// Each verb of each reason is missing once.
#[tokio::test(start_paused = true)]
async fn without_a_verb_the_run_that_has_its_reason_fails() {
    let manager = Manager::new(Client::offline());
    setup(&manager).unwrap();
    let mut removed = Vec::new();
    for access in manager.access() {
        for verb in &access.verbs {
            let (missing, verb) = (access.clone(), *verb);
            // Events that repeat are patched; none does here.
            if (access.resource.name.as_str(), verb) == ("events", Verb::Patch) {
                continue;
            }
            let remove = move |operator: &mut Operator| {
                let same =
                    |access: &&mut Access| access.resource == missing.resource && access.reason == missing.reason;
                operator.access.iter_mut().filter(same).for_each(|access| _ = access.verbs.remove(&verb));
            };
            let failure = failure(scenario().operator(remove)).await;
            let (run, problems) = failure.split_once(": ").unwrap();
            let line = format!("forbidden: {verb} {}", access.resource.name);
            assert!(problems.contains(&line), "{line}: {failure}");
            removed.push(format!("{:?} {verb} {}: {run}", access.reason, access.resource.name));
        }
    }
    let (streaming, plain) = ("with streaming lists", "without streaming lists");
    let plugin = "with OwnerReferencesPermissionEnforcement";
    let expected = [
        format!("Watch watch configmaps: {streaming}"),
        format!("ListFallback list configmaps: {plain}"),
        format!("Write create configmaps: {streaming}"),
        format!("Write update configmaps: {streaming}"),
        format!("Live get serviceaccounts: {streaming}"),
        format!("Events create events: {streaming}"),
        format!("Watch watch sites: {streaming}"),
        format!("ListFallback list sites: {plain}"),
        format!("Finalizer patch sites: {streaming}"),
        format!("OwnerReferences update sites/finalizers: {plugin}"),
        format!("Status patch sites/status: {streaming}"),
    ];
    assert_eq!(removed, expected);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_request_is_reported_with_the_line_to_add() {
    let undeclared = |manager: &Manager| {
        let cleanup = Finalizer::of("example.com/cleanup", |client| client.dynamic(&sites()))?;
        manager.controller(dynamic(&sites()).namespaced()).owns(kind::<ConfigMap>()).complete(Sites { cleanup })?;
        Ok::<_, Error>(())
    };
    let missing = |scenario| async { text(&check(undeclared, scenario).await.unwrap_err()) };
    let line = missing(scenario()).await;
    assert_eq!(
        line,
        "with streaming lists: forbidden: patch sites.example.com in namespace default: add .writes([Verb::Patch]) to \
         dynamic(<sites>)"
    );
    let granted = |verbs: &'static [Verb]| {
        scenario().operator(move |operator| {
            let access = |name: &str, verbs: &[Verb]| {
                let resource = RuleResource::namespaced("example.com", name);
                Access::new(resource, verbs.iter().copied(), "granted")
            };
            operator.access.push(access("sites", &[Verb::Patch]));
            let mut maps = access("configmaps", verbs);
            maps.resource.group = String::new();
            operator.access.push(maps);
        })
    };
    let line = missing(granted(&[])).await;
    assert!(
        line.ends_with("create configmaps in namespace default: add .writes([Verb::Create]) to kind::<ConfigMap>()")
    );
    let line = missing(granted(&[Verb::Create])).await;
    let unknown = "add .uses(kind::<…>().live([Verb::Get])) to the controller, with the type of serviceaccounts";
    assert!(line.ends_with(&format!("get serviceaccounts in namespace default: {unknown}")), "{line}");
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_no_run_needs_is_reported() {
    let generous = |manager: &Manager| {
        setup(manager)?;
        manager.uses(kind::<Secret>().writes([Verb::Delete]).live([Verb::Get]))
    };
    let expected = ["delete secrets (written)", "get secrets (read from the server and not from a cache)"];
    let mut unused = check(generous, scenario()).await.unwrap().unused;
    unused.sort();
    assert_eq!(unused, expected);
    let strict = check(generous, scenario().every_rule_is_used()).await.unwrap_err();
    assert_eq!(strict.problems.len(), 2, "{strict}");
    assert!(strict.to_string().contains("a rule was not used in any run: delete secrets (written)"), "{strict}");
}

#[tokio::test(start_paused = true)]
async fn a_run_without_a_write_of_the_operator_fails() {
    let failure = failure(Scenario::new(crds(), |_| async {})).await;
    assert!(failure.starts_with("with streaming lists: the operator has written nothing"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn a_scenario_can_be_a_script() {
    let script = |client: Client| async move {
        let scope = NamespaceScope::Namespace("default".to_owned());
        let api = client.dynamic(&sites(), scope);
        let site = json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": "one"}, "spec": {}});
        api.create(&PostParams::default(), &serde_json::from_value(site).unwrap()).await.unwrap();
        let maps = client.namespaced::<ConfigMap>("default");
        eventually("the ConfigMap exists", || async { maps.get_opt("one").await.unwrap() }).await;
    };
    let report = check(setup, Scenario::new(crds(), script)).await.unwrap();
    assert_eq!(report.unused, ["update configmaps (written, by site)"]);
}

#[tokio::test(start_paused = true)]
async fn setup_that_fails_or_sends_a_request_fails_the_test() {
    let fails = |_: &Manager| Err::<(), _>("no configuration");
    let error = check(fails, scenario()).await.unwrap_err();
    assert_eq!(text(&error), "with streaming lists: setup fails: no configuration");
    let sends = |manager: &Manager| {
        let client = manager.client().live().clone();
        let _ = client.namespaced::<Secret>("default").get("key").now_or_never();
        setup(manager)
    };
    let error = check(sends, scenario()).await.unwrap_err();
    let expected = "setup sends GET /api/v1/namespaces/default/secrets/key: send it in a reconciler or in a runnable of \
                    the manager";
    assert_eq!(text(&error), format!("with streaming lists: {expected}"));
}

/// The Lease is in the namespace of the operator, or in its own.
#[tokio::test(start_paused = true)]
async fn a_leader_runs_under_its_roles() {
    for namespace in [None, Some("leases")] {
        let election = move || {
            let election = LeaderElection::new("sites");
            namespace.into_iter().fold(election, LeaderElection::namespace)
        };
        let led = scenario().every_rule_is_used().manager(move |builder| builder.leader_election(election()));
        check(setup, led.clone()).await.unwrap();
        let failure = failure(led.operator(|operator| operator.lease = None)).await;
        assert!(failure.contains("forbidden: get leases.coordination.k8s.io in namespace"), "{failure}");
    }
}
