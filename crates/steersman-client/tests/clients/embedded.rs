//! The clients on the embedded server. `real_clients.rs` does the same on a real one.

use http::Request;
use kube_client::client::Body;
use steersman_client::Client;
use steersman_testing::Embedded;

use super::{builder, interop, objects};

/// A client with all its layers.
fn client(server: &Embedded) -> Client {
    let kube = server.kube_client();
    let service = tower::service_fn(move |request: Request<Body>| {
        let kube = kube.clone();
        async move { kube.send(request).await }
    });
    builder().build_over(service).unwrap()
}

macro_rules! on_embedded {
    ($($name:ident),*) => {$(
        #[tokio::test]
        async fn $name() {
            objects::$name(&client(&Embedded::empty()), "default").await;
        }
    )*};
}

on_embedded!(typed, dynamic, merge_patches, metadata_only, status, scale, eviction, two_writers, watch);

#[tokio::test]
async fn into_kube() {
    interop::into_kube(&client(&Embedded::empty()), "default").await;
}

#[tokio::test]
async fn from_kube() {
    interop::from_kube(Embedded::empty().kube_client(), "default").await;
}
