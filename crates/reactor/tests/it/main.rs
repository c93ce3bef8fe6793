//! The integration tests of `reactor`, one module per subject.

mod datagrams;
mod streams;
mod waits;
