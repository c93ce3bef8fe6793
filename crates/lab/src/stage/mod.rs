//! Where experiments are performed: networks are made, processes started, loads run, everything watched, and all of it ended
//! again. Plans come in, samples go out; what they mean is decided elsewhere. Called by `holdfast lab`, and its parts by
//! `cargo xtask bench`.
//!
//! From the outside in: [`run`] takes turns, `sample` takes one of them. A sample has a `network`, `processes` and loads
//! (`client`), is watched by `looks`, and becomes `figures`.

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
