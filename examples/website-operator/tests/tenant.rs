//! The controller of the kind Tenant, on an API server in this process and in paused time.

use std::error::Error;

use steersman::Manager;
use steersman::client::{Patch, PatchParams, PostParams};
use steersman::condition::is_condition_true;
use steersman::k8s_openapi::api::core::v1::Namespace;
use steersman_testing::{Embedded, eventually};

use website_operator::api::v1alpha1::tenant::{Tenant, TenantSpec, crd};
use website_operator::controllers::tenant::{self, STANDARD};

#[tokio::test(start_paused = true)]
async fn each_object_gets_a_namespace() -> Result<(), Box<dyn Error>> {
    let server = Embedded::start();
    server.install_crds([crd()?]).await?;
    let client = server.client();
    let manager = Manager::builder(client.clone())
        .only_declared_writes()
        .build();
    tenant::add(&manager)?;

    let test = async {
        let objects = client.cluster::<Tenant>();
        let namespaces = client.cluster::<Namespace>();
        let standard_is = async |standard: &str| {
            eventually(&format!("the standard is {standard}"), || async {
                let namespace = namespaces.get_opt("demo").await.unwrap()?;
                (namespace.metadata.labels?.get(STANDARD)? == standard).then_some(())
            })
            .await;
        };

        let object = Tenant::new("demo", TenantSpec { restricted: true });
        objects
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        standard_is("restricted").await;
        eventually("the object is ready", || async {
            let status = objects.get("demo").await.unwrap().status?;
            is_condition_true(&status.conditions, "Ready").then_some(())
        })
        .await;

        let patch = Patch::Merge(serde_json::json!({"spec": {"restricted": false}}));
        objects
            .patch("demo", &PatchParams::default(), &patch)
            .await
            .unwrap();
        standard_is("baseline").await;
    };
    // The manager runs until the test ends.
    manager.start(test).await?;
    Ok(())
}
