//! The configurations in `examples/` as people run them: each is read as it is, its addresses are replaced by those of
//! this test, and it is driven through the real gateway.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

mod applications;
mod calls;
mod run;
mod services;
mod sites;
mod streams;
