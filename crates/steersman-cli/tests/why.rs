//! `steersman why` against a manager.

mod common;
#[path = "common/controller.rs"]
mod controller;

use std::pin::Pin;
use std::process::Output;

use common::steersman;
use controller::{Controllers, SENTINEL};
use http::request::Parts;
use http::{Response, StatusCode};
use steersman_http::{Body, Guard, Router, Tls, text};

async fn why(arguments: Vec<String>) -> Output {
    tokio::task::spawn_blocking(move || steersman().arg("why").args(arguments).output().unwrap()).await.unwrap()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn output(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timeline_of_an_object_is_printed() {
    let controllers = Controllers::start();
    controllers.create("web").await;
    controllers.create("broken").await;
    let url = format!("http://{}", controllers.serve(|router| router, None));
    let printed = why(words(&["ConfigMap", "default/web", "--url", &url])).await;
    let text = output(&printed);
    assert!(printed.status.success(), "{text}");
    for expected in [
        "added ConfigMap default/web, version ",
        "of default/web by copies, after ",
        "create Secret default/web, version ",
        "of default/web by touches, after ",
        "done after ",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing in:\n{text}");
    }
    assert!(!text.contains("broken") && !text.contains(SENTINEL), "{text}");
    // The object that was written has a timeline too.
    let written = output(&why(words(&["secret", "default/web", "--url", &url])).await);
    assert!(written.contains("of default/web by copies") && !written.contains("by touches"), "{written}");
    let failing = output(&why(words(&["ConfigMap", "default/broken", "--url", &url])).await);
    assert!(
        failing.contains("failed after ") && failing.contains(": the copy is refused: quota exceeded"),
        "{failing}"
    );
    assert!(failing.contains("copies fails: "), "{failing}");

    let none = why(words(&["ConfigMap", "default/nothing", "--url", &url])).await;
    assert!(!none.status.success());
    assert_eq!(output(&none), "error: no reconcile of ConfigMap default/nothing is recorded\n");
    let plural = output(&why(words(&["ConfigMaps", "default/web", "--url", &url])).await);
    assert!(plural.ends_with("is recorded; the controllers at this address reconcile ConfigMap\n"), "{plural}");
    let tls = url.replace("http:", "https:");
    let text = output(&why(words(&["ConfigMap", "default/web", "--url", &tls])).await);
    assert!(text.contains("the server has no TLS: use http://"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_tls_and_a_token_is_read() {
    struct Token;
    impl Guard for Token {
        fn check<'a>(
            &'a self,
            request: &'a Parts,
        ) -> Pin<Box<dyn Future<Output = Result<(), Response<Body>>> + Send + 'a>> {
            let status = match request.headers.get("authorization").map(http::HeaderValue::as_bytes) {
                Some(b"Bearer right") => return Box::pin(async { Ok(()) }),
                Some(b"Bearer weak") => StatusCode::FORBIDDEN,
                _ => StatusCode::UNAUTHORIZED,
            };
            Box::pin(async move { Err(text(status, "no\n")) })
        }
    }
    let controllers = Controllers::start();
    controllers.create("web").await;
    let tls = Tls::self_signed(["127.0.0.1"]);
    let url = format!("https://{}", controllers.serve(|router: Router| router.guard(Token), Some(tls)));
    let folder = tempfile::tempdir().unwrap();
    let ask = async |token: Option<&str>, insecure: bool| {
        let mut arguments = words(&["ConfigMap", "default/web", "--url", &url]);
        if insecure {
            arguments.push("--insecure-skip-tls-verify".to_owned());
        }
        if let Some(token) = token {
            let file = folder.path().join(token);
            std::fs::write(&file, format!("{token}\n")).unwrap();
            arguments.extend(["--token-file".to_owned(), file.display().to_string()]);
        }
        output(&why(arguments).await)
    };
    let read = ask(Some("right"), true).await;
    assert!(read.contains("create Secret default/web"), "{read}");
    let refused = ask(None, true).await;
    assert!(refused.contains("needs a token: use --token-file"), "{refused}");
    let refused = ask(Some("weak"), true).await;
    assert!(refused.contains("its role needs get of this nonResourceURL"), "{refused}");
    let unknown = ask(Some("right"), false).await;
    assert!(unknown.contains("cannot read https://") && unknown.contains("use --certificate-authority"), "{unknown}");
    let plain = words(&["ConfigMap", "default/web", "--url", &url.replace("https:", "http:")]);
    let plain = output(&why(plain).await);
    assert!(plain.contains("may have TLS: use https://"), "{plain}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_asked_is_explained() {
    let other = steersman_http::Server::new().bind().unwrap();
    let url = format!("http://{}", other.address());
    tokio::spawn(other.run(Router::new(), std::future::pending()));
    let text = output(&why(words(&["ConfigMap", "default/web", "--url", &url])).await);
    assert!(text.contains("has no /debug/state: enable it with MetricsServer::debug_pages"), "{text}");
    let text = output(&why(words(&["ConfigMap", "default/web", "--url", "http://127.0.0.1:1"])).await);
    assert!(text.starts_with("error: cannot read http://127.0.0.1:1/debug/state: "), "{text}");
    let text = output(&why(words(&["ConfigMap", "a/b/c", "--url", &url])).await);
    assert_eq!(text, "error: invalid object \"a/b/c\": expected NAMESPACE/NAME or NAME\n");
    let text = output(&why(words(&["ConfigMap", "a", "--url", "127.0.0.1:80"])).await);
    assert!(text.contains("expected http://HOST:PORT or https://HOST:PORT"), "{text}");
}
