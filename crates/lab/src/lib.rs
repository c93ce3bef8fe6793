//! Controlled experiments: arms that differ in named ways run in turn on real processes, are measured in the same way, and
//! are judged by claims that were made beforehand. The engine of `holdfast lab` and `cargo xtask bench`; it prints nothing.
//!
//! An [`Experiment`] is the content of a TOML file; a [`Record`] has the measurements of one run. Verdicts and reports are
//! computed from the record alone.

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
