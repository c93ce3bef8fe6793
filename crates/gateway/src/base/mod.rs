//! Shared by all layers: counters, close reasons, memory accounting, log lines. It does not depend on a configuration.

pub(crate) mod alarm;
pub(crate) mod body_file;
pub(crate) mod buffer;
pub(crate) mod cells;
pub(crate) mod close;
pub(crate) mod counters;
pub(crate) mod durations;
pub(crate) mod fault;
pub(crate) mod file_stamp;
mod holder;
pub(crate) mod logs;
pub(crate) mod memory;
pub(crate) mod read_size;
pub(crate) mod route_cells;
pub(crate) mod saved_file;
pub(crate) mod share;
pub(crate) mod stall_timeout;
pub(crate) mod values;
