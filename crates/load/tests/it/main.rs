//! The integration tests of `load`, one module per subject.

mod bad_targets;
mod closed_loop;
mod http2;
mod rate;
mod scene;
mod script;
mod tls;
mod websocket;
