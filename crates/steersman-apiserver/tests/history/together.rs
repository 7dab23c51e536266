//! Writers, watchers and listers at once, on several threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use tokio::sync::{Barrier, watch};

use super::common::{
    Beginning, Change, History, KINDS, NAMES, NAMESPACES, ObjectPath, Selection, Watch, get, pages, plain, revision,
    server, version,
};
use super::{Answer, Write, cases, make, selection, write};

/// The action of one of many tasks.
#[derive(Clone, Debug)]
struct Plan {
    writers: Vec<Vec<(ObjectPath, Write)>>,
    /// The selection, the fraction of the versions to start from, with or without the initial
    /// events.
    watchers: Vec<(Selection, u8, bool)>,
    /// The selection, and the page size.
    listers: Vec<(Selection, usize)>,
}

fn plan() -> impl Strategy<Value = Plan> {
    // Few objects, so that writers collide.
    let place = (0..KINDS.len(), 0..2_usize, 0..2_usize).prop_map(|(kind, ns, name)| ObjectPath::new(kind, ns, name));
    let writers = prop::collection::vec(prop::collection::vec((place, write()), 10..60), 2..5);
    let watchers = prop::collection::vec((selection(), any::<u8>(), any::<bool>()), 1..6);
    let listers = prop::collection::vec((selection(), 1..4_usize), 1..3);
    (writers, watchers, listers).prop_map(|(writers, watchers, listers)| Plan { writers, watchers, listers })
}

/// Follows a watch until all is written, and then reads the rest.
async fn follow(mut watch: Watch, mut done: watch::Receiver<bool>) -> Watch {
    loop {
        tokio::select! {
            () = watch.more() => {}
            _ = done.wait_for(|done| *done) => break,
        }
    }
    watch.drain();
    watch
}

/// The history of all kinds, from watches of everything.
fn record(watches: &[Watch]) -> History {
    let mut changes = Vec::new();
    for (kind, watch) in watches.iter().enumerate() {
        let mut state: BTreeMap<ObjectPath, Value> = BTreeMap::new();
        for event in &watch.events {
            let object = plain(event["object"].clone());
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let find = |known: &[&'static str], text: &str| known.iter().find(|known| **known == text).copied();
            let place = ObjectPath {
                kind,
                namespace: find(&NAMESPACES, text("namespace")).unwrap_or_default(),
                name: find(&NAMES, text("name")).expect("a name"),
            };
            let after = (event["type"] != "DELETED").then(|| object.clone());
            let before = match &after {
                Some(after) => state.insert(place.clone(), after.clone()),
                None => state.remove(&place),
            };
            match event["type"].as_str() {
                Some("ADDED") => assert_eq!(before, None, "added twice: {event}"),
                Some("MODIFIED" | "DELETED") => assert!(before.is_some(), "never added: {event}"),
                _ => panic!("{event}"),
            }
            changes.push(Change { version: version(&object), place, before, after });
        }
    }
    changes.sort_by_key(|change| change.version);
    assert!(changes.is_sorted_by(|one, next| one.version < next.version), "one version for two changes");
    History { changes }
}

fn is_last(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null() && object["metadata"]["finalizers"].is_null()
}

/// Checks that the responses of writers match the history, each once, and that no writer overwrote
/// a state that it had not read.
fn check_answers(history: &History, answers: &[(ObjectPath, Write, Answer)], first: u64) {
    let mut checked = 0;
    for (place, write, answer) in answers {
        let at = match (write, answer.status) {
            (Write::Delete { .. }, _) | (_, 400..) => continue,
            // It was removed with its last finalizer, and the response has no version that was
            // written.
            _ if is_last(&answer.body) => continue,
            _ => version(&answer.body),
        };
        let Ok(found) = history.changes.binary_search_by_key(&at, |change| change.version) else {
            panic!("{write:?} of {place:?} got a version that never existed: {at}")
        };
        let change = &history.changes[found];
        assert_eq!((&change.place, at > first), (place, true));
        if matches!(write, Write::Touch | Write::Finalizer { .. } | Write::Test { .. }) {
            continue;
        }
        assert_eq!(change.after.as_ref(), Some(&plain(answer.body.clone())), "{write:?}");
        checked += 1;
        if let Some(insisted) = answer.insisted {
            assert_eq!(change.before.as_ref().map(version), Some(insisted), "an update was lost");
        }
    }
    // Values are unique, so nothing can have been counted twice.
    assert!(checked <= history.changes.len());
    let deletions = history.changes.iter().filter(|change| change.after.is_none()).count();
    let deleted = answers.iter().filter(|(_, write, answer)| {
        answer.status < 300
            && matches!(
                write,
                Write::Delete { .. } | Write::Finalizer { .. } | Write::Update { .. } | Write::Overwrite { .. }
            )
    });
    assert!(deletions <= deleted.count(), "more went than was deleted");
}

async fn run(plan: Plan) {
    let server = server().await;
    let first = revision(&server).await;
    let (finish, done) = watch::channel(false);
    let mut records = Vec::new();
    for kind in 0..KINDS.len() {
        let selection = Selection { kind, namespace: None, selector: 0 };
        let watch = Watch::open(&server, &format!("{}&watch=1&resourceVersion={first}", selection.path())).await;
        records.push(tokio::spawn(follow(watch, done.clone())));
    }
    let start = Arc::new(Barrier::new(plan.writers.len() + plan.watchers.len() + plan.listers.len()));
    let mut writers = Vec::new();
    for (number, writes) in plan.writers.into_iter().enumerate() {
        let (server, start) = (server.clone(), Arc::clone(&start));
        writers.push(tokio::spawn(async move {
            start.wait().await;
            let mut answers = Vec::new();
            for (count, (place, write)) in writes.into_iter().enumerate() {
                let answer = make(&server, &place, &write, number * 1000 + count).await;
                answers.push((place, write, answer));
                tokio::task::yield_now().await;
            }
            answers
        }));
    }
    let mut watchers = Vec::new();
    for (selection, share, initial) in plan.watchers {
        let (server, start, done) = (server.clone(), Arc::clone(&start), done.clone());
        watchers.push(tokio::spawn(async move {
            start.wait().await;
            // Not all at the same time.
            for _ in 0..share {
                tokio::task::yield_now().await;
            }
            let now = revision(&server).await;
            let at = first + (now - first) * u64::from(share) / 255;
            let query = if initial {
                "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1".to_owned()
            } else {
                format!("&resourceVersion={at}")
            };
            let watch = Watch::open(&server, &format!("{}&watch=1{query}", selection.path())).await;
            (follow(watch, done).await, selection, (!initial).then_some(at))
        }));
    }
    let mut listers = Vec::new();
    for (selection, limit) in plan.listers {
        let (server, start) = (server.clone(), Arc::clone(&start));
        listers.push(tokio::spawn(async move {
            start.wait().await;
            let mut lists = Vec::new();
            for _ in 0..5 {
                let list = pages(&server, &selection.path(), limit, async || tokio::task::yield_now().await).await;
                lists.push((selection, list));
            }
            lists
        }));
    }

    let mut answers = Vec::new();
    for writer in writers {
        answers.extend(writer.await.unwrap());
    }
    finish.send_replace(true);
    let mut recorded = Vec::new();
    for record in records {
        recorded.push(record.await.unwrap());
    }
    let history = record(&recorded);
    let last = revision(&server).await;
    let versions: Vec<u64> = history.changes.iter().map(|change| change.version).collect();
    assert_eq!(versions, (first + 1..=last).collect::<Vec<_>>(), "each version is one change");
    check_answers(&history, &answers, first);
    for watcher in watchers {
        let (watch, selection, at) = watcher.await.unwrap();
        let beginning = match at {
            Some(at) => Beginning::After(at),
            None => {
                let end =
                    |event: &&Value| event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
                let bookmark = watch.events.iter().find(end).expect("the end of the initial events");
                Beginning::State(version(&bookmark["object"]))
            }
        };
        watch.check(&history, &selection, beginning, false);
    }
    for lister in listers {
        for (selection, (at, items)) in lister.await.unwrap() {
            assert_eq!(items, history.list(&selection, at), "{selection:?} at {at}");
        }
    }
    // Every past state can still be listed.
    for at in first..=last {
        let selection = Selection { kind: at as usize % KINDS.len(), namespace: None, selector: 0 };
        let path = format!("{}&resourceVersion={at}&resourceVersionMatch=Exact", selection.path());
        assert_eq!(get(&server, &path).await.1["items"], Value::from(history.list(&selection, at)), "{at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 0, ..cases(25, 3_000) })]

    #[test]
    fn writers_at_once_make_one_history(plan in plan()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
        runtime.block_on(run(plan));
    }
}
