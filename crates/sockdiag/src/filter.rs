//! Which sockets are wanted: a tree of tests, written in ss's words. The kernel runs as much of it as it can, and this
//! crate runs the rest. Pure. [`Filter::encode`] makes the kernel's part, [`Filter::matches`] is ours.

mod bytecode;
mod words;

use crate::{Owner, Socket, StateSet};
use std::net::{IpAddr, SocketAddr};

/// A tree of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// One test.
    Test(Test),
    /// What does not pass.
    Not(Box<Filter>),
    /// What passes both.
    And(Box<Filter>, Box<Filter>),
    /// What passes either.
    Or(Box<Filter>, Box<Filter>),
}

/// One test of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// `sport`, `dport`, `port`: a comparison of a port.
    Port(Side, Compare, u16),
    /// `src`, `dst`, `addr`: an address within a network, and perhaps its port.
    Net(Side, IpAddr, u8, Option<u16>),
    /// `state`, `exclude`: one of these states.
    State(StateSet),
    /// `cgroup`: the inode of the control group's directory.
    Cgroup(u64),
    /// `pid`: a process that holds it.
    Pid(u32),
    /// `process`: the name of a process that holds it.
    Process(String),
}

/// Which end of the socket a test looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The local one, ss's `src` and `sport`.
    Local,
    /// The remote one, ss's `dst` and `dport`.
    Remote,
    /// Either; ss has no word for it.
    Either,
}

/// A comparison of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// `=`, `==`, `eq`
    Equal,
    /// `!=`, `ne`, `neq`
    NotEqual,
    /// `>=`, `ge`, `geq`
    AtLeast,
    /// `<=`, `le`, `leq`
    AtMost,
    /// `>`, `gt`
    Above,
    /// `<`, `lt`
    Below,
}

/// Why words are not a filter: what was expected, and at which word.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct FilterError {
    /// What is wrong, as a phrase with the word in it.
    pub problem: String,
}

/// What names in a filter mean; the answers come from files of the system. `()` knows no names.
pub trait Names {
    /// The inode of a control group's directory.
    fn cgroup(&mut self, _path: &str) -> Option<u64> {
        None
    }

    /// The port of a service, such as `https`.
    fn service(&mut self, _name: &str) -> Option<u16> {
        None
    }
}

impl Names for () {}

impl Filter {
    /// Parses ss's words: `state time-wait dport = :10000`, `( dst 10.0.0.0/8 or sport gt :1024 ) and not process nginx`.
    pub fn parse(words: &str, names: &mut dyn Names) -> Result<Self, FilterError> {
        words::parse(words, names)
    }

    /// Whether the socket passes; `owner` is the process that holds it, where one is known.
    pub fn matches(&self, socket: &Socket, owner: Option<&Owner>) -> bool {
        match self {
            Self::Test(test) => test.matches(socket, owner),
            Self::Not(inner) => !inner.matches(socket, owner),
            Self::And(left, right) => left.matches(socket, owner) && right.matches(socket, owner),
            Self::Or(left, right) => left.matches(socket, owner) || right.matches(socket, owner),
        }
    }

    /// Whether a test looks at the process, so that owners must be found first.
    pub fn names_a_process(&self) -> bool {
        match self {
            Self::Test(test) => matches!(test, Test::Pid(_) | Test::Process(_)),
            Self::Not(inner) => inner.names_a_process(),
            Self::And(left, right) | Self::Or(left, right) => left.names_a_process() || right.names_a_process(),
        }
    }

    /// Whether a test looks at the state. A dead socket has lost its state, so such a test cannot be applied to it.
    pub fn names_a_state(&self) -> bool {
        match self {
            Self::Test(test) => matches!(test, Test::State(_)),
            Self::Not(inner) => inner.names_a_state(),
            Self::And(left, right) | Self::Or(left, right) => left.names_a_state() || right.names_a_state(),
        }
    }

    /// The states that a socket may be in to pass: what the kernel need not even look at otherwise.
    pub fn states(&self) -> StateSet {
        match self {
            Self::Test(Test::State(states)) => *states,
            Self::Not(inner) => match &**inner {
                Self::Test(Test::State(states)) => StateSet::ALL.without(*states),
                Self::Not(inner) => inner.states(),
                _ => StateSet::ALL,
            },
            Self::Test(_) => StateSet::ALL,
            Self::And(left, right) => left.states().intersection(right.states()),
            Self::Or(left, right) => left.states().union(right.states()),
        }
    }

    /// The kernel's program for as much of this as it can decide; empty if that is nothing. What the program passes may
    /// still fail [`Filter::matches`]; what it stops would have failed.
    pub fn encode(&self) -> Vec<u8> {
        bytecode::encode(self)
    }
}

impl Test {
    fn matches(&self, socket: &Socket, owner: Option<&Owner>) -> bool {
        match self {
            Self::Port(side, compare, port) => side.any(socket, |end| compare.holds(end.port(), *port)),
            Self::Net(side, network, prefix, port) => side
                .any(socket, |end| contains(*network, *prefix, end.ip()) && port.is_none_or(|port| port == end.port())),
            Self::State(states) => states.contains(socket.state),
            Self::Cgroup(inode) => socket.cgroup == Some(*inode),
            Self::Pid(pid) => owner.is_some_and(|owner| owner.pid == *pid),
            Self::Process(name) => owner.is_some_and(|owner| owner.name == *name),
        }
    }
}

impl Side {
    fn any(self, socket: &Socket, test: impl Fn(SocketAddr) -> bool) -> bool {
        match self {
            Self::Local => test(socket.local),
            Self::Remote => test(socket.remote),
            Self::Either => test(socket.local) || test(socket.remote),
        }
    }
}

impl Compare {
    fn holds(self, port: u16, than: u16) -> bool {
        match self {
            Self::Equal => port == than,
            Self::NotEqual => port != than,
            Self::AtLeast => port >= than,
            Self::AtMost => port <= than,
            Self::Above => port > than,
            Self::Below => port < than,
        }
    }
}

/// Whether the address lies in the network. IPv4 in its IPv6 form was made plain IPv4 on both sides.
fn contains(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let host_bits = 32_u32.saturating_sub(u32::from(prefix));
            let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
            (network.to_bits() ^ address.to_bits()) & mask == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let host_bits = 128_u32.saturating_sub(u32::from(prefix));
            let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
            (network.to_bits() ^ address.to_bits()) & mask == 0
        }
        _ => false,
    }
}
