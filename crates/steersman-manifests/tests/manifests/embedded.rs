//! The embedded server takes every definition, and keeps every field of the objects.

use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::Value;
use steersman::CustomResourceExt;
use steersman::client::{NamespaceScope, PostParams};
use steersman_manifests::crd::{crd, manifest};
use steersman_testing::Embedded;

use crate::rare::rare;
use crate::things::two_versions;
use crate::torture::{Torture, TortureSpec};
use crate::{labs, network_operator, samples};

/// A kind with two versions.
fn things() -> Value {
    manifest(&two_versions().storage("v2").build().unwrap()).unwrap()
}

#[tokio::test]
async fn every_definition_of_ours_is_established() {
    let server = Embedded::start();
    let definitions = [crd::<Torture>().unwrap(), crd::<network_operator::Network>().unwrap()];
    server.install_crds(definitions.map(|definition| manifest(&definition).unwrap())).await.unwrap();
    server.install_crds([rare(), things()]).await.unwrap();
    // The labs have the same name, so theirs replaces the operator's.
    server.install_crds([manifest(&crd::<labs::Network>().unwrap()).unwrap()]).await.unwrap();
}

/// Creates an object with this spec, and returns the spec that the server stored.
async fn stored(server: &Embedded, name: &str, spec: TortureSpec) -> Result<TortureSpec, String> {
    let objects = server.client().namespaced::<Torture>("default");
    let created = objects.create(&PostParams::default(), &Torture::new(name, spec)).await;
    created.map(|object| object.spec).map_err(|error| error.to_string())
}

#[tokio::test]
async fn an_object_comes_back_with_every_field() {
    let server = Embedded::start();
    server.install_crds([manifest(&crd::<Torture>().unwrap()).unwrap()]).await.unwrap();
    assert_eq!(stored(&server, "full", samples::full()).await, Ok(samples::full()));
}

#[test]
fn the_server_takes_each_value_of_the_type_and_keeps_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Embedded::start();
    runtime.block_on(server.install_crds([manifest(&crd::<Torture>().unwrap()).unwrap()])).unwrap();
    let number = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: 128, failure_persistence: None, ..Config::default() });
    let run = runner.run(&samples::specs(), |spec| {
        number.set(number.get() + 1);
        let kept = runtime.block_on(stored(&server, &format!("object-{}", number.get()), spec.clone()));
        (kept == Ok(spec)).then_some(()).ok_or_else(|| TestCaseError::fail(format!("{kept:?}")))
    });
    run.unwrap();
}

/// Values that a type refuses are refused by the server, too.
#[tokio::test]
async fn the_server_refuses_what_the_type_cannot_decode() {
    let server = Embedded::start();
    server.install_crds([manifest(&crd::<Torture>().unwrap()).unwrap()]).await.unwrap();
    let cases = [
        ("/addressing", serde_json::json!({"type": "unknown"}), "Unsupported value: \"unknown\""),
        ("/addressing", serde_json::json!({"type": "static"}), "spec.addressing"),
        ("/backend", serde_json::json!({"http": {"port": 1}, "exec": []}), "spec.backend"),
        ("/backend", serde_json::json!({}), "spec.backend"),
        ("/action", serde_json::json!({"to": "there"}), "spec.action"),
        ("/strict", serde_json::json!([{"kind": "Short", "text": "long"}]), "spec.strict[0]"),
        ("/strict", serde_json::json!([{"kind": "Short", "text": "abc", "note": "x"}]), "spec.strict[0]"),
        ("/adjacent", serde_json::json!({"t": "Two", "c": {"left": 1}}), "spec.adjacent"),
        ("/counts/unsigned8", 256.into(), "less than or equal to 255"),
        ("/counts/unsigned32", (-1).into(), "greater than or equal to 0"),
        ("/counts/signed16", 40_000.into(), "less than or equal to 32767"),
        ("/counts/exclusive", 100.into(), "should be less than 100"),
        ("/counts/nonzero", 0.into(), "greater than or equal to 1"),
        ("/levels", serde_json::json!(["Low", "Low"]), "Duplicate value"),
        ("/portOrName", 0.into(), "greater than or equal to 1"),
        ("/address", "nowhere".into(), "spec.address"),
        ("/level", Value::Null, ""),
    ];
    let client = server.client();
    for (pointer, value, message) in cases {
        let mut object = serde_json::to_value(Torture::new("refused", samples::full())).unwrap();
        *object.pointer_mut(&format!("/spec{pointer}")).unwrap() = value.clone();
        let objects = client.dynamic(&Torture::api_resource(), NamespaceScope::Namespace("default".to_owned()));
        let object = serde_json::from_value(object).unwrap();
        let created = objects.create(&PostParams { dry_run: true, ..PostParams::default() }, &object).await;
        match created {
            // The default takes the place of null.
            Ok(_) => assert_eq!(message, "", "{pointer}: {value} is taken"),
            Err(error) => {
                let error = error.to_string();
                assert!(!message.is_empty() && error.contains(message), "{pointer}: {value}: {error}");
            }
        }
    }
}
