//! All that makes the operator send requests.

use http::Request;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use serde_json::{Value, json};
use steersman::client::{Config, DeleteParams, ListParams, PatchParams, PostParams};
use steersman::runtime::leader_election::Leadership;
use steersman::{Client, Patch};
use steersman_testing::eventually;

use crate::cluster::{Cluster, Replica, named};
use crate::site::{NAME, REPLICAS_MAX, SITES, Site, SiteSpec};

const SCRAPER: &str = "scraper";

/// Creates, changes and deletes a site, reads the metrics, and takes the Lease away.
pub(crate) async fn play(cluster: &Cluster, replica: &Replica) {
    let sites = cluster.in_sites::<Site>();
    let site = Site::new("home", SiteSpec { text: Some("one".to_owned()), replicas: REPLICAS_MAX + 2 });
    sites.create(&PostParams::default(), &site).await.unwrap();
    let is_published = async |text: Option<&str>| {
        let site = sites.get("home").await.unwrap();
        let published = site.status.is_some_and(|status| status.published.as_deref() == text);
        (published && site.spec.replicas == REPLICAS_MAX).then_some(())
    };
    eventually("the site is published", async || is_published(Some("one")).await).await;
    change(cluster, json!({"text": "two"})).await;
    eventually("the change is published", async || is_published(Some("two")).await).await;
    eventually("the second Event is counted", async || series_in(cluster, SITES).await).await;
    change(cluster, json!({"text": null})).await;
    let pages = cluster.in_sites::<ConfigMap>();
    let is_removed = async || pages.get_opt("home").await.unwrap().is_none().then_some(());
    eventually("the page is removed", is_removed).await;
    scrape(cluster, replica).await;
    sites.delete("home", &DeleteParams::default()).await.unwrap();
    let is_deleted = async || sites.get_opt("home").await.unwrap().is_none().then_some(());
    eventually("the site is deleted", is_deleted).await;
    take_the_lease_away(cluster, replica).await;
}

async fn change(cluster: &Cluster, spec: Value) {
    let patch = Patch::Merge(json!({"spec": spec}));
    cluster.in_sites::<Site>().patch("home", &PatchParams::default(), &patch).await.unwrap();
}

/// An Event that was recorded again.
async fn series_in(cluster: &Cluster, namespace: &str) -> Option<()> {
    let events = cluster.admin.namespaced::<Event>(namespace).list(&ListParams::default()).await.unwrap();
    events.items.iter().any(|event| event.series.is_some()).then_some(())
}

/// Reads the metrics as the ServiceAccount of a scraper, which the generated role permits.
async fn scrape(cluster: &Cluster, replica: &Replica) {
    let accounts = cluster.admin.namespaced::<ServiceAccount>(SITES);
    if accounts.get_opt(SCRAPER).await.unwrap().is_none() {
        let account = ServiceAccount { metadata: named(SCRAPER), ..ServiceAccount::default() };
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": {"name": SCRAPER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": format!("{NAME}-metrics-reader")},
            "subjects": [{"kind": "ServiceAccount", "name": SCRAPER, "namespace": SITES}],
        }))
        .unwrap();
        cluster.admin.cluster().create(&PostParams::default(), &binding).await.unwrap();
    }
    let address = replica.manager.metrics_address().unwrap();
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    // The program makes its certificate itself.
    config.accept_invalid_certs = true;
    let token: Value = json!({"token": cluster.token(SITES, SCRAPER).await});
    config.auth_info = serde_json::from_value(token).unwrap();
    let scraper = kube_client::Client::from(Client::builder(config).build().unwrap());
    let read = async || scraper.request_text(Request::get("/metrics").body(Vec::new()).unwrap()).await.ok();
    let metrics = eventually("the metrics are readable", read).await;
    assert!(metrics.contains("controller_runtime_reconcile_total"), "{metrics}");
}

/// The operator steps down, watches the Lease, and leads again when it expires.
async fn take_the_lease_away(cluster: &Cluster, replica: &Replica) {
    let leases = cluster.admin.namespaced::<Lease>(NAME);
    let thief = json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 1}});
    leases.patch(NAME, &PatchParams::default(), &Patch::Merge(thief)).await.unwrap();
    let leads_again = async || {
        let holder = leases.get(NAME).await.unwrap().spec.and_then(|spec| spec.holder_identity);
        holder.filter(|holder| holder != "thief")
    };
    eventually("the operator leads again", leads_again).await;
    eventually("it leads", async || replica.manager.leadership().is_some_and(Leadership::is_leader).then_some(()))
        .await;
    eventually("the Event about the leader is counted", async || series_in(cluster, NAME).await).await;
}
