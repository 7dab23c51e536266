//! Plain HTTP to a real server, through `kubectl proxy`, which has its credentials.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::Running;

/// A proxy that runs until this is dropped.
pub(super) struct Proxy {
    _running: Running,
    address: String,
}

/// The response of the server.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
}

impl Proxy {
    /// Starts `kubectl proxy` on a free port.
    pub(super) fn start(kubectl: &Path, kubeconfig: &Path) -> Result<Self> {
        let mut command = Command::new(kubectl);
        // All paths are allowed: by default, the proxy refuses the inner endpoints of Pods.
        command.arg("--kubeconfig").arg(kubeconfig).args(["proxy", "--port=0"]);
        let mut running = Running::start(command.stdin(Stdio::null()).stdout(Stdio::piped()))?;
        let mut line = String::new();
        let stdout = running.take_stdout().expect("standard output is piped");
        BufReader::new(stdout).read_line(&mut line).context("reading what kubectl prints")?;
        let address = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        Ok(Self { _running: running, address })
    }

    /// Reads the response to a GET.
    pub(super) fn get(&self, path: &str) -> Result<Answer> {
        self.send("GET", path, &Value::Null)
    }

    /// Sends `body` and reads the response.
    pub(super) fn send(&self, method: &str, path: &str, body: &Value) -> Result<Answer> {
        self.ask(method, path, "application/json", body)
    }

    /// Gets a Table.
    pub(super) fn table(&self, path: &str) -> Result<Answer> {
        self.ask("GET", path, "application/json;as=Table;v=v1;g=meta.k8s.io", &Value::Null)
    }

    fn ask(&self, method: &str, path: &str, accept: &str, body: &Value) -> Result<Answer> {
        let ask = || -> Result<Answer> {
            let body = if body.is_null() { String::new() } else { body.to_string() };
            let media_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            let mut stream = TcpStream::connect(&self.address)?;
            // HTTP/1.0: one response, up to the end of the connection.
            write!(
                stream,
                "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            parse(&answer)
        };
        ask().with_context(|| format!("{method} {path}"))
    }
}

fn parse(answer: &[u8]) -> Result<Answer> {
    let text = std::str::from_utf8(answer).context("the answer is no text")?;
    let (head, body) = text.split_once("\r\n\r\n").context("the answer has no end of its head")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("the answer has no status")?;
    Ok(Answer { status, body: serde_json::from_str(body).context("the answer is no JSON")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_body_are_read() {
        let answer = parse(b"HTTP/1.0 422 Unprocessable Entity\r\nDate: x\r\n\r\n{\"a\":1}").expect("it is an answer");
        assert_eq!((answer.status, &answer.body["a"]), (422, &Value::from(1)));
        assert!(parse(b"HTTP/1.0 200 OK\r\n").is_err());
    }
}
