//! The parts that only a real API server checks: CEL rules, permissions, the manifests.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use network_operator::{ALLOCATED_CONDITION, NETWORK_LABEL, Network, NetworkSpec, Options};
use neutron::embedded::EmbeddedNeutron;
use serde_json::json;
use steersman::client::{DeleteParams, ListParams, PatchParams, PostParams, WatchParams};
use steersman::runtime::leader_election::LeaderElection;
use steersman::{Client, Manager, Patch};
use steersman_testing::RealServer;

use crate::common::{NEVER, Running, eventually, gone, options, ready, spec};

const INSTALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/install.yaml");
const SERVICE_ACCOUNT: &str = "system:serviceaccount:network-operator:network-operator";

/// A server with everything deployed as in the README, which checks the permission to block an
/// owner's deletion.
async fn deployed() -> RealServer {
    let plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement";
    let server = RealServer::builder().apiserver_flag(plugin).start().await.unwrap();
    let mut kubectl = server.kubectl().unwrap();
    let output = kubectl.args(["apply", "--server-side", "--validate=strict", "-f", INSTALL]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server
}

/// Waits until the server serves Networks.
async fn served(client: &Client) {
    eventually("Networks are served", || async {
        let listed = client.all_namespaces::<Network>().list(&ListParams::default()).await;
        listed.map(drop).map_err(|error| error.to_string())
    })
    .await;
}

#[tokio::test]
async fn with_the_rights_of_the_manifest_the_operator_can_do_all_it_does() {
    let server = deployed().await;
    let admin = Client::builder(server.config().await.unwrap()).build().unwrap();
    served(&admin).await;
    let groups = ["system:serviceaccounts", "system:serviceaccounts:network-operator"];
    let client = server.user(SERVICE_ACCOUNT, groups).await.unwrap();
    let neutron = EmbeddedNeutron::start().await.unwrap();
    let one_block = network_operator::Pool::new("10.100.0.0/24".parse().unwrap(), 24).unwrap();
    // It may read the cluster's id as well.
    let options = Options { cluster_id: None, pool: one_block, ..options(NEVER) };
    let election = LeaderElection::new("network-operator").namespace("network-operator");
    let manager = Manager::builder(client.clone()).leader_election(election).unwrap().build();
    let operator = Running::start_with(manager, neutron.client(), options);
    // A standby watches the Lease, and secure metrics ask about tokens.
    let leases = client.namespaced::<Lease>("network-operator");
    leases.watch(&WatchParams::default().fields("metadata.name=network-operator"), "0").await.map(drop).unwrap();
    let review: TokenReview = serde_json::from_value(json!({"metadata": {}, "spec": {"token": "none"}})).unwrap();
    client.cluster::<TokenReview>().create(&PostParams::default(), &review).await.unwrap();
    let path = json!({"user": "one", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
    let review: SubjectAccessReview = serde_json::from_value(json!({"metadata": {}, "spec": path})).unwrap();
    client.cluster::<SubjectAccessReview>().create(&PostParams::default(), &review).await.unwrap();

    let networks = admin.namespaced::<Network>("default");
    networks.create(&PostParams::default(), &Network::new("blue", spec("10.1.0.0/24", "10.1.0.1"))).await.unwrap();
    ready(&networks, "blue").await;
    let change = json!({"spec": {"cidr": "10.2.0.0/24", "gateway": "10.2.0.1"}});
    networks.patch("blue", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    ready(&networks, "blue").await;

    let output = server.kubectl().unwrap().args(["get", "net"]).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    let row: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().take(4).collect();
    assert_eq!(row, ["blue", "10.2.0.0/24", "10.2.0.1", "Ready"], "{table}");

    let deployments = admin.namespaced::<Deployment>("default");
    for name in ["web", "late"] {
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {NETWORK_LABEL: "true"}},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
                },
            },
        }))
        .unwrap();
        deployments.create(&PostParams::default(), &deployment).await.unwrap();
        if name == "web" {
            ready(&networks, "web").await;
        }
    }
    let events = admin.namespaced::<Event>("default");
    eventually("an Event reports that no addresses are left, twice", || async {
        let listed = events.list(&ListParams::default()).await.unwrap().items;
        let exhausted = listed.iter().find(|event| event.reason.as_deref() == Some("CIDRPoolExhausted"));
        exhausted.filter(|event| event.series.is_some()).map(drop).ok_or_else(|| format!("{listed:?}"))
    })
    .await;
    let conditions = deployments.get("late").await.unwrap().status.unwrap().conditions.unwrap();
    let said = conditions.iter().find(|condition| condition.type_ == ALLOCATED_CONDITION).unwrap();
    assert_eq!((&*said.status, said.reason.as_deref()), ("False", Some("CIDRPoolExhausted")));
    // There is no garbage collector here: the operator itself removes the Network.
    deployments.delete("web", &DeleteParams::default()).await.unwrap();
    ready(&networks, "late").await;
    networks.delete("blue", &DeleteParams::default()).await.unwrap();
    gone(&networks, "blue").await;
    operator.stop().await;
}

#[tokio::test]
async fn the_api_server_refuses_invalid_input_with_a_reason() {
    let server = deployed().await;
    let client = Client::builder(server.config().await.unwrap()).build().unwrap();
    served(&client).await;
    let networks = client.namespaced::<Network>("default");
    let refused = async |spec: NetworkSpec, why: &str| {
        let error = networks.create(&PostParams::default(), &Network::new("wrong", spec)).await.unwrap_err();
        assert!(error.to_string().contains(why), "{why}: {error}");
    };
    let good = || spec("10.1.0.0/24", "10.1.0.1");
    refused(spec("10.1.0.0/24", "10.2.0.1"), "gateway must be an address within cidr").await;
    refused(spec("10.1.0.0/33", "10.1.0.1"), "spec.cidr in body must be of type cidr").await;
    refused(spec("ten", "10.1.0.1"), "spec.cidr in body should match").await;
    refused(spec("10.1.0.0/24", "10.1.0.1.1"), "must be an IP address").await;
    refused(spec("10.1.0.0/24", "2001:db8::1"), "gateway must be an address within cidr").await;
    refused(NetworkSpec { dns_servers: vec!["8.8.8".to_owned()], ..good() }, "must be IP addresses").await;
    refused(NetworkSpec { dns_servers: vec!["8.8.8.8".to_owned(); 6], ..good() }, "must have at most 5 items").await;
    refused(NetworkSpec { mtu: Some(1), ..good() }, "should be greater than or equal to 68").await;

    for (name, spec) in [("four", good()), ("six", spec("2001:db8::/64", "2001:db8::1"))] {
        networks.create(&PostParams::default(), &Network::new(name, spec)).await.unwrap();
    }
    // Fields that are not set have their defaults.
    let bare = json!({
        "apiVersion": "samplecrd.k8s.io/v1", "kind": "Network", "metadata": {"name": "bare"},
        "spec": {"cidr": "10.1.0.0/24", "gateway": "10.1.0.1"},
    });
    let bare: Network = serde_json::from_value(bare).unwrap();
    let created = networks.create(&PostParams::default(), &bare).await.unwrap();
    assert_eq!((created.spec.dhcp, created.spec.shared), (true, false));
}
