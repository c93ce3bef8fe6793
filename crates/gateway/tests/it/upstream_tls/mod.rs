//! TLS towards upstreams: what is sent and verified, which connection serves whom, and what fails how. The upstreams are sessions of
//! the engine over blocking sockets, which play scripts; `real_peers` has others' programs.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

mod connections;
mod failures;
mod names;
pub(crate) mod peer;
mod real_peers;
mod site;
mod trust;
