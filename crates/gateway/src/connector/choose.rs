//! Chooses the peer of a group for a request. In a group with `queue`, a request waits if no peer can take it;
//! `upstream` decides which waiting request is next.

use crate::connector::Caller;
use crate::registry::group::{BoundGroup, HeldPeers};
use crate::registry::process::wake_token;
use reactor::{PeerAddress, Woken};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use upstream::balance::{Inputs, Pick, Seat, SeatLine, Selection};

/// How often a waiting request checks again without an event: no event tells it that a peer's `fail_timeout` is over,
/// or that a name has other addresses. As coarse as nginx's own failure clock.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// State kept between the choices for one request.
#[derive(Default)]
pub(crate) struct Choice {
    /// The group's peers, held because they may be replaced meanwhile.
    pub(crate) held: HeldPeers,
    pub(crate) selection: Selection,
    /// The `sid` of the peer that the session is bound to; empty if it is not.
    pub(crate) bound: Vec<u8>,
    /// Milliseconds that the last choice waited in line; `None` if it did not wait.
    pub(crate) queue_ms: Option<u64>,
}

/// The chosen peer, and the request's seat there.
pub(crate) struct Chosen {
    pub(crate) index: usize,
    pub(crate) seat: Seat,
}

/// Why no peer is available for an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPeer {
    /// U11.
    NoLive,
    /// `queue`: the line is full.
    QueueFull {
        length: u32,
    },
    /// `queue`: its `timeout` passed.
    QueueTimeout,
    ClientGone,
}

/// What a request contributes to the choice of its peer.
pub(crate) struct ChoiceInputs {
    pub(crate) client: ClientNetwork,
    pub(crate) hash_key: Vec<u8>,
    pub(crate) random: u64,
}

impl ChoiceInputs {
    pub(crate) fn with<'a>(&'a self, bound: &'a [u8]) -> Inputs<'a> {
        Inputs { client: self.client.octets(), hash_key: &self.hash_key, random: self.random, bound }
    }
}

/// Chooses a peer.
pub(crate) async fn choose<C: Caller>(
    caller: &C,
    group: &BoundGroup,
    choice: &mut Choice,
    inputs: impl FnOnce(bool) -> ChoiceInputs,
) -> Result<Chosen, NoPeer> {
    choice.queue_ms = None;
    let Some(set) = group.members.of(&choice.held) else { return Err(NoPeer::NoLive) };
    let inputs = inputs(set.balance.method().wants_chance());
    if let Some(line) = set.balance.line() {
        let line = Arc::clone(line);
        return choose_in_turn(caller, group, choice, &inputs, &line).await;
    }
    match set.balance.pick(&mut choice.selection, &inputs.with(&choice.bound), caller.thread().pool_now()) {
        Pick::Peer { index, seat } => Ok(Chosen { index, seat }),
        Pick::NoLive => Err(NoPeer::NoLive),
    }
}

/// Chooses a peer of a group with `queue`. A request that finds others waiting waits behind them.
async fn choose_in_turn<C: Caller>(
    caller: &C,
    group: &BoundGroup,
    choice: &mut Choice,
    inputs: &ChoiceInputs,
    line: &Arc<SeatLine>,
) -> Result<Chosen, NoPeer> {
    let thread = caller.thread();
    let Some(balance) = group.members.of(&choice.held).map(|set| Arc::clone(&set.balance)) else {
        return Err(NoPeer::NoLive);
    };
    // A hash that found no peer probes further; a request that waits starts again from its first probe.
    let before = choice.selection.clone();
    if line.waiting() == 0
        && let Pick::Peer { index, seat } =
            balance.pick(&mut choice.selection, &inputs.with(&choice.bound), thread.pool_now())
    {
        return Ok(Chosen { index, seat });
    }
    if !balance.may_come(&before, &choice.bound) {
        return Err(NoPeer::NoLive);
    }
    let token = wake_token(thread.index, caller.task());
    let place = line.enqueue(&balance, before, &inputs.with(&choice.bound), token);
    let Ok(mut waiter) = place else { return Err(NoPeer::QueueFull { length: line.waiting_max() }) };
    let began = thread.reactor.now();
    loop {
        if let Some(granted) = waiter.poll(thread.pool_now()) {
            choice.selection = granted.selection;
            choice.queue_ms = Some(thread.reactor.now().since(began));
            return Ok(Chosen { index: granted.index, seat: granted.seat });
        }
        let waited = Duration::from_millis(thread.reactor.now().since(began));
        let Some(left) = group.queue_timeout.checked_sub(waited).filter(|left| !left.is_zero()) else {
            choice.queue_ms = Some(thread.reactor.now().since(began));
            return Err(NoPeer::QueueTimeout);
        };
        if caller.wait_for(None, left.min(LOOK_AGAIN)).await == Woken::PeerGone {
            return Err(NoPeer::ClientGone);
        }
        let present = group.members.hold();
        if let (Some(now), Some(then)) = (&present, &choice.held)
            && !Arc::ptr_eq(now, then)
            && waiter.follow(&now.balance)
        {
            choice.held = present;
        }
    }
}

/// A client's address as `ip_hash` hashes it.
pub(crate) struct ClientNetwork {
    octets: [u8; 16],
    length: usize,
}

impl ClientNetwork {
    /// The first three octets of IPv4 and all of IPv6; all clients on Unix sockets are one network.
    pub(crate) fn of(client: &PeerAddress) -> Self {
        let (mut octets, mut length) = ([0; 16], 3);
        match client {
            PeerAddress::Ip(address) => match address.ip() {
                IpAddr::V4(ip) => octets[..4].copy_from_slice(&ip.octets()),
                IpAddr::V6(ip) => (octets, length) = (ip.octets(), 16),
            },
            PeerAddress::Unix(_) => {}
        }
        Self { octets, length }
    }

    fn octets(&self) -> &[u8] {
        &self.octets[..self.length]
    }
}
