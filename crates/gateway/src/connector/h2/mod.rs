//! Connections to upstreams that several requests share (HTTP/2): the worker's book (`upstream::streams`) leases their
//! streams. Each connection is a job of its worker, and a connection without streams goes to the pool like one of
//! HTTP/1 (ADR 58). An exchange asks for a stream by [`lease::lease_stream`].

mod carrier;
pub(crate) mod hub;
pub(crate) mod lease;
mod opening;
mod session;
pub(crate) mod stream;

pub(crate) use opening::{ForStreams, begin_idle, read_idle};
