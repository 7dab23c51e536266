//! Namespaces that are declared and do not exist.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_runtime::{Manager, kind};
use steersman_testing::Embedded;
use tokio::time::sleep;

use crate::support::*;
use crate::support::{Fault, faulty_network};

fn lines<'a>(text: &'a str, namespace: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.contains("WARN") && line.contains(&format!("{namespace:?}"))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_declared_namespace_that_does_not_exist_is_logged_once() {
    let (manager, _client) = manager();
    let (logged, _guard) = traced();
    manager.declare(kind::<ConfigMap>().namespace("default").namespace("defualt")).unwrap();
    let running = run(&manager).await;
    eventually("the namespace is named", || !lines(&logged.text(), "defualt").is_empty()).await;
    // Also for a kind that is declared while the manager runs.
    manager.declare(kind::<Secret>().namespace("shpo")).unwrap();
    eventually("the namespace is named", || !lines(&logged.text(), "shpo").is_empty()).await;
    settle().await;
    let text = logged.text();
    let (maps, secrets) = (lines(&text, "defualt"), lines(&text, "shpo"));
    assert_eq!((maps.len(), secrets.len()), (1, 1), "{text}");
    assert!(maps[0].contains("ConfigMap") && maps[0].contains("does not exist"), "{text}");
    assert!(secrets[0].contains("Secret"), "{text}");
    assert!(lines(&text, "default").is_empty(), "{text}");
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_look_for_missing_namespaces_leaves_the_back_off_as_it_is() {
    let server = Embedded::empty();
    let (network, client) = faulty_network(&server);
    network.fail("configmaps", Fault::Refused);
    let manager = Manager::new(client);
    manager.declare(kind::<ConfigMap>().namespace("default")).unwrap();
    let running = manager.clone();
    tokio::spawn(async move { running.start(std::future::pending()).await });
    sleep(Duration::from_secs(600)).await;
    let requests = network.requests().len();
    // A back-off of 30 to 60 s, after the first minute.
    assert!(requests < 60, "{requests} requests in ten minutes");
}
