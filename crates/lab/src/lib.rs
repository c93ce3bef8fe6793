//! Controlled experiments: arms that differ in named ways, run in turn over real processes, measured alike, and judged by what
//! was claimed beforehand. The engine behind `holdfast lab` and `cargo xtask bench`; it prints nothing.
//!
//! An [`Experiment`] is what a TOML file says; a [`Record`] is what one run of it saw, and everything that is ever said about
//! the run (verdicts, report) follows from the record alone.

pub mod adapt;
pub mod check;
pub mod demo;
pub mod describe;
pub mod experiment;
pub mod fault;
pub mod figure;
pub mod judge;
pub mod limits;
pub mod plan;
pub mod read;
pub mod record;
pub mod report;
pub mod schedule;
pub mod schema;
pub mod shipped;
pub mod stage;
mod sweep;
pub mod template;

pub use adapt::Adaptation;
pub use experiment::Experiment;
pub use read::{Loaded, Places, Refused};
pub use record::{Record, Sample};
