//! TLS on the load's side: trusted authorities, the client certificate, and the record of handshakes. `tls` has the
//! protocol, `transport` the socket.

use crate::cause::Cause;
use crate::setup::StartError;
use crate::tally::Latencies;
use reactor::Stream;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use tls::{ClientSide, Pair, Session, TlsError, Trust};
use transport::{Transport, tls_error};

/// TLS options for `https://` and `wss://` targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsOptions {
    /// Whether to accept any certificate.
    pub insecure: bool,
    /// Trusted authorities as PEM; `None` uses the system's.
    pub authorities: Option<Vec<u8>>,
    /// The client certificate with its key, both as PEM.
    pub pair: Option<(Vec<u8>, Vec<u8>)>,
    /// The server name to request and verify, in place of the URL's host.
    pub name: Option<String>,
    /// Whether to resume sessions.
    pub resume: bool,
    /// Whether a handshake counts as a request and nothing is sent after it.
    pub handshakes_only: bool,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self { insecure: false, authorities: None, pair: None, name: None, resume: true, handshakes_only: false }
    }
}

/// The TLS configuration of all connections.
#[derive(Debug)]
pub(crate) struct Side(ClientSide);

impl Side {
    /// For these server names and ALPN protocols; the first protocol is preferred.
    pub(crate) fn new<'a>(
        options: &TlsOptions,
        protocols: &[&str],
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, StartError> {
        let wrong = |error: &dyn std::fmt::Display| StartError::Tls(error.to_string());
        let trust = match (&options.authorities, options.insecure) {
            (_, true) => Trust::Anyone,
            (Some(pem), false) => Trust::Authorities(pem.clone()),
            (None, false) => Trust::System,
        };
        let pair = match &options.pair {
            Some((chain, key)) => Some(Pair::from_pem(chain, key, b"").map_err(|finding| wrong(&finding))?),
            None => None,
        };
        let side = ClientSide::new(trust).pair(pair).resume(options.resume).alpn(protocols.iter().copied());
        let side = side.build().map_err(|error| wrong(&error))?;
        for name in names {
            Session::client(&side, name).map_err(|error| wrong(&error))?;
        }
        Ok(Self(side))
    }

    /// A connection with this server name, before its handshake.
    pub(crate) fn wrap(&self, stream: Stream, name: &str) -> Transport {
        match Session::client(&self.0, name) {
            Ok(session) => Transport::secure(stream, session),
            // Each name was checked before the start. Without a session the target would refuse the plain bytes.
            Err(_) => Transport::plain(stream),
        }
    }
}

/// The handshakes of an interval or of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Handshakes {
    /// Full handshakes, with a key exchange and a certificate: from established TCP to the end of the handshake.
    pub full: Latencies,
    /// Handshakes that resumed a session.
    pub resumed: Latencies,
    /// Number of handshakes by protocol and cipher, in OpenSSL's names.
    pub agreed: BTreeMap<String, u64>,
    /// Connections that the target closed between two responses without `close_notify`.
    pub truncated: u64,
    /// The first error of a failed handshake, with advice.
    pub failure: Option<String>,
}

impl Handshakes {
    /// Counts a complete handshake.
    pub(crate) fn complete(&mut self, session: &Session, time_ns: u64) {
        let times = if session.is_resumed() { &mut self.resumed } else { &mut self.full };
        times.record(time_ns);
        let (protocol, cipher) = (session.protocol().map_or("?", |protocol| protocol.name()), session.cipher());
        let agreed = format!("{protocol} {}", cipher.unwrap_or("?"));
        match self.agreed.get_mut(&agreed) {
            Some(count) => *count += 1,
            None => drop(self.agreed.insert(agreed, 1)),
        }
    }

    /// Records the error of a failed handshake; returns the cause.
    pub(crate) fn fail(&mut self, error: &io::Error) -> Cause {
        let Some(error) = tls_error(error) else { return Cause::ResetUnanswered };
        if self.failure.is_none() {
            let advice = error.advice().map_or_else(String::new, |advice| format!("; {advice}"));
            self.failure = Some(format!("{error}{advice}"));
        }
        cause(error)
    }

    /// Adds the counts of another worker or interval.
    pub(crate) fn add(&mut self, other: &Self) {
        self.full.add(&other.full);
        self.resumed.add(&other.resumed);
        for (agreed, count) in &other.agreed {
            *self.agreed.entry(agreed.clone()).or_default() += count;
        }
        self.truncated += other.truncated;
        if self.failure.is_none() {
            self.failure.clone_from(&other.failure);
        }
    }

    /// Number of complete handshakes.
    pub fn count(&self) -> u64 {
        self.full.count() + self.resumed.count()
    }
}

/// The cause of a request's failure if its handshake has failed.
fn cause(error: &TlsError) -> Cause {
    match error {
        TlsError::ClosedInHandshake => Cause::TlsClosed,
        TlsError::NotTls { .. } => Cause::NotTls,
        _ if error.key() == "not_tls" => Cause::NotTls,
        _ if error.certificate().is_some() => Cause::TlsCertificate,
        TlsError::Broken(_) | TlsError::TooLong => Cause::TlsBroken,
        _ => Cause::TlsRefused,
    }
}
