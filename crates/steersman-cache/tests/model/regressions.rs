//! Bugs that the model has found, each as a small test.

use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::client::Body;
use steersman_cache::{InformerOptions, SharedInformerFactory};
use steersman_testing::Embedded;
use tower::ServiceExt;

use crate::world::client;

/// One of two namespaces cannot be listed, so no version is reached.
#[tokio::test(start_paused = true)]
async fn no_version_is_reached_before_every_namespace_is_listed() {
    let server = Embedded::empty();
    let answer = move |request: Request<Body>| {
        let server = server.server().clone();
        async move {
            if request.uri().path().contains("/namespaces/default/") {
                return std::future::pending().await;
            }
            server.oneshot(request).await
        }
    };
    let factory = SharedInformerFactory::new(client(tower::service_fn(answer)));
    let options = InformerOptions::<ConfigMap>::all().namespace("default").namespace("kube-system");
    let informer = factory.informer(options).unwrap();
    informer.start().unwrap();
    while informer.status()[1].watches == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(informer.lister().resource_version(), "");
    assert!(informer.lister().wait_for_version("1", Duration::from_secs(1)).await.is_err());
}
