//! Keeps web pages away from a plain server on the loopback interface.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;

use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
use http::{Response, StatusCode};
use steersman_http::{Body, Guard, text};

/// Refuses requests that a browser sends for a page of another site.
///
/// Such a page reaches the loopback interface if its own name resolves to that address (DNS
/// rebinding). The request then has the name of the page in `Host`.
#[derive(Debug)]
pub(crate) struct LoopbackOnly {
    /// Where the server listens.
    pub(crate) address: IpAddr,
}

impl Guard for LoopbackOnly {
    fn check<'a>(
        &'a self,
        request: &'a Parts,
    ) -> Pin<Box<dyn Future<Output = Result<(), Response<Body>>> + Send + 'a>> {
        let is_local = self.is_local_host(request) && !is_cross_site(request);
        let refused = || text(StatusCode::FORBIDDEN, "Forbidden: use localhost or the address of the server\n");
        Box::pin(std::future::ready(if is_local { Ok(()) } else { Err(refused()) }))
    }
}

impl LoopbackOnly {
    fn is_local_host(&self, request: &Parts) -> bool {
        let mut hosts = request.headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let Ok(host) = Authority::try_from(host.as_bytes()) else { return false };
        match host.host() {
            "127.0.0.1" | "[::1]" => true,
            name if name.eq_ignore_ascii_case("localhost") => true,
            address => address.parse() == Ok(self.address),
        }
    }
}

fn is_cross_site(request: &Parts) -> bool {
    request.headers.get_all("sec-fetch-site").iter().any(|site| site == "cross-site")
}
