//! Clients with certificates that an OCSP responder must confirm (`ssl_ocsp`). The handshake is complete; the
//! connection waits for the answers before it serves a request, under the same deadline.

use crate::downstream::h1::connection::{Connection, SecuringWait};
use crate::registry::ocsp::standings::StandingSearch;
use crate::registry::process::wake_token;
use crate::registry::tls_choice::server_of_side;
use crate::worker::Worker;
use tls::{STATUS_REQUEST_FAILED, Session};

impl Worker {
    /// Whether nothing is awaited any more; the session then knows the result.
    pub(crate) fn standing_is_known(&self, connection: &mut Connection) -> bool {
        let mut search = match connection.awaited.take().map(|awaited| *awaited) {
            Some(SecuringWait::Standing(search)) => search,
            _ => match self.begin_search(connection) {
                Some(search) => search,
                None => return true,
            },
        };
        let token = wake_token(self.thread.index, connection.task);
        let now_s = i64::try_from(self.thread.clock.now().as_secs()).unwrap_or(i64::MAX);
        match search.go_on(&self.thread.shared.standings, token, now_s) {
            None => {
                connection.awaited = Some(Box::new(SecuringWait::Standing(search)));
                return false;
            }
            Some(Ok(())) => {}
            Some(Err(reason)) => {
                connection.stream.session_mut(|session| session.doubt_client(reason));
            }
        }
        true
    }

    fn begin_search(&self, connection: &Connection) -> Option<StandingSearch> {
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
        Some(StandingSearch::new(questions, plan))
    }
}
