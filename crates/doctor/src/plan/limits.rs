//! How many client connections each limit of each tier allows. One function per kind of limit; each returns its
//! calculation as text, so that the reader can verify it.

use super::chain::{Chain, Ports, Tier};
use crate::kernel::{
    CONNTRACK_BYTES, PAGE_BYTES, SEGMENT_OVERHEAD_BYTES, SEGMENT_PAYLOAD_BYTES, SOCKET_BYTES, TIME_WAIT_BYTES,
    TIME_WAIT_REUSED_SECONDS, TIME_WAIT_SECONDS,
};
use report::Unit;
use report::figure::shown;
use std::fmt::Write as _;

/// Descriptors of a process besides connections: listeners, logs, epoll, timers, name resolution.
const DESCRIPTORS_BESIDE: u64 = 64;

/// nginx reserves a connection (232 bytes) and two events (96 each) for each of its `worker_connections`.
const WORKER_CONNECTION_BYTES: u64 = 424;

/// A limit and the connections that it allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The tier or the hop (`nginx -> ingress`).
    pub place: String,
    /// What runs out.
    pub resource: &'static str,
    /// Client connections that it allows at once.
    pub connections_max: u64,
    /// The calculation.
    pub arithmetic: String,
    /// Ways to raise it, cheapest first.
    pub levers: Vec<Lever>,
}

/// A way to raise a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lever {
    /// The action; a setting is in a form to paste.
    pub action: String,
    /// The client connections that the limit allows afterwards.
    pub connections_max: u64,
}

/// All limits for which the description has values, lowest first.
pub(super) fn all(chain: &Chain) -> Vec<Limit> {
    let mut limits = Vec::new();
    for pair in chain.tiers.windows(2) {
        if let [from, to] = pair {
            limits.push(tuples(chain, from, to));
            limits.extend(tw_buckets(chain, from));
        }
    }
    for (place, tier) in chain.tiers.iter().enumerate() {
        let sockets = sockets_each(chain, place);
        limits.extend(descriptors(tier, sockets));
        limits.extend(worker_connections(tier, sockets));
        limits.extend(file_max(tier, sockets));
        limits.extend(memory(chain, tier, sockets));
        limits.extend(tcp_mem(tier, sockets));
        limits.extend(conntrack(chain, tier, sockets));
        limits.extend(bandwidth(chain, tier, sockets));
    }
    limits.sort_by_key(|limit| limit.connections_max);
    limits
}

/// A proxy holds two sockets for each connection, an end one.
fn sockets_each(chain: &Chain, place: usize) -> u64 {
    if place == 0 || place + 1 == chain.tiers.len() { 1 } else { 2 }
}

fn count(value: u64) -> String {
    shown(value as f64, &Unit::of("")).trim().to_owned()
}

/// Tuples in TIME_WAIT because of churn, on the side that connects. They are counted as if this side closed first. If
/// the peer closes first, the peer holds them, and the tuple is equally blocked.
fn in_time_wait(chain: &Chain, tier: &Tier) -> u64 {
    let seconds = if tier.tw_reuse { TIME_WAIT_REUSED_SECONDS } else { TIME_WAIT_SECONDS };
    (chain.traffic.churn_per_second * seconds as f64).ceil() as u64
}

fn tuples_of(from: &Tier, to: &Tier, ports: Ports) -> u64 {
    let free = ports.count().saturating_sub(from.ports_taken);
    [from.addresses, from.hosts, to.hosts, to.listen_ports].iter().fold(free, |product, n| product.saturating_mul(*n))
}

/// Hops that the connections need more than half of the tuples of, and that half. `connect` tries every second port first,
/// and the others only when none of those is free (`__inet_hash_connect` in `net/ipv4/inet_hashtables.c`, since Linux 4.2).
pub(super) fn slow_hops(chain: &Chain) -> Vec<(String, u64)> {
    let hops = chain.tiers.windows(2).filter_map(|pair| {
        let [from, to] = pair else { return None };
        let all = tuples_of(from, to, from.ports);
        // Where they do not suffice, the limit says more.
        let is_slow = (all / 2..all).contains(&chain.connections);
        is_slow.then(|| (place_of(from, to), all / 2))
    });
    hops.collect()
}

fn place_of(from: &Tier, to: &Tier) -> String {
    format!("{} -> {}", from.name, to.name)
}

fn tuples(chain: &Chain, from: &Tier, to: &Tier) -> Limit {
    let waiting = in_time_wait(chain, from);
    let room = |tuples: u64| tuples.saturating_sub(waiting);
    let now = tuples_of(from, to, from.ports);
    let mut arithmetic = format!("{} ports", count(from.ports.count()));
    if from.ports_taken > 0 {
        arithmetic = format!("({arithmetic} - {} taken)", count(from.ports_taken));
    }
    for (number, name) in [
        (from.addresses, "source addresses"),
        (from.hosts, from.name.as_str()),
        (to.hosts, to.name.as_str()),
        (to.listen_ports, "ports listened on"),
    ] {
        if number > 1 {
            let _ = write!(arithmetic, " x {} {name}", count(number));
        }
    }
    let _ = write!(arithmetic, " = {} tuples", count(now));
    if waiting > 0 {
        let _ = write!(arithmetic, " - {} in TIME_WAIT", count(waiting));
    }
    let mut levers = Vec::new();
    if from.ports != Ports::WIDEST {
        // A listening port inside the range must be reserved, or a connection may take it first.
        let action = format!(
            "on {}: sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\", with the ports listened on in ip_local_reserved_ports",
            from.name
        );
        levers.push(Lever { action, connections_max: room(tuples_of(from, to, Ports::WIDEST)) });
    }
    let wanted = chain.connections.saturating_add(waiting);
    for (now, what) in [
        (to.listen_ports, format!("let {} listen on {{n}} ports each, and name them all as peers", to.name)),
        (
            from.addresses,
            format!("give {} {{n}} source addresses each (proxy_bind, or holdfast's proxy_bind_pool)", from.name),
        ),
        (to.hosts, format!("{{n}} hosts of {}", to.name)),
    ] {
        let each = (tuples_of(from, to, from.ports) / now).max(1);
        let n = wanted.div_ceil(each).max(now + 1);
        let connections_max = room(each.saturating_mul(n));
        levers.push(Lever { action: what.replace("{n}", &count(n)), connections_max });
    }
    Limit { place: place_of(from, to), resource: "tuples", connections_max: room(now), arithmetic, levers }
}

fn tw_buckets(chain: &Chain, tier: &Tier) -> Option<Limit> {
    let buckets = tier.tw_buckets?.saturating_mul(tier.hosts);
    // TIME_WAIT depends on the rate of closes, not on the number of open connections: it limits everything or nothing.
    let waiting = (chain.traffic.churn_per_second * TIME_WAIT_SECONDS as f64).ceil() as u64;
    (waiting > buckets).then(|| Limit {
        place: tier.name.clone(),
        resource: "TIME_WAIT buckets",
        connections_max: 0,
        arithmetic: format!(
            "{} closes/s x {TIME_WAIT_SECONDS} s = {} in TIME_WAIT, {} buckets: the rest is destroyed early",
            count(chain.traffic.churn_per_second as u64),
            count(waiting),
            count(buckets)
        ),
        levers: vec![Lever {
            action: format!("on {}: sysctl -w net.ipv4.tcp_max_tw_buckets={}", tier.name, waiting.div_ceil(tier.hosts)),
            connections_max: u64::MAX,
        }],
    })
}

fn descriptors(tier: &Tier, sockets: u64) -> Option<Limit> {
    let each = tier.descriptors?;
    let holders = tier.hosts.saturating_mul(tier.processes);
    let through = |each: u64| each.saturating_sub(DESCRIPTORS_BESIDE).saturating_mul(holders) / sockets;
    let double = each.saturating_mul(2);
    Some(Limit {
        place: tier.name.clone(),
        resource: "descriptors",
        connections_max: through(each),
        arithmetic: format!(
            "({} - {DESCRIPTORS_BESIDE}) x {} processes / {sockets} per connection",
            count(each),
            count(holders)
        ),
        levers: vec![Lever {
            action: format!("on {}: worker_rlimit_nofile {double}; and fs.nr_open at least as high", tier.name),
            connections_max: through(double),
        }],
    })
}

fn worker_connections(tier: &Tier, sockets: u64) -> Option<Limit> {
    let each = tier.worker_connections?;
    let holders = tier.hosts.saturating_mul(tier.processes);
    let through = |each: u64| each.saturating_mul(holders) / sockets;
    let double = each.saturating_mul(2);
    Some(Limit {
        place: tier.name.clone(),
        resource: "worker_connections",
        connections_max: through(each),
        arithmetic: format!("{} x {} workers / {sockets} per connection", count(each), count(holders)),
        levers: vec![Lever {
            action: format!(
                "on {}: worker_connections {double}; (nginx reserves {WORKER_CONNECTION_BYTES} bytes for each)",
                tier.name
            ),
            connections_max: through(double),
        }],
    })
}

fn file_max(tier: &Tier, sockets: u64) -> Option<Limit> {
    let each = tier.file_max?;
    let through = |each: u64| each.saturating_mul(tier.hosts) / sockets;
    let double = each.saturating_mul(2);
    Some(Limit {
        place: tier.name.clone(),
        resource: "fs.file-max",
        connections_max: through(each),
        arithmetic: format!("{} x {} hosts / {sockets} per connection", count(each), count(tier.hosts)),
        levers: vec![Lever {
            action: format!("on {}: sysctl -w fs.file-max={double}", tier.name),
            connections_max: through(double),
        }],
    })
}

/// Bytes on one host for each connection through it.
pub(super) fn bytes_each(tier: &Tier, sockets: u64) -> u64 {
    let tracked = if tier.conntrack_max.is_some() { CONNTRACK_BYTES } else { 0 };
    let kernel = SOCKET_BYTES.saturating_add(tier.queued_bytes).saturating_add(tracked);
    kernel.saturating_mul(sockets).saturating_add(tier.user_bytes)
}

fn memory(chain: &Chain, tier: &Tier, sockets: u64) -> Option<Limit> {
    let reserved =
        tier.worker_connections.unwrap_or(0).saturating_mul(tier.processes).saturating_mul(WORKER_CONNECTION_BYTES);
    let each_host = tier.memory?.0.saturating_sub(reserved);
    let waiting = in_time_wait(chain, tier).saturating_mul(TIME_WAIT_BYTES) / tier.hosts;
    let each = bytes_each(tier, sockets);
    let through = |hosts: u64| each_host.saturating_sub(waiting).saturating_mul(hosts) / each;
    let hosts = tier.hosts.saturating_mul(chain.connections).div_ceil(through(tier.hosts).max(1)).max(tier.hosts + 1);
    let bytes = |value: u64| shown(value as f64, &Unit::Bytes);
    let mut levers = Vec::new();
    if tier.queued_bytes > 0 {
        let less = bytes_each(&Tier { queued_bytes: 0, ..tier.clone() }, sockets);
        levers.push(Lever {
            action: "let no queue grow: pace senders to their slowest receivers, small socket and proxy buffers"
                .to_owned(),
            connections_max: each_host.saturating_sub(waiting).saturating_mul(tier.hosts) / less,
        });
    }
    levers.push(Lever { action: format!("{} hosts of {}", count(hosts), tier.name), connections_max: through(hosts) });
    Some(Limit {
        place: tier.name.clone(),
        resource: "memory",
        connections_max: through(tier.hosts),
        arithmetic: format!(
            "{} (after {} reserved for worker_connections) x {} hosts / ({sockets} x ({} kernel + {} queued) + {} program)",
            bytes(each_host),
            bytes(reserved),
            count(tier.hosts),
            bytes(SOCKET_BYTES),
            bytes(tier.queued_bytes),
            bytes(tier.user_bytes)
        ),
        levers,
    })
}

fn tcp_mem(tier: &Tier, sockets: u64) -> Option<Limit> {
    let pages = tier.tcp_mem_pages?;
    // Idle sockets use none of tcp_mem; queued bytes do, in whole pages.
    let each = tier.queued_bytes.div_ceil(PAGE_BYTES).saturating_mul(sockets);
    if each == 0 {
        return None;
    }
    let through = |pages: u64| pages.saturating_mul(tier.hosts) / each;
    let double = pages.saturating_mul(2);
    Some(Limit {
        place: tier.name.clone(),
        resource: "tcp_mem",
        connections_max: through(pages),
        arithmetic: format!("{} pages x {} hosts / {each} pages per connection", count(pages), count(tier.hosts)),
        levers: vec![Lever {
            action: format!(
                "on {}: the third number of net.ipv4.tcp_mem to {double} pages, if there is memory for them",
                tier.name
            ),
            connections_max: through(double),
        }],
    })
}

fn conntrack(chain: &Chain, tier: &Tier, sockets: u64) -> Option<Limit> {
    let flows = tier.conntrack_max?;
    // Connection tracking keeps a closed flow for two minutes (nf_conntrack_tcp_timeout_time_wait).
    const REMEMBERED_SECONDS: f64 = 120.0;
    let gone = (chain.traffic.churn_per_second * REMEMBERED_SECONDS).ceil() as u64;
    let through = |flows: u64| (flows.saturating_mul(tier.hosts) / sockets).saturating_sub(gone);
    let double = flows.saturating_mul(2);
    Some(Limit {
        place: tier.name.clone(),
        resource: "conntrack",
        connections_max: through(flows),
        arithmetic: format!(
            "{} flows x {} hosts / {sockets} per connection - {} closed lately",
            count(flows),
            count(tier.hosts),
            count(gone)
        ),
        levers: vec![
            Lever {
                action: format!("on {}: do not track these ports (nftables: notrack)", tier.name),
                connections_max: u64::MAX,
            },
            Lever {
                action: format!("on {}: sysctl -w net.netfilter.nf_conntrack_max={double}", tier.name),
                connections_max: through(double),
            },
        ],
    })
}

fn bandwidth(chain: &Chain, tier: &Tier, sockets: u64) -> Option<Limit> {
    let bits = tier.bandwidth?.0;
    let traffic = &chain.traffic;
    let segments = traffic.message_bytes.div_ceil(SEGMENT_PAYLOAD_BYTES).max(1);
    let wire = traffic.message_bytes.saturating_add(segments.saturating_mul(SEGMENT_OVERHEAD_BYTES));
    // A proxy forwards what it receives, so each of its directions carries both kinds of traffic; an end has one kind
    // in each direction.
    let (sent, received) = (traffic.sent_per_second, traffic.received_per_second);
    let messages = if sockets == 2 { sent + received } else { sent.max(received) };
    let each = messages * wire as f64 * 8.0;
    if each <= 0.0 {
        return None;
    }
    let through = |hosts: u64| (bits as f64 * hosts as f64 / each) as u64;
    let hosts = ((chain.connections as f64 * each / bits.max(1) as f64).ceil() as u64).max(tier.hosts + 1);
    Some(Limit {
        place: tier.name.clone(),
        resource: "bandwidth",
        connections_max: through(tier.hosts),
        arithmetic: format!(
            "{} bit/s x {} hosts / ({messages} messages/s x {} bytes on the wire x 8)",
            count(bits),
            count(tier.hosts),
            count(wire)
        ),
        levers: vec![Lever {
            action: format!("{} hosts of {}", count(hosts), tier.name),
            connections_max: through(hosts),
        }],
    })
}
