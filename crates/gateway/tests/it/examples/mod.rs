//! The configurations in `examples/` as users run them: each is read unchanged, its addresses are replaced by those of
//! this test, and it runs in the real gateway.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

mod applications;
mod blog;
mod calls;
mod cloud;
mod run;
mod services;
mod sign_in;
mod sites;
mod streams;
