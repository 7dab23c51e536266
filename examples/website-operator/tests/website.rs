//! The controller of the kind Website, on an API server in this process and in paused time.

use std::error::Error;

use steersman::Manager;
use steersman::client::{DeleteParams, Patch, PatchParams, PostParams};
use steersman::condition::is_condition_true;
use steersman::k8s_openapi::api::core::v1::ConfigMap;
use steersman_testing::{Embedded, eventually};

use website_operator::api::v1alpha1::website::{Website, WebsiteSpec, crd};
use website_operator::controllers::website;

#[tokio::test(start_paused = true)]
async fn each_object_gets_a_config_map() -> Result<(), Box<dyn Error>> {
    let server = Embedded::start();
    server.install_crds([crd()?]).await?;
    let client = server.client();
    let manager = Manager::builder(client.clone())
        .only_declared_writes()
        .build();
    website::add(&manager)?;

    let test = async {
        let objects = client.namespaced::<Website>("default");
        let maps = client.namespaced::<ConfigMap>("default");
        let text_is = async |text: &str| {
            eventually(&format!("the ConfigMap has the text {text:?}"), || async {
                let map = maps.get_opt("demo").await.unwrap()?;
                (map.data?.get("text")? == text).then_some(())
            })
            .await;
        };
        let spec = |text: &str| WebsiteSpec {
            text: text.to_owned(),
        };

        let object = Website::new("demo", spec("first"));
        objects
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
        text_is("first").await;
        eventually("the object is ready", || async {
            let status = objects.get("demo").await.unwrap().status?;
            is_condition_true(&status.conditions, "Ready").then_some(())
        })
        .await;

        let patch = Patch::Merge(serde_json::json!({"spec": spec("second")}));
        objects
            .patch("demo", &PatchParams::default(), &patch)
            .await
            .unwrap();
        text_is("second").await;

        maps.delete("demo", &DeleteParams::default()).await.unwrap();
        text_is("second").await;
    };
    // The manager runs until the test ends.
    manager.start(test).await?;
    Ok(())
}
