//! `Debug` prints no credentials and no bodies.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::Secret;
use kube_client::config::AuthInfo;
use steersman_client::{Client, Config, ListParams, WatchParams};

use super::{SERVER, answer, server};

const CANARY: &str = "c2VjcmV0";
const SECRETS: &str = r#"{"kind":"SecretList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"database"},"data":{"password":"c2VjcmV0"}}]}"#;
const EVENT: &str = r#"{"type":"ADDED","object":{"kind":"Secret","apiVersion":"v1","metadata":{"name":"database"},"data":{"password":"c2VjcmV0"}}}"#;

fn hides(what: &str, value: &impl Debug) {
    let printed = format!("{value:?}{value:#?}");
    for leak in [CANARY, "hunter2"] {
        assert!(!printed.contains(leak), "{what} prints {leak}: {printed}");
    }
}

#[tokio::test]
async fn nothing_secret_is_printed() {
    let mut config = Config::new(SERVER.parse().unwrap());
    config.auth_info =
        AuthInfo { username: Some("me".into()), password: Some("hunter2".to_owned().into()), ..Default::default() };
    let (service, _) =
        server(|_, request| answer(200, if request.uri().to_string().contains("watch") { EVENT } else { SECRETS }));
    let builder = Client::builder(config);
    hides("ClientBuilder", &builder);
    let client = builder.build_over(service).unwrap();
    hides("Client", &client);
    let api = client.namespaced::<Secret>("default");
    hides("Api", &api);
    let header = http::HeaderValue::from_static("Bearer hunter2");
    let request = client.rest().get().abs_path("/api").header(http::header::AUTHORIZATION, header);
    let request = request.body("application/json", SECRETS);
    hides("RestRequest", &request);
    hides("RestResponse", &request.send().await.unwrap());

    let mut list = api.list_raw(&ListParams::default()).await.unwrap();
    hides("RawList", &list);
    hides("an item", &list.next().await.unwrap());
    hides("RawList", &list);
    let mut watch = api.watch_raw(&WatchParams::default(), "0").await.unwrap();
    hides("RawWatch", &watch);
    hides("an event", &watch.next().await.unwrap());
    let error = client.rest().get().abs_path("/api").send_for::<Vec<u8>>().await.unwrap_err();
    hides("Error", &error);
}
