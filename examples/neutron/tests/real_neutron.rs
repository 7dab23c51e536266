//! The client and the embedded Neutron against a real one.

mod support;

use std::time::Duration;

use neutron::embedded::EmbeddedNeutron;
use neutron::real::{Mode, RealNeutron};
use neutron::{Auth, Cloud, Neutron};
use tokio::sync::OnceCell;

/// The server without Keystone that the tests here share.
async fn shared() -> &'static RealNeutron {
    static SHARED: OnceCell<RealNeutron> = OnceCell::const_new();
    SHARED.get_or_init(|| async { RealNeutron::start(Mode::NoAuth).await.unwrap() }).await
}

#[tokio::test]
async fn real_neutron_and_embedded_agree() {
    let (embedded, real) = (EmbeddedNeutron::start().await.unwrap(), shared().await);
    let scripts = support::script::all();
    assert!(scripts.len() > 20, "only {} scripts were found", scripts.len());
    let mut found = Vec::new();
    for script in &scripts {
        found.extend(support::script::disagreements(script, &embedded.url(), real.url()).await);
    }
    assert!(found.is_empty(), "{} answers differ:\n{}", found.len(), found.join("\n"));
}

#[tokio::test]
async fn real_neutron_does_everything_for_the_client() {
    let real = shared().await;
    let (endpoint, timeout) = (Some(real.url().to_owned()), Duration::from_secs(60));
    let neutron = Neutron::of(Cloud { endpoint, timeout, ..Cloud::new(Auth::None) }).unwrap();
    let project = format!("{:032x}", fastrand::u128(..));
    support::client_suite::run(&neutron, Some(&project)).await.unwrap();
}
