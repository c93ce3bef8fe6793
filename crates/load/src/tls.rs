//! What a load does under TLS: whom it believes, what it shows, how its handshakes went. The protocol is in `tls`, the socket in
//! `transport`.

use crate::cause::Cause;
use crate::setup::StartError;
use crate::tally::Latencies;
use reactor::Stream;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use tls::{ClientSide, Pair, Session, TlsError, Trust};
use transport::{Transport, tls_error};

/// What is asked of `https://` and `wss://` targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsOptions {
    /// Any certificate is taken.
    pub insecure: bool,
    /// Certificates of authorities, as PEM; without them the system's.
    pub authorities: Option<Vec<u8>>,
    /// The certificate that the load shows, with its key, both as PEM.
    pub pair: Option<(Vec<u8>, Vec<u8>)>,
    /// The name that is asked for and checked, in place of the URL's host.
    pub name: Option<String>,
    /// Sessions are resumed.
    pub resume: bool,
    /// A handshake counts as a request, and nothing is sent behind it.
    pub handshakes_only: bool,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self { insecure: false, authorities: None, pair: None, name: None, resume: true, handshakes_only: false }
    }
}

/// The load's side of all its connections.
#[derive(Debug)]
pub(crate) struct Side(ClientSide);

impl Side {
    /// For connections that ask for these names, and speak one of these protocols (ALPN), the first if the target does.
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

    /// A connection that asks for this name, not yet secured.
    pub(crate) fn wrap(&self, stream: Stream, name: &str) -> Transport {
        match Session::client(&self.0, name) {
            Ok(session) => Transport::secure(stream, session),
            // It was tried before the start; without a session the target refuses what it hears.
            Err(_) => Transport::plain(stream),
        }
    }
}

/// How the handshakes of an interval, or of a run, went.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Handshakes {
    /// With a key exchange and a certificate: from established TCP to the end of the handshake.
    pub full: Latencies,
    /// Of a session that was resumed.
    pub resumed: Latencies,
    /// Protocol and cipher, in OpenSSL's words, of each handshake.
    pub agreed: BTreeMap<String, u64>,
    /// Connections that the target closed between two responses without `close_notify`.
    pub truncated: u64,
    /// What was wrong with some handshake that failed, in words, with what to do.
    pub failure: Option<String>,
}

impl Handshakes {
    /// Counts one that is complete.
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

    /// Notes why one has failed; gives the cause.
    pub(crate) fn fail(&mut self, error: &io::Error) -> Cause {
        let Some(error) = tls_error(error) else { return Cause::ResetUnanswered };
        if self.failure.is_none() {
            let advice = error.advice().map_or_else(String::new, |advice| format!("; {advice}"));
            self.failure = Some(format!("{error}{advice}"));
        }
        cause(error)
    }

    /// Adds what others have seen.
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

    /// Handshakes that were complete.
    pub fn count(&self) -> u64 {
        self.full.count() + self.resumed.count()
    }
}

/// The cause that a request has failed by, where its handshake has.
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
