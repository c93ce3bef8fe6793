//! TLS towards upstreams: what is sent and verified, which requests share a connection, and how failures are handled.
//! The upstreams are engine sessions over blocking sockets that run scripts; `real_peers` uses external programs.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

mod connections;
mod failures;
mod names;
pub(crate) mod peer;
mod real_peers;
mod site;
mod trust;
mod uwsgi;
