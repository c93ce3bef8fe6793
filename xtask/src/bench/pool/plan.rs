//! What is measured: the loads, the arms of each, and the order in which they come. Values only.

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What stands between client and origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Server {
    /// Nothing.
    Direct,
    Nginx,
    Holdfast,
    Haproxy,
}

impl Server {
    pub(super) fn name(self) -> &'static str {
        match self {
            Server::Direct => "direct",
            Server::Nginx => "nginx",
            Server::Holdfast => "holdfast",
            Server::Haproxy => "haproxy",
        }
    }
}

/// One side of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Arm {
    pub(super) server: Server,
    /// Idle upstream connections that each worker may keep (Holdfast: all workers together that many times as many); 0: none.
    pub(super) keepalive: u32,
    pub(super) workers: u32,
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.server.name();
        let keeps = match (self.server, self.keepalive) {
            (Server::Direct, _) => String::new(),
            (_, 0) => " unpooled".to_owned(),
            (_, count) => format!(" {count}"),
        };
        let workers = if self.workers == 1 { String::new() } else { format!(" × {} workers", self.workers) };
        f.pad(&format!("{name}{keeps}{workers}"))
    }
}

/// Which of the loads are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
pub(super) enum Part {
    /// F0: constant rates.
    Rate,
    /// F1: ab without -k, a client connection for each request.
    PerRequest,
    /// Closed loop with clients that keep their connections.
    Keepalive,
    /// F4: POST by 1000 clients, a pool of 100 and one of 1000.
    Post,
    /// One pool for 2, 8 and 32 workers.
    Reuse,
}

impl Part {
    pub(super) const ALL: [Part; 5] = [Part::Rate, Part::PerRequest, Part::Keepalive, Part::Post, Part::Reuse];
}

/// Which program is the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Client {
    /// `holdfast load`, open loop, so many requests/s.
    Rate(u32),
    Ab,
    Wrk,
    /// wrk with a script that makes POST of each request.
    WrkPost,
}

/// One load, and who is measured under it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) part: Part,
    pub(super) client: Client,
    /// Connections at a time.
    pub(super) clients: u32,
    pub(super) seconds: u32,
    pub(super) arms: Vec<Arm>,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clients = self.clients;
        match self.client {
            Client::Rate(rate) => write!(f, "F0: {rate} requests/s by {clients} clients, open loop"),
            Client::Ab => write!(f, "F1: {clients} clients, a connection for each request (ab without -k)"),
            Client::WrkPost => write!(f, "F4: POST by {clients} clients that keep their connections (wrk -s)"),
            Client::Wrk if self.part == Part::Reuse => {
                write!(f, "Reuse: {clients} clients that keep their connections, one peer, a pool of {clients}")
            }
            Client::Wrk => write!(f, "{clients} clients that keep their connections (wrk)"),
        }
    }
}

/// How much of everything.
pub(super) struct Scale {
    pub(super) rates: Vec<u32>,
    pub(super) rate_clients: u32,
    pub(super) rate_seconds: u32,
    pub(super) seconds: u32,
}

/// Clients of F1 and of F4, and those of the goal about reuse.
const CLOSED_CLIENTS: u32 = 30;
const POST_CLIENTS: u32 = 1000;
const REUSE_CLIENTS: u32 = 64;
/// F0's pool, F1's and the two of F4.
const SMALL_POOL: u32 = 16;
const F1_POOL: u32 = 100;
const F4_POOLS: [u32; 2] = [100, 1000];
const REUSE_WORKERS: [u32; 3] = [2, 8, 32];

/// All loads that are wanted.
pub(super) fn loads(parts: &[Part], scale: &Scale) -> Vec<Load> {
    let mut loads = Vec::new();
    for part in Part::ALL.into_iter().filter(|part| parts.is_empty() || parts.contains(part)) {
        let load = |client, clients, arms| {
            let seconds = if part == Part::Rate { scale.rate_seconds } else { scale.seconds };
            Load { part, client, clients, seconds, arms }
        };
        match part {
            Part::Rate => {
                let arms = pooled_and_not(scale.rate_clients);
                let at = |rate: &u32| load(Client::Rate(*rate), scale.rate_clients, arms.clone());
                loads.extend(scale.rates.iter().map(at));
            }
            Part::PerRequest => loads.push(load(Client::Ab, CLOSED_CLIENTS, with_haproxy(F1_POOL))),
            Part::Keepalive => loads.push(load(Client::Wrk, CLOSED_CLIENTS, with_haproxy(F1_POOL))),
            Part::Post => loads.push(load(Client::WrkPost, POST_CLIENTS, two_pools())),
            Part::Reuse => loads.push(load(Client::Wrk, REUSE_CLIENTS, many_workers())),
        }
    }
    loads
}

fn arm(server: Server, keepalive: u32) -> Arm {
    Arm { server, keepalive, workers: 1 }
}

/// No pool, a small one, one of the right size.
fn pooled_and_not(right: u32) -> Vec<Arm> {
    let mut arms = vec![arm(Server::Direct, 0)];
    for server in [Server::Nginx, Server::Holdfast] {
        arms.extend([0, SMALL_POOL, right].map(|keepalive| arm(server, keepalive)));
    }
    arms
}

/// `HAProxy` has no habit of small pools, so it shows the two ends.
fn with_haproxy(right: u32) -> Vec<Arm> {
    let mut arms = pooled_and_not(right);
    arms.extend([0, right].map(|keepalive| arm(Server::Haproxy, keepalive)));
    arms
}

fn two_pools() -> Vec<Arm> {
    let mut arms = vec![arm(Server::Direct, 0)];
    for server in [Server::Nginx, Server::Holdfast, Server::Haproxy] {
        arms.extend(F4_POOLS.map(|keepalive| arm(server, keepalive)));
    }
    arms
}

/// `keepalive` counts per worker, so that all workers together may keep one connection for each client.
fn many_workers() -> Vec<Arm> {
    let arms = [Server::Nginx, Server::Holdfast]
        .into_iter()
        .flat_map(|server| REUSE_WORKERS.map(|workers| Arm { server, keepalive: REUSE_CLIENTS / workers, workers }));
    arms.collect()
}

/// The order of a round: by chance, so that no arm always has the same one before it, and repeatable by its seed.
pub(super) fn order(arms: &[Arm], seed: u64, load: usize, round: u64) -> Vec<Arm> {
    let mut order = arms.to_vec();
    // Neighbouring seeds are unlike each other: fastrand mixes them (wyrand).
    Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(load as u64 * 1009 + round)).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Load> {
        loads(&[], &scale(vec![1200, 2400]))
    }

    fn scale(rates: Vec<u32>) -> Scale {
        Scale { rates, rate_clients: 200, rate_seconds: 3, seconds: 2 }
    }

    #[test]
    fn every_part_has_loads_and_a_choice_leaves_the_rest_out() {
        assert_eq!(all().len(), 6);
        let chosen = loads(&[Part::Post], &scale(Vec::new()));
        let arms: Vec<String> = chosen[0].arms.iter().map(Arm::to_string).collect();
        let expected =
            ["direct", "nginx 100", "nginx 1000", "holdfast 100", "holdfast 1000", "haproxy 100", "haproxy 1000"];
        assert_eq!(arms, expected);
    }

    #[test]
    fn the_pool_of_the_reuse_load_has_a_connection_for_each_client_whatever_the_workers() {
        let reuse = all().into_iter().find(|load| load.part == Part::Reuse).unwrap();
        assert!(reuse.arms.iter().all(|arm| arm.keepalive * arm.workers == reuse.clients));
        assert_eq!(reuse.arms[4].to_string(), "holdfast 8 × 8 workers");
    }

    #[test]
    fn an_order_has_every_arm_once_and_comes_back_with_its_seed() {
        let arms = &all()[0].arms;
        let first = order(arms, 1, 0, 0);
        assert_eq!(first, order(arms, 1, 0, 0));
        assert!(first != order(arms, 1, 0, 1) && first != order(arms, 2, 0, 0));
        assert!(arms.iter().all(|arm| first.contains(arm)) && first.len() == arms.len());
    }
}
