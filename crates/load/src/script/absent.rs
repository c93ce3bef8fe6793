//! The interface of scripts in a build without Lua: a load with a script does not start.

use super::{Script, ScriptError};
use crate::options::Options;
use crate::series::Row;
use crate::summary::Summary;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The globals of a worker.
pub(crate) type Globals = Vec<(String, ScriptStart)>;

/// The values for a worker's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ScriptStart {}

/// The state for `setup` and `done`.
#[derive(Debug, Clone)]
pub(crate) enum Host {}

/// The workers' states in a process that runs a part of the load.
#[derive(Debug)]
pub(crate) enum Threads {}

/// The script of a finished run.
#[derive(Debug, Clone)]
pub struct Finished(pub(crate) Host);

/// The script of one worker.
#[derive(Debug)]
pub(crate) struct WorkerScript {
    never: Infallible,
    /// The address of this worker's requests, if `setup` chose one.
    pub(crate) address: Option<SocketAddr>,
    /// The first error; it ends the run.
    pub(crate) failure: Option<ScriptError>,
}

fn refused<T>(script: &Script) -> Result<T, ScriptError> {
    let name = &script.name;
    Err(ScriptError(format!(
        "{name}: this build runs no Lua scripts; the packages do, and so does a build with --features full"
    )))
}

pub(crate) fn prepare(
    script: &Script,
    _: &Options,
    _: &[SocketAddr],
    _: usize,
    _: &Arc<AtomicBool>,
) -> Result<(Host, Vec<WorkerScript>), ScriptError> {
    refused(script)
}

pub(crate) fn set_up(
    script: &Script,
    _: &Options,
    _: &[SocketAddr],
    _: usize,
    _: &Arc<AtomicBool>,
) -> Result<(Host, Vec<ScriptStart>), ScriptError> {
    refused(script)
}

pub(crate) fn take_up(
    script: &Script,
    _: &Options,
    _: &[SocketAddr],
    _: &[ScriptStart],
    _: &Arc<AtomicBool>,
) -> Result<(Threads, Vec<WorkerScript>), ScriptError> {
    refused(script)
}

impl Finished {
    /// Calls the script's `done`.
    pub fn done(&self, _: &Summary, _: &[Row]) -> Result<(), ScriptError> {
        match self.0 {}
    }
}

impl Host {
    pub(crate) fn restore(&self, _: usize, _: &Globals) -> Result<(), ScriptError> {
        match *self {}
    }
}

impl Threads {
    pub(crate) fn globals(&self) -> Result<Vec<Globals>, ScriptError> {
        match *self {}
    }
}

impl WorkerScript {
    pub(crate) fn requests(&self) -> usize {
        match self.never {}
    }

    pub(crate) fn encode(&mut self, _: &mut Vec<u8>) {
        match self.never {}
    }

    pub(crate) fn wants_responses(&self) -> bool {
        match self.never {}
    }

    pub(crate) fn response(&mut self, _: u16, _: &[(String, Vec<u8>)], _: &[u8]) {
        match self.never {}
    }

    pub(crate) fn delay(&mut self) -> Option<Duration> {
        match self.never {}
    }
}
