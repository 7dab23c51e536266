//! Keystone: tokens, their renewal, the catalogue. A stub plays Keystone and Neutron.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use neutron::{Auth, Cloud, Error, IdOrName, NetworkFilter, Neutron};
use serde_json::json;
use support::stub::{Answer, Seen, Stub, answer, json_answer, token_answer};
use tokio::sync::Notify;

const LONG: u32 = 3600;

fn password(url: &str) -> Auth {
    Auth::Password {
        auth_url: url.to_owned(),
        username: "me".to_owned(),
        password: "secret".to_owned(),
        user_domain: IdOrName::Name("people".to_owned()),
        project: IdOrName::Name("lab".to_owned()),
        project_domain: IdOrName::Id("default".to_owned()),
    }
}

/// A client that finds Neutron through the catalogue.
fn client(stub: &Stub) -> Neutron {
    Neutron::of(Cloud::new(password(stub.url()))).unwrap()
}

async fn list(neutron: &Neutron) -> Result<usize, Error> {
    Ok(neutron.networks(&NetworkFilter::default()).await?.len())
}

fn no_networks() -> Answer {
    json_answer(200, &json!({"networks": []}))
}

fn unauthorized() -> Answer {
    let message = "The request you have made requires authentication.";
    json_answer(401, &json!({"error": {"code": 401, "title": "Unauthorized", "message": message}}))
}

/// A Keystone whose tokens are `token-1`, `token-2`, …, valid for `seconds`. Neutron refuses those
/// for which `refused` returns `true`.
async fn keystone(seconds: u32, refused: fn(&str) -> bool) -> Stub {
    let logins = AtomicUsize::new(0);
    Stub::start(move |seen: Seen, url| {
        let reply = if seen.is_login() {
            token_answer(&format!("token-{}", logins.fetch_add(1, Ordering::SeqCst) + 1), seconds, &url)
        } else if refused(seen.token.as_deref().unwrap_or_default()) {
            unauthorized()
        } else {
            no_networks()
        };
        async move { reply }
    })
    .await
}

fn tokens_used(stub: &Stub) -> Vec<String> {
    stub.seen().into_iter().filter(|seen| !seen.is_login()).filter_map(|seen| seen.token).collect()
}

#[tokio::test]
async fn a_password_gives_a_token_and_the_catalogue_the_endpoint() {
    let stub = keystone(LONG, |_| false).await;
    assert_eq!(list(&client(&stub)).await.unwrap(), 0);
    let seen = stub.seen();
    let expected = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {
            "name": "me", "domain": {"name": "people"}, "password": "secret",
        }}},
        "scope": {"project": {"name": "lab", "domain": {"id": "default"}}},
    }});
    assert_eq!((seen[0].method.as_str(), &seen[0].body), ("POST", &expected));
    assert_eq!((seen[1].path.as_str(), seen[1].token.as_deref()), ("/v2.0/networks", Some("token-1")));
    assert_eq!(seen.len(), 2);
}

#[tokio::test]
async fn an_application_credential_needs_no_project() {
    let stub = keystone(LONG, |_| false).await;
    let [auth_url, id, secret] = [stub.url(), "app", "hush"].map(str::to_owned);
    let neutron = Neutron::of(Cloud::new(Auth::ApplicationCredential { auth_url, id, secret })).unwrap();
    list(&neutron).await.unwrap();
    let identity =
        json!({"methods": ["application_credential"], "application_credential": {"id": "app", "secret": "hush"}});
    assert_eq!(stub.seen()[0].body, json!({"auth": {"identity": identity}}));
}

#[tokio::test]
async fn a_token_is_used_until_shortly_before_it_expires() {
    let stub = keystone(LONG, |_| false).await;
    let neutron = client(&stub);
    for _ in 0..3 {
        list(&neutron).await.unwrap();
    }
    assert_eq!(tokens_used(&stub), ["token-1"; 3]);

    // A token that has expired on arrival is valid only for the request it was fetched for.
    let stub = keystone(0, |_| false).await;
    let neutron = client(&stub);
    for _ in 0..3 {
        list(&neutron).await.unwrap();
    }
    assert_eq!(tokens_used(&stub), ["token-1", "token-2", "token-3"]);
}

#[tokio::test]
async fn a_token_that_neutron_refuses_is_renewed_once() {
    let stub = keystone(LONG, |token| token == "token-1").await;
    list(&client(&stub)).await.unwrap();
    assert_eq!(tokens_used(&stub), ["token-1", "token-2"]);

    let stub = keystone(LONG, |_| true).await;
    let error = list(&client(&stub)).await.unwrap_err();
    assert!(error.is_unauthorized() && error.to_string().contains("requires authentication"), "{error}");
    assert_eq!(tokens_used(&stub), ["token-1", "token-2"], "it is not tried for ever");
}

#[tokio::test]
async fn requests_at_once_share_one_login() {
    let released = Arc::new(Notify::new());
    let asked = Arc::new(Notify::new());
    let (hold, tell) = (Arc::clone(&released), Arc::clone(&asked));
    let stub = Stub::start(move |seen: Seen, url| {
        let (hold, tell) = (Arc::clone(&hold), Arc::clone(&tell));
        async move {
            if !seen.is_login() {
                return no_networks();
            }
            tell.notify_one();
            hold.notified().await;
            token_answer("token", LONG, &url)
        }
    })
    .await;
    let neutron = client(&stub);
    let requests = join_all((0..10).map(|_| list(&neutron)));
    let release = async {
        asked.notified().await;
        released.notify_one();
    };
    // All ten have requested a token before the stub gets the first request: they are polled before
    // the other branch.
    let (answers, ()) = tokio::join!(requests, release);
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(stub.logins(), 1);
}

#[tokio::test]
async fn requests_at_once_share_one_renewal() {
    let stub = keystone(LONG, |token| token == "token-1").await;
    let neutron = client(&stub);
    let answers = join_all((0..10).map(|_| list(&neutron))).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(stub.logins(), 2);
}

#[tokio::test]
async fn an_abandoned_login_is_started_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let asked = Arc::new(Notify::new());
    let tell = Arc::clone(&asked);
    let stub = Stub::start(move |seen: Seen, url| {
        let first = seen.is_login() && counted.fetch_add(1, Ordering::SeqCst) == 0;
        let tell = Arc::clone(&tell);
        async move {
            if first {
                tell.notify_one();
                std::future::pending::<()>().await;
            }
            if seen.is_login() { token_answer("token", LONG, &url) } else { no_networks() }
        }
    })
    .await;
    let neutron = client(&stub);
    tokio::select! {
        _ = list(&neutron) => panic!("the first login is never answered"),
        () = asked.notified() => {}
    }
    list(&neutron).await.unwrap();
    assert_eq!(stub.logins(), 2);
}

#[tokio::test]
async fn a_wrong_password_shows_keystone_s_message() {
    let stub = Stub::start(|_, _| async { unauthorized() }).await;
    let error = list(&client(&stub)).await.unwrap_err();
    assert!(error.is_unauthorized(), "{error}");
    let expected = format!(
        "POST {}/v3/auth/tokens: 401 Unauthorized: The request you have made requires authentication.",
        stub.url()
    );
    assert_eq!(error.to_string(), expected);
    assert_eq!(stub.logins(), 1);
}

#[tokio::test]
async fn without_a_token_a_keystone_that_is_down_is_unavailable() {
    let stub = Stub::start(|_, _| async { answer(503, "<html><h1>Keystone sleeps</h1></html>") }).await;
    let error = list(&client(&stub)).await.unwrap_err();
    assert!(
        error.is_unavailable() && error.to_string().ends_with("503 Service Unavailable: Keystone sleeps"),
        "{error}"
    );
    assert_eq!(stub.logins(), 1);
}

#[tokio::test]
async fn the_catalogue_must_have_the_endpoint() {
    let stub = keystone(LONG, |_| false).await;
    let cloud = Cloud { region: Some("two".to_owned()), ..Cloud::new(password(stub.url())) };
    let error = list(&Neutron::of(cloud).unwrap()).await.unwrap_err();
    assert_eq!(error.to_string(), "Keystone's catalogue has no public endpoint of type network in the region two");
}

#[tokio::test]
async fn an_endpoint_that_is_given_comes_before_the_catalogue() {
    let neutron_stub = Stub::start(|_, _| async { no_networks() }).await;
    let stub = keystone(LONG, |_| false).await;
    let neutron = Neutron::new(neutron_stub.url(), password(stub.url())).unwrap();
    list(&neutron).await.unwrap();
    assert_eq!(tokens_used(&neutron_stub), ["token-1"]);
}

#[tokio::test]
async fn an_answer_without_a_token_is_no_login() {
    let stub = Stub::start(|_, url| async move {
        let mut answer = token_answer("token", LONG, &url);
        answer.headers_mut().remove("x-subject-token");
        answer
    })
    .await;
    let error = list(&client(&stub)).await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("no X-Subject-Token"), "{error}");
}

#[tokio::test]
async fn secrets_are_not_shown() {
    let stub = keystone(LONG, |_| false).await;
    let neutron = client(&stub);
    list(&neutron).await.unwrap();
    let shown = format!("{neutron:?}");
    assert!(!shown.contains("secret") && !shown.contains("token-1"), "{shown}");
}
