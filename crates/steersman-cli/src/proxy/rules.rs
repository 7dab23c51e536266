//! The rules by which requests are forwarded.
//!
//! The proxy adds credentials to each request, so it refuses what a web page can send. The rules
//! include the defaults of `kubectl proxy`: host names of this machine only, no exec, attach and
//! port-forward to Pods. The proxy also refuses requests from pages of other origins, and bodies
//! without a content type, which a browser sends without a preflight request.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN, TRANSFER_ENCODING, UPGRADE};
use http::uri::Authority;
use http::{Method, Request};
use percent_encoding::percent_decode_str;

use super::refusal::Refusal;

/// Shells in Pods and ways to their ports, which a web page must not reach.
const REFUSED_SUBRESOURCES: [&str; 3] = ["exec", "attach", "portforward"];
/// The relation between the page that starts a request and its target, as browsers state it.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a request is forwarded.
pub(super) fn check<B>(request: &Request<B>) -> Result<(), Refusal> {
    check_host(request)?;
    check_origin(request.headers())?;
    if let Some(subresource) = refused_subresource(request.uri().path()) {
        return Err(Refusal::forbidden(format!(
            "{subresource} is not forwarded: use kubectl {}",
            kubectl_command(subresource)
        )));
    }
    if request.headers().contains_key(UPGRADE) || request.method() == Method::CONNECT {
        return Err(Refusal::forbidden("protocol upgrades are not forwarded".to_owned()));
    }
    if has_body(request.headers()) && !request.headers().contains_key(CONTENT_TYPE) {
        let message = "a body needs a Content-Type, for example application/json".to_owned();
        return Err(Refusal::unsupported_type(message));
    }
    Ok(())
}

/// DNS of an attacker can point any name to this machine. The `Host` header then has that name.
fn check_host<B>(request: &Request<B>) -> Result<(), Refusal> {
    let hosts = request.headers().get_all(HOST).iter().map(|host| host.to_str().ok());
    let mut names: Vec<_> = hosts.chain(request.uri().authority().map(|authority| Some(authority.as_str()))).collect();
    if names.is_empty() {
        names.push(None);
    }
    let Some(name) = names.into_iter().find(|name| !name.is_some_and(is_this_machine)) else { return Ok(()) };
    let message = format!("{:?} is not a name of this machine: use localhost or 127.0.0.1", name.unwrap_or_default());
    Err(Refusal::forbidden(message))
}

/// A page of another origin must not use the proxy's credentials, not even with a GET: a GET to a
/// Service or a Pod may have effects. Clients other than browsers send neither header.
fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let ours = format!("http://{host}");
    for origin in headers.get_all(ORIGIN) {
        if !origin.as_bytes().eq_ignore_ascii_case(ours.as_bytes()) {
            let origin = String::from_utf8_lossy(origin.as_bytes());
            return Err(Refusal::forbidden(format!("a page of another origin ({origin:?}) must not use this proxy")));
        }
    }
    for site in headers.get_all(&SEC_FETCH_SITE) {
        // "none": the user typed the address. "same-site" includes other ports of this machine.
        if !matches!(site.as_bytes(), b"same-origin" | b"none") {
            let message =
                "a page of another origin must not use this proxy: to follow a link, open its address in a new tab";
            return Err(Refusal::forbidden(message.to_owned()));
        }
    }
    Ok(())
}

fn has_body(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING) || headers.get_all(CONTENT_LENGTH).iter().any(|length| length != "0")
}

fn kubectl_command(subresource: &str) -> &str {
    if subresource == "portforward" { "port-forward" } else { subresource }
}

/// Whether a `Host` header names this machine, with any port.
fn is_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    matches!(authority.host().to_ascii_lowercase().as_str(), "localhost" | "127.0.0.1" | "[::1]")
}

/// The subresource of a Pod in the path, if it is refused.
fn refused_subresource(path: &str) -> Option<&'static str> {
    // The path as the server decodes it.
    let path: Vec<u8> = percent_decode_str(path).collect();
    let mut segments = path.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty());
    segments.find(|segment| *segment == b"pods")?;
    // The name of the Pod.
    segments.next()?;
    segments.find_map(|segment| REFUSED_SUBRESOURCES.into_iter().find(|refused| refused.as_bytes() == segment))
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
        assert!(check(&Request::get("/api").body(()).unwrap()).is_err(), "no Host header");
        let two = Request::get("/api").header(HOST, "localhost").header(HOST, "evil.test").body(()).unwrap();
        assert!(check(&two).is_err());
        let absolute = Request::get("http://evil.test/api").header(HOST, "localhost").body(()).unwrap();
        assert!(check(&absolute).is_err());
    }

    #[test]
    fn exec_attach_and_port_forward_are_not_forwarded_in_any_spelling() {
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
    fn protocol_upgrades_are_not_forwarded() {
        let upgrade = get("/api/v1/namespaces/default/services/web/proxy").header(UPGRADE, "websocket");
        assert_eq!(check(&upgrade.body(()).unwrap()).unwrap_err().status, 403);
        let connect = Request::connect("localhost:443").header(HOST, "localhost").body(()).unwrap();
        assert!(check(&connect).is_err());
    }

    fn status(request: http::request::Builder) -> u16 {
        check(&request.body(()).unwrap()).map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    #[test]
    fn requests_of_other_origins_are_refused() {
        for origin in [
            "http://evil.test",
            "null",
            "",
            // Another port is another origin, and so is another name of this machine.
            "http://localhost:3000",
            "http://localhost",
            "http://127.0.0.1:8001",
            "https://localhost:8001",
            "http://localhost:8001.evil.test",
        ] {
            for method in ["GET", "POST", "OPTIONS"] {
                let request = get("/api").method(method).header(ORIGIN, origin);
                assert_eq!(status(request), 403, "{method} {origin}");
            }
        }
        assert_eq!(status(get("/api").header(ORIGIN, "http://localhost:8001")), 200);
        assert_eq!(status(get("/api").header(ORIGIN, "http://LOCALHOST:8001")), 200);
        // Browsers leave out port 80, in the host and in the origin.
        let plain = Request::get("/api").header(HOST, "localhost").header(ORIGIN, "http://localhost");
        assert_eq!(status(plain), 200);
        let two = get("/api").header(ORIGIN, "http://localhost:8001").header(ORIGIN, "http://evil.test");
        assert_eq!(status(two), 403);
    }

    #[test]
    fn requests_that_a_page_of_another_site_starts_are_refused() {
        // A page of localhost:3000 is of the same site as localhost:8001, and of another origin.
        for site in ["cross-site", "same-site", "unheard-of", ""] {
            assert_eq!(status(get("/api").header("sec-fetch-site", site)), 403, "{site}");
        }
        for site in ["same-origin", "none"] {
            assert_eq!(status(get("/api").header("sec-fetch-site", site)), 200, "{site}");
        }
        let two = get("/api").header("sec-fetch-site", "none").header("sec-fetch-site", "cross-site");
        assert_eq!(status(two), 403);
    }

    #[test]
    fn a_body_needs_a_content_type() {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            assert_eq!(status(get("/api").method(method).header(CONTENT_LENGTH, "2")), 415, "{method}");
            assert_eq!(status(get("/api").method(method).header(TRANSFER_ENCODING, "chunked")), 415, "{method}");
            let typed = get("/api").method(method).header(CONTENT_LENGTH, "2");
            assert_eq!(status(typed.header(CONTENT_TYPE, "application/json")), 200, "{method}");
            // Without a body there is no content type.
            assert_eq!(status(get("/api").method(method).header(CONTENT_LENGTH, "0")), 200, "{method}");
            assert_eq!(status(get("/api").method(method)), 200, "{method}");
        }
    }
}
