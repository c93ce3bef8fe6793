//! The catalogue's rows of `tests/it` again, with TLS between client and gateway. It is a separate program because
//! `testkit::Gateway` uses TLS in a program of this name, and because every test then has its own name and result in
//! both runs, also under plain `cargo test`.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

#[path = "../it/rows/mod.rs"]
mod rows;

use testkit::site;
