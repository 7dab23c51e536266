//! A Neutron in a library: networks, subnets and ports over HTTP on a loopback port, kept in memory.

use std::io;

/// A Neutron in this process, without authentication. It ends when it is dropped.
#[derive(Debug)]
pub struct EmbeddedNeutron {}

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// `GET`, `POST`, `PUT` or `DELETE`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
}

/// How an embedded Neutron misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Requests wait until the fault is over or the client gives up.
    Hang,
    /// Requests are answered as a proxy does when what is behind it is down: 503 in HTML.
    Unavailable,
}

impl EmbeddedNeutron {
    /// Starts it on a free loopback port.
    pub async fn start() -> io::Result<Self> {
        todo!()
    }

    /// Where it listens: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        todo!()
    }

    /// A client of it.
    pub fn client(&self) -> crate::Neutron {
        todo!()
    }

    /// Every request since the start, or since the last call.
    pub fn take_log(&self) -> Vec<Exchange> {
        todo!()
    }

    /// Misbehaves from now on, or no longer.
    pub fn set_fault(&self, _fault: Option<Fault>) {
        todo!()
    }

    /// Sets how many networks, subnets or ports (`resource`) a project may have; below zero: any number.
    pub fn set_quota(&self, _resource: &str, _limit: i64) {
        todo!()
    }

    /// Stops listening and cuts every connection. What was created is kept.
    pub async fn stop(&mut self) {
        todo!()
    }

    /// Listens again, on the same port.
    pub async fn start_again(&mut self) -> io::Result<()> {
        todo!()
    }
}
