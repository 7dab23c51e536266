//! The operator in a cluster.

use steersman::client::PostParams;
use steersman::k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use steersman::manifests::crd::crd;
use steersman::{Action, Context, Manager, ObjectKey, ObjectMeta, ReconcileError, kind, reconcile_fn};
use steersman_program::{Invocation, Program, RunFlags};
use steersman_testing::{Embedded, Log, eventually};

use crate::guestbook::{Flags, Guestbook, GuestbookSpec, program};
use crate::process::ended;

fn flags<A: clap::Args + Send + Sync + 'static>(program: &Program<A>, arguments: &[&str]) -> RunFlags<A> {
    let arguments = [&["guestbook", "--health-probe-bind-address=0"], arguments].concat();
    let Ok(Invocation::Run(flags)) = program.try_parse_from(arguments) else { panic!("wrong arguments") };
    *flags
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

async fn server() -> Embedded {
    let server = Embedded::start();
    server.install_crds([crd::<Guestbook>().unwrap()]).await.unwrap();
    for name in ["shop", "web"] {
        let guestbook = Guestbook::new(name, GuestbookSpec { title: format!("Welcome to {name}") });
        let namespace = Namespace { metadata: named(name), ..Namespace::default() };
        server.client().cluster().create(&PostParams::default(), &namespace).await.unwrap();
        server.client().namespaced(name).create(&PostParams::default(), &guestbook).await.unwrap();
    }
    server
}

#[tokio::test(start_paused = true)]
async fn it_reconciles_until_it_is_stopped_in_the_namespaces_that_it_watches() {
    let server = server().await;
    let (program, client) = (program(), server.client());
    let flags: RunFlags<Flags> = flags(&program, &["--watch-namespace=shop"]);
    let test = async {
        let shop = client.namespaced::<ConfigMap>("shop");
        let map = eventually("the ConfigMap exists", || async { shop.get_opt("shop").await.unwrap() }).await;
        assert_eq!(map.data.unwrap()["title"], "Welcome to shop");
    };
    program.run(client.clone(), &flags, test).await.unwrap();
    assert!(client.namespaced::<ConfigMap>("web").get_opt("web").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_not_declared_is_refused_in_a_debug_build() {
    let server = Embedded::start();
    let client = server.client();
    let errors = Log::new();
    let seen = errors.clone();
    let program = Program::new("guestbook", "1.2.3", move |manager: &Manager| {
        let seen = seen.clone();
        let reconciler = reconcile_fn(move |ctx: Context<ConfigMap>, _| {
            let seen = seen.clone();
            async move {
                let map = ConfigMap { metadata: ObjectKey::new("default", "copy").to_meta(), ..ConfigMap::default() };
                if let Err(error) = ctx.client().create(&map).await {
                    seen.push(error.to_string());
                }
                Ok::<_, ReconcileError>(Action::done())
            }
        });
        manager.controller(kind::<ConfigMap>()).complete(reconciler).map(drop)
    });
    let flags = flags(&program, &[]);
    let test = async {
        eventually("the write fails", || async { errors.all().first().cloned() }).await;
    };
    program.run(client.clone(), &flags, test).await.unwrap();
    let error = errors.all().remove(0);
    assert!(error.contains("create") && error.contains("configmaps"), "{error}");
    assert!(client.namespaced::<ConfigMap>("default").get_opt("copy").await.unwrap().is_none());
}

#[test]
fn without_a_cluster_it_fails_and_names_where_it_looked() {
    let failed = ended(&["--log-format=json"], &[]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("KUBECONFIG names /nowhere/in/particular"), "{}", failed.stderr);
    let failed = ended(&["--kubeconfig=/nowhere/else"], &[]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("/nowhere/else"), "{}", failed.stderr);
    let failed = ended(&[], &[("RUST_LOG", "steersman=loud")]);
    assert!(failed.stderr.contains("RUST_LOG"), "{}", failed.stderr);
}
