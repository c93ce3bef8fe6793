//! TLS of a session's client (`listen … ssl`): the handshake, the server that its name chooses, and the check of its
//! certificate. As in nginx it follows the access rules and precedes `ssl_preread`.

use crate::base::close::CloseReason;
use crate::base::counters::bump;
use crate::base::logs::error::Level;
use crate::connector::Caller as _;
use crate::downstream::handshake::FailedHandshake;
use crate::phases::secured::{certificate_fault, result_of};
use crate::plan::tls::ClientDemands;
use crate::registry::generation::BoundListener;
use crate::registry::ocsp::client_statuses::ClientStatusSearch;
use crate::registry::process::wake_token;
use crate::registry::tls_choice::{BoundTls, server_of_side};
use crate::session::{RefusedSession, StreamSession};
use reactor::{Interest, Millis, Woken};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::{Pair, Pairs, STATUS_REQUEST_FAILED, Session, TlsError};
use transport::{HandshakeProgress, tls_error};

/// When a handshake must be complete.
#[derive(Clone, Copy)]
struct HandshakeLimit {
    began: Millis,
    timeout: Duration,
}

impl HandshakeLimit {
    fn left(self, now: Millis) -> Duration {
        self.timeout.saturating_sub(Duration::from_millis(now.since(self.began)))
    }
}

impl StreamSession {
    /// The handshake and what follows from it. From then on the session's bytes are those inside TLS.
    pub(super) async fn secure(&mut self, listener: &BoundListener) -> Result<(), RefusedSession> {
        let Some(tls) = &listener.tls else { return Ok(()) };
        let limit = HandshakeLimit { began: self.thread.reactor.now(), timeout: self.plan().handshake_timeout };
        if let Err(failed) = self.negotiate(tls, limit).await {
            failed.count(&self.thread);
            // As in nginx, the server of the client's name logs the session.
            let _ = self.choose_secured_server();
            self.log(failed.level, &failed.line());
            return Err(RefusedSession { status: 500, reason: failed.reason });
        }
        let resumed = self.connection.session(Session::is_resumed).unwrap_or_default();
        bump(&self.thread.counters().handshakes[usize::from(resumed)], 1);
        self.choose_secured_server()?;
        self.check_certificate()
    }

    async fn negotiate(&mut self, tls: &Arc<dyn tls::Listener>, limit: HandshakeLimit) -> Result<(), FailedHandshake> {
        let received = std::mem::take(&mut self.pending);
        if received.is_empty() {
            // Until the first byte has come, TLS holds nothing.
            self.wait_in_handshake(Some(Interest::READ), limit).await?;
        }
        if let Some(stream) = self.connection.stream_mut() {
            stream.begin_secure(Session::server(Arc::clone(tls)), received);
        }
        self.shake_hands(limit).await?;
        self.find_standing(limit).await
    }

    async fn shake_hands(&mut self, limit: HandshakeLimit) -> Result<(), FailedHandshake> {
        loop {
            // Datagrams have no handshake.
            let Some(stream) = self.connection.stream() else { return Ok(()) };
            if stream.handshake().map_err(|error| failure(&error))? == HandshakeProgress::Done {
                return Ok(());
            }
            if let Some(server) = stream.session(Session::awaits_certificate).flatten() {
                let found = self.find_certificates(server).await;
                let Some(stream) = self.connection.stream() else { return Ok(()) };
                match found {
                    Ok(pairs) => {
                        let shown = stream.show_certificates(Pairs::new(pairs));
                        shown.map_err(|error| failure(&error))?;
                        continue;
                    }
                    Err(message) => {
                        stream.refuse_certificates();
                        return Err(FailedHandshake::without_certificate(message));
                    }
                }
            }
            let interest = if stream.has_unsent() { Interest::WRITE } else { Interest::READ };
            self.wait_in_handshake(Some(interest), limit).await?;
        }
    }

    /// Waits for the socket, or only for a wake-up.
    async fn wait_in_handshake(
        &self,
        interest: Option<Interest>,
        limit: HandshakeLimit,
    ) -> Result<(), FailedHandshake> {
        if self.connection.is_secure() && self.thread.refuses_growth() {
            return Err(FailedHandshake::out_of_memory());
        }
        let left = limit.left(self.thread.reactor.now());
        if left.is_zero() {
            return Err(FailedHandshake::timed_out());
        }
        let stream = self.connection.stream();
        match self.wait_for(stream.zip(interest), left).await {
            Woken::Ready => Ok(()),
            Woken::Deadline => Err(FailedHandshake::timed_out()),
            Woken::PeerGone => {
                let reset = || io::Error::from_raw_os_error(104);
                let error = stream.and_then(|stream| stream.take_error().ok().flatten()).unwrap_or_else(reset);
                Err(failure(&error))
            }
        }
    }

    /// The certificates of a server whose names have variables. The error is the log message.
    async fn find_certificates(&mut self, server: u32) -> Result<Vec<Pair>, String> {
        self.choose_secured_server().map_err(|_| "the server of the client's name cannot be found".to_owned())?;
        let generation = Rc::clone(&self.generation);
        let bound = generation.stream_tls.get(server as usize).and_then(Option::as_ref);
        let plan = generation.plan.stream.servers.get(server as usize).and_then(|server| server.tls.as_deref());
        let (Some(finder), Some(made)) = (bound.and_then(BoundTls::finder), plan.and_then(|plan| plan.made.clone()))
        else {
            return Err("no certificate can be found".to_owned());
        };
        // A value that is no host name, such as a path with `..`, must not get into a file name.
        let is_name = |session: &Session| session.server_name().is_none_or(tls::is_server_name);
        if !self.connection.session(is_name).unwrap_or(true) {
            return Err("client sent invalid server name".to_owned());
        }
        let sources = made.sources(|template| self.value(template));
        if self.is_undecided.get() {
            return Err("the name of a certificate cannot be determined".to_owned());
        }
        if let Some(pairs) = finder.cached(&sources, Instant::now()) {
            return Ok(pairs);
        }
        let finder = finder.clone();
        let found = self.offload(move || finder.find(&sources, &made.passwords)).await;
        found.unwrap_or_else(|error| Err(format!("cannot load certificate: {error}")))
    }

    /// `ssl_ocsp`: waits until the responders have answered about the client's certificate.
    async fn find_standing(&mut self, limit: HandshakeLimit) -> Result<(), FailedHandshake> {
        let Some(mut search) = self.standing_search() else { return Ok(()) };
        loop {
            let token = wake_token(self.thread.index, self.task);
            let now_s = i64::try_from(self.thread.clock.now().as_secs()).unwrap_or(i64::MAX);
            match search.go_on(&self.thread.registry.client_statuses, token, now_s) {
                Some(Ok(())) => return Ok(()),
                Some(Err(reason)) => {
                    self.connection.session_mut(|session| session.doubt_client(reason));
                    return Ok(());
                }
                None => self.wait_in_handshake(None, limit).await?,
            }
        }
    }

    fn standing_search(&self) -> Option<ClientStatusSearch> {
        let questions = self.connection.session_mut(Session::take_status_questions)?;
        if questions.is_empty() {
            return None;
        }
        let chosen = self.connection.session(|session| session.chosen().cloned()).flatten();
        let server = chosen.and_then(|chosen| server_of_side(&self.generation.stream_tls, &chosen));
        let servers = &self.generation.plan.stream.servers;
        let tls = server.and_then(|server| servers.get(server)?.tls.as_deref());
        let Some(plan) = tls.and_then(|tls| tls.demands.as_ref()?.status.clone()) else {
            self.connection.session_mut(|session| session.doubt_client(STATUS_REQUEST_FAILED));
            return None;
        };
        Some(ClientStatusSearch::new(questions, plan))
    }

    /// Chooses the server by the name in the handshake.
    fn choose_secured_server(&mut self) -> Result<(), RefusedSession> {
        let name = self.connection.session(|session| session.server_name().map(str::to_owned)).flatten();
        name.map_or(Ok(()), |name| self.choose_server(&name))
    }

    /// The server's requirements for clients' certificates.
    pub(super) fn demands(&self) -> Option<&ClientDemands> {
        self.plan().tls.as_deref().and_then(|tls| tls.demands.as_ref())
    }

    fn check_certificate(&self) -> Result<(), RefusedSession> {
        let Some(demands) = self.demands() else { return Ok(()) };
        let result = self.connection.session(|session| result_of(session, demands));
        let Some(message) = result.and_then(|result| certificate_fault(result, demands.verify)) else { return Ok(()) };
        self.log(Level::Info, &format!("{message} while SSL handshaking"));
        Err(RefusedSession { status: 500, reason: CloseReason::SessionRefused })
    }
}

/// A client that does not use TLS gets the error that nginx logs from OpenSSL. A session of `stream` has no HTTP response to send.
fn failure(error: &io::Error) -> FailedHandshake {
    let mut failed = FailedHandshake::of(error);
    let reason = match tls_error(error) {
        Some(TlsError::NotTls { is_http: true }) => "0A00009C:SSL routines::http request",
        Some(TlsError::NotTls { is_http: false }) => "0A00010B:SSL routines::wrong version number",
        _ => return failed,
    };
    failed.message = format!("SSL_do_handshake() failed (SSL: error:{reason})");
    failed
}
