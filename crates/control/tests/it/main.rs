//! The integration tests of `control`, one module per subject.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

mod checks;
mod datagrams;
mod names;
mod ocsp;
mod otel;
mod resolver;
mod run_time_names;
mod scene;
mod secure_checks;
mod stream_names;
