//! Clients with certificates that an OCSP responder must confirm (`ssl_ocsp`). The handshake is complete; the
//! connection waits for the answers before it serves a request, under the same deadline.

use crate::downstream::h1::connection::Connection;
use crate::registry::ocsp::client_statuses::ClientStatusSearch;
use crate::registry::process::wake_token;
use crate::registry::tls_choice::server_of_side;
use crate::worker::Worker;
use crate::worker::securing::{HandshakeWait, SecuringWait};
use tls::{STATUS_REQUEST_FAILED, Session};

impl Worker {
    /// Begins the search for the answers, or continues it; the search, while an answer is awaited. At its end the session knows
    /// the result.
    pub(crate) fn search_client_status(&self, connection: &Connection, awaited: HandshakeWait) -> HandshakeWait {
        let mut search = match awaited.map(|awaited| *awaited) {
            Some(SecuringWait::CertStatus(search)) => search,
            _ => self.begin_search(connection)?,
        };
        let token = wake_token(self.thread.index, connection.task);
        let now_s = i64::try_from(self.thread.clock.now().as_secs()).unwrap_or(i64::MAX);
        match search.go_on(&self.thread.registry.client_statuses, token, now_s) {
            None => return Some(Box::new(SecuringWait::CertStatus(search))),
            Some(Ok(())) => {}
            Some(Err(reason)) => {
                connection.stream.session_mut(|session| session.doubt_client(reason));
            }
        }
        None
    }

    fn begin_search(&self, connection: &Connection) -> Option<ClientStatusSearch> {
        let questions = connection.stream.session_mut(Session::take_status_questions)?;
        if questions.is_empty() {
            return None;
        }
        let generation = self.generation();
        let chosen = connection.stream.session(|session| session.chosen().cloned()).flatten();
        let server = chosen.and_then(|chosen| server_of_side(&generation.tls, &chosen));
        let tls = server.and_then(|server| generation.server(server as u32).tls.as_deref());
        let Some(plan) = tls.and_then(|tls| tls.demands.as_ref()?.status.clone()) else {
            // The configuration changed during the handshake.
            connection.stream.session_mut(|session| session.doubt_client(STATUS_REQUEST_FAILED));
            return None;
        };
        Some(ClientStatusSearch::new(questions, plan))
    }
}
