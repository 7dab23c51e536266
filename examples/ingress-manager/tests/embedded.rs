//! The ingress manager on the embedded server, in process, in paused time.

mod suite;

use steersman::Client;
use steersman_testing::Embedded;
use suite::{Clients, behaviours};

async fn server() -> (Clients, String) {
    let embedded = Embedded::start();
    let client = || Client::from(embedded.client());
    (Clients { manager: client(), people: client() }, "default".to_owned())
}

behaviours! { tokio::test(start_paused = true), server }
