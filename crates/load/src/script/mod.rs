//! Runs wrk's Lua scripts unchanged: `setup`, `init`, `delay`, `request`, `response`, `done`, and the table `wrk`. Each
//! worker has its own Lua state, and the run has one for `setup` and `done`. A function that a script does not define costs
//! nothing. The HTTP driver calls [`WorkerScript`]; `run` creates and ends them.
//!
//! If the workers are in other processes, `setup` and `done` run in the parent process, with a separate state for each
//! worker. The values that `setup` sets are sent to the workers' processes, and the workers' globals come back before
//! `done`.
//!
//! Unlike in wrk, `thread:stop()` and an error in a script end the whole run.

#[cfg(not(feature = "lua"))]
mod absent;
#[cfg(feature = "lua")]
mod lua;

#[cfg(not(feature = "lua"))]
pub use absent::Finished;
#[cfg(not(feature = "lua"))]
pub(crate) use absent::{Globals, ScriptStart, Threads, WorkerScript, prepare, set_up, take_up};
#[cfg(feature = "lua")]
pub use lua::Finished;
#[cfg(feature = "lua")]
pub(crate) use lua::{Globals, ScriptStart, Threads, WorkerScript, prepare, set_up, take_up};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Most bytes of a body for `response`; a script reads the whole body, so the rest is cut off.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A script as the user gave it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Script {
    /// The name for error messages; usually the file.
    pub name: String,
    /// The Lua source.
    pub source: String,
    /// The arguments of `init`.
    pub args: Vec<String>,
}

/// A script failed: Lua's message, with the line.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ScriptError(String);
