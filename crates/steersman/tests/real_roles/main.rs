//! The manifests of an operator on a real API server: it runs there as its ServiceAccount, under
//! exactly the generated roles.
//!
//! A run refuses nothing, and without any verb of the roles a run does. Some verbs are needed by
//! some servers only, and their reason says so: each is judged on the server that has the reason.

mod cluster;
mod grants;
mod scenario;
mod site;

use std::collections::BTreeSet;
use std::time::Duration;

use steersman::manifests::operator::AccessReason;
use steersman_testing::{RealServer, eventually_within};
use tokio::time::timeout;

use cluster::Cluster;
use grants::{Grant, Refused};

/// How long a request that is refused may take to come.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn on_a_server_with_streaming_lists() {
    let cluster = Cluster::start(RealServer::builder()).await;
    // Other servers have these reasons.
    let unneeded = |grant: &Grant| matches!(grant.reason, AccessReason::ListFallback | AccessReason::OwnerReferences);
    assert_least(&cluster, |grant| !unneeded(grant)).await;
    let all = grants::of(&cluster.operator);
    let unneeded: Vec<_> = all.into_iter().filter(unneeded).collect();
    assert_eq!(unneeded.len(), 3, "{unneeded:#?}");
    cluster.grant_all_but(&unneeded).await;
    assert_eq!(run(&cluster).await, [""; 0]);
}

#[tokio::test]
async fn on_a_server_without_streaming_lists() {
    let flag = "--feature-gates=WatchList=false";
    let cluster = Cluster::start(RealServer::builder().apiserver_flag(flag)).await;
    assert_least(&cluster, |grant| matches!(grant.reason, AccessReason::ListFallback | AccessReason::Watch)).await;
}

#[tokio::test]
async fn on_a_server_that_protects_owners() {
    let flag = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
    let cluster = Cluster::start(RealServer::builder().apiserver_flag(flag)).await;
    assert_least(&cluster, |grant| grant.reason == AccessReason::OwnerReferences).await;
}

/// A run under the generated roles refuses nothing. Without one of the verbs that `is_needed`
/// selects, a run refuses the request that needs it.
async fn assert_least(cluster: &Cluster, is_needed: impl Fn(&Grant) -> bool) {
    assert_eq!(run(cluster).await, [""; 0], "under the generated roles");
    let needed: Vec<_> = grants::of(&cluster.operator).into_iter().filter(is_needed).collect();
    assert!(!needed.is_empty());
    for grant in needed {
        cluster.grant_all_but(std::slice::from_ref(&grant)).await;
        let since = cluster.audited();
        let replica = cluster.start_operator();
        let outcome = timeout(PATIENCE, async {
            tokio::select! {
                () = refused(cluster, since, |request| grant.is_refused_as(request)) => true,
                () = scenario::play(cluster, &replica) => false,
            }
        });
        let is_refused = outcome.await.unwrap_or(false);
        let refused: BTreeSet<_> = cluster.refused(since).into_iter().map(|request| request.line).collect();
        assert!(is_refused, "nothing needs {grant}; refused were {refused:#?}");
        replica.abort().await;
        cluster.clean_up().await;
    }
    cluster.grant_all_but(&[]).await;
}

/// Runs the operator until it has done all that it does, or a request of it is refused. Returns the
/// refused requests.
async fn run(cluster: &Cluster) -> Vec<String> {
    let since = cluster.audited();
    let replica = cluster.start_operator();
    tokio::select! {
        () = scenario::play(cluster, &replica) => replica.stop().await,
        () = refused(cluster, since, |_| true) => replica.abort().await,
    }
    cluster.clean_up().await;
    cluster.refused(since).into_iter().map(|request| request.line).collect()
}

/// Waits until the server has refused such a request.
async fn refused(cluster: &Cluster, since: usize, is_one: impl Fn(&Refused) -> bool) {
    let is_refused = async || cluster.refused(since).iter().any(&is_one);
    eventually_within(Duration::MAX, "a request is refused", is_refused).await;
}
