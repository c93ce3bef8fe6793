//! Controlled experiments: arms that differ in named ways, run in turn over real processes, measured alike, and judged by what
//! was claimed beforehand. The engine behind `holdfast lab` and `cargo xtask bench`; it prints nothing.
//!
//! An [`Experiment`] is what a TOML file says; a [`Record`] is what one run of it saw, and everything that is ever said about
//! the run (verdicts, report) follows from the record alone.

pub mod experiment;
pub mod record;

pub use experiment::Experiment;
pub use record::{Record, Sample};
