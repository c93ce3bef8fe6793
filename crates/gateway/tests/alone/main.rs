//! Tests of the gateway that must not run in parallel with others: their measurements depend on how much memory the
//! kernel gives to sockets and how fast this process accepts bytes. Cargo runs one program after the other.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

mod many_cache_files;
mod memory;
