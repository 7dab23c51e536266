//! A real control plane for programs that are not tests: prints where it is as one JSON line, and
//! runs until standard input is closed.
//!
//! ```sh
//! cargo run -p steersman-testing --example real_server -- --controller-manager
//! ```

use std::io::Read;

use steersman_testing::RealServer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let controller_manager = std::env::args().any(|argument| argument == "--controller-manager");
    let server = RealServer::builder().controller_manager(controller_manager).start().await?;
    let line = serde_json::json!({"url": server.url(), "kubeconfig": server.kubeconfig(), "pids": server.pids()});
    println!("{line}");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
