//! `steersman apiserver`: the embedded API server on a socket.

use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use steersman_apiserver::{ApiServer, ListenError, Serve, Serving};

use crate::interrupt::Interrupt;
use crate::kubeconfig_file;

/// A summary of [`KUBECTL`], printed at the start.
const KUBECTL_SHORT: &str = "Pods never run: there are no nodes. See steersman apiserver --help.";

/// What works with kubectl (test: `what_the_help_text_promises_works` in `tests/real_kubectl.rs`).
const KUBECTL: &str = "\
kubectl on this server:
  These work as usual, files are validated:
    kubectl create, replace, apply, diff -f FILE
    kubectl apply --server-side -f FILE
    kubectl explain KIND
    kubectl delete -f FILE
  Pods are stored and never run: there are no nodes. Of the built-in controllers there are the garbage collector, the
  deletion of namespaces, the ServiceAccount and the ConfigMap of each namespace, and the aggregation of ClusterRoles.
  With --controllers=false there is none: run the real kube-controller-manager beside the server.";

/// The values of kube-apiserver's flag of the same name that exist here.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Authorization {
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
    #[value(name = "RBAC")]
    Rbac,
}

/// The flags of the API server. It listens on 127.0.0.1 only.
#[derive(clap::Args)]
#[command(after_help = KUBECTL)]
pub(crate) struct Args {
    /// Port to listen on; 0 means any free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// File for the kubeconfig; default: in a temporary folder, removed when the server stops
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// How requests are authorized: with RBAC a request is refused unless a role permits it. The
    /// kubeconfig has all rights
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Authorization::AlwaysAllow)]
    authorization_mode: Authorization,
    /// Print a line for each request: method, path, status, time
    #[arg(long)]
    log_requests: bool,
    /// Do the work of kube-controller-manager that the server knows; false: it runs beside it
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    controllers: bool,
}

/// Serves until the process is interrupted.
pub(crate) fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let result = runtime.block_on(serve(args));
    // Requests that still run have lost their connections: the process does not wait for them.
    runtime.shutdown_background();
    result
}

async fn serve(args: &Args) -> Result<()> {
    // From here on a signal stops the server in order, even during the start.
    let mut interrupt = Interrupt::listen().context("cannot listen for signals")?;
    let server = ApiServer::builder().controllers(args.controllers).build();
    let server = match args.authorization_mode {
        Authorization::AlwaysAllow => server,
        Authorization::Rbac => server.with_rbac(),
    };
    let mut serve = server.serve();
    if args.log_requests {
        // The server goes on without its terminal.
        serve = serve.log(|line| drop(writeln!(io::stderr(), "{line}")));
    }
    let serving = start(serve, args.port).await?;

    // Removed after the server has stopped.
    let own_file = match args.kubeconfig {
        Some(_) => None,
        None => Some(serving.kubeconfig_file().context("cannot write a kubeconfig to the temporary folder")?),
    };
    let path = match (&args.kubeconfig, &own_file) {
        (Some(path), _) => std::path::absolute(path).with_context(|| format!("cannot use {}", path.display()))?,
        (None, Some(file)) => file.path().to_owned(),
        (None, None) => unreachable!("without --kubeconfig there is an own file"),
    };
    if own_file.is_none() {
        kubeconfig_file::write(&path, serving.kubeconfig())?;
    }
    print_ready(serving.url(), &path).context("cannot print that the server is ready")?;

    interrupt.wait().await;
    serving.stop().await;
    Ok(())
}

/// Starts a server on loopback. The error states what to do.
pub(crate) async fn start(serve: Serve, port: u16) -> Result<Serving> {
    serve.address((Ipv4Addr::LOCALHOST, port)).start().await.map_err(|error| explain(error, port))
}

fn explain(error: ListenError, port: u16) -> anyhow::Error {
    let advice = match &error {
        ListenError::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
            format!("port {port} is already in use: use --port with another number, or omit it to use a free port")
        }
        ListenError::Listen { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            format!(
                "no permission to listen on port {port}: use --port with a number above 1023, or omit it to use a free port"
            )
        }
        _ => "cannot start the API server".to_owned(),
    };
    anyhow::Error::new(error).context(advice)
}

/// Prints the first line when the server responds and the kubeconfig is complete: scripts wait for
/// it.
fn print_ready(url: &str, kubeconfig: &Path) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "ready: {url}")?;
    writeln!(stdout, "Point kubectl at it:")?;
    writeln!(stdout, "  export KUBECONFIG={}", shell_word(&kubeconfig.display().to_string()))?;
    writeln!(stdout, "  kubectl get namespaces")?;
    writeln!(stdout, "  kubectl create -f FILE")?;
    writeln!(stdout, "{KUBECTL_SHORT}")?;
    stdout.flush()
}

/// The text as one word for a shell.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._-+:@%".contains(character);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        let cases = [("/tmp/a-b.1", "/tmp/a-b.1"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("", "''")];
        for (text, word) in cases {
            assert_eq!(shell_word(text), word);
        }
    }
}
