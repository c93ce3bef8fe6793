//! The integration tests of `doctor`, one module per subject.
mod applied;
mod disk;
mod examples;
mod fixes;
mod fixes_nginx;
mod incidents;
mod plan;
mod real_log;
