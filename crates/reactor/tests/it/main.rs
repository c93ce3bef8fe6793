//! The integration tests of `reactor`, one module per subject.

mod streams;
mod waits;
