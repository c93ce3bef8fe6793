//! Finds the fault and knows the limit. `plan` computes which limit of a chain of hosts binds first, from a description of it.
//! `rules` finds what is wrong with a configuration on a system, and `log` says why an nginx error log has the 502s and 504s
//! it has. Called by `holdfast plan` and `holdfast doctor`; the caller reads the configuration and prints the document.
//!
//! Rules see [`Facts`] and nothing else, so that each can be tried on a system that is only described; `system`,
//! `certificates` and `live::look` are the modules that look at this machine.

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
