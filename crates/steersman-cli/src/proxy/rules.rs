//! Which requests are forwarded: as `kubectl proxy` has it when nobody tells it otherwise.

use http::header::{HOST, UPGRADE};
use http::uri::Authority;
use http::{Method, Request};

use super::refusal::Refusal;

/// What a page in a browser must not get: a shell in a Pod, or a way to its ports.
const REFUSED_SUBRESOURCES: [&str; 3] = ["exec", "attach", "portforward"];

/// Whether a request is forwarded.
pub(super) fn check<B>(request: &Request<B>) -> Result<(), Refusal> {
    let hosts = request.headers().get_all(HOST).iter().map(|host| host.to_str().ok());
    let mut names: Vec<_> = hosts.chain(request.uri().authority().map(|authority| Some(authority.as_str()))).collect();
    if names.is_empty() {
        names.push(None);
    }
    if let Some(name) = names.into_iter().find(|name| !name.is_some_and(is_this_machine)) {
        let message =
            format!("{:?} is not a name of this machine: ask for localhost or 127.0.0.1", name.unwrap_or_default());
        return Err(Refusal::forbidden(message));
    }
    if let Some(subresource) = refused_subresource(request.uri().path()) {
        return Err(Refusal::forbidden(format!(
            "{subresource} is not forwarded: use kubectl {}",
            command(subresource)
        )));
    }
    if request.headers().contains_key(UPGRADE) || request.method() == Method::CONNECT {
        return Err(Refusal::forbidden("connections that change their protocol are not forwarded".to_owned()));
    }
    Ok(())
}

fn command(subresource: &str) -> &str {
    if subresource == "portforward" { "port-forward" } else { subresource }
}

/// Whether somebody who asks for this host means us. Others were sent here by a name server that is not theirs.
fn is_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    matches!(authority.host().to_ascii_lowercase().as_str(), "localhost" | "127.0.0.1" | "[::1]")
}

/// The part of a Pod that is asked for, if it is one that is refused.
fn refused_subresource(path: &str) -> Option<&'static str> {
    let path = decoded(path);
    let mut segments = path.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty());
    segments.find(|segment| *segment == b"pods")?;
    // The name of the Pod.
    segments.next()?;
    segments.find_map(|segment| REFUSED_SUBRESOURCES.into_iter().find(|refused| refused.as_bytes() == segment))
}

/// A path as the server reads it.
fn decoded(path: &str) -> Vec<u8> {
    let mut bytes = path.bytes();
    let mut decoded = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let digits = (ahead.next().and_then(hex), ahead.next().and_then(hex));
        match (byte, digits) {
            (b'%', (Some(high), Some(low))) => {
                decoded.push(high << 4 | low);
                bytes = ahead;
            }
            _ => decoded.push(byte),
        }
    }
    decoded
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str) -> http::request::Builder {
        Request::get(path).header(HOST, "localhost:8001")
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for host in ["localhost", "localhost:8001", "LOCALHOST", "127.0.0.1:8001", "[::1]:8001", "[::1]"] {
            assert!(check(&Request::get("/api").header(HOST, host).body(()).unwrap()).is_ok(), "{host}");
        }
        for host in ["", "evil.test", "localhost.evil.test", "evil.test:8001", "127.0.0.1.evil.test", "10.0.0.1", "::1"]
        {
            let refusal = check(&Request::get("/api").header(HOST, host).body(()).unwrap()).unwrap_err();
            assert_eq!(refusal.status, 403, "{host}");
            assert!(refusal.message.contains("is not a name of this machine"), "{}", refusal.message);
        }
        assert!(check(&Request::get("/api").body(()).unwrap()).is_err(), "nobody says whom they mean");
        let two = Request::get("/api").header(HOST, "localhost").header(HOST, "evil.test").body(()).unwrap();
        assert!(check(&two).is_err());
        let absolute = Request::get("http://evil.test/api").header(HOST, "localhost").body(()).unwrap();
        assert!(check(&absolute).is_err());
    }

    #[test]
    fn shells_and_ports_of_pods_are_not_forwarded_however_they_are_written() {
        for path in [
            "/api/v1/namespaces/default/pods/web/exec",
            "/api/v1/namespaces/default/pods/web/exec?command=sh",
            "/api/v1/namespaces/default/pods/web/attach",
            "/api/v1/namespaces/default/pods/web/portforward",
            "/api/v1/namespaces/default/pods/web/%65xec",
            "/api/v1/namespaces/default/pods/web%2Fexec",
            "/api/v1/namespaces/default/pods//web//exec",
            "/api/v1/namespaces/default/pods/web/log/../exec",
            "/api/v1/namespaces/default/%70ods/web/exec/",
        ] {
            let refusal = check(&get(path).body(()).unwrap()).unwrap_err();
            assert!(refusal.message.contains("is not forwarded: use kubectl"), "{path}: {}", refusal.message);
        }
        for path in [
            "/api/v1/namespaces/default/pods/exec",
            "/api/v1/namespaces/exec/pods/web",
            "/api/v1/namespaces/default/pods/web/log",
            "/api/v1/pods?watch=true",
            "/apis/exec.test/v1/attach",
            "/api/v1/namespaces/default/pods/%zz",
            "/",
        ] {
            assert!(check(&get(path).body(()).unwrap()).is_ok(), "{path}");
        }
    }

    #[test]
    fn connections_that_change_their_protocol_are_not_forwarded() {
        let upgrade = get("/api/v1/namespaces/default/services/web/proxy").header(UPGRADE, "websocket");
        assert_eq!(check(&upgrade.body(()).unwrap()).unwrap_err().status, 403);
        let connect = Request::connect("localhost:443").header(HOST, "localhost").body(()).unwrap();
        assert!(check(&connect).is_err());
    }
}
