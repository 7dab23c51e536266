//! One suite of request scripts for every API server: here it runs on the real one.

use std::time::Duration;

use kube_client::config::AuthInfo;
use steersman_testing::{Embedded, RealServer};

mod conformance;

use conformance::{Differences, Servers, Target};
use tokio::sync::OnceCell;

/// How long the embedded server may take for a step. Most of it is for watches that have a timeout
/// of their own.
const EMBEDDED_PATIENCE: Duration = Duration::from_secs(5);

/// The real servers that the cases ask for: a plain one, and one with the built-in controllers.
struct Real {
    plain: RealServer,
    controllers: RealServer,
}

impl Real {
    async fn start() -> Self {
        // Old versions go every second, so that the cases about their loss need not wait.
        let controllers =
            RealServer::builder().controller_manager(true).apiserver_flag("--etcd-compaction-interval=1s");
        // As on the plain server: Pods ask for no service account.
        let controllers = controllers.apiserver_flag("--disable-admission-plugins=ServiceAccount");
        // The Service of the server has endpoints.
        let published = "--endpoint-reconciler-type=master-count";
        // It refuses nothing to a user with all rights.
        let plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
        let plain = RealServer::builder().apiserver_flag(published).apiserver_flag(plugin);
        let controllers = controllers.apiserver_flag(published);
        let (plain, controllers) = tokio::join!(plain.start(), controllers.start());
        Self { plain: plain.unwrap(), controllers: controllers.unwrap() }
    }

    /// Clients of the servers that all tests here share. The first to ask starts them.
    async fn servers() -> Servers {
        static SHARED: OnceCell<Real> = OnceCell::const_new();
        let real = SHARED.get_or_init(Self::start).await;
        let controllers = target(&real.controllers).await;
        let plain = target(&real.plain).await;
        // The real server always authorizes by RBAC; the user of the cases has all rights.
        let mut config = real.plain.config().await.unwrap();
        config.auth_info = AuthInfo::default();
        config.default_retry = false;
        let authorizing = plain.clone().with_bare_client(kube_client::Client::try_from(config).unwrap());
        Servers { plain, compacting: controllers.clone(), controllers, authorizing }
    }
}

async fn target(server: &RealServer) -> Target {
    let mut config = server.config().await.unwrap();
    // A case is about the server's first answer. A watch ends when its case ends it.
    config.default_retry = false;
    config.read_timeout = None;
    Target::new("real", kube_client::Client::try_from(config).unwrap())
}

#[tokio::test]
async fn every_case_runs_on_the_real_server() {
    conformance::check(&Real::servers().await).await;
}

/// What differs from run to run must not be compared.
#[tokio::test]
async fn the_real_server_agrees_with_itself() {
    let (one, two) = (Real::servers().await, Real::servers().await);
    conformance::compare(&one, &two, &Differences::read("")).await.settle();
}

/// The embedded server answers as the real one does, except for the cases listed in its
/// `DIFFERENCES.md`.
#[tokio::test]
async fn the_embedded_server_answers_as_the_real_one() {
    let real = Real::servers().await;
    // What one server forgets, cases on the other may still want: unlike the real one, ours forgets
    // it for watches too.
    let plain = Embedded::builder().controllers(false).start();
    let authorizing = Embedded::builder().controllers(false).owner_references_permission_enforcement(true);
    let authorizing = authorizing.start().with_rbac();
    let (controllers, compacting) = (Embedded::start(), Embedded::start());
    let target = |server: &Embedded| Target::new("embedded", server.kube_client()).with_patience(EMBEDDED_PATIENCE);
    let embedded = Servers {
        plain: target(&plain),
        controllers: target(&controllers),
        compacting: target(&compacting).with_compaction(move || compacting.compact()),
        authorizing: target(&authorizing),
    };
    let listed = Differences::read(include_str!("../../steersman-apiserver/DIFFERENCES.md"));
    conformance::compare(&real, &embedded, &listed).await.settle();
}

/// Without streaming lists, a client that asks for one has to list.
#[tokio::test]
async fn without_streaming_lists_both_servers_refuse_them_alike() {
    let real = RealServer::builder().apiserver_flag("--feature-gates=WatchList=false").start().await.unwrap();
    let real = real.kube_client().await.unwrap();
    let embedded = Embedded::builder().streaming_lists(false).start().kube_client();
    for query in [
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
        "watch=1&sendInitialEvents=true",
        "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
        "watch=1&resourceVersionMatch=NotOlderThan",
    ] {
        let ask = async |client: &kube_client::Client| {
            let request = http::Request::get(format!("/api/v1/namespaces/default/configmaps?{query}"));
            let answer = client.request_text(request.body(Vec::new()).unwrap()).await;
            let Err(kube_client::Error::Api(status)) = answer else { panic!("{query}: {answer:?}") };
            status
        };
        assert_eq!(ask(&embedded).await, ask(&real).await, "{query}");
    }
}

/// Whole OpenAPI documents, as JSON and as protobuf. The servers have nothing else to do: a
/// document of version 2 has the kinds of all cases.
#[tokio::test]
async fn openapi_documents_have_the_same_bytes() {
    let (real, embedded) = (RealServer::start().await.unwrap(), Embedded::start());
    let embedded = Target::new("embedded", embedded.kube_client());
    conformance::documents::compare(&target(&real).await, &embedded).await;
}
