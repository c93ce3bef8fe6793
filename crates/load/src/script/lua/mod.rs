//! Scripts in a Lua state.

mod end;
mod plain;
mod thread;

pub use end::Finished;
pub(crate) use plain::Globals;

use super::{Script, ScriptError};
use crate::options::Options;
use mlua::{Function, Lua, LuaString, Table, Value};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use thread::Thread;

/// Most requests in one string of a script: the same limit as for pipelining.
const REQUESTS_MAX: usize = crate::options::PIPELINE_MAX;

/// The Lua source of the table `wrk`.
const WRK: &str = include_str!("wrk.lua");

impl From<mlua::Error> for ScriptError {
    fn from(error: mlua::Error) -> Self {
        Self(error.to_string())
    }
}

/// The script of one worker.
#[derive(Debug)]
pub(crate) struct WorkerScript {
    lua: Lua,
    request: Option<Function>,
    response: Option<Function>,
    delay: Option<Function>,
    /// The bytes of each request if the script has no `request`.
    fixed: Arc<[u8]>,
    /// Number of requests in each string.
    requests: usize,
    /// The address of this worker's requests, if `setup` chose one.
    pub(crate) address: Option<SocketAddr>,
    /// The first error; it ends the run.
    pub(crate) failure: Option<ScriptError>,
}

/// The values for a worker's state, if `setup` ran in another process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct ScriptStart {
    /// Set by `thread:set`, in order.
    given: Globals,
    /// Set by `thread.addr`, if at all.
    address: Option<SocketAddr>,
}

/// The state for `setup` and `done`, and the workers' states for `thread:get` in `done`. If the workers are in other
/// processes, these are copies: `setup` ran on them, and they get the workers' globals at the end.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    lua: Lua,
    workers: Vec<Lua>,
}

/// Creates the states of a run in one process, and runs `setup` and `init` for each worker.
pub(crate) fn prepare(
    script: &Script,
    options: &Options,
    addresses: &[SocketAddr],
    workers: usize,
    stop: &Arc<AtomicBool>,
) -> Result<(Host, Vec<WorkerScript>), ScriptError> {
    let mut scripts = Vec::new();
    let host = host(script, options, addresses, workers, stop, |lua, thread| {
        scripts.push(WorkerScript::new(lua.clone(), script, thread.chosen_address())?);
        Ok(())
    })?;
    Ok((host, scripts))
}

/// Runs `setup` for workers in other processes.
pub(crate) fn set_up(
    script: &Script,
    options: &Options,
    addresses: &[SocketAddr],
    workers: usize,
    stop: &Arc<AtomicBool>,
) -> Result<(Host, Vec<ScriptStart>), ScriptError> {
    let mut starts = Vec::new();
    let host = host(script, options, addresses, workers, stop, |_, thread| {
        starts.push(thread.start());
        Ok(())
    })?;
    Ok((host, starts))
}

/// Creates the states, calls `setup` for each worker, and then `then`.
fn host(
    script: &Script,
    options: &Options,
    addresses: &[SocketAddr],
    workers: usize,
    stop: &Arc<AtomicBool>,
    mut then: impl FnMut(&Lua, &Thread) -> Result<(), ScriptError>,
) -> Result<Host, ScriptError> {
    let main = state(script, options)?;
    let setup: Option<Function> = main.globals().get("setup")?;
    let mut host = Host { lua: main, workers: Vec::new() };
    for _ in 0..workers {
        let (lua, thread) = worker(script, options, addresses, stop)?;
        if let Some(setup) = &setup {
            setup.call::<()>(thread.clone())?;
        }
        then(&lua, &thread)?;
        host.workers.push(lua);
    }
    Ok(host)
}

/// A worker's state, with its own thread object in `wrk.thread`.
fn worker(
    script: &Script,
    options: &Options,
    addresses: &[SocketAddr],
    stop: &Arc<AtomicBool>,
) -> Result<(Lua, Thread), ScriptError> {
    let lua = state(script, options)?;
    let thread = Thread::new(&lua, addresses.first().copied(), Arc::clone(stop));
    let wrk: Table = lua.globals().get("wrk")?;
    wrk.set("thread", thread.clone())?;
    Ok((lua, thread))
}

/// The workers' states in a process that runs a part of the load.
#[derive(Debug)]
pub(crate) struct Threads(Vec<Lua>);

/// Creates the states of a part, sets the values that `setup` set in the parent process, and runs `init` for each.
pub(crate) fn take_up(
    script: &Script,
    options: &Options,
    addresses: &[SocketAddr],
    starts: &[ScriptStart],
    stop: &Arc<AtomicBool>,
) -> Result<(Threads, Vec<WorkerScript>), ScriptError> {
    let (mut threads, mut scripts) = (Threads(Vec::new()), Vec::new());
    for start in starts {
        let (lua, _) = worker(script, options, addresses, stop)?;
        for (name, value) in &start.given {
            lua.globals().set(name.as_str(), plain::to_lua(value.as_ref(), &lua)?)?;
        }
        scripts.push(WorkerScript::new(lua.clone(), script, start.address)?);
        threads.0.push(lua);
    }
    Ok((threads, scripts))
}

impl Threads {
    /// The final globals of each worker, if the script has a `done`.
    pub(crate) fn globals(&self) -> Result<Vec<Globals>, ScriptError> {
        let mut all = Vec::new();
        for lua in &self.0 {
            if lua.globals().get::<Option<Function>>("done")?.is_some() {
                all.push(plain::globals(lua)?);
            }
        }
        Ok(all)
    }
}

impl Host {
    /// Sets the final globals of a worker in another process.
    pub(crate) fn restore(&self, worker: usize, globals: &Globals) -> Result<(), ScriptError> {
        let Some(lua) = self.workers.get(worker) else { return Ok(()) };
        Ok(plain::restore(lua, globals)?)
    }
}

/// Creates a state, fills its table `wrk` from the options, and runs the script once.
fn state(script: &Script, options: &Options) -> Result<Lua, ScriptError> {
    let lua = Lua::new();
    lua.load(WRK).set_name("=wrk").exec()?;
    if let Some(target) = options.targets.first() {
        let wrk: Table = lua.globals().get("wrk")?;
        wrk.set("host", target.url.host.as_str())?;
        wrk.set("port", target.url.port.to_string())?;
        wrk.set("path", target.url.path.as_str())?;
        wrk.set("method", target.method.as_str())?;
        if !target.body.is_empty() {
            wrk.set("body", lua.create_string(&target.body)?)?;
        }
        let headers: Table = wrk.get("headers")?;
        for (name, value) in &target.fields {
            headers.set(name.as_str(), value.as_str())?;
        }
        if !target.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            headers.set("Host", target.url.authority.as_str())?;
        }
        if !options.keepalive {
            headers.set("Connection", "close")?;
        }
        thread::add_addresses(&lua, &wrk)?;
    }
    lua.load(&script.source).set_name(format!("@{}", script.name)).exec()?;
    Ok(lua)
}

impl WorkerScript {
    fn new(lua: Lua, script: &Script, address: Option<SocketAddr>) -> Result<Self, ScriptError> {
        let globals = lua.globals();
        if let Some(init) = globals.get::<Option<Function>>("init")? {
            let args = lua.create_table()?;
            // As in wrk, the first argument has the index 0.
            for (index, arg) in script.args.iter().enumerate() {
                args.set(index, arg.as_str())?;
            }
            init.call::<()>(args)?;
        }
        let wrk: Table = globals.get("wrk")?;
        let request: Option<Function> = match globals.get::<Option<Function>>("request")? {
            Some(request) => Some(request),
            None => wrk.get("request")?,
        };
        let format: Function = wrk.get("format")?;
        let first: LuaString = match &request {
            Some(request) => request.call(())?,
            None => format.call(())?,
        };
        let fixed: Arc<[u8]> = first.as_bytes().to_vec().into();
        let requests = count_requests(&fixed)?;
        let (response, delay) = (globals.get("response")?, globals.get("delay")?);
        Ok(Self { lua, request, response, delay, fixed, requests, address, failure: None })
    }

    /// Requests in each string that [`Self::encode`] appends.
    pub(crate) fn requests(&self) -> usize {
        self.requests
    }

    /// Appends the next string of requests.
    pub(crate) fn encode(&mut self, out: &mut Vec<u8>) {
        let Some(request) = &self.request else {
            out.extend_from_slice(&self.fixed);
            return;
        };
        match request.call::<LuaString>(()) {
            Ok(text) => out.extend_from_slice(&text.as_bytes()),
            Err(error) => self.failure = Some(error.into()),
        }
    }

    /// Whether the script defines `response` and so needs fields and body.
    pub(crate) fn wants_responses(&self) -> bool {
        self.response.is_some()
    }

    /// Calls `response`.
    pub(crate) fn response(&mut self, status: u16, fields: &[(String, Vec<u8>)], body: &[u8]) {
        let Some(response) = &self.response else { return };
        let called = self.lua.create_table().and_then(|headers| {
            for (name, value) in fields {
                headers.set(name.as_str(), self.lua.create_string(value)?)?;
            }
            response.call::<()>((status, headers, self.lua.create_string(body)?))
        });
        if let Err(error) = called {
            self.failure = Some(error.into());
        }
    }

    /// The pause before the next request, if `delay` is defined.
    pub(crate) fn delay(&mut self) -> Option<Duration> {
        match self.delay.as_ref()?.call::<Value>(()) {
            Ok(value) => {
                let ms = value.as_f64().or_else(|| value.as_i64().map(|ms| ms as f64)).unwrap_or_default();
                Duration::try_from_secs_f64(ms / 1e3).ok()
            }
            Err(error) => {
                self.failure = Some(error.into());
                None
            }
        }
    }
}

/// Number of requests in a string; it must contain complete ones.
fn count_requests(bytes: &[u8]) -> Result<usize, ScriptError> {
    let limits =
        http1::Limits { head_bytes_max: bytes.len() + 1, line_bytes_max: bytes.len() + 1, ..http1::Limits::default() };
    let mut head = http1::RequestHead::default();
    let (mut rest, mut count) = (bytes, 0);
    while !rest.is_empty() {
        let parsed = http1::request::parse(rest, &limits, &mut head);
        let length = match parsed {
            Ok(http1::Parse::Complete { len }) => len,
            Ok(http1::Parse::Partial) => return Err(ScriptError("the script's request is not complete".to_owned())),
            Err(error) => return Err(ScriptError(format!("the script's request cannot be understood: {error}"))),
        };
        let body = match head.framing {
            http1::BodyFraming::Length(length) => length as usize,
            // The script is responsible for the end of a chunked body.
            http1::BodyFraming::Chunked => usize::MAX,
            http1::BodyFraming::None => 0,
        };
        rest = rest.get(length.saturating_add(body)..).unwrap_or_default();
        count += 1;
    }
    match count {
        0 => Err(ScriptError("the script's request is empty".to_owned())),
        1..=REQUESTS_MAX => Ok(count),
        _ => Err(ScriptError(format!("the script sends more than {REQUESTS_MAX} requests at once"))),
    }
}
