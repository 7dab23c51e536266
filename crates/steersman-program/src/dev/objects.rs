//! CRDs and samples at a server.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use steersman_client::{ApiResource, Client, GroupVersionKind, ListParams, NamespaceScope};
use steersman_manifests::crd::manifest;
use tokio::time::{Instant, sleep};

use crate::Error;

/// The name under which the server records who wrote the fields.
const MANAGER: &str = "steersman-dev";
/// How long a server may take to serve a CRD.
const SERVED_WITHIN: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(20);

/// Applies the CRDs, and waits until the server serves all their versions.
pub(super) async fn install(client: &Client, crds: &[CustomResourceDefinition]) -> Result<(), Error> {
    let api = client.cluster::<CustomResourceDefinition>();
    for crd in crds {
        let name = crd.metadata.name.clone().unwrap_or_default();
        api.apply(&name, MANAGER, true, &manifest(crd)?).await?;
    }
    let deadline = Instant::now() + SERVED_WITHIN;
    for crd in crds {
        while let Some(reason) = missing(client, crd).await? {
            if Instant::now() >= deadline {
                let name = crd.metadata.name.clone().unwrap_or_default();
                return Err(Error::NotServed { name, seconds: SERVED_WITHIN.as_secs(), reason });
            }
            sleep(INTERVAL).await;
        }
    }
    Ok(())
}

/// Those that the server does not have.
pub(super) async fn missing_of(
    client: &Client,
    crds: Vec<CustomResourceDefinition>,
) -> Result<Vec<CustomResourceDefinition>, Error> {
    let api = client.cluster::<CustomResourceDefinition>();
    let mut missing = Vec::new();
    for crd in crds {
        if api.get_opt(crd.metadata.name.as_deref().unwrap_or_default()).await?.is_none() {
            missing.push(crd);
        }
    }
    Ok(missing)
}

/// What is not served yet.
async fn missing(client: &Client, crd: &CustomResourceDefinition) -> Result<Option<String>, Error> {
    let name = crd.metadata.name.clone().unwrap_or_default();
    let found = client.cluster::<CustomResourceDefinition>().get(&name).await?;
    let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
    if let Some(refused) =
        conditions.iter().find(|condition| condition.type_ != "NonStructuralSchema" && condition.status == "False")
    {
        return Ok(Some(refused.message.clone().unwrap_or_default()));
    }
    if !conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True") {
        return Ok(Some("the condition Established is missing".to_owned()));
    }
    // A real server serves the paths a moment later.
    for version in crd.spec.versions.iter().filter(|version| version.served) {
        let (group, kind) = (&crd.spec.group, &crd.spec.names.kind);
        let kind = GroupVersionKind::gvk(group, &version.name, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &crd.spec.names.plural);
        let api = client.dynamic(&resource, NamespaceScope::AllNamespaces);
        match api.list(&ListParams::default().limit(1)).await {
            Err(error) if error.is_not_found() => return Ok(Some(format!("{} is not found", api.path()))),
            listed => drop(listed?),
        }
    }
    Ok(None)
}

/// Applies an object. Fields that another client has changed stay: that is a conflict.
pub(super) async fn apply(client: &Client, object: &Value) -> Result<(), Error> {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").rsplit_once('/').unwrap_or(("", text("/apiVersion")));
    let namespace = match text("/metadata/namespace") {
        "" => client.default_namespace(),
        namespace => namespace,
    };
    let kind = GroupVersionKind::gvk(group, version, text("/kind"));
    let api = client.dynamic_kind(&kind, Some(namespace)).await?;
    api.apply(text("/metadata/name"), MANAGER, false, object).await?;
    Ok(())
}
