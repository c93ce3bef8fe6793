//! The values of variables during a session: a borrowed view, built to render a template.

use crate::base::logs::error::Level;
use crate::base::values::{
    bytes, number, optional, proxy_protocol, remote_addr, remote_port, seconds, time_of_us, write_binary_ip, write_ip,
};
use crate::exchange::tls_view;
use crate::session::StreamSession;
use crate::session::proxy::SessionAttempt;
use reactor::PeerAddress;
use rules::captures::Captures;
use rules::slots::VarSlots;
use rules::template::View;
use rules::user_variables::{Surroundings, Trouble};
use rules::variable::Variable;
use std::cell::RefCell;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt as _;

/// A session as templates see it.
pub(crate) struct SessionView<'a>(pub(crate) &'a StreamSession);

impl StreamSession {
    pub(crate) fn view(&self) -> SessionView<'_> {
        SessionView(self)
    }
}

impl View for SessionView<'_> {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let Self(session) = self;
        let (thread, local) = (&session.thread, || session.connection.local_address());
        match variable {
            Variable::RemoteAddr => remote_addr(session.client(), out),
            Variable::RemotePort => remote_port(session.client(), out),
            Variable::RealipRemoteAddr => remote_addr(&session.peer, out),
            Variable::RealipRemotePort => remote_port(&session.peer, out),
            Variable::BinaryRemoteAddr => write_binary_ip(session.client(), out),
            Variable::ServerAddr => self.server_addr(out),
            Variable::ServerPort => local().is_some_and(|address| number(u64::from(address.port()), out)),
            Variable::ServerName => bytes(&session.plan().name, out),
            Variable::Hostname => bytes(&session.generation.hostname, out),
            Variable::Protocol => bytes(if session.connection.is_datagrams() { b"UDP" } else { b"TCP" }, out),
            Variable::Connection => number(session.serial, out),
            Variable::Status => write!(out, "{:03}", session.status).is_ok(),
            Variable::BytesSent => number(session.sent_bytes, out),
            Variable::BytesReceived => number(self.received_bytes(), out),
            Variable::SessionTime => seconds(thread.reactor.now().since(session.accepted_at), out),
            Variable::Msec => seconds(thread.clock.now().as_millis() as u64, out),
            Variable::TimeLocal => bytes(&thread.clock.moment().local(), out),
            Variable::TimeIso8601 => bytes(&thread.clock.moment().iso8601(), out),
            Variable::Pid => number(u64::from(std::process::id()), out),
            Variable::NginxVersion => bytes(crate::NGINX_VERSION.as_bytes(), out),
            Variable::LimitConnStatus => {
                let status = session.limited.as_deref().and_then(|limited| limited.connections);
                status.is_some_and(|status| bytes(status.word(), out))
            }
            Variable::SslPrereadServerName | Variable::SslPrereadProtocol | Variable::SslPrereadAlpnProtocols => {
                self.preread(variable, out)
            }
            Variable::ProxyProtocolAddr
            | Variable::ProxyProtocolPort
            | Variable::ProxyProtocolServerAddr
            | Variable::ProxyProtocolServerPort
            | Variable::ProxyProtocolTlv(_) => {
                session.header.as_deref().is_some_and(|header| proxy_protocol(header, variable, out))
            }
            Variable::Tls(variable) => {
                let (demands, now) = (session.demands(), thread.clock.now());
                let value = |tls: &tls::Session| tls_view::of_session(*variable, tls, demands, now, out);
                session.connection.session(value).unwrap_or_default()
            }
            Variable::Capture(group) => optional(session.captures.borrow().group(usize::from(*group)), out),
            Variable::User(slot) => session.generation.plan.stream.definitions.write(*slot, self, out),
            _ => self.upstream(variable, out),
        }
    }
}

impl SessionView<'_> {
    /// As in nginx, bytes of a connection count once they are passed on; a datagram counts at once.
    fn received_bytes(&self) -> u64 {
        if self.0.connection.is_datagrams() { self.0.pending.len() as u64 } else { 0 }
    }

    fn server_addr(&self, out: &mut Vec<u8>) -> bool {
        if let Some(address) = self.0.connection.local_address() {
            return write_ip(address.ip(), out);
        }
        bytes(b"unix:", out);
        if let Some(stream) = self.0.connection.stream()
            && let Ok(address) = stream.stream().as_socket().local_addr()
            && let Some(path) = address.as_pathname()
        {
            out.extend_from_slice(path.as_os_str().as_bytes());
        }
        true
    }

    /// `$ssl_preread_…`: as in nginx, there is no value without a TLS message.
    fn preread(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let Some(hello) = &self.0.hello else { return false };
        match variable {
            Variable::SslPrereadServerName => bytes(hello.server_name.as_deref().unwrap_or_default().as_bytes(), out),
            Variable::SslPrereadProtocol => bytes(hello.protocol.as_bytes(), out),
            _ => bytes(&hello.alpn_protocols, out),
        }
    }

    /// Values of all attempts, separated by commas.
    fn upstream(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        for (place, attempt) in self.0.attempts.iter().enumerate() {
            out.extend_from_slice(if place > 0 { b", " } else { b"" });
            if !attempt_value(attempt, variable, out) {
                out.truncate(start);
                return false;
            }
        }
        !self.0.attempts.is_empty()
    }
}

fn attempt_value(attempt: &SessionAttempt, variable: &Variable, out: &mut Vec<u8>) -> bool {
    match variable {
        Variable::UpstreamAddr => bytes(&attempt.peer, out),
        Variable::UpstreamConnectTime => time_of_us(attempt.connect_us, out),
        Variable::UpstreamSessionTime => time_of_us(attempt.session_us, out),
        Variable::UpstreamFirstByteTime => bytes(b"-", out),
        Variable::UpstreamBytesSent | Variable::UpstreamBytesReceived => number(0, out),
        Variable::PoolWaitTime => seconds(attempt.wait_ms, out),
        Variable::UpstreamLocalAddr => match attempt.local_address {
            // Writing to a vector cannot fail.
            Some(address) => write!(out, "{address}").is_ok(),
            None => bytes(b"-", out),
        },
        _ => false,
    }
}

impl Surroundings for SessionView<'_> {
    fn slots(&self) -> &VarSlots {
        &self.0.slots
    }

    fn captures(&self) -> &RefCell<Captures> {
        &self.0.captures
    }

    fn client(&self) -> Option<IpAddr> {
        match self.0.client() {
            PeerAddress::Ip(address) => Some(address.ip()),
            PeerAddress::Unix(_) => None,
        }
    }

    fn forwarded_for<'v>(&'v self, _fields: &mut Vec<&'v [u8]>) {}

    fn trouble(&self, trouble: Trouble<'_>) {
        match trouble {
            Trouble::Uninitialized(name) if self.0.plan().warns_uninitialized => {
                self.0.log(Level::Warn, &format!("using uninitialized \"{name}\" variable"));
            }
            Trouble::Uninitialized(_) => {}
            Trouble::Cycle(name) => {
                self.0.log(Level::Error, &format!("cycle while evaluating variable \"{name}\""));
            }
            Trouble::Match(error) => {
                self.0.log(Level::Error, &error.message);
                self.0.is_undecided.set(true);
            }
        }
    }
}
