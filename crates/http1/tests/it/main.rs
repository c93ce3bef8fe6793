//! The integration tests of `http1`, one module per subject.

mod chunks;
mod properties;
mod requests;
mod responses;
