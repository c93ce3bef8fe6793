//! Finds the fault and knows the limit. `plan` computes which limit of a chain of hosts binds first, from a description of it.
//! `rules` finds what is wrong with a configuration on a system, and `log` says why an nginx error log has the 502s and 504s
//! it has. Called by `holdfast plan` and `holdfast doctor`; whoever calls reads the configuration and prints the document.
//!
//! Rules see [`Facts`] and nothing else, so that each can be tried on a system that is only described; `system` is the one
//! module that looks at this machine.

pub mod configuration;
pub mod facts;
pub mod kernel;
pub mod log;
pub mod plan;
pub mod rules;
pub mod system;

pub use configuration::Configuration;
pub use facts::{Dialect, Facts, Setting, System};
