//! The client with a real Neutron and a real Keystone.

mod support;

use std::time::Duration;

use neutron::real::{Mode, RealNeutron};
use neutron::{Auth, Cloud, NetworkChange, NetworkFilter, Neutron, NewNetwork};
use serde_json::{Value, json};
use support::eventually;
use support::http::{log_in, with_token};
use tokio::sync::OnceCell;

/// The server that the tests here share, unless they stop it.
async fn shared() -> &'static RealNeutron {
    static SHARED: OnceCell<RealNeutron> = OnceCell::const_new();
    SHARED.get_or_init(|| async { RealNeutron::start(Mode::Keystone).await.unwrap() }).await
}

/// A client that finds Neutron through the catalogue, with a long limit for busy machines.
fn client(real: &RealNeutron, user: &str) -> Neutron {
    let (region, timeout) = (Some("RegionOne".to_owned()), Duration::from_secs(60));
    Neutron::of(Cloud { region, timeout, ..Cloud::new(real.auth(user)) }).unwrap()
}

fn named(name: &str) -> NewNetwork {
    NewNetwork { name: name.to_owned(), ..Default::default() }
}

#[tokio::test]
async fn real_keystone_lets_the_client_do_everything() {
    support::client_suite::run(&client(shared().await, "p1"), None).await.unwrap();
}

#[tokio::test]
async fn real_keystone_refuses_a_wrong_password() {
    let Auth::Password { auth_url, username, user_domain, project, project_domain, .. } = shared().await.auth("p1")
    else {
        panic!("with Keystone there are passwords")
    };
    let password = "guessed".to_owned();
    let auth = Auth::Password { auth_url, username, password, user_domain, project, project_domain };
    let neutron = Neutron::of(Cloud { timeout: Duration::from_secs(60), ..Cloud::new(auth) }).unwrap();
    let error = neutron.networks(&NetworkFilter::default()).await.unwrap_err();
    assert!(error.is_unauthorized() && error.to_string().contains("requires authentication"), "{error}");
}

#[tokio::test]
async fn real_keystone_hides_the_networks_of_other_projects() {
    let real = shared().await;
    let (ours, theirs) = (client(real, "p1"), client(real, "p2"));
    let network = theirs.create_network(&named("theirs")).await.unwrap();
    assert_eq!(ours.network(&network.id).await.unwrap(), None);
    assert!(!ours.delete_network(&network.id).await.unwrap());
    let change = NetworkChange { name: Some("ours".to_owned()), ..Default::default() };
    let error = ours.update_network(&network.id, &change, None).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let seen = ours.networks(&NetworkFilter { name: Some("theirs".to_owned()), ..Default::default() }).await.unwrap();
    assert_eq!(seen, []);
    assert_eq!(theirs.network(&network.id).await.unwrap(), Some(network));
}

#[tokio::test]
async fn real_keystone_lets_only_administrators_share() {
    let real = shared().await;
    let shared = NewNetwork { shared: true, ..named("for all") };
    let error = client(real, "p1").create_network(&shared).await.unwrap_err();
    assert!(error.is_unauthorized() && error.to_string().contains("disallowed by policy"), "{error}");
    let network = client(real, "admin").create_network(&shared).await.unwrap();
    assert!(network.shared);
    assert_eq!(client(real, "p1").network(&network.id).await.unwrap().map(|network| network.id), Some(network.id));
}

/// One after the other, because they stop servers and disable a user.
#[tokio::test]
async fn real_keystone_may_expire_revoke_and_fail() {
    // Longer than any request takes on a busy machine.
    let lifetime = Duration::from_secs(20);
    let mut real = RealNeutron::start_with_tokens_for(Mode::Keystone, lifetime).await.unwrap();
    let neutron = client(&real, "p1");
    let network = neutron.create_network(&named("web")).await.unwrap();
    let token = log_in(real.keystone_url().unwrap(), "p2", "p2pass").await;

    real.stop();
    let error = neutron.network(&network.id).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    real.start_again().await.unwrap();
    assert_eq!(neutron.network(&network.id).await.unwrap().as_ref(), Some(&network), "its data was lost");

    a_token_that_was_revoked_is_replaced(&real, &neutron).await;

    real.stop_keystone();
    let error = client(&real, "p2").network(&network.id).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("/v3/auth/tokens"), "{error}");
    let (status, body) = list_with(&token, &real).await;
    assert_eq!(status, 503, "a token that Neutron has not seen: {body}");
    real.start_keystone_again().await.unwrap();

    eventually("a token expires", async || {
        let found = neutron.network(&network.id).await;
        assert_eq!(found.as_ref(), Ok(&Some(network.clone())), "the client's token is always good");
        list_with(&token, &real).await.0 == 401
    })
    .await;
}

async fn list_with(token: &str, real: &RealNeutron) -> (u16, Value) {
    with_token(token, "GET", &format!("{}/v2.0/networks", real.url()), &Value::Null).await
}

/// A user that is disabled loses all tokens, and does not get them back when enabled again.
async fn a_token_that_was_revoked_is_replaced(real: &RealNeutron, neutron: &Neutron) {
    let keystone = real.keystone_url().unwrap();
    neutron.networks(&NetworkFilter::default()).await.unwrap();
    let admin = log_in(keystone, "admin", "secret").await;
    let (_, found) = with_token(&admin, "GET", &format!("{keystone}/v3/users?name=p1"), &Value::Null).await;
    let user = format!("{keystone}/v3/users/{}", found["users"][0]["id"].as_str().unwrap());
    let enable = async |enabled: bool| {
        let (status, body) = with_token(&admin, "PATCH", &user, &json!({"user": {"enabled": enabled}})).await;
        assert_eq!(status, 200, "{body}");
    };
    enable(false).await;
    eventually("Neutron forgets a token", async || match neutron.networks(&NetworkFilter::default()).await {
        Ok(_) => false,
        Err(error) => error.is_unauthorized() || panic!("{error}"),
    })
    .await;
    enable(true).await;
    neutron.networks(&NetworkFilter::default()).await.unwrap();
}
