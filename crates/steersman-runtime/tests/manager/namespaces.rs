//! Namespaces that are declared and do not exist.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use steersman_runtime::kind;

use crate::support::*;

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
