//! Certificates that a handshake names by variables. The handshake waits while another thread reads their files.

use crate::downstream::h1::connection::Connection;
use crate::plan::tls::PairSource;
use crate::registry::process::Message;
use crate::registry::tls_choice::BoundTls;
use crate::worker::Worker;
use crate::worker::handshake_view::HandshakeView;
use crate::worker::securing::{HandshakeWait, SecuringWait};
use std::time::Instant;
use tls::{Pair, Session};

/// The result of the search.
pub(crate) enum Search {
    Found(Vec<Pair>),
    /// The connection is woken when there is a result.
    Waits(Box<SecuringWait>),
    /// The log message.
    Failed(String),
}

impl Worker {
    /// Finds the certificates that a connection's handshake waits for. `awaited`: a search that has begun; `server`: the index of
    /// the chosen server.
    pub(crate) fn search_certificates(&self, connection: &Connection, awaited: HandshakeWait, server: u32) -> Search {
        if let Some(awaited) = awaited
            && let SecuringWait::Certificates(pending) = &*awaited
        {
            return match pending.take() {
                None => Search::Waits(awaited),
                Some(Ok(Ok(pairs))) => Search::Found(pairs),
                Some(Ok(Err(message))) => Search::Failed(message),
                Some(Err(error)) => Search::Failed(format!("cannot load certificate: {error}")),
            };
        }
        let generation = self.generation();
        let bound = generation.tls.get(server as usize).and_then(Option::as_ref);
        let made = generation.server(server).tls.as_deref().and_then(|tls| tls.made.clone());
        let (Some(finder), Some(made)) = (bound.and_then(BoundTls::finder), made) else {
            return Search::Failed("the configuration has changed during the handshake".to_owned());
        };
        // A value that is no host name, such as a path with `..`, must not get into a file name.
        let is_name = |session: &Session| session.server_name().is_none_or(tls::is_server_name);
        if !connection.stream.session(is_name).unwrap_or(true) {
            return Search::Failed("client sent invalid server name".to_owned());
        }
        let view = HandshakeView::new(&self.thread, &generation, connection, server);
        let sources: Vec<PairSource> = made.sources(|template| view.value(template));
        if let Some(trouble) = view.into_trouble() {
            return Search::Failed(trouble);
        }
        if let Some(pairs) = finder.cached(&sources, Instant::now()) {
            return Search::Found(pairs);
        }
        let (registry, worker, task) = (self.thread.registry, usize::from(self.thread.index), connection.task);
        let finder = finder.clone();
        let job = move || finder.find(&sources, &made.passwords);
        match registry.offload.submit(job, move || registry.send(worker, Message::Wake(task))) {
            Ok(pending) => Search::Waits(Box::new(SecuringWait::Certificates(pending))),
            Err(error) => Search::Failed(format!("cannot load certificate: {error}")),
        }
    }
}
