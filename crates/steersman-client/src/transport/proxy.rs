//! Connectors through a proxy, with the credentials in its address.

use http::Uri;
use http::header::HeaderValue;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use percent_encoding::percent_decode_str;
use steersman_wire::base64;

use crate::Error;

/// The credentials in the address of a proxy, percent-encoded as they are there.
fn credentials(proxy: &Uri) -> Option<&str> {
    proxy.authority()?.as_str().rsplit_once('@').map(|(credentials, _)| credentials)
}

/// Connects through a SOCKS5 proxy.
pub(super) fn socks<C>(proxy: &Uri, connector: C) -> SocksV5<C> {
    let socks = SocksV5::new(proxy.clone(), connector);
    let Some(credentials) = credentials(proxy) else { return socks };
    let decode = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    socks.with_auth(decode(user), decode(password))
}

/// Connects through an HTTP proxy, with CONNECT.
pub(super) fn tunnel<C>(proxy: &Uri, connector: C) -> Result<Tunnel<C>, Error> {
    let tunnel = Tunnel::new(proxy.clone(), connector);
    let Some(credentials) = credentials(proxy) else { return Ok(tunnel) };
    let credentials = base64::encode(&percent_decode_str(credentials).collect::<Vec<u8>>());
    let header = HeaderValue::from_str(&format!("Basic {credentials}"));
    let mut header = header.map_err(|error| Error::Config(error.into()))?;
    header.set_sensitive(true);
    Ok(tunnel.with_auth(header))
}
