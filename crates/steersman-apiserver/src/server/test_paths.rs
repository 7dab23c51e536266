//! Paths that only the server of unit tests has: handlers that fail, or take long.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use bytes::Bytes;
use futures::stream;
use http::Response;

use crate::response::{self, Body};
use crate::server::Shared;
use crate::verbs::watch;

/// The bodies of pending requests to `/wait`, and whether they may end.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) begun: usize,
    pub(crate) may_end: bool,
}

static WAITING: Mutex<Waiting> = Mutex::new(Waiting { begun: 0, may_end: false });
static CHANGED: Condvar = Condvar::new();

/// Reads, or changes, the requests that wait.
pub(crate) fn waiting<R>(with: impl FnOnce(&mut Waiting) -> R) -> R {
    let result = with(&mut WAITING.lock().unwrap_or_else(PoisonError::into_inner));
    CHANGED.notify_all();
    result
}

/// Panics before the handler of a request.
pub(crate) fn weigh(path: &str) {
    assert!(path != "/panic-before", "as the test wants");
}

/// The same, after the handler.
pub(crate) fn answer(path: &str) {
    assert!(path != "/panic-after", "as the test wants");
}

/// The response at such a path.
pub(crate) fn handle(path: &str, shared: &Arc<Shared>) -> Option<Response<Body>> {
    match path {
        "/panic" => panic!("as the test wants"),
        "/wait" => {
            waiting(|waiting| waiting.begun += 1);
            let waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
            drop(CHANGED.wait_while(waiting, |waiting| !waiting.may_end));
            Some(response::text(http::StatusCode::OK, "waited"))
        }
        "/panic-in-watch" => {
            let lines = stream::once(async { if true { panic!("as the test wants") } else { Bytes::new() } });
            Some(watch::streaming(lines, shared))
        }
        _ => None,
    }
}
