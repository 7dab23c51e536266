//! Stopping informers.

use std::sync::{Arc, Mutex, mpsc};

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_cache::{
    Error, Event, Informer, InformerConfig, InformerOptions, ListOptions, ListerWatcher, Phase, ReflectorOptions,
    StorageOptions, WatchOptions, handler,
};
use steersman_testing::Embedded;

use crate::common::script::{NoList, ScriptedWatch};
use crate::common::*;

#[tokio::test(start_paused = true)]
async fn stopped_is_final() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a", "").await;
    let (informer, _factory, client) = maps_informer(&server).await;
    informer.stop().await.unwrap();
    informer.stop().await.unwrap();
    assert!(informer.is_stopped());
    assert!(matches!(informer.start(), Err(Error::Stopped { .. })));
    let error = informer.add_event_handler(recording(&Log::new())).unwrap_err().to_string();
    assert!(error.contains("/api/v1/configmaps is stopped"), "{error}");
    assert_eq!(informer.status()[0].phase, Phase::Stopped);
    // The cache is unchanged.
    Maps::new(&client).create("b", "").await;
    settle().await;
    assert_eq!(names(&informer.lister().list()), ["a"]);
    assert!(informer.has_synced());
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_never_started_can_be_stopped() {
    let (factory, _) = factory(&Embedded::empty());
    let informer = factory.informer::<ConfigMap>(InformerOptions::all()).unwrap();
    let (_, handle) = listen(&informer);
    informer.stop().await.unwrap();
    assert!(handle.wait_for_sync(LONG).await.is_err());
    assert!(matches!(informer.start(), Err(Error::Stopped { .. })));
}

#[tokio::test(start_paused = true)]
async fn handlers_still_get_their_pending_events_and_the_stop_waits_for_it() {
    let server = Embedded::empty();
    let (informer, _factory, client) = maps_informer(&server).await;
    let maps = Maps::new(&client);
    maps.create("a", "").await;
    let version = maps.create("b", "").await;
    informer.lister().wait_for_version(&version, LONG).await.unwrap();
    let (log, handle) = listen(&informer);
    assert_eq!(handle.pending(), 2);
    informer.stop().await.unwrap();
    assert_eq!(log.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_delays_only_the_waiting() {
    let server = Embedded::empty();
    let (informer, factory, client) = maps_informer(&server).await;
    let ((entered, is_in), (go, wait)) = (mpsc::channel::<()>(), mpsc::channel::<()>());
    let blocking = handler(move |_: &Event<ConfigMap>| {
        entered.send(()).unwrap();
        wait.recv().unwrap();
    });
    let handle = informer.add_event_handler(blocking).unwrap();
    Maps::new(&client).create("a", "").await;
    tokio::task::block_in_place(|| is_in.recv().unwrap());
    {
        let mut stop = std::pin::pin!(informer.stop());
        assert!(is_pending(stop.as_mut()).await);
    }
    // The future was dropped, but the informer is stopped: waits end at once.
    assert!(informer.is_stopped() && informer.add_event_handler(recording(&Log::new())).is_err());
    let reached = informer.lister().wait_for_version("1000000", LONG).await;
    assert!(matches!(reached, Err(Error::VersionNotReached { stopped: true, .. })));
    // Another call continues to wait, and so does the factory.
    let mut stop = std::pin::pin!(async { tokio::join!(informer.stop(), factory.shutdown()) });
    assert!(is_pending(stop.as_mut()).await);
    go.send(()).unwrap();
    let (stopped, shut_down) = stop.await;
    assert!(stopped.is_ok() && shut_down.is_ok());
    assert_eq!(handle.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_stuck_handler_ends_with_an_error_that_names_it() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a", "").await;
    let (informer, factory, _) = maps_informer(&server).await;
    let ((entered, is_in), (go, wait)) = (mpsc::channel::<()>(), mpsc::channel::<()>());
    // On a thread of its own, because it blocks. Paused time advances here.
    let stuck_runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let handle = {
        let _in_runtime = stuck_runtime.enter();
        let stuck = handler(move |_: &Event<ConfigMap>| {
            entered.send(()).unwrap();
            let _ = wait.recv();
        });
        informer.add_event_handler(stuck).unwrap()
    };
    is_in.recv().unwrap();
    let limit = std::time::Duration::from_secs(30);
    let named = |error: Error| {
        assert!(matches!(error, Error::StopTimeout { waited, .. } if waited == limit), "{error}");
        let text = error.to_string();
        assert!(text.contains("a handler of /api/v1/configmaps") && text.contains("must not block"), "{text}");
    };
    let started = tokio::time::Instant::now();
    named(informer.stop().await.unwrap_err());
    assert_eq!(started.elapsed().as_secs(), 30);
    named(factory.shutdown().await.unwrap_err());
    named(factory.remove(informer.clone()).await.unwrap_err());
    named(handle.remove_and_wait().await.unwrap_err());
    assert_eq!(started.elapsed().as_secs(), 120);
    assert!(informer.is_stopped(), "only the waiting has ended");
    drop(go);
    // Another call continues to wait; the time of the other thread is not paused.
    while handle.remove_and_wait().await.is_err() {}
    informer.stop().await.unwrap();
    assert!(handle.wait_for_sync(LONG).await.is_err());
    stuck_runtime.shutdown_background();
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_removes_itself_holds_up_no_stop() {
    let server = Embedded::empty();
    Maps::new(&client(&server)).create("a", "").await;
    let (informer, _factory, _) = maps_informer(&server).await;
    let (own, started) = (Log::new(), tokio::time::Instant::now());
    let handles = own.clone();
    let removes = handler(move |_: &Event<ConfigMap>| {
        handles.all().iter().for_each(|handle: &steersman_cache::HandlerHandle| handle.remove());
    });
    own.push(informer.add_event_handler(removes).unwrap());
    informer.stop().await.unwrap();
    own.all()[0].remove_and_wait().await.unwrap();
    assert!(started.elapsed() < std::time::Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_clone_ends_the_tasks_and_lets_go_of_the_handlers() {
    let server = Embedded::empty();
    let (informer, factory, client) = maps_informer(&server).await;
    let held = Arc::new(());
    let (weak, lister) = (Arc::downgrade(&held), informer.lister());
    // A handler that holds a lister does not keep the informer running either.
    let (own, reads) = (held, lister.clone());
    let handle = informer
        .add_event_handler(handler(move |_: &Event<ConfigMap>| {
            let _ = (&own, reads.len());
        }))
        .unwrap();
    Maps::new(&client).create("a", "").await;
    settle().await;
    drop(informer.clone());
    drop(factory);
    settle().await;
    assert!(weak.upgrade().is_some() && !informer.is_stopped());
    drop(informer);
    settle().await;
    assert!(weak.upgrade().is_none(), "the handler is still there");
    assert!(!lister.is_empty());
    assert!(lister.wait_for_version("1000000", LONG).await.is_err());
    handle.remove_and_wait().await.unwrap();
    let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    drop(client);
    assert!(alive <= 2, "{alive} tasks are alive: more than the client's own");
}

/// A client with a bug: every watch panics.
struct Buggy;

impl ListerWatcher for Buggy {
    type List = NoList;
    type Watch = ScriptedWatch;

    fn describe(&self) -> String {
        "the server behind a bug".to_owned()
    }

    async fn list(&self, _: &ListOptions) -> Result<NoList, steersman_client::Error> {
        std::future::pending().await
    }

    async fn watch(&self, _: &WatchOptions) -> Result<ScriptedWatch, steersman_client::Error> {
        settle().await;
        panic!("this is the test")
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_task_ends_the_informer_and_all_waits() {
    let options = ReflectorOptions::default();
    let config = InformerConfig {
        kind: "things".to_owned(),
        storage: StorageOptions::default(),
        reflector: options,
        world: steersman_client::World::system(),
    };
    let informer = Informer::<ConfigMap>::new(vec![(None, Buggy)], config);
    informer.start().unwrap();
    let (_, handle) = listen(&informer);
    let (lister, mut subscription) = (informer.lister(), informer.subscribe());
    let started = tokio::time::Instant::now();
    let waits = async {
        tokio::join!(
            informer.wait_for_sync(LONG),
            lister.wait_for_version("1", LONG),
            handle.wait_for_sync(LONG),
            subscription.changed(),
        )
    };
    let (sync, reached, synced, set) = tokio::time::timeout(2 * LONG, waits).await.expect("a wait did not end");
    assert!(started.elapsed() < std::time::Duration::from_secs(1));
    assert!(matches!(sync, Err(Error::Failed { .. })), "{sync:?}");
    assert!(matches!(reached, Err(Error::VersionNotReached { stopped: true, .. })), "{reached:?}");
    assert!(synced.is_err() && set.is_none());
    assert!(informer.is_stopped() && informer.has_failed());
    let status = &informer.status()[0];
    assert_eq!(status.phase, Phase::Stopped);
    assert!(status.to_string().contains("a task of its informer panicked"), "{status}");
    assert!(matches!(informer.start(), Err(Error::Failed { .. })));
    assert!(
        informer.has_failed() && !informer.has_synced() && informer.add_event_handler(recording(&Log::new())).is_err()
    );
    informer.stop().await.unwrap();
}

/// A client that blocks the thread until the other end of its channel is dropped.
struct Blocking {
    entered: mpsc::Sender<()>,
    wait: Mutex<mpsc::Receiver<()>>,
}

impl ListerWatcher for Blocking {
    type List = NoList;
    type Watch = ScriptedWatch;

    fn describe(&self) -> String {
        "the server behind a lock".to_owned()
    }

    async fn list(&self, _: &ListOptions) -> Result<NoList, steersman_client::Error> {
        std::future::pending().await
    }

    async fn watch(&self, _: &WatchOptions) -> Result<ScriptedWatch, steersman_client::Error> {
        self.entered.send(()).unwrap();
        let _ = self.wait.lock().unwrap().recv();
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn each_call_of_stop_waits_for_a_task_that_is_stuck() {
    let ((entered, is_in), (go, wait)) = (mpsc::channel(), mpsc::channel::<()>());
    let options = ReflectorOptions::default();
    let config = InformerConfig {
        kind: "things".to_owned(),
        storage: StorageOptions::default(),
        reflector: options,
        world: steersman_client::World::system(),
    };
    let server = Blocking { entered, wait: Mutex::new(wait) };
    let informer = Informer::<ConfigMap>::new(vec![(None, server)], config);
    // On a thread of its own, because it blocks. Paused time advances here.
    let stuck_runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    {
        let _in_runtime = stuck_runtime.enter();
        informer.start().unwrap();
    }
    is_in.recv().unwrap();
    let started = tokio::time::Instant::now();
    let (first, second) = tokio::join!(informer.stop(), informer.stop());
    assert_eq!(started.elapsed().as_secs(), 30);
    let third = informer.stop().await;
    assert_eq!(started.elapsed().as_secs(), 60);
    for stopped in [first, second, third] {
        let text = stopped.unwrap_err().to_string();
        assert!(text.contains("a task of the informer for things"), "{text}");
    }
    drop(go);
    // The time of the other thread is not paused.
    while informer.stop().await.is_err() {}
    informer.stop().await.unwrap();
    stuck_runtime.shutdown_background();
}

#[test]
fn an_informer_ends_with_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let informer = runtime.block_on(async { maps_informer(&Embedded::empty()).await.0 });
    drop(runtime);
    assert!(informer.is_stopped() && !informer.has_failed());
}

#[test]
fn an_informer_cannot_start_on_a_runtime_that_has_ended() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let informer = runtime.block_on(async {
        let (factory, _) = factory(&Embedded::empty());
        factory.informer::<ConfigMap>(InformerOptions::all()).unwrap()
    });
    let handle = runtime.handle().clone();
    drop(runtime);
    let (done, is_done) = mpsc::channel();
    // On a thread of its own, because a failure would hang.
    std::thread::spawn(move || {
        let _in_runtime = handle.enter();
        done.send((informer.start(), informer.is_stopped())).unwrap();
    });
    let (started, is_stopped) = is_done.recv_timeout(std::time::Duration::from_secs(60)).expect("it waits for itself");
    assert!(matches!(started, Err(Error::Stopped { .. })) && is_stopped, "{started:?}");
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let informer = runtime.block_on(async {
        let (factory, _) = factory(&Embedded::empty());
        factory.informer::<ConfigMap>(InformerOptions::all()).unwrap()
    });
    let error = informer.start().unwrap_err().to_string();
    assert!(error.contains("/api/v1/configmaps needs a tokio runtime"), "{error}");
    assert!(matches!(informer.add_event_handler(recording(&Log::new())), Err(Error::NoRuntime { .. })));
    let started = runtime.block_on(async { informer.start() });
    assert!(started.is_ok(), "{started:?}");
}

/// Polls a future once. Returns whether it is pending.
async fn is_pending(mut future: std::pin::Pin<&mut impl Future>) -> bool {
    std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_pending())).await
}
