//! Objects that cannot be read, and transforms.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::script::{HOUR, Running, Server, plain, play, streaming};
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_cache::{Informer, InformerConfig, StorageOptions};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn in_a_watch_they_are_reported_and_passed_over() {
    for bad in ["!b", "!", "kind:Secret:b@12", "kind:Table:b@12"] {
        let server = Server::new().list("=>10").watch(&format!("+a@11 {bad} ~a@13"));
        let running: Running = Running::start(server.clone(), plain());
        sleep(HOUR).await;
        assert_eq!(running.log(), ["[]=>10", "+a@11", "~a@13"], "{bad}");
        assert_eq!(server.requests().len(), 2, "{bad}: the watch goes on");
        assert_eq!(running.status().object_errors, 1, "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_kind_is_reported() {
    let running: Running = Running::start(Server::new().list("=>10").watch("kind:Secret:b@12"), plain());
    sleep(HOUR).await;
    let error = running.status().last_object_error.unwrap().to_string();
    assert_eq!(error, "object ns/b cannot be read: v1 Secret instead of v1 ConfigMap");
}

#[tokio::test(start_paused = true)]
async fn in_a_watch_one_that_is_gone_is_deleted_in_the_state_that_is_known() {
    let server = Server::new().list("a@5 b@6 =>10").watch("~a@11 gone:Secret:a@12 gone:Secret:c@13 ~b@14");
    let running: Running = Running::start(server, plain());
    sleep(HOUR).await;
    assert_eq!(running.log(), ["[a@5 b@6]=>10", "~a@11", "?a@11", "~b@14"]);
    assert_eq!(running.status().object_errors, 2);
}

#[tokio::test(start_paused = true)]
async fn in_a_list_the_others_are_read() {
    let (_, log) = play(Server::new().list("a@5 !b ! kind:Secret:c@6 d@7 =>10").watch("open"), plain()).await;
    assert_eq!(log, ["[a@5 d@7]=>10"]);
}

#[tokio::test(start_paused = true)]
async fn in_a_relist_they_keep_their_known_states() {
    for bad in ["!a", "kind:Secret:a@11"] {
        let server =
            Server::new().list("a@5 b@6 =>10").watch("fail:410").list(&format!("{bad} b@12 =>12")).watch("open");
        let (_, log) = play(server, plain()).await;
        assert_eq!(log, ["[a@5 b@6]=>10", "[b@12 a@5]=>12"], "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_streaming_list_they_keep_the_last_state_that_could_be_read() {
    let cases = [
        // The state from an earlier list.
        ("!a +b@12 $13", "[b@12 a@5]=>13"),
        // The earlier state in this list, not an older one.
        ("+a@11 !a +b@12 $13", "[a@11 b@12]=>13"),
        ("!a +b@12 ~a@12 $13", "[b@12 a@12]=>13"),
        // No state, if it was deleted during the list.
        ("!a +b@12 -a@13 $13", "[b@12]=>13"),
    ];
    for (stream, listed) in cases {
        let server = Server::new().watch("+a@5 +b@6 $10 fail:410").watch(stream);
        let (_, log) = play(server, streaming()).await;
        assert_eq!(log, ["[a@5 b@6]=>10", listed], "{stream}");
    }
}

/// Number of calls of a transform while an informer runs this script.
async fn transforms(server: Server) -> usize {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let storage = StorageOptions::<ConfigMap>::default().transform(move |object| {
        counter.fetch_add(1, Ordering::Relaxed);
        object.data = None;
    });
    let config = InformerConfig {
        kind: "ConfigMap".to_owned(),
        storage,
        reflector: plain(),
        world: steersman_client::World::system(),
    };
    let informer = Informer::new(vec![(None, server)], config);
    informer.start().unwrap();
    sleep(HOUR).await;
    for object in &informer.lister().list() {
        assert_eq!(object.get().unwrap().data, None);
    }
    informer.stop().await.unwrap();
    calls.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn a_transform_runs_once_for_each_object_that_comes() {
    assert_eq!(transforms(Server::new().list("a@5 b@6 =>10").watch("+c@11 ~a@12 *13")).await, 4);
}

#[tokio::test(start_paused = true)]
async fn a_transform_does_not_run_on_tombstones() {
    let server = Server::new().list("a@5 b@6 =>10").watch("+c@11 fail:410");
    assert_eq!(transforms(server.list("a@5 =>20").watch("open")).await, 4, "b and c went unseen");
}
