//! Random histories with concurrent writers: every watch shows exactly the changes after its
//! beginning, every list is a state that existed, and no update is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use tokio::sync::{Barrier, watch};

mod common;

use common::{Beginning, Change, History, KINDS, NAMES, NAMESPACES, ObjectPath, SELECTORS, Selection, Watch};
use common::{call, get, pages, plain, revision, server, version};

const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const FINALIZER: &str = "example.com/hold";

/// A write. Its effect depends on the present state.
#[derive(Clone, Debug)]
enum Write {
    Create {
        label: Option<&'static str>,
    },
    /// With the present version, or with an earlier one.
    Update {
        label: Option<&'static str>,
        stale: bool,
    },
    /// Without a version.
    Overwrite {
        label: Option<&'static str>,
    },
    Merge {
        label: Option<&'static str>,
    },
    /// Only if the label has this value.
    Test {
        label: &'static str,
    },
    Finalizer {
        on: bool,
    },
    Delete {
        stale: bool,
    },
    /// Changes nothing.
    Touch,
}

fn label() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![Just(None), Just(Some("web")), Just(Some("db"))]
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        4 => label().prop_map(|label| Write::Create { label }),
        3 => (label(), prop::bool::weighted(0.2)).prop_map(|(label, stale)| Write::Update { label, stale }),
        1 => label().prop_map(|label| Write::Overwrite { label }),
        3 => label().prop_map(|label| Write::Merge { label }),
        1 => Just(Write::Test { label: "web" }),
        1 => any::<bool>().prop_map(|on| Write::Finalizer { on }),
        2 => prop::bool::weighted(0.2).prop_map(|stale| Write::Delete { stale }),
        1 => Just(Write::Touch),
    ]
}

fn place() -> impl Strategy<Value = ObjectPath> {
    (0..KINDS.len(), 0..NAMESPACES.len(), 0..NAMES.len()).prop_map(|(kind, ns, name)| ObjectPath::new(kind, ns, name))
}

fn selection() -> impl Strategy<Value = Selection> {
    (0..KINDS.len(), prop::option::of(0..NAMESPACES.len()), 0..SELECTORS.len())
        .prop_map(|(kind, namespace, selector)| Selection { kind, namespace, selector })
}

fn object(place: &ObjectPath, label: Option<&str>, value: usize) -> Value {
    let mut object = json!({"metadata": {"name": place.name, "annotations": {"value": value.to_string()}}});
    if let Some(label) = label {
        object["metadata"]["labels"] = json!({ "app": label });
    }
    object
}

/// The result of a write.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: Value,
    /// The version that the writer required.
    insisted: Option<u64>,
}

/// Makes a write with `value`, which is unique.
async fn make(server: &ApiServer, place: &ObjectPath, write: &Write, value: usize) -> Answer {
    let path = place.path();
    let mut insisted = None;
    let put = async |object: Value| call(server, "PUT", &path, "application/json", &object).await;
    let patch = async |kind, patch: Value| call(server, "PATCH", &path, kind, &patch).await;
    let (status, body) = match write {
        Write::Create { label } => {
            call(server, "POST", &place.collection(), "application/json", &object(place, *label, value)).await
        }
        Write::Update { label, stale } => {
            let (status, mut current) = get(server, &path).await;
            if status != 200 {
                return Answer { status, body: current, insisted };
            }
            let at = version(&current) - u64::from(*stale);
            insisted = Some(at);
            let finalizers = current["metadata"]["finalizers"].clone();
            current["metadata"] = object(place, *label, value)["metadata"].clone();
            current["metadata"]["finalizers"] = finalizers;
            current["metadata"]["resourceVersion"] = at.to_string().into();
            put(current).await
        }
        Write::Overwrite { label } => put(object(place, *label, value)).await,
        Write::Merge { label } => {
            let metadata = json!({"annotations": {"value": value.to_string()}, "labels": {"app": label}});
            patch(MERGE, json!({ "metadata": metadata })).await
        }
        Write::Test { label } => {
            let operations = json!([
                {"op": "test", "path": "/metadata/labels/app", "value": label},
                {"op": "replace", "path": "/metadata/annotations/value", "value": value.to_string()},
                {"op": "remove", "path": "/metadata/labels/app"},
            ]);
            patch(JSON_PATCH, operations).await
        }
        Write::Finalizer { on } => {
            let finalizers = if *on { json!([FINALIZER]) } else { Value::Null };
            patch(MERGE, json!({"metadata": {"finalizers": finalizers}})).await
        }
        Write::Delete { stale } => {
            let mut options = Value::Null;
            if *stale {
                let (_, current) = get(server, &path).await;
                let at = current["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok());
                insisted = at.map(|at| at - 1);
                options = json!({"preconditions": {"resourceVersion": insisted.unwrap_or(1).to_string()}});
            }
            call(server, "DELETE", &path, "application/json", &options).await
        }
        Write::Touch => patch(MERGE, json!({"metadata": {}})).await,
    };
    assert!(matches!(status, 200 | 201 | 404 | 409 | 422), "{write:?}: {status} {body}");
    Answer { status, body, insisted }
}

/// One step of a history with a single writer.
#[derive(Clone, Debug)]
enum Step {
    Write(ObjectPath, Write),
    Watch {
        selection: Selection,
        from: From,
        bookmarks: bool,
    },
    /// Lists the state of a version, given as a fraction of all versions.
    List {
        selection: Selection,
        at: u8,
    },
    /// Lists in pages, with these writes after each page.
    Pages {
        selection: Selection,
        limit: usize,
        writes: Vec<(ObjectPath, Write)>,
    },
    /// Lets every watch read all events.
    Drain,
    /// Advances the time, so that bookmarks come.
    Wait,
    Compact,
}

#[derive(Clone, Copy, Debug)]
enum From {
    /// A fraction of all versions.
    Version(u8),
    Zero,
    Unset,
    Initial,
    /// `sendInitialEvents=false`
    NoInitial(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let from = prop_oneof![
        4 => any::<u8>().prop_map(From::Version),
        1 => Just(From::Zero),
        1 => Just(From::Unset),
        2 => Just(From::Initial),
        1 => any::<u8>().prop_map(From::NoInitial),
    ];
    let writes = prop::collection::vec((place(), write()), 1..4);
    prop_oneof![
        12 => (place(), write()).prop_map(|(place, write)| Step::Write(place, write)),
        3 => (selection(), from, any::<bool>())
            .prop_map(|(selection, from, bookmarks)| Step::Watch { selection, from, bookmarks }),
        2 => (selection(), any::<u8>()).prop_map(|(selection, at)| Step::List { selection, at }),
        1 => (selection(), 1..4_usize, writes)
            .prop_map(|(selection, limit, writes)| Step::Pages { selection, limit, writes }),
        1 => Just(Step::Drain),
        1 => Just(Step::Wait),
        1 => prop::bool::weighted(0.3).prop_map(|compact| if compact { Step::Compact } else { Step::Drain }),
    ]
}

/// A single writer that records the history.
struct Alone {
    server: ApiServer,
    history: History,
    revision: u64,
    first: u64,
    compacted: u64,
    values: usize,
    watches: Vec<Watched>,
}

/// A watch and its expected state.
struct Watched {
    watch: Watch,
    selection: Selection,
    beginning: Beginning,
    /// It has read everything up to this version.
    taken: u64,
    /// An event that it has not read was dropped: it must be reported as expired.
    behind: bool,
}

impl Alone {
    async fn new() -> Self {
        let server = server().await;
        let revision = revision(&server).await;
        let history = History::default();
        Self { server, history, revision, first: revision, compacted: 0, values: 0, watches: Vec::new() }
    }

    async fn write(&mut self, place: &ObjectPath, write: &Write) {
        self.values += 1;
        let answer = make(&self.server, place, write, self.values).await;
        let now = revision(&self.server).await;
        let before = self.history.at(self.revision).remove(place);
        let (found, after) = get(&self.server, &place.path()).await;
        let after = (found == 200).then(|| plain(after));
        if now == self.revision {
            assert_eq!(before, after, "a change without a version, by {write:?}");
            return;
        }
        assert_eq!(now, self.revision + 1, "{write:?} makes one change");
        assert!(answer.status < 300, "a change by a write that was refused: {write:?} {answer:?}");
        assert!(answer.insisted.is_none_or(|insisted| before.as_ref().is_some_and(|old| version(old) == insisted)));
        match &after {
            Some(after) => assert_eq!(version(after), now),
            None => assert!(before.is_some(), "{write:?} took away what was not there"),
        }
        if !matches!(write, Write::Delete { .. }) && after.is_some() {
            assert_eq!(Some(plain(answer.body)), after, "the answer to {write:?} is what was written");
        }
        self.revision = now;
        self.history.changes.push(Change { version: now, place: place.clone(), before, after });
    }

    fn version(&self, share: u8) -> u64 {
        self.first + (self.revision - self.first) * u64::from(share) / 255
    }

    async fn take(&mut self, step: &Step) {
        match step {
            Step::Write(place, write) => self.write(place, write).await,
            Step::Watch { selection, from, bookmarks } => self.watch(selection, *from, *bookmarks).await,
            Step::List { selection, at } => self.list(selection, self.version(*at)).await,
            Step::Pages { selection, limit, writes } => {
                let server = self.server.clone();
                let path = selection.path();
                let (at, items) = pages(&server, &path, *limit, async || {
                    for (place, write) in writes {
                        self.write(place, write).await;
                    }
                })
                .await;
                assert_eq!(items, self.history.list(selection, at), "{selection:?} in pages of {limit}");
            }
            Step::Drain => self.drain(),
            Step::Wait => {
                self.drain();
                tokio::time::advance(Duration::from_secs(61)).await;
                self.drain();
            }
            Step::Compact => {
                self.server.compact();
                self.compacted = self.revision;
                for watched in &mut self.watches {
                    let missed =
                        |change: &Change| change.place.kind == watched.selection.kind && change.version > watched.taken;
                    watched.behind |= self.history.changes.iter().any(missed);
                }
            }
        }
    }

    async fn watch(&mut self, selection: &Selection, from: From, bookmarks: bool) {
        let (query, beginning) = match from {
            From::Version(share) => {
                let at = self.version(share);
                (format!("&resourceVersion={at}"), Beginning::After(at))
            }
            From::Zero => ("&resourceVersion=0".to_owned(), Beginning::State(self.revision)),
            From::Unset => (String::new(), Beginning::State(self.revision)),
            From::Initial => (
                "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
                Beginning::State(self.revision),
            ),
            From::NoInitial(share) => {
                let at = self.version(share);
                let query = format!("&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion={at}");
                (query, Beginning::After(at))
            }
        };
        let path = format!("{}&watch=1&timeoutSeconds=100000&allowWatchBookmarks={bookmarks}{query}", selection.path());
        let watch = Watch::open(&self.server, &path).await;
        let taken = match beginning {
            Beginning::After(at) => at,
            Beginning::State(_) => self.revision,
        };
        let behind = taken < self.compacted;
        self.watches.push(Watched { watch, selection: *selection, beginning, taken, behind });
    }

    fn drain(&mut self) {
        for Watched { watch, selection, taken, behind, .. } in &mut self.watches {
            watch.drain();
            let expired = watch.events.last().is_some_and(|event| event["type"] == "ERROR");
            assert_eq!(expired, *behind, "{selection:?} after {taken}, when {} was forgotten", self.compacted);
            *taken = self.revision;
        }
    }

    async fn list(&self, selection: &Selection, at: u64) {
        let path = format!("{}&resourceVersion={at}&resourceVersionMatch=Exact", selection.path());
        let (status, list) = get(&self.server, &path).await;
        if at < self.compacted {
            assert_eq!(status, 410, "{at} was forgotten: {list}");
            return;
        }
        assert_eq!(status, 200, "{list}");
        assert_eq!(version(&list), at);
        assert_eq!(list["items"], Value::from(self.history.list(selection, at)), "{selection:?} at {at}");
        let (_, latest) = get(&self.server, &format!("{}&resourceVersion={at}", selection.path())).await;
        assert_eq!(version(&latest), self.revision);
        assert_eq!(latest["items"], Value::from(self.history.list(selection, self.revision)), "{selection:?}");
    }

    fn check(&mut self) {
        self.drain();
        for Watched { watch, selection, beginning, behind, .. } in &self.watches {
            watch.check(&self.history, selection, *beginning, *behind);
        }
    }
}

fn cases(few: u32, many: u32) -> ProptestConfig {
    let soak = std::env::var_os("STEERSMAN_SOAK").is_some();
    ProptestConfig { cases: if soak { many } else { few }, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(150, 20_000))]

    #[test]
    fn watches_and_lists_show_what_happened(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut alone = Alone::new().await;
            for step in &steps {
                alone.take(step).await;
            }
            alone.check();
        });
    }
}

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
