//! The behaviour of the ingress manager, one function each. `embedded.rs` and `real_server.rs` run
//! them all, on their servers.

use std::sync::atomic::{AtomicUsize, Ordering};

use ingress_manager::{HOST, HTTP, PATH, add_to};
use k8s_openapi::api::core::v1::{Event, Service};
use k8s_openapi::api::networking::v1::{Ingress, IngressRule};
use serde_json::{Value, json};
use steersman::client::{Api, DeleteParams, ListParams, PatchParams, PostParams};
use steersman::runtime::CacheDefaults;
use steersman::{Client, Error, Manager, Patch};
use steersman_testing::eventually;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A test for each behaviour. `$server` returns the [`Clients`] and the namespace of a test.
macro_rules! behaviours {
    ($test:meta, $server:path) => {
        behaviours! { $test, $server:
            an_annotated_service_gets_an_ingress_that_it_owns,
            host_and_path_come_from_annotations,
            a_service_that_is_not_annotated_gets_none,
            the_ingress_goes_with_the_annotation,
            a_deleted_ingress_comes_back,
            an_edited_ingress_comes_back_and_what_others_put_there_stays,
            a_changed_service_changes_its_ingress,
            the_ingress_goes_with_its_service,
            a_service_that_is_about_to_go_gets_no_ingress_back,
            a_service_that_comes_again_gets_its_ingress,
            a_foreign_ingress_is_never_touched,
            wrong_annotations_are_reported_and_the_ingress_stays,
            a_service_without_a_port_is_reported,
            a_problem_is_one_event_however_often_it_is_seen,
            changes_during_downtime_are_reconciled,
        }
    };
    ($test:meta, $server:path: $($name:ident,)*) => {
        $(
            #[$test]
            async fn $name() {
                let (clients, namespace) = $server().await;
                suite::$name(suite::World::start(clients, namespace).await).await;
            }
        )*
    };
}
pub(crate) use behaviours;

/// The clients of a test.
pub(crate) struct Clients {
    /// The ingress manager.
    pub(crate) manager: Client,
    /// The users of the cluster.
    pub(crate) people: Client,
}

/// A running manager in a namespace of its own.
pub(crate) struct World {
    clients: Clients,
    namespace: String,
    services: Api<Service>,
    ingresses: Api<Ingress>,
    events: Api<Event>,
    /// None while no manager runs.
    running: Option<Running>,
    canaries: AtomicUsize,
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    fn start(client: &Client, namespace: &str) -> Self {
        let defaults = CacheDefaults::new().namespace(namespace);
        let manager = Manager::builder(client.clone()).cache_defaults(defaults).only_declared_writes().build();
        add_to(&manager, "example.com").unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        Self { stop, task: tokio::spawn(async move { manager.start(async { drop(stopped.await) }).await }) }
    }

    async fn stop(self) {
        drop(self.stop);
        self.task.await.unwrap().unwrap();
    }
}

pub(crate) fn service(name: &str, annotations: &Value) -> Service {
    let ports = json!([{"name": "metrics", "port": 9090}, {"name": "http", "port": 8080}]);
    let service = json!({"metadata": {"name": name, "annotations": annotations}, "spec": {"ports": ports}});
    serde_json::from_value(service).unwrap()
}

fn rules(ingress: &Ingress) -> &[IngressRule] {
    ingress.spec.as_ref().and_then(|spec| spec.rules.as_deref()).unwrap_or_default()
}

/// Host, path and port, of an Ingress with one of each.
fn route(ingress: &Ingress) -> Option<(String, String, i32)> {
    let [rule] = rules(ingress) else { return None };
    let [path] = rule.http.as_ref()?.paths.as_slice() else { return None };
    let port = path.backend.service.as_ref()?.port.as_ref()?.number?;
    Some((rule.host.clone()?, path.path.clone()?, port))
}

impl World {
    /// A manager that has just been started.
    pub(crate) fn new(clients: Clients, namespace: String) -> Self {
        let running = Some(Running::start(&clients.manager, &namespace));
        let people = &clients.people;
        let (services, ingresses) = (people.namespaced(&namespace), people.namespaced(&namespace));
        let events = people.namespaced(&namespace);
        Self { clients, namespace, services, ingresses, events, running, canaries: AtomicUsize::new(0) }
    }

    /// A manager that is ready.
    pub(crate) async fn start(clients: Clients, namespace: String) -> Self {
        let world = Self::new(clients, namespace);
        world.everything_is_seen().await;
        world
    }

    pub(crate) async fn create(&self, name: &str, annotations: Value) -> Service {
        self.services.create(&PostParams::default(), &service(name, &annotations)).await.unwrap()
    }

    async fn patch(&self, name: &str, patch: Value) {
        self.services.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn annotate(&self, name: &str, annotations: Value) {
        self.patch(name, json!({"metadata": {"annotations": annotations}})).await;
    }

    /// Waits for an Ingress.
    async fn ingress(&self, name: &str, is_right: impl Fn(&Ingress) -> bool) -> Ingress {
        let what = format!("the Ingress {name} is there and right");
        eventually(&what, async || self.ingresses.get_opt(name).await.unwrap().filter(&is_right)).await
    }

    async fn no_ingress(&self, name: &str) {
        let what = format!("there is no Ingress {name}");
        eventually(&what, async || self.ingresses.get_opt(name).await.unwrap().is_none().then_some(())).await;
    }

    /// Waits until the manager has handled all earlier changes of Services: it handles them one
    /// after the other.
    async fn everything_is_seen(&self) {
        let canary = format!("canary-{}", self.canaries.fetch_add(1, Ordering::Relaxed));
        self.create(&canary, json!({HTTP: "true"})).await;
        self.ingress(&canary, |_| true).await;
    }

    /// Waits until the manager has handled all earlier changes of Ingresses.
    async fn every_ingress_is_seen(&self) {
        let first = self.ingress("canary-0", |_| true).await;
        self.ingresses.delete("canary-0", &DeleteParams::default()).await.unwrap();
        self.ingress("canary-0", |ingress| ingress.metadata.uid != first.metadata.uid).await;
    }

    /// The Events of the manager on a Service. Other components add Events, too.
    async fn events(&self, service: &str) -> Vec<Event> {
        let events = self.events.list(&ListParams::default()).await.unwrap().items;
        let is_ours = |event: &Event| {
            event.reporting_component.as_deref() == Some("ingress-manager")
                && event.involved_object.name.as_deref() == Some(service)
        };
        events.into_iter().filter(is_ours).collect()
    }

    /// Their messages.
    async fn messages(&self, service: &str) -> Vec<String> {
        self.events(service).await.into_iter().filter_map(|event| event.message).collect()
    }

    /// Waits for an Event on a Service that contains this text.
    pub(crate) async fn event(&self, service: &str, words: &str) -> Event {
        let has_words = |event: &Event| event.message.as_deref().is_some_and(|message| message.contains(words));
        let what = format!("an Event contains {words:?}");
        eventually(&what, async || self.events(service).await.into_iter().find(has_words)).await
    }

    fn start_manager(&mut self) {
        self.running = Some(Running::start(&self.clients.manager, &self.namespace));
    }

    async fn stop_manager(&mut self) {
        self.running.take().expect("there is a manager").stop().await;
    }

    pub(crate) async fn stop(mut self) {
        self.stop_manager().await;
    }
}

pub(crate) async fn an_annotated_service_gets_an_ingress_that_it_owns(world: World) {
    let web = world.create("web", json!({HTTP: "true"})).await;
    let ingress = world.ingress("web", |_| true).await;
    let host = format!("web.{}.example.com", world.namespace);
    assert_eq!(route(&ingress), Some((host, "/".into(), 8080)));
    let [owner] = ingress.metadata.owner_references.as_deref().unwrap() else { panic!("it has one owner") };
    assert_eq!((&*owner.api_version, &*owner.kind, &*owner.name), ("v1", "Service", "web"));
    assert_eq!((Some(&owner.uid), owner.controller), (web.metadata.uid.as_ref(), Some(true)));
    assert_eq!(world.messages("web").await, [""; 0]);
    world.stop().await;
}

pub(crate) async fn host_and_path_come_from_annotations(world: World) {
    world.create("web", json!({HTTP: "true", HOST: "*.shop.test", PATH: "/cart"})).await;
    let wanted = Some(("*.shop.test".to_owned(), "/cart".to_owned(), 8080));
    world.ingress("web", |ingress| route(ingress) == wanted).await;
    world.stop().await;
}

pub(crate) async fn a_service_that_is_not_annotated_gets_none(world: World) {
    world.create("plain", json!({})).await;
    world.create("refusing", json!({HTTP: "false", HOST: "shop.test"})).await;
    world.everything_is_seen().await;
    for name in ["plain", "refusing"] {
        assert_eq!(world.ingresses.get_opt(name).await.unwrap(), None);
        assert_eq!(world.messages(name).await, [""; 0]);
    }
    world.stop().await;
}

pub(crate) async fn the_ingress_goes_with_the_annotation(world: World) {
    for gone in [Value::Null, json!("false")] {
        world.create("web", json!({HTTP: "true"})).await;
        world.ingress("web", |_| true).await;
        world.annotate("web", json!({HTTP: gone})).await;
        world.no_ingress("web").await;
        world.services.delete("web", &DeleteParams::default()).await.unwrap();
    }
    world.stop().await;
}

pub(crate) async fn a_deleted_ingress_comes_back(world: World) {
    world.create("web", json!({HTTP: "true"})).await;
    let first = world.ingress("web", |_| true).await;
    world.ingresses.delete("web", &DeleteParams::default()).await.unwrap();
    let second = world.ingress("web", |ingress| ingress.metadata.uid != first.metadata.uid).await;
    assert_eq!(second.spec, first.spec);
    world.stop().await;
}

pub(crate) async fn an_edited_ingress_comes_back_and_what_others_put_there_stays(world: World) {
    world.create("web", json!({HTTP: "true"})).await;
    let first = world.ingress("web", |_| true).await;
    let edit = json!({
        "metadata": {"labels": {"team": "shop"}},
        "spec": {
            "ingressClassName": "nginx",
            "rules": [{"host": "elsewhere.test"}],
            "defaultBackend": {"service": {"name": "other", "port": {"number": 1}}},
        },
    });
    world.ingresses.patch("web", &PatchParams::default(), &Patch::Merge(edit)).await.unwrap();
    let second = world.ingress("web", |ingress| rules(ingress) == rules(&first)).await;
    let spec = second.spec.unwrap();
    assert_eq!((spec.default_backend, spec.ingress_class_name.as_deref()), (None, Some("nginx")));
    assert_eq!(second.metadata.labels.unwrap()["team"], "shop");
    assert_eq!(second.metadata.uid, first.metadata.uid);
    world.stop().await;
}

pub(crate) async fn a_changed_service_changes_its_ingress(world: World) {
    world.create("web", json!({HTTP: "true"})).await;
    let first = world.ingress("web", |_| true).await;
    world.annotate("web", json!({HOST: "new.test"})).await;
    world.ingress("web", |ingress| route(ingress) == Some(("new.test".into(), "/".into(), 8080))).await;
    world.patch("web", json!({"spec": {"ports": [{"name": "http", "port": 80}]}})).await;
    let last = world.ingress("web", |ingress| route(ingress) == Some(("new.test".into(), "/".into(), 80))).await;
    assert_eq!(last.metadata.uid, first.metadata.uid);
    world.stop().await;
}

pub(crate) async fn the_ingress_goes_with_its_service(world: World) {
    world.create("web", json!({HTTP: "true"})).await;
    world.ingress("web", |_| true).await;
    world.services.delete("web", &DeleteParams::default()).await.unwrap();
    world.no_ingress("web").await;
    world.everything_is_seen().await;
    assert_eq!(world.ingresses.get_opt("web").await.unwrap(), None);
    world.stop().await;
}

pub(crate) async fn a_service_that_is_about_to_go_gets_no_ingress_back(world: World) {
    let mut held = service("web", &json!({HTTP: "true"}));
    held.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
    world.services.create(&PostParams::default(), &held).await.unwrap();
    world.ingress("web", |_| true).await;
    world.services.delete("web", &DeleteParams::default()).await.unwrap();
    world.everything_is_seen().await;
    world.ingresses.delete("web", &DeleteParams::default()).await.unwrap();
    world.every_ingress_is_seen().await;
    assert_eq!(world.ingresses.get_opt("web").await.unwrap(), None);
    world.patch("web", json!({"metadata": {"finalizers": null}})).await;
    world.stop().await;
}

pub(crate) async fn a_service_that_comes_again_gets_its_ingress(world: World) {
    world.create("web", json!({HTTP: "true"})).await;
    world.ingress("web", |_| true).await;
    world.services.delete("web", &DeleteParams::default()).await.unwrap();
    let again = world.create("web", json!({HTTP: "true"})).await;
    let is_its = |ingress: &Ingress| {
        let owners = ingress.metadata.owner_references.as_deref().unwrap_or_default();
        owners.iter().any(|owner| Some(&owner.uid) == again.metadata.uid.as_ref())
    };
    world.ingress("web", is_its).await;
    assert_eq!(world.messages("web").await, [""; 0]);
    world.stop().await;
}

pub(crate) async fn a_foreign_ingress_is_never_touched(world: World) {
    let theirs = json!({
        "metadata": {"name": "web"},
        "spec": {"defaultBackend": {"service": {"name": "theirs", "port": {"number": 80}}}},
    });
    let theirs: Ingress = serde_json::from_value(theirs).unwrap();
    let theirs = world.ingresses.create(&PostParams::default(), &theirs).await.unwrap();

    world.create("web", json!({HTTP: "true"})).await;
    let event = world.event("web", "does not belong to this Service").await;
    assert_eq!(event.reason.as_deref(), Some("IngressNameTaken"));
    world.annotate("web", json!({HOST: "other.test"})).await;
    world.everything_is_seen().await;
    world.annotate("web", json!({HTTP: null})).await;
    world.everything_is_seen().await;
    assert_eq!(world.ingresses.get("web").await.unwrap(), theirs);

    // When it is deleted, the name is free.
    world.annotate("web", json!({HTTP: "true"})).await;
    world.everything_is_seen().await;
    world.ingresses.delete("web", &DeleteParams::default()).await.unwrap();
    world.ingress("web", |ingress| ingress.metadata.uid != theirs.metadata.uid).await;
    world.stop().await;
}

pub(crate) async fn wrong_annotations_are_reported_and_the_ingress_stays(world: World) {
    world.create("web", json!({HTTP: "true"})).await;
    let right = world.ingress("web", |_| true).await;
    let cases = [
        (json!({HTTP: "yes"}), "ingress/http is \"yes\": use \"true\" or \"false\""),
        (json!({HTTP: "true", HOST: "no_host"}), "correct the annotation ingress/host"),
        (json!({HTTP: "true", HOST: null, PATH: "cart"}), "correct the annotation ingress/path"),
    ];
    for (annotations, words) in cases {
        world.annotate("web", annotations).await;
        let event = world.event("web", words).await;
        assert_eq!((event.type_.as_deref(), event.reason.as_deref()), (Some("Warning"), Some("InvalidAnnotation")));
        let about = event.involved_object;
        assert_eq!((about.kind.as_deref(), about.name.as_deref()), (Some("Service"), Some("web")));
    }
    assert_eq!(world.ingresses.get("web").await.unwrap(), right);
    world.annotate("web", json!({PATH: "/cart"})).await;
    world.ingress("web", |ingress| route(ingress).is_some_and(|(_, path, _)| path == "/cart")).await;
    world.stop().await;
}

pub(crate) async fn a_service_without_a_port_is_reported(world: World) {
    let external = json!({
        "metadata": {"name": "web", "annotations": {HTTP: "true"}},
        "spec": {"type": "ExternalName", "externalName": "elsewhere.test"},
    });
    let external: Service = serde_json::from_value(external).unwrap();
    world.services.create(&PostParams::default(), &external).await.unwrap();
    let event = world.event("web", "no TCP port").await;
    assert_eq!(event.reason.as_deref(), Some("NoPort"));
    assert_eq!(world.ingresses.get_opt("web").await.unwrap(), None);
    world.stop().await;
}

pub(crate) async fn a_problem_is_one_event_however_often_it_is_seen(mut world: World) {
    world.create("web", json!({HTTP: "yes"})).await;
    world.event("web", "yes").await;
    for label in ["a", "b"] {
        world.patch("web", json!({"metadata": {"labels": {"touched": label}}})).await;
        world.everything_is_seen().await;
    }
    // What was counted since the last write is written at the end.
    world.stop_manager().await;
    let counted = async || match world.events("web").await.as_slice() {
        [only] if only.series.as_ref().and_then(|series| series.count) >= Some(3) => Some(only.clone()),
        _ => None,
    };
    let event = eventually("there is one Event, which was counted", counted).await;
    let series = event.series.unwrap();
    assert!(series.last_observed_time > event.event_time);

    world.start_manager();
    let of_yes = |event: &&Event| event.message.as_ref().is_some_and(|message| message.contains("\"yes\""));
    let seen_twice = async || (world.events("web").await.iter().filter(of_yes).count() == 2).then_some(());
    eventually("the other process sees the problem as well", seen_twice).await;
    world.annotate("web", json!({HTTP: "no"})).await;
    world.event("web", "\"no\"").await;
    world.stop().await;
}

pub(crate) async fn changes_during_downtime_are_reconciled(mut world: World) {
    for name in ["edited", "deleted", "renounced"] {
        world.create(name, json!({HTTP: "true"})).await;
        world.ingress(name, |_| true).await;
    }
    world.stop_manager().await;
    let edit = Patch::Merge(json!({"spec": {"rules": [{"host": "elsewhere.test"}]}}));
    world.ingresses.patch("edited", &PatchParams::default(), &edit).await.unwrap();
    world.ingresses.delete("deleted", &DeleteParams::default()).await.unwrap();
    world.annotate("renounced", json!({HTTP: null})).await;
    world.create("new", json!({HTTP: "true"})).await;

    world.start_manager();
    for name in ["edited", "deleted", "new"] {
        world.ingress(name, |ingress| route(ingress).is_some_and(|(host, ..)| host.starts_with(name))).await;
    }
    world.no_ingress("renounced").await;
    world.stop().await;
}
