use http::Request;

use super::Purpose;

#[test]
fn what_is_a_watch() {
    let of = |uri: &str| Purpose::of(&Request::get(uri).body(()).unwrap());
    assert_eq!(of("/api/v1/pods?watch=true"), Purpose::Watch { bookmarks: false });
    assert_eq!(of("/api/v1/pods?watch=1&allowWatchBookmarks=true"), Purpose::Watch { bookmarks: true });
    assert_eq!(of("/api/v1/watch/pods"), Purpose::Watch { bookmarks: false });
    assert_eq!(of("/apis/apps/v1/watch/deployments"), Purpose::Watch { bookmarks: false });
    assert_eq!(of("/api/v1/pods?watch=false"), Purpose::Ordinary);
    assert_eq!(of("/api/v1/namespaces/watch/pods"), Purpose::Ordinary);
    assert_eq!(of("/api/v1/namespaces/a/pods/b/log?follow=true"), Purpose::LongRunning);
    assert_eq!(of("/api/v1/namespaces/a/pods/b/log"), Purpose::Ordinary);
    assert_eq!(of("/api/v1/namespaces/a/pods/b/exec?command=ls"), Purpose::LongRunning);
    assert_eq!(of("/api/v1/namespaces/a/services/b/proxy/metrics"), Purpose::LongRunning);
    assert_eq!(of("/api/v1/nodes/a/proxy"), Purpose::LongRunning);
    assert_eq!(
        of("/api/v1/namespaces/proxy/pods/exec"),
        Purpose::Ordinary,
        "a namespace and a Pod may have such names"
    );
    assert_eq!(of("/apis/apps/v1/namespaces/watch/deployments/attach/status"), Purpose::Ordinary);
    assert_eq!(of("/version"), Purpose::Ordinary);
}
