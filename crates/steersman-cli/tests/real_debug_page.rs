//! The page `/debug` in a real browser: it shows the state, live, and no content of a Secret.
//!
//! Needs Chromium, which `cargo xtask test` installs on Debian. With the variable
//! `STEERSMAN_PICTURE`, a picture of the page goes into that file: `docs/debug-page.png`.

mod common;
#[path = "common/controller.rs"]
mod controller;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use controller::{Controllers, SENTINEL};

/// The names by which Chromium is installed.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Runs Chromium with these arguments until the page has had time to load, and returns what it
/// prints.
async fn browse(profile: &Path, arguments: Vec<String>) -> String {
    let profile = format!("--user-data-dir={}", profile.display());
    let browse = move || {
        let run = |browser: &&str| {
            // The sandbox needs permissions that root in a container does not have. The page is
            // ours.
            let mut command = Command::new(browser);
            command.args(["--headless", "--disable-gpu", "--no-sandbox", "--disable-dev-shm-usage", "--no-first-run"]);
            command.args(["--disable-background-networking", "--virtual-time-budget=5000"]);
            command.arg(&profile).args(&arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()
        };
        let output = BROWSERS.iter().find_map(run);
        output.expect("Chromium is not installed: `cargo xtask test` provides it on Debian, or install it").stdout
    };
    let printed = tokio::task::spawn_blocking(browse);
    let printed = tokio::time::timeout(Duration::from_secs(120), printed).await.expect("Chromium does not end");
    String::from_utf8(printed.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_the_state_and_the_timeline_of_a_key() {
    let controllers = Controllers::start();
    for name in ["web", "broken", "restless"] {
        controllers.create(name).await;
    }
    controllers.change("web").await;
    let found = || !controllers.manager.debug_state(&steersman_runtime::DebugQuery::default()).hot_loops.is_empty();
    steersman_testing::eventually("the hot loop is found", || std::future::ready(found().then_some(()))).await;
    let address = controllers.serve(|router| router, None);
    let folder = tempfile::tempdir().unwrap();

    let timeline = format!("http://{address}/debug#kind=ConfigMap&key=default%2Fweb");
    let page = browse(&folder.path().join("page"), vec!["--dump-dom".to_owned(), timeline.clone()]).await;
    for expected in [
        ">ready<",
        // Controllers and informers.
        "<td class=\"\">copies</td>",
        "<td class=\"\">touches</td>",
        "/api/v1/configmaps",
        "Watching",
        // The key that fails.
        "the copy is refused: quota exceeded",
        // The timeline from event to reconcile to write.
        "primary: added ConfigMap default/web, version ",
        "copies #",
        "key default/web, after ",
        "create Secret default/web, version ",
        "primary: updated ConfigMap default/web, version ",
        // The hot loop.
        "ConfigMap default/restless: controller touches wrote version ",
        "which caused controller touches (default/restless) to write version ",
    ] {
        assert!(page.contains(expected), "{expected:?} is missing in:\n{page}");
    }
    assert!(!page.contains(SENTINEL), "{page}");
    assert!(page.contains("<p id=\"problem\" class=\"bad\" role=\"alert\"></p>"), "{page}");

    if let Some(file) = std::env::var_os("STEERSMAN_PICTURE") {
        let picture = format!("--screenshot={}", Path::new(&file).display());
        let size = "--window-size=1180,1000".to_owned();
        browse(&folder.path().join("picture"), vec![picture, size, "--hide-scrollbars".to_owned(), timeline]).await;
        assert!(std::fs::metadata(&file).is_ok_and(|file| file.len() > 10_000), "there is no picture");
    }
}
