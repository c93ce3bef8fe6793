//! The integration tests of `http2`, one module per subject: both ends of the engine, and real clients over real sockets.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

mod abuse;
mod client;
mod conversation;
mod early_answers;
mod faults;
mod memory;
mod peers;
mod pieces;
mod request;
mod support;
