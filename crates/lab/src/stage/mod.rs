//! Runs experiments: creates networks, starts processes, runs loads, watches everything and ends it again. It takes plans
//! and returns samples; other modules evaluate them. Called by `holdfast lab`; `cargo xtask bench` uses parts of it.
//!
//! From the outside in: [`run`] runs the turns, and `sample` takes one sample. A sample has a `network`, `processes` and
//! loads (`client`); `looks` watches it, and `figures` evaluates it.

mod ask;
pub mod bottleneck;
mod calls;
pub mod client;
mod error;
mod figures;
mod held;
pub mod hold;
mod hold_http2;
mod loads;
mod looks;
pub mod machine;
pub mod namespace;
mod network;
pub mod process;
mod processes;
mod programs;
mod run;
mod sample;
mod sweep;
pub mod threads;
pub mod usage;
mod written;

pub use error::StageError;
pub use network::MadeNetwork;
pub use programs::Programs;
pub use run::{Event, Request, Stop, run};
