//! Finds faults and computes limits. `plan` computes which limit of a chain of hosts is reached first, from a
//! description of it. `rules` finds faults of a configuration on a system, and `log` explains the 502s and 504s in an
//! nginx error log. Called by `holdfast plan` and `holdfast doctor`; the caller reads the configuration and prints the
//! document.
//!
//! Rules see only [`Facts`], so that each can be tested with a described system. `system`, `certificates` and
//! `live::look` are the modules that read this machine.

pub mod certificates;
pub mod compare;
pub mod configuration;
mod dialect;
mod edit;
pub mod facts;
mod go_transport;
pub mod group;
pub mod kernel;
pub mod live;
pub mod log;
pub mod plan;
pub mod rules;
pub mod system;

pub use configuration::Configuration;
pub use dialect::{Dialect, DialectError, Version};
pub use facts::{Expected, Facts, Setting, System};
pub use go_transport::GoTransport;
pub use live::Live;
