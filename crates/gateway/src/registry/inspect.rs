//! Inspection and control by an operator: peers, pools, the level of the error logs, and the connections of workers.
//! The process calls it for `holdfast ctl`; `worker::inspect` has the workers' part.

use crate::base::logs::error::Level;
use crate::registry::process::{DrainedPeer, Message, Registry};
use crate::registry::recent_errors::RecentError;
use crate::registry::status_list::peer_label;
use conf::value::Cidr;
use reactor::PeerAddress;
use serde::Serialize;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
pub use upstream::balance::PeerMode;
use upstream::balance::{Checked, PeerHealth};

/// A worker reads its mailbox in each turn of its loop; one that does not answer within this time is stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A peer of a group.
#[derive(Debug, Serialize)]
pub struct PeerRow {
    /// Its group.
    pub group: String,
    /// Its address, with `#2` and so on appended if the group has the address more than once.
    pub peer: String,
    /// Its administrative mode.
    pub mode: String,
    /// The weight that an operator has set; absent if it is that of the configuration.
    pub weight: Option<u32>,
    /// The state of active checks; absent if it is healthy or not checked.
    pub check: Option<&'static str>,
    /// Failures since the last success.
    pub fails: u32,
    /// Exchanges and tunnels in progress. For the only peer of a group without `max_conns` they are not counted; there it is
    /// the number of connections in use, and streams of HTTP/2 share one.
    pub active: u32,
    /// Idle connections.
    pub idle: u64,
    /// Requests sent to it.
    pub attempts: u64,
    /// Attempts that failed.
    pub failed: u64,
}

/// The pool of a group.
#[derive(Debug, Serialize)]
pub struct PoolRow {
    /// Its name.
    pub group: String,
    /// Idle connections.
    pub idle: u64,
    /// Connections on a lease, or in use as one side of a tunnel.
    pub leased: u64,
    /// Connections being opened.
    pub connecting: u64,
    /// Requests in line.
    pub waiting: u64,
    /// Connections opened since the start.
    pub opened: u64,
    /// Exchanges on a connection that had served another one before.
    pub reused: u64,
    /// Connections discarded.
    pub discarded: u64,
}

/// A client connection, or a tunnel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ClientRow {
    /// `$connection`
    pub connection: u64,
    /// The worker that has it.
    pub worker: u16,
    /// The client's address; absent if it is not known.
    pub client: Option<String>,
    /// `idle`, `head`, `exchange`, `closing`, `tunnel`, `session` or `draining`.
    pub state: &'static str,
    /// Age since the connection was accepted; for an exchange since it began.
    pub age_ms: Option<u64>,
    /// Time since its last activity; absent for an exchange.
    pub idle_ms: Option<u64>,
    /// Requests so far.
    pub requests: Option<u64>,
    /// The upstream's address, for a tunnel.
    pub upstream: Option<String>,
    /// Server and location, for a tunnel of HTTP.
    pub route: Option<String>,
    /// Bytes from the client, for a tunnel.
    pub received_bytes: Option<u64>,
    /// Bytes to the client, for a tunnel.
    pub sent_bytes: Option<u64>,
    /// Bytes of memory that it holds.
    pub memory_bytes: u64,
}

/// Selects and sorts rows.
#[derive(Debug, Clone, Default)]
pub struct RowFilter {
    /// Only of this client.
    pub client: Option<Cidr>,
    /// Only in this state.
    pub state: Option<String>,
    /// Only to this upstream address.
    pub upstream: Option<String>,
    /// Only of this location, with or without its server before it.
    pub route: Option<String>,
    /// Sort by this, the largest first.
    pub sort: SortBy,
    /// Most rows.
    pub limit: usize,
}

/// Sort keys of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortBy {
    /// [`ClientRow::age_ms`].
    #[default]
    Age,
    /// [`ClientRow::idle_ms`].
    Idle,
    /// [`ClientRow::memory_bytes`].
    Memory,
    /// Bytes of both directions.
    Bytes,
}

impl RowFilter {
    /// Whether a row matches. The client is looked up only if needed, since that is a system call.
    pub(crate) fn admits(&self, row: &ClientRow, client: impl FnOnce() -> Option<PeerAddress>) -> bool {
        let is =
            |wanted: &Option<String>, found: Option<&str>| wanted.as_deref().is_none_or(|wanted| Some(wanted) == found);
        is(&self.state, Some(row.state))
            && is(&self.upstream, row.upstream.as_deref())
            && self.route.as_deref().is_none_or(|wanted| {
                row.route.as_deref().is_some_and(|route| {
                    route == wanted || route.split_once(' ').is_some_and(|(_, location)| location == wanted)
                })
            })
            && self
                .client
                .is_none_or(|network| client().and_then(|client| client.ip()).is_some_and(|ip| network.contains(ip)))
    }

    fn key(&self, row: &ClientRow) -> u64 {
        match self.sort {
            SortBy::Age => row.age_ms.unwrap_or_default(),
            SortBy::Idle => row.idle_ms.unwrap_or_default(),
            SortBy::Memory => row.memory_bytes,
            SortBy::Bytes => row.received_bytes.unwrap_or_default() + row.sent_bytes.unwrap_or_default(),
        }
    }

    /// Keeps the first rows in the wanted order.
    pub(crate) fn keep_first(&self, rows: &mut Vec<ClientRow>) {
        rows.sort_by_key(|row| (Reverse(self.key(row)), row.connection));
        rows.truncate(self.limit);
    }
}

/// A question to the workers.
#[derive(Debug, Clone)]
pub(crate) enum RowsQuestion {
    /// List client connections without tunnels.
    Connections(RowFilter),
    Tunnels(RowFilter),
    /// Close the client connection with this number, tunnel or not.
    Close(u64),
    /// Close all that match, of the tunnels or of the others.
    CloseAll(RowFilter, Tunnels),
}

/// Which of a worker's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tunnels {
    /// Tunnels and sessions.
    Only,
    /// All others.
    Not,
}

/// A question that a worker processes, a part of its connections at a time.
pub struct Inspection {
    pub(crate) question: RowsQuestion,
    /// The task index at which it continues.
    pub(crate) next: usize,
    pub(crate) found: FoundRows,
    answer: Sender<FoundRows>,
}

/// The rows that a worker has found.
#[derive(Debug, Default)]
pub(crate) struct FoundRows {
    pub(crate) rows: Vec<ClientRow>,
    /// Rows that matched the filter, including those beyond the limit.
    pub(crate) matching: u64,
}

impl Inspection {
    /// Sends the worker's answer.
    pub(crate) fn finish(self) {
        // If the asker has stopped waiting, no answer is needed.
        let _ = self.answer.send(self.found);
    }
}

/// A list of connections.
#[derive(Debug, Serialize)]
pub struct ClientList {
    /// The first rows.
    pub rows: Vec<ClientRow>,
    /// Number of rows that matched the filter.
    pub matching: u64,
    /// All workers have answered.
    pub complete: bool,
}

impl Registry {
    /// The peers of all groups in the configuration.
    pub fn peer_rows(&self) -> Vec<PeerRow> {
        let health = self.identities.health().all();
        let mut rows = Vec::new();
        for group in self.status.listed_groups() {
            for peer in &group.peers {
                let Some(health) = find(&health, &group.name, &peer.label) else { continue };
                let sums = peer.cells.sums();
                let pooled = peer.id.map(|id| self.pool.peer_snapshot(id));
                rows.push(PeerRow {
                    group: group.name.to_string(),
                    peer: peer.label.to_string(),
                    mode: health.mode().to_string(),
                    weight: health.weight(),
                    check: match health.checked() {
                        Checked::Healthy => None,
                        Checked::Unhealthy => Some("unhealthy"),
                        Checked::Pending => Some("pending"),
                    },
                    fails: health.fails(),
                    // The balancer counts nothing for a single peer; the pool counts connections for all.
                    active: health.active().max(pooled.map_or(0, |pooled| pooled.leased())),
                    idle: pooled.map_or(0, |pooled| pooled.idle.into()),
                    attempts: sums.attempts,
                    failed: sums.failed,
                });
            }
        }
        rows
    }

    /// Sets the mode of a peer, and drains its tunnels if the mode is that; `label` is that of [`Self::peer_rows`]. `false`: there is no such peer.
    pub fn set_peer_mode(&self, group: &str, label: &str, mode: PeerMode) -> bool {
        let Some(health) = find(&self.identities.health().all(), group, label) else { return false };
        health.set_mode(mode);
        if let (PeerMode::Drain, Some(peer)) = (mode, self.status.peer_id(group, label)) {
            for worker in 0..self.workers() {
                let health = Arc::clone(&health);
                self.send(worker, Message::DrainPeer(DrainedPeer { peer, health }));
            }
        }
        true
    }

    /// Sets the weight of a peer; `None` returns to the configured one. `false`: there is no such peer.
    pub fn set_peer_weight(&self, group: &str, label: &str, weight: Option<u32>) -> bool {
        let found = find(&self.identities.health().all(), group, label);
        found.inspect(|health| health.set_weight(weight)).is_some()
    }

    /// The last lines of the error logs from `warn` on, the oldest first: those after the line with this number, and at most
    /// this many.
    pub fn last_errors(&self, after: u64, most: usize) -> Vec<RecentError> {
        let mut lines = self.recent_errors.list();
        lines.retain(|line| line.number > after);
        lines.truncate(most);
        lines.reverse();
        lines
    }

    /// The pools of all groups in the configuration.
    pub fn pool_rows(&self) -> Vec<PoolRow> {
        let row = |group: crate::registry::status_list::ListedGroup| {
            let pooled = self.pool.snapshot(group.id);
            PoolRow {
                group: group.name.to_string(),
                idle: pooled.idle.into(),
                leased: pooled.leased().into(),
                connecting: pooled.connecting.into(),
                waiting: group.waiting(&pooled),
                opened: pooled.counts.opened,
                reused: pooled.counts.reused,
                discarded: pooled.counts.discarded_total(),
            }
        };
        self.status.listed_groups().into_iter().map(row).collect()
    }

    /// Closes the idle connections of a group, or of all groups; returns how many. `None`: there is no such group.
    pub fn flush_pools(&self, group: Option<&str>) -> Option<usize> {
        let id = match group {
            None => None,
            Some(name) => Some(self.pool.groups().into_iter().find(|(known, _)| **known == *name)?.1),
        };
        let mut removed = Vec::new();
        self.pool.flush(id, &mut removed);
        Some(removed.len())
    }

    /// Sets the level of all error logs; `None` restores the configured levels.
    pub fn set_log_level(&self, level: Option<Level>) {
        self.log_bell.set_level(level);
    }

    /// The level that was set at run time.
    pub fn log_level(&self) -> Option<Level> {
        self.log_bell.level()
    }

    /// Lists client connections without tunnels.
    pub fn list_connections(&self, filter: &RowFilter) -> ClientList {
        self.list(filter, &RowsQuestion::Connections(filter.clone()))
    }

    /// Lists tunnels.
    pub fn list_tunnels(&self, filter: &RowFilter) -> ClientList {
        self.list(filter, &RowsQuestion::Tunnels(filter.clone()))
    }

    /// Closes a client connection by its number; `false`: there is none.
    pub fn close_connection(&self, connection: u64) -> bool {
        self.ask(&RowsQuestion::Close(connection)).0.iter().any(|found| found.matching > 0)
    }

    /// Closes all client connections that match; returns how many, and whether all workers have answered.
    pub fn close_all(&self, filter: &RowFilter, tunnels: Tunnels) -> (u64, bool) {
        let (found, complete) = self.ask(&RowsQuestion::CloseAll(filter.clone(), tunnels));
        (found.iter().map(|found| found.matching).sum(), complete)
    }

    fn list(&self, filter: &RowFilter, question: &RowsQuestion) -> ClientList {
        let (found, complete) = self.ask(question);
        let matching = found.iter().map(|found| found.matching).sum();
        let mut rows: Vec<ClientRow> = found.into_iter().flat_map(|found| found.rows).collect();
        filter.keep_first(&mut rows);
        ClientList { rows, matching, complete }
    }

    /// Asks all workers and waits for them: never called on a worker. Also returns whether all have answered.
    fn ask(&self, question: &RowsQuestion) -> (Vec<FoundRows>, bool) {
        let (answer, answers) = channel();
        for worker in 0..self.workers() {
            let (question, answer) = (question.clone(), answer.clone());
            let inspection = Inspection { question, next: 0, found: FoundRows::default(), answer };
            self.send(worker, Message::Inspect(Box::new(inspection)));
        }
        drop(answer);
        let (mut found, until) = (Vec::new(), Instant::now() + ANSWER_TIMEOUT);
        loop {
            match answers.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(one) => found.push(one),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => return (found, false),
            }
        }
        let complete = found.len() == self.workers();
        (found, complete)
    }
}

/// The health of a peer, by the displayed names.
fn find(all: &[(Box<str>, PeerAddress, Arc<PeerHealth>)], group: &str, label: &str) -> Option<Arc<PeerHealth>> {
    let is_it = |(known, address, health): &&(Box<str>, PeerAddress, Arc<PeerHealth>)| {
        **known == *group && peer_label(&address.to_string(), health.ordinal()) == label
    };
    all.iter().find(is_it).map(|(.., health)| Arc::clone(health))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(connection: u64, age_ms: u64, bytes: u64) -> ClientRow {
        ClientRow {
            connection,
            state: "tunnel",
            age_ms: Some(age_ms),
            received_bytes: Some(bytes),
            upstream: Some("10.0.0.1:80".to_owned()),
            route: Some("shop /ws".to_owned()),
            ..ClientRow::default()
        }
    }

    #[test]
    fn rows_are_sorted_and_cut() {
        let mut rows = vec![row(1, 5, 30), row(2, 9, 10), row(3, 7, 20)];
        let by_age = RowFilter { limit: 2, ..RowFilter::default() };
        by_age.keep_first(&mut rows);
        assert_eq!(rows.iter().map(|row| row.connection).collect::<Vec<_>>(), [2, 3]);
        RowFilter { sort: SortBy::Bytes, limit: 1, ..RowFilter::default() }.keep_first(&mut rows);
        assert_eq!(rows.iter().map(|row| row.connection).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn filters_select_client_state_and_upstream() {
        let client = || Some(PeerAddress::Ip(([10, 1, 2, 3], 4).into()));
        let network = |text: &str| Cidr::parse(text.as_bytes()).map(|(network, _)| network);
        let admits = |filter: RowFilter| filter.admits(&row(1, 1, 1), client);
        assert!(admits(RowFilter { client: network("10.1.0.0/16"), ..RowFilter::default() }));
        assert!(!admits(RowFilter { client: network("10.2.0.0/16"), ..RowFilter::default() }));
        assert!(!admits(RowFilter { state: Some("idle".to_owned()), ..RowFilter::default() }));
        assert!(admits(RowFilter { upstream: Some("10.0.0.1:80".to_owned()), ..RowFilter::default() }));
        assert!(!admits(RowFilter { upstream: Some("10.0.0.1:81".to_owned()), ..RowFilter::default() }));
        for (route, admitted) in [("/ws", true), ("shop /ws", true), ("other /ws", false), ("/", false)] {
            assert_eq!(
                admits(RowFilter { route: Some(route.to_owned()), ..RowFilter::default() }),
                admitted,
                "{route}"
            );
        }
    }
}
