//! Connections to upstreams that several requests share (HTTP/2): their streams are leased from the worker's book (`upstream::streams`),
//! each connection is a job of its worker, and a connection without streams goes to the pool as one of HTTP/1 does
//! (ADR 58). An exchange asks for a stream by [`lease::lease_stream`].

mod carrier;
pub(crate) mod hub;
pub(crate) mod lease;
mod opening;
mod session;
pub(crate) mod stream;

pub(crate) use opening::{ForStreams, begin_idle, listen_to_idle};
