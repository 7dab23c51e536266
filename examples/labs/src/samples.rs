//! The sample cluster of a lab.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use steersman::client::{Api, PatchParams, PostParams};
use steersman::{Client, Patch};
use steersman::{CustomResourceExt, Resource};

use crate::{Network, NetworkSpec};

/// Creates two Nodes, seven Pods in three namespaces, and two Networks.
pub(crate) async fn create(client: &Client) -> Result<()> {
    for (name, cpu) in [("node-1", "4"), ("node-2", "8")] {
        put(&client.cluster::<Node>(), node(name, cpu)).await?;
    }
    put(&client.cluster::<Namespace>(), json!({"metadata": {"name": "shop"}})).await?;
    for (namespace, name, image, place) in [
        ("default", "test", "nginx", Some(("node-1", "10.244.1.2"))),
        ("default", "web-0", "nginx", Some(("node-1", "10.244.1.3"))),
        ("default", "web-1", "nginx", None),
        ("kube-system", "coredns-0", "coredns", Some(("node-1", "10.244.1.4"))),
        ("kube-system", "coredns-1", "coredns", Some(("node-2", "10.244.2.2"))),
        ("shop", "cart-0", "cart", Some(("node-2", "10.244.2.3"))),
        ("shop", "db-0", "postgres", Some(("node-2", "10.244.2.4"))),
    ] {
        put(&client.namespaced::<Pod>(namespace), pod(name, image, place)).await?;
    }
    client.cluster::<CustomResourceDefinition>().create(&PostParams::default(), &Network::crd()).await?;
    for (name, cidr, gateway) in [("net-1", "10.0.1.0/24", "10.0.1.1"), ("net-2", "10.0.2.0/24", "10.0.2.1")] {
        let spec = NetworkSpec { cidr: cidr.to_owned(), gateway: gateway.to_owned() };
        client.namespaced("default").create(&PostParams::default(), &Network::new(name, spec)).await?;
    }
    Ok(())
}

/// Creates an object, and then its status: the server needs two requests.
async fn put<K>(api: &Api<K>, object: Value) -> Result<()>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let created = api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await?;
    if let (Some(status), Some(name)) = (object.get("status"), &created.meta().name) {
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

fn node(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "status": {
            "capacity": {"cpu": cpu, "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {
                "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.36.0", "osImage": "Linux",
                "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
                "machineID": "", "systemUUID": "",
            },
        },
    })
}

/// A Pod that runs on a Node with an address, or waits for a Node.
fn pod(name: &str, image: &str, place: Option<(&str, &str)>) -> Value {
    let app = name.split('-').next();
    let metadata = json!({"name": name, "labels": {"app": app}});
    let spec = json!({"containers": [{"name": "main", "image": image}], "nodeName": place.map(|(node, _)| node)});
    let status = match place {
        Some((_, ip)) => json!({"phase": "Running", "podIP": ip}),
        None => json!({"phase": "Pending"}),
    };
    json!({"metadata": metadata, "spec": spec, "status": status})
}
