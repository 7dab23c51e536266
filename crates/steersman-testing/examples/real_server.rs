//! A real control plane for programs that are not tests: prints where it is as one JSON line, and
//! runs until standard input is closed. Other arguments are flags of kube-apiserver.
//!
//! ```sh
//! cargo run -p steersman-testing --example real_server -- --controller-manager
//! ```

use std::io::Read;

use steersman_testing::RealServer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = RealServer::builder();
    for argument in std::env::args().skip(1) {
        builder = match argument.as_str() {
            "--controller-manager" => builder.controller_manager(true),
            _ => builder.apiserver_flag(argument),
        };
    }
    let server = builder.start().await?;
    let line = serde_json::json!({"url": server.url(), "kubeconfig": server.kubeconfig(), "pids": server.pids()});
    println!("{line}");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
