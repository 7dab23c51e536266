//! A port for a server that has yet to start.

use std::net::{Ipv4Addr, SocketAddrV4};

use socket2::{Domain, Socket, Type};

use crate::Error;

/// A loopback port that stays reserved while this value lives. The server it is meant for must bind
/// it with `SO_REUSEPORT`; our own socket never listens, so every connection is the server's.
pub(crate) struct ReservedPort {
    number: u16,
    _socket: Socket,
}

impl ReservedPort {
    pub(crate) fn new() -> Result<Self, Error> {
        let reserve = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.set_reuse_port(true)?;
            socket.bind(&SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0).into())?;
            let number = socket.local_addr()?.as_socket().map_or(0, |address| address.port());
            Ok(Self { number, _socket: socket })
        };
        reserve().map_err(Error::io("reserve a loopback port"))
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}
