//! Variables while a certificate is chosen: there is a connection, but no request yet. Values are not cached.

use crate::base::values::{bytes, number, remote_addr, remote_port, seconds, write_binary_ip, write_ip};
use crate::downstream::h1::connection::Connection;
use crate::plan::tls::is_of_handshake;
use crate::registry::generation::Generation;
use crate::thread::WorkerThread;
use reactor::PeerAddress;
use rules::captures::Captures;
use rules::slots::VarSlots;
use rules::template::{Template, View};
use rules::user_variables::{Surroundings, Trouble};
use rules::variable::{TlsVariable, Variable};
use std::cell::RefCell;
use std::net::IpAddr;
use tls::Session;

/// A handshake as templates see it.
pub(crate) struct HandshakeView<'a> {
    thread: &'a WorkerThread,
    generation: &'a Generation,
    connection: &'a Connection,
    /// Index of the server.
    server: u32,
    slots: VarSlots,
    captures: RefCell<Captures>,
    trouble: RefCell<Option<String>>,
}

impl<'a> HandshakeView<'a> {
    pub(crate) fn new(
        thread: &'a WorkerThread,
        generation: &'a Generation,
        connection: &'a Connection,
        server: u32,
    ) -> Self {
        let (slots, captures, trouble) = (VarSlots::default(), RefCell::default(), RefCell::default());
        Self { thread, generation, connection, server, slots, captures, trouble }
    }

    pub(crate) fn value(&self, template: &Template) -> Vec<u8> {
        let mut value = Vec::new();
        template.write(self, &mut value);
        value
    }

    /// The first failure while values were evaluated: no decision may use such values.
    pub(crate) fn into_trouble(self) -> Option<String> {
        self.trouble.into_inner()
    }

    fn server_name(&self, out: &mut Vec<u8>) -> bool {
        let write = |session: &Session| session.server_name().is_some_and(|name| bytes(name.as_bytes(), out));
        self.connection.stream.session(write).unwrap_or_default()
    }
}

impl View for HandshakeView<'_> {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        if !is_of_handshake(variable) {
            return false;
        }
        let Self { connection, thread, .. } = self;
        let local = || connection.stream.local_address().ok().flatten();
        match variable {
            Variable::Tls(TlsVariable::ServerName) => self.server_name(out),
            Variable::RemoteAddr | Variable::RealipRemoteAddr => remote_addr(&connection.client.peer, out),
            Variable::RemotePort | Variable::RealipRemotePort => remote_port(&connection.client.peer, out),
            Variable::BinaryRemoteAddr => write_binary_ip(&connection.client.peer, out),
            Variable::ServerAddr => local().is_some_and(|address| write_ip(address.ip(), out)),
            Variable::ServerPort => local().is_some_and(|address| number(u64::from(address.port()), out)),
            Variable::ServerName => bytes(&self.generation.server(self.server).name, out),
            Variable::Hostname => bytes(&self.generation.hostname, out),
            Variable::Scheme => bytes(b"https", out),
            Variable::Https => bytes(b"on", out),
            Variable::Connection => number(connection.client.serial, out),
            Variable::Pid => number(u64::from(std::process::id()), out),
            Variable::Msec => seconds(thread.clock.now().as_millis() as u64, out),
            Variable::TimeIso8601 => bytes(&thread.clock.moment().iso8601(), out),
            Variable::NginxVersion => bytes(crate::NGINX_VERSION.as_bytes(), out),
            Variable::User(slot) => self.generation.definitions.write(*slot, self, out),
            _ => false,
        }
    }
}

impl Surroundings for HandshakeView<'_> {
    fn slots(&self) -> &VarSlots {
        &self.slots
    }

    fn captures(&self) -> &RefCell<Captures> {
        &self.captures
    }

    fn client(&self) -> Option<IpAddr> {
        match &self.connection.client.peer {
            PeerAddress::Ip(address) => Some(address.ip()),
            PeerAddress::Unix(_) => None,
        }
    }

    fn forwarded_for<'v>(&'v self, _fields: &mut Vec<&'v [u8]>) {}

    fn trouble(&self, trouble: Trouble<'_>) {
        let text = match trouble {
            // As in a request, the value is empty.
            Trouble::Uninitialized(_) => return,
            Trouble::Cycle(name) => format!("cycle while evaluating variable \"{name}\""),
            Trouble::Match(error) => error.message,
        };
        self.trouble.borrow_mut().get_or_insert(text);
    }
}
