//! One writer in paused time: each watch and each list is compared with the recorded history.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;
use steersman_apiserver::ApiServer;

use super::common::{
    Beginning, Change, History, ObjectPath, Selection, Watch, get, pages, plain, revision, server, version,
};
use super::{Write, cases, make, place, selection, write};

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
