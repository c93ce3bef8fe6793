//! A tunnel as bytes: what a process needs to continue a tunnel of another process, besides its two sockets. The gateway
//! fills a [`Tunnel`] and makes a tunnel of one; the program sends the bytes between the processes. The same for an [`Idle`]
//! connection to an upstream
//! ([ADR 79](../../../docs/adr/0079-tunnels-are-handed-over.md)).
//!
//! The format has a version. There is no compatibility between versions: a process that does not know the version takes
//! nothing over, and the tunnels stay where they are.
//!
//! Times are milliseconds of the monotonic clock, which all processes of a machine share.

mod batch;
mod coded;
mod idle;
mod tunnel;
pub mod wire;

pub use batch::{decode_batch, encode_batch};
pub use idle::Idle;
pub use tunnel::{
    Attempt, Direction, Flow, Heartbeat, Kind, Limit, Line, LineName, Pace, Peer, Record, Settings, Side, Span,
    SpanKind, SpanValue, Tunnel,
};

/// The version of the format. It changes with every change of a type here, and of the codes that other crates put into one.
pub const VERSION: u32 = 2;
