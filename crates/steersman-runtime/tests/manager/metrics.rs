//! The metrics of a manager after a known workload.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::Value;
use steersman_cache::Phase;
use steersman_client::{Patch, PatchParams, World};
use steersman_manifests::operator::{Operator, plain};
use steersman_runtime::leader_election::LeaderElection;
use steersman_runtime::metrics::prometheus_client::metrics::counter::Counter;
use steersman_runtime::{Action, Context, Manager, ObjectKey, ReconcileError, kind, reconcile_fn};
use steersman_testing::Embedded;

use crate::support::exposition::Exposition;
use crate::support::{Fault, Maps, eventually, faulty_network, run, settle, start};

static BAD: AtomicU64 = AtomicU64::new(0);

/// What happens to a ConfigMap is its name.
async fn reconcile(ctx: Context<ConfigMap>, key: ObjectKey) -> Result<Action, ReconcileError> {
    if ctx.get(&key).await?.is_none() {
        return Ok(Action::done());
    }
    match key.name() {
        "later" => Ok(Action::requeue_after(Duration::from_secs(3600))),
        "bad" if BAD.fetch_add(1, Ordering::Relaxed) == 0 => Err(ReconcileError::message("on purpose")),
        "terminal" => Err(ReconcileError::terminal(std::io::Error::other("on purpose"))),
        "panic" if BAD.fetch_add(10, Ordering::Relaxed) < 10 => panic!("on purpose"),
        "slow" if BAD.fetch_add(100, Ordering::Relaxed) < 100 => std::future::pending().await,
        _ => Ok(Action::done()),
    }
}

/// The queries of kubebuilder's two dashboards, as Prometheus receives them.
const DASHBOARD: [&str; 15] = [
    r#"controller_runtime_active_workers{job="$job", namespace="$namespace"}"#,
    r#"sum(rate(controller_runtime_reconcile_total{job="$job", namespace="$namespace"}[5m])) by (instance, pod)"#,
    r#"sum(rate(controller_runtime_reconcile_errors_total{job="$job", namespace="$namespace"}[5m])) by (instance, pod)"#,
    r#"workqueue_depth{job="$job", namespace="$namespace"}"#,
    r#"histogram_quantile(0.50, sum(rate(workqueue_queue_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))"#,
    r#"histogram_quantile(0.90, sum(rate(workqueue_queue_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))"#,
    r#"histogram_quantile(0.99, sum(rate(workqueue_queue_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))"#,
    r#"sum(rate(workqueue_adds_total{job="$job", namespace="$namespace"}[5m])) by (instance, name)"#,
    r#"rate(workqueue_unfinished_work_seconds{job="$job", namespace="$namespace"}[5m])"#,
    r#"histogram_quantile(0.50, sum(rate(workqueue_work_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))"#,
    r#"histogram_quantile(0.90, sum(rate(workqueue_work_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))"#,
    r#"histogram_quantile(0.99, sum(rate(workqueue_work_duration_seconds_bucket{job="$job", namespace="$namespace"}[5m])) by (instance, name, le))"#,
    r#"sum(rate(workqueue_retries_total{job="$job", namespace="$namespace"}[5m])) by (instance, name)"#,
    r#"rate(process_cpu_seconds_total{job="$job", namespace="$namespace", pod="$pod"}[5m]) * 100"#,
    r#"process_resident_memory_bytes{job="$job", namespace="$namespace", pod="$pod"}"#,
];
/// The labels that the scraper adds.
const SCRAPED: [&str; 4] = ["job", "namespace", "instance", "pod"];

/// The series of a query, and the labels that it selects or groups by.
fn series_and_labels(query: &str) -> (&str, Vec<&str>) {
    let (before, rest) = query.split_once('{').expect(query);
    let name = before.rsplit(|char: char| !char.is_ascii_alphanumeric() && char != '_').next().unwrap();
    let (selector, rest) = rest.split_once('}').expect(query);
    assert!(!rest.contains('{'), "a second series in {query}");
    let selected = selector.split(',').map(|pair| pair.split_once('=').expect(query).0.trim());
    let grouped = rest.split_once(" by (").map_or("", |(_, labels)| labels.split_once(')').expect(query).0);
    let grouped = grouped.split(',').map(str::trim).filter(|label| !label.is_empty());
    (name, selected.chain(grouped).collect())
}

/// Every query finds its series, and no label of ours takes the name of one of the scraper's.
fn assert_dashboard_works(shown: &Exposition) {
    for query in DASHBOARD {
        let (name, labels) = series_and_labels(query);
        let series = shown.of(name);
        assert!(!series.is_empty(), "no series {name} for {query}");
        for (found, _) in series {
            let is_known = |label: &&str| SCRAPED.contains(label) || found.contains_key(*label);
            assert!(labels.iter().all(is_known), "{name} has {found:?}, which does not do for {query}");
        }
    }
    for (name, labels) in shown.samples.keys() {
        for taken in SCRAPED {
            assert!(!labels.contains_key(taken), "{name} has a label {taken}");
        }
    }
}

/// The names in a query outside of texts, each with what follows it.
fn names(query: &str) -> Vec<(&str, &str)> {
    let is_name = |char: char| char.is_ascii_alphanumeric() || "_:$".contains(char);
    let mut names = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find(|char| is_name(char) || char == '"') {
        rest = &rest[start..];
        if let Some(text) = rest.strip_prefix('"') {
            rest = &text[text.find('"').expect(query) + 1..];
            continue;
        }
        let end = rest.find(|char| !is_name(char)).unwrap_or(rest.len());
        names.push((&rest[..end], rest[end..].trim_start()));
        rest = &rest[end..];
    }
    names.retain(|(name, _)| !name.starts_with(|first: char| first.is_ascii_digit()));
    names
}

/// The metrics of a query, and the labels that it selects and groups by.
fn metrics_and_labels(query: &str) -> (Vec<&str>, Vec<&str>) {
    const FUNCTIONS: [&str; 5] = ["histogram_quantile", "increase", "max", "rate", "sum"];
    let (mut metrics, mut labels, mut in_group) = (Vec::new(), Vec::new(), false);
    for (name, after) in names(query) {
        if name == "by" {
            in_group = true;
        } else if in_group {
            labels.push(name);
            in_group = after.starts_with(',');
        } else if after.starts_with('=') {
            labels.push(name);
        } else if !FUNCTIONS.contains(&name) && name != "$__rate_interval" {
            metrics.push(name);
        }
    }
    (metrics, labels)
}

#[test]
fn metrics_and_labels_are_read_from_queries() {
    let (metrics, labels) = metrics_and_labels(
        r#"histogram_quantile(0.99, sum by (a, le) (rate(x_bucket{job="$job", b="c d"}[$__rate_interval]))) / y"#,
    );
    assert_eq!((metrics, labels), (vec!["x_bucket", "y"], vec!["a", "le", "job", "b"]));
}

/// Every query of the dashboard in the manifests finds series with the labels that it names.
fn assert_own_dashboard_works(shown: &Exposition) {
    let operator = Operator::new("operator", "operator:1");
    let files = plain(&operator).unwrap();
    let dashboard: Value = serde_json::from_str(files.get("grafana/operator.json").unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let (mut queries, mut positions) = (0, BTreeSet::new());
    for panel in panels {
        let at = &panel["gridPos"];
        assert!(positions.insert((at["x"].as_u64(), at["y"].as_u64())), "two panels at {at}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let (query, legend) = (target["expr"].as_str().unwrap(), target["legendFormat"].as_str().unwrap());
            let (metrics, labels) = metrics_and_labels(query);
            assert!(!metrics.is_empty(), "{query}");
            for metric in metrics {
                let series = shown.of(metric);
                assert!(!series.is_empty(), "no series {metric}: {query}");
                for (found, _) in series {
                    let is_known = |label: &&str| found.contains_key(*label) || SCRAPED.contains(label);
                    assert!(labels.iter().all(is_known), "{metric} has {found:?}: {query}");
                }
            }
            for label in legend.split("{{").skip(1) {
                let label = label.split("}}").next().unwrap();
                assert!(labels.contains(&label), "{legend} names no label of {query}");
            }
            assert!(query.contains(r#"{job="$job", namespace="$namespace"}"#), "{query} is of all operators");
            queries += 1;
        }
    }
    assert!(queries >= 30, "{queries} queries");
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let Some(query) = variable["query"]["query"].as_str() else { continue };
        let inner = query.strip_prefix("label_values(").and_then(|query| query.strip_suffix(')')).expect(query);
        let (metric, label) = inner.rsplit_once(", ").unwrap();
        let metric = metric.split('{').next().unwrap();
        assert!(!shown.of(metric).is_empty() && SCRAPED.contains(&label), "{query}");
    }
}

const LABELS: &[(&str, &str, &[&str])] = &[
    ("controller_runtime_reconcile_total", "counter", &["controller", "result"]),
    ("controller_runtime_reconcile_errors_total", "counter", &["controller"]),
    ("controller_runtime_terminal_reconcile_errors_total", "counter", &["controller"]),
    ("controller_runtime_reconcile_panics_total", "counter", &["controller"]),
    ("controller_runtime_reconcile_timeouts_total", "counter", &["controller"]),
    ("controller_runtime_reconcile_time_seconds", "histogram", &["controller"]),
    ("controller_runtime_max_concurrent_reconciles", "gauge", &["controller"]),
    ("controller_runtime_active_workers", "gauge", &["controller"]),
    ("workqueue_depth", "gauge", &["controller", "name", "priority"]),
    ("workqueue_adds_total", "counter", &["controller", "name"]),
    ("workqueue_retries_total", "counter", &["controller", "name"]),
    ("workqueue_queue_duration_seconds", "histogram", &["controller", "name"]),
    ("workqueue_work_duration_seconds", "histogram", &["controller", "name"]),
    ("workqueue_unfinished_work_seconds", "gauge", &["controller", "name"]),
    ("workqueue_longest_running_processor_seconds", "gauge", &["controller", "name"]),
    ("reconcile_trigger_total", "counter", &["controller", "source"]),
    ("reconcile_hot_loops_total", "counter", &["controller"]),
    ("rest_client_requests_total", "counter", &["code", "host", "method"]),
    ("rest_client_request_duration_seconds", "histogram", &["host", "verb"]),
    ("rest_client_request_size_bytes", "histogram", &["host", "verb"]),
    ("rest_client_response_size_bytes", "histogram", &["host", "verb"]),
    ("certwatcher_read_certificate_total", "counter", &[]),
    ("certwatcher_read_certificate_errors_total", "counter", &[]),
    ("leader_election_master_status", "gauge", &["name"]),
    ("leader_election_slowpath_total", "counter", &["name"]),
    ("cache_objects", "gauge", &["resource"]),
    ("cache_bytes", "gauge", &["resource"]),
    ("cache_decodes_total", "counter", &["resource"]),
    ("informer_handler_backlog", "gauge", &["resource"]),
    ("informer_lag_seconds", "gauge", &["resource"]),
    ("watch_restarts_total", "counter", &["reason", "resource"]),
    ("process_cpu_seconds_total", "counter", &[]),
    ("process_resident_memory_bytes", "gauge", &[]),
    ("process_virtual_memory_bytes", "gauge", &[]),
    ("process_threads", "gauge", &[]),
    ("process_start_time_seconds", "gauge", &[]),
    ("process_open_fds", "gauge", &[]),
    ("process_max_fds", "gauge", &[]),
    ("event_recorder_recorded_total", "counter", &[]),
    ("event_recorder_created_total", "counter", &[]),
    ("event_recorder_patched_total", "counter", &[]),
    ("event_recorder_retries_total", "counter", &[]),
    ("event_recorder_truncated_total", "counter", &[]),
    ("event_recorder_dropped_total", "counter", &["reason"]),
    ("event_recorder_pending", "gauge", &[]),
    ("networks_created_total", "counter", &[]),
];

#[tokio::test(start_paused = true)]
async fn every_name_type_label_and_value_is_right_after_a_known_workload() {
    let server = Embedded::empty();
    let election = LeaderElection::new("operator").namespace("default");
    let world = World::seeded(1, "2026-01-31T10:00:00Z".parse().unwrap());
    let builder = Manager::builder(server.client()).world(world).detailed_request_metrics();
    let manager = builder.leader_election(election).unwrap().build();
    let networks = Counter::<u64>::default();
    manager.metrics().register(|registry| registry.register("networks_created", "Ours", networks.clone()));
    networks.inc_by(7);
    let maps = Maps::new(&server.client());
    maps.create("first").await;
    let controller = manager
        .controller(kind::<ConfigMap>().namespace("default"))
        .max_concurrent(3)
        .reconcile_timeout(Duration::from_secs(2))
        .complete(reconcile_fn(reconcile))
        .unwrap();
    let before = Exposition::parse(&manager.metrics().encode());
    for result in ["success", "error", "requeue", "requeue_after"] {
        let labels = [("controller", "configmap"), ("result", result)];
        assert_eq!(before.value("controller_runtime_reconcile_total", &labels), 0.0);
    }
    let running = run(&manager).await;
    for name in ["later", "bad", "terminal", "panic", "slow"] {
        maps.create(name).await;
    }
    eventually("the workload is done", || controller.metrics().reconciles_total == 9).await;
    settle().await;

    let text = manager.metrics().encode();
    let shown = Exposition::parse(&text);
    let found: BTreeSet<_> = shown.types.iter().map(|(name, kind)| (&**name, &**kind)).collect();
    assert_eq!(found, LABELS.iter().map(|(name, kind, _)| (*name, *kind)).collect());
    for (name, kind, labels) in LABELS {
        let series = if *kind == "histogram" { format!("{name}_count") } else { (*name).to_owned() };
        assert_eq!(shown.labels(&series), BTreeSet::from([labels.to_vec()]), "{name}");
    }

    assert_dashboard_works(&shown);
    assert_own_dashboard_works(&shown);

    let one = [("controller", "configmap")];
    let result = |result| shown.value("controller_runtime_reconcile_total", &[one[0], ("result", result)]);
    // Of bad, panic and slow, each failed once and succeeded then.
    assert_eq!([result("success"), result("error"), result("requeue"), result("requeue_after")], [4.0, 4.0, 0.0, 1.0]);
    assert_eq!(shown.value("controller_runtime_reconcile_errors_total", &one), 4.0);
    assert_eq!(shown.value("controller_runtime_terminal_reconcile_errors_total", &one), 1.0);
    assert_eq!(shown.value("controller_runtime_reconcile_panics_total", &one), 1.0);
    assert_eq!(shown.value("controller_runtime_reconcile_timeouts_total", &one), 1.0);
    assert_eq!(shown.value("controller_runtime_max_concurrent_reconciles", &one), 3.0);
    assert_eq!(shown.value("controller_runtime_active_workers", &one), 0.0);
    let bucket = |bound| shown.value("controller_runtime_reconcile_time_seconds_bucket", &[one[0], ("le", bound)]);
    assert_eq!([bucket("0.005"), bucket("1.75"), bucket("2.5"), bucket("+Inf")], [8.0, 8.0, 9.0, 9.0]);
    assert_eq!(shown.value("controller_runtime_reconcile_time_seconds_count", &one), 9.0);
    assert!((2.0..2.1).contains(&shown.value("controller_runtime_reconcile_time_seconds_sum", &one)));

    let trigger = |source| shown.value("reconcile_trigger_total", &[one[0], ("source", source)]);
    assert_eq!([trigger("primary"), trigger("retry"), trigger("requeue_after")], [6.0, 3.0, 0.0]);
    assert_eq!(shown.value("reconcile_hot_loops_total", &one), 0.0);

    let queue = [("controller", "configmap"), ("name", "configmap")];
    assert_eq!(shown.value("workqueue_adds_total", &queue), 9.0);
    // Three failures, and one key that comes back in an hour.
    assert_eq!(shown.value("workqueue_retries_total", &queue), 4.0);
    for priority in ["0", "-100"] {
        assert_eq!(shown.value("workqueue_depth", &[queue[0], queue[1], ("priority", priority)]), 0.0);
    }
    assert_eq!(shown.value("workqueue_queue_duration_seconds_count", &queue), 9.0);
    let bucket = |bound| shown.value("workqueue_work_duration_seconds_bucket", &[queue[0], queue[1], ("le", bound)]);
    assert_eq!([bucket("1e-08"), bucket("1"), bucket("10"), bucket("+Inf")], [8.0, 8.0, 9.0, 9.0]);
    assert_eq!(shown.value("workqueue_unfinished_work_seconds", &queue), 0.0);
    assert_eq!(shown.value("workqueue_longest_running_processor_seconds", &queue), 0.0);

    let requests = shown.of("rest_client_requests_total");
    let sum = |method: &str, code: &str| -> f64 {
        let of = requests.iter().filter(|(labels, _)| labels["method"] == method && labels["code"] == code);
        of.map(|(_, count)| count).sum()
    };
    assert_eq!(sum("POST", "201"), 2.0, "the lease, and the Event about its holder");
    assert_eq!((sum("GET", "200"), sum("GET", "404")), (1.0, 1.0), "the watch, and the lease before it was there");
    assert!(sum("PUT", "200") >= 1.0, "the lease is renewed: {requests:?}");
    assert_eq!(shown.value("leader_election_master_status", &[("name", "operator")]), 1.0);
    assert_eq!(shown.value("event_recorder_created_total", &[]), 1.0);
    assert_eq!(shown.value("networks_created_total", &[]), 7.0);

    let resource = shown.of("cache_objects")[0].0["resource"].clone();
    assert!(resource.starts_with("/api/v1/"), "{resource}");
    let cache = [("resource", &*resource)];
    assert_eq!(shown.value("cache_objects", &cache), 6.0);
    assert!(shown.value("cache_bytes", &cache) > 0.0 && shown.value("cache_decodes_total", &cache) >= 6.0);
    assert_eq!(shown.value("informer_handler_backlog", &cache), 0.0);
    let lag = shown.of("informer_lag_seconds")[0].1;
    assert!((2.0..120.0).contains(&lag), "the last event is {lag} s ago");
    assert!(shown.value("process_resident_memory_bytes", &[]) > 1e6);
    assert!(shown.value("process_start_time_seconds", &[]) > 1.7e9);
    assert!(shown.value("process_open_fds", &[]) > 2.0 && shown.value("process_threads", &[]) >= 1.0);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_stuck_shows_in_the_queue() {
    let server = Embedded::empty();
    let manager = Manager::new(server.client());
    let controller = manager
        .controller(kind::<ConfigMap>().namespace("default"))
        .complete(reconcile_fn(|_: Context<ConfigMap>, _| std::future::pending()))
        .unwrap();
    let running = run(&manager).await;
    let maps = Maps::new(&server.client());
    for name in ["a", "b", "c"] {
        maps.create(name).await;
    }
    eventually("a reconcile runs", || controller.metrics().active == 1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let shown = Exposition::parse(&manager.metrics().encode());
    let queue = [("controller", "configmap"), ("name", "configmap")];
    let longest = shown.value("workqueue_longest_running_processor_seconds", &queue);
    assert!((60.0..70.0).contains(&longest), "{longest}");
    assert_eq!(shown.value("workqueue_unfinished_work_seconds", &queue), longest);
    assert_eq!(shown.value("workqueue_depth", &[queue[0], queue[1], ("priority", "0")]), 2.0);
    assert_eq!(shown.value("controller_runtime_active_workers", &[queue[0]]), 1.0);
    running.abort();
}

/// The metrics of a manager.
fn shown(manager: &Manager) -> Exposition {
    Exposition::parse(&manager.metrics().encode())
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_are_counted_by_reason() {
    let server = Embedded::empty();
    let (network, client) = faulty_network(&server);
    let manager = Manager::new(client);
    manager.declare(kind::<ConfigMap>().namespace("default")).unwrap();
    let running = run(&manager).await;
    let resource = shown(&manager).of("watch_restarts_total")[0].0["resource"].clone();
    let restarts = || {
        let shown = shown(&manager);
        ["ended", "not_installed", "forbidden", "unreachable", "throttled", "expired", "other"]
            .map(|reason| shown.value("watch_restarts_total", &[("resource", &resource), ("reason", reason)]))
    };
    let watches = || manager.status().iter().all(|status| status.phase == Phase::Watching);
    assert_eq!(restarts(), [0.0; 7]);
    // The watch breaks, and so do attempts to start it again.
    let mut expected = [0.0; 7];
    for (fault, place) in [
        (Fault::Status(403), 2),
        (Fault::Refused, 3),
        (Fault::Status(429), 4),
        (Fault::Status(410), 5),
        (Fault::Status(500), 6),
    ] {
        let before = restarts();
        network.fail("configmaps", fault.clone());
        network.cut();
        eventually("an attempt fails", || restarts()[place] > before[place]).await;
        network.mend();
        eventually("the cache watches again", watches).await;
        expected[place] = restarts()[place];
        // The watch itself broke by a reset of its connection.
        expected[3] = restarts()[3];
        assert!(expected[3] > before[3], "{fault:?}");
        assert_eq!(restarts(), expected, "{fault:?}");
        settle().await;
    }
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_meets_another_write_takes_the_slow_path() {
    let server = Embedded::empty();
    let world = World::seeded(1, "2026-01-31T10:00:00Z".parse().unwrap());
    let builder = Manager::builder(server.client()).world(world);
    let manager = builder.leader_election(LeaderElection::new("operator")).unwrap().build();
    let running = start(&manager);
    let leadership = manager.leadership().unwrap();
    eventually("the replica leads", || leadership.is_leader()).await;
    let slow_path = || shown(&manager).value("leader_election_slowpath_total", &[("name", "operator")]);
    settle().await;
    assert_eq!(slow_path(), 0.0);
    // The leader does not watch the Lease: its next renewal is a conflict.
    let leases = server.client().namespaced::<Lease>("default");
    let label = serde_json::json!({"metadata": {"labels": {"seen": "yes"}}});
    leases.patch("operator", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    settle().await;
    settle().await;
    assert_eq!(slow_path(), 1.0);
    assert!(leadership.is_leader());
    let labels = leases.get("operator").await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels["seen"], "yes", "a renewal keeps it");
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_wait_for_a_handler_are_its_backlog() {
    let server = Embedded::empty();
    let manager = Manager::new(server.client());
    let (entered, mut is_entered) = tokio::sync::mpsc::unbounded_channel();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    let map = move |_: &steersman_cache::Cached<ConfigMap>| {
        let _ = entered.send(());
        // It ends when the sender is dropped.
        let _ = held.lock().unwrap().recv();
        Vec::new()
    };
    let done = reconcile_fn(|_: Context<Secret>, _: ObjectKey| async { Ok(Action::done()) });
    let watched = kind::<ConfigMap>().namespace("default");
    manager.controller(kind::<Secret>().namespace("default")).watches(watched, map).complete(done).unwrap();
    let running = run(&manager).await;
    let maps = Maps::new(&server.client());
    for number in 0..11 {
        maps.create(&format!("map-{number}")).await;
    }
    is_entered.recv().await.unwrap();
    let backlog = || -> Vec<f64> { shown(&manager).of("informer_handler_backlog").iter().map(|of| of.1).collect() };
    eventually("the other events wait", || backlog().iter().sum::<f64>() >= 10.0).await;
    drop(release);
    eventually("no event waits", || backlog() == [0.0, 0.0]).await;
    running.stop().await.unwrap();
}
