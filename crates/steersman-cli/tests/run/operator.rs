//! The operator of the tests: this test binary, started again by the script that is the result of a
//! build.

use std::path::Path;
use std::process::exit;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use steersman_client::{ApiResource, Client, DynamicObject, GroupVersionKind, config_from_flags};
use steersman_runtime::metrics::MetricsServer;
use steersman_runtime::{Action, Context, Manager, ObjectKey, dynamic, kind, reconcile_fn, shutdown_signal};
use steersman_testing::eventually;

/// The arguments of the operator, one on each line.
pub(crate) const ARGUMENTS: &str = "STEERSMAN_TEST_ARGUMENTS";
/// What it was built from: the content of `src/main.rs`.
pub(crate) const SOURCE: &str = "STEERSMAN_TEST_SOURCE";

/// Not a test: the main function of the operator. Without the variables it does nothing.
#[tokio::test(flavor = "multi_thread")]
async fn operator() {
    let (Ok(arguments), Ok(source)) = (std::env::var(ARGUMENTS), std::env::var(SOURCE)) else { return };
    let arguments: Vec<&str> = arguments.lines().collect();
    if source.contains("ends") {
        eprintln!("error: the operator ends");
        exit(3);
    }
    if source.contains("ignores SIGTERM") {
        let _ignored = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
        println!("the operator ignores SIGTERM");
        return std::future::pending().await;
    }
    run(&arguments, source).await;
    exit(0);
}

/// Gives each Widget a ConfigMap with the source of the operator.
async fn run(arguments: &[&str], source: String) {
    let kubeconfig = arguments.iter().position(|argument| *argument == "--kubeconfig");
    let kubeconfig = kubeconfig.map(|index| Path::new(arguments[index + 1]));
    let client = Client::builder(config_from_flags(None, kubeconfig).await.unwrap()).build().unwrap();
    assert!(arguments.contains(&"--metrics-bind-address=127.0.0.1:0") && arguments.contains(&"--debug-pages"));
    let metrics = MetricsServer::new().listen("127.0.0.1:0".parse().unwrap()).debug_pages();
    let manager = Manager::builder(client).metrics(metrics).unwrap().build();
    let widget = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let widgets = dynamic(&ApiResource::from_gvk_with_plural(&widget, "widgets"));
    let copied = source.clone();
    let reconcile = reconcile_fn(move |ctx: Context<DynamicObject>, key: ObjectKey| {
        let source = copied.clone();
        async move {
            let Some(_) = ctx.get(&key).await? else { return Ok(Action::done()) };
            let map = ConfigMap { metadata: key.to_meta(), ..ConfigMap::default() };
            let fill = |map: &mut ConfigMap| map.data = Some([("source".to_owned(), source.clone())].into());
            ctx.client().create_or_update(map, fill).await?;
            Ok(Action::done())
        }
    });
    manager.controller(widgets).named("widgets").owns(kind::<ConfigMap>()).complete(reconcile).unwrap();
    let file = std::env::var_os("STEERSMAN_ADDRESSES_FILE").unwrap();
    let addresses = json!({"metrics": format!("http://{}", manager.metrics_address().unwrap())});
    std::fs::write(file, addresses.to_string()).unwrap();
    let running = manager.clone();
    tokio::spawn(async move {
        // From then on SIGTERM stops it in order.
        eventually("the manager is ready", || std::future::ready(running.is_ready())).await;
        println!("the operator runs {source}");
    });
    manager.start(shutdown_signal()).await.unwrap();
}
