//! `NO_PROXY`: the servers that are reached without the environment's proxy.

use std::net::IpAddr;

use http::Uri;

/// Whether `server` is reached directly although `HTTPS_PROXY` is set: it has no TLS, is this
/// machine, or matches an entry of `no_proxy`. The rules are those of Go: a name with its
/// subdomains, `.name` for the subdomains alone, an address, a network like `10.0.0.0/8`, each with
/// or without a port, and `*` for all.
pub(super) fn is_exempt(server: &Uri, no_proxy: &str) -> bool {
    let Some(host) = server.host() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    let here = host == "localhost" || address.is_some_and(|address| address.is_loopback());
    if server.scheme_str() != Some("https") || here {
        return true;
    }
    let port = server.port_u16().unwrap_or(443);
    no_proxy.split(',').map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        entry == "*" || matches_entry(&entry, &host, address, port)
    })
}

/// Whether an entry matches a host.
fn matches_entry(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if let Some((network, length)) = entry.split_once('/')
        && let (Ok(network), Ok(length)) = (network.parse(), length.parse())
    {
        return address.is_some_and(|address| is_in_network(address, network, length));
    }
    let (entry, wanted) = match entry.rsplit_once(':') {
        // More than one colon: an IPv6 address.
        Some((name, wanted)) if !name.contains(':') || name.ends_with(']') => (name, Some(wanted)),
        _ => (entry, None),
    };
    if wanted.is_some_and(|wanted| wanted.parse() != Ok(port)) {
        return false;
    }
    let entry = entry.trim_start_matches('[').trim_end_matches(']');
    if let Ok(entry) = entry.parse::<IpAddr>() {
        return address == Some(entry);
    }
    let entry = entry.strip_prefix('*').unwrap_or(entry);
    match entry.strip_prefix('.') {
        Some(parent) => is_subdomain(host, parent),
        None => host == entry || is_subdomain(host, entry),
    }
}

/// Whether `host` is a subdomain of `parent`.
fn is_subdomain(host: &str, parent: &str) -> bool {
    !parent.is_empty() && host.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'))
}

/// Whether the first `length` bits of two addresses are the same.
fn is_in_network(address: IpAddr, network: IpAddr, length: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) if length <= 32 => {
            (address.to_bits() ^ network.to_bits()).checked_shr(32 - length).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) if length <= 128 => {
            (address.to_bits() ^ network.to_bits()).checked_shr(128 - length).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_exempt_as_in_go() {
        let cases = [
            ("https://api.example.com:6443", "", false),
            ("https://api.example.com:6443", "*", true),
            ("https://api.example.com:6443", "other, EXAMPLE.com", true),
            ("https://api.example.com:6443", ".example.com", true),
            ("https://api.example.com:6443", "*.example.com", true),
            ("https://example.com", ".example.com", false),
            ("https://example.com", "example.com", true),
            ("https://notexample.com", "example.com", false),
            ("https://example.com", ".", false),
            ("https://api.example.com:6443", "example.com:6443", true),
            ("https://api.example.com:6443", "example.com:443", false),
            ("https://example.com", "example.com:443", true),
            ("https://10.1.2.3", "10.0.0.0/8", true),
            ("https://11.1.2.3", "10.0.0.0/8", false),
            ("https://11.1.2.3", "0.0.0.0/0", true),
            ("https://10.1.2.3", "10.1.2.3/32", true),
            ("https://10.1.2.3", "10.0.0.0/33", false),
            ("https://10.1.2.3", "10.1.2.3", true),
            ("https://10.1.2.3:6443", "10.1.2.3:6443", true),
            ("https://10.1.2.3", "0.1.2.3", false),
            ("https://[fd00::1]:6443", "fd00::/8", true),
            ("https://[fd00::1]:6443", "fd00::1", true),
            ("https://[fd00::1]:6443", "[fd00::1]:6443", true),
            ("https://[fd00::1]:6443", "[fd00::1]:1", false),
            ("https://[fe80::1]:6443", "fd00::/8", false),
            ("https://127.0.0.1:6443", "", true),
            ("https://localhost:6443", "", true),
            ("https://[::1]:6443", "", true),
            ("http://api.example.com", "", true),
        ];
        for (server, no_proxy, exempt) in cases {
            assert_eq!(is_exempt(&server.parse().unwrap(), no_proxy), exempt, "{server} {no_proxy:?}");
        }
    }
}
