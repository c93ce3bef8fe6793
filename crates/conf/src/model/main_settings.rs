//! The top level and `events`: processes, system limits, and settings outside of any protocol.

use std::time::Duration;

use super::accepted::check_number;
use super::log::{ErrorLog, parse_error_log};
use super::realip::parse_from;
use super::settings::{At, level, settings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::Word;
use crate::value::plain::{parse_bytes, parse_choice, parse_flag, parse_text, parse_u32};
use crate::value::size::{bytes, number, parse_offset};
use crate::value::time::parse_milliseconds;
use crate::value::{Parsed, invalid_parameter, invalid_value};

/// `user`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The group's name; `None` for a group of the user's name.
    pub group: Option<String>,
    /// Where it was written.
    pub span: Span,
}

/// `worker_processes`: the number of worker threads here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerProcesses {
    /// One per available processor.
    Auto,
    /// That many.
    Count(u32),
}

/// `worker_groups`: the number of processes that the workers are spread over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerGroups {
    /// As many as the planned connections need.
    Auto,
    /// That many.
    Count(u16),
}

/// `worker_cpu_affinity`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Affinity {
    /// The kernel decides.
    None,
    /// Worker n on the n-th processor, of those in the mask where one was given.
    Auto(Option<Vec<u32>>),
    /// The processors of each worker; the last entry serves the workers beyond.
    Masks(Vec<Vec<u32>>),
}

/// One `env`. As in nginx, the name may be empty; the entry has no effect then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvVariable {
    /// Its name.
    pub name: String,
    /// Its value; `None` keeps the one that was inherited.
    pub value: Option<Vec<u8>>,
}

/// What a process over its memory budget gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shed {
    /// Idle keepalive connections, then new requests, then accepts.
    InOrder,
    /// Idle keepalive connections only.
    Keepalive,
    /// New requests are refused, idle connections stay.
    Requests,
    /// Nothing: the budget is only reported.
    Nothing,
}

/// `memory_budget`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBudget {
    /// Bytes of all buffers together.
    pub bytes: u64,
    /// What to give up above it.
    pub shed: Shed,
}

/// `ctl_socket`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CtlSocket {
    /// There is none.
    Off,
    /// At this path.
    At {
        /// Its path; a relative one is below the prefix.
        path: Vec<u8>,
        /// Its permissions; `None` for the owner, and the group if one is named.
        mode: Option<u32>,
        /// Its group.
        group: Option<String>,
        /// Where it was written.
        span: Span,
    },
}

settings! {
    /// Directives of the top level.
    pub struct MainSettings {
        /// User of the workers if the master runs as root; `None` is the user `nobody`.
        user: Option<User> = None, "user" => whole(parse_user);
        /// Number of workers.
        worker_processes: WorkerProcesses = WorkerProcesses::Count(1), "worker_processes" => value(parse_processes);
        /// Number of processes that the workers are spread over.
        worker_groups: WorkerGroups = WorkerGroups::Count(1), "worker_groups" => value(parse_groups);
        /// Processors of the workers.
        worker_cpu_affinity: Affinity = Affinity::None, "worker_cpu_affinity" => whole(parse_affinity);
        /// `RLIMIT_NOFILE`; `None` leaves the inherited one.
        worker_rlimit_nofile: Option<u64> = None, "worker_rlimit_nofile" => option(crate::value::plain::parse_number);
        /// `RLIMIT_CORE` in bytes; checked, of no effect here.
        worker_rlimit_core: Option<u64> = None, "worker_rlimit_core" => option(parse_offset);
        /// Checked; of no effect here.
        worker_priority: i32 = 0, "worker_priority" => value(parse_priority);
        /// How long a stopping worker waits for its connections; zero for no limit.
        worker_shutdown_timeout: Duration = Duration::ZERO, "worker_shutdown_timeout" => value(parse_milliseconds);
        /// Directory of core dumps.
        working_directory: Option<Vec<u8>> = None, "working_directory" => option(parse_bytes);
        /// Whether to detach from the terminal.
        daemon: bool = true, "daemon" => value(parse_flag);
        /// Whether a master process supervises.
        master_process: bool = true, "master_process" => value(parse_flag);
        /// The pid file; `None` is the built-in `logs/nginx.pid`.
        pid: Option<Vec<u8>> = None, "pid" => option(parse_bytes);
        /// Checked; of no effect here.
        lock_file: Option<Vec<u8>> = None, "lock_file" => option(parse_bytes);
        /// Error logs; none means the built-in `logs/error.log` at `error`.
        error_logs: Vec<ErrorLog> = Vec::new(), "error_log" => item(parse_error_log);
        /// The environment.
        env: Vec<EnvVariable> = Vec::new(), "env" => item(parse_env);
        /// Modules asked for.
        load_modules: Vec<String> = Vec::new(), "load_module" => each(parse_text);
        /// Checked; expressions are always compiled for speed.
        pcre_jit: bool = false, "pcre_jit" => value(parse_flag);
        /// Checked; of no effect here.
        ssl_engine: Option<Vec<u8>> = None, "ssl_engine" => option(parse_bytes);
        /// Checked; of no effect here.
        ssl_object_cache_inheritable: bool = true, "ssl_object_cache_inheritable" => value(parse_flag);
        /// Checked; of no effect here.
        timer_resolution: Duration = Duration::ZERO, "timer_resolution" => value(parse_milliseconds);
        /// Checked; of no effect here.
        debug_points: () = (), "debug_points" => value(check_debug_points);
        /// The byte budget of all buffers; `None` for no limit.
        memory_budget: Option<MemoryBudget> = None, "memory_budget" => whole(parse_budget);
        /// Tunnels drained per second; 0 for none, `None` where it is not written.
        drain_rate: Option<u32> = None, "drain_rate" => option(parse_drain_rate);
        /// How long a drained tunnel may take to end; `None` where it is not written.
        drain_timeout: Option<Duration> = None, "drain_timeout" => option(parse_milliseconds);
        /// Path of the control socket; `None` puts it beside the pid file.
        ctl_socket: Option<CtlSocket> = None, "ctl_socket" => whole(parse_ctl_socket);
    }
}

level! {
    /// The top level.
    pub struct Main {
        /// Its directives.
        settings: MainSettings,
    }
}

settings! {
    /// Directives of `events`.
    pub struct EventsSettings {
        /// Connections of one worker at most, to clients and upstreams together.
        worker_connections: u32 = 512, "worker_connections" => value(parse_u32);
        /// Checked; the method is epoll.
        method: Option<String> = None, "use" => option(parse_method);
        /// Checked; of no effect here.
        multi_accept: bool = false, "multi_accept" => value(parse_flag);
        /// Checked; of no effect here.
        accept_mutex: bool = false, "accept_mutex" => value(parse_flag);
        /// Checked; of no effect here.
        accept_mutex_delay: Duration = Duration::from_millis(500), "accept_mutex_delay" => value(parse_milliseconds);
        /// Checked; of no effect here.
        debug_connection: () = (), "debug_connection" => whole(check_client);
        /// Checked; of no effect here.
        epoll_events: () = (), "epoll_events" => value(check_number);
        /// Checked; of no effect here.
        worker_aio_requests: () = (), "worker_aio_requests" => value(check_number);
    }
}

level! {
    /// `events`
    pub struct Events {
        /// Its directives.
        settings: EventsSettings,
    }
}

fn check_debug_points(_name: &str, word: &Word) -> Parsed<()> {
    parse_choice(word, &[("stop", ()), ("abort", ())])
}

/// A client as in `set_real_ip_from`: an address, a network, a name or `unix:`.
fn check_client(at: &mut At<'_>) -> Parsed<()> {
    parse_from(at).map(drop)
}

fn parse_user(at: &mut At<'_>) -> Parsed<Option<User>> {
    let name = parse_text(at.name, at.word(0)?)?;
    let group = at.words().get(1).map(|word| parse_text(at.name, word)).transpose()?;
    Ok(Some(User { name, group, span: at.directive.span }))
}

fn parse_processes(_name: &str, word: &Word) -> Parsed<WorkerProcesses> {
    if word.value == b"auto" {
        return Ok(WorkerProcesses::Auto);
    }
    let count = number(&word.value).and_then(|count| u32::try_from(count).ok()).filter(|&count| count > 0);
    count.map(WorkerProcesses::Count).ok_or_else(|| {
        Diagnostic::error(word.span, "\"worker_processes\" directive invalid number").with_hint("a number, or `auto`")
    })
}

/// Most processes: with 20,000 descriptors each, they hold more than a million. Each costs memory and connections to upstreams of
/// its own.
const GROUPS_MAX: u16 = 64;

fn parse_groups(_name: &str, word: &Word) -> Parsed<WorkerGroups> {
    if word.value == b"auto" {
        return Ok(WorkerGroups::Auto);
    }
    let count = number(&word.value).and_then(|count| u16::try_from(count).ok());
    let count = count.filter(|count| (1..=GROUPS_MAX).contains(count));
    count.map(WorkerGroups::Count).ok_or_else(|| invalid_value(word).with_hint("a number from 1 to 64, or `auto`"))
}

impl WorkerGroups {
    /// Most processes.
    pub const MAX: u16 = GROUPS_MAX;
}

/// As in nginx, any number is accepted: the kernel limits it to -20 to 19.
fn parse_priority(name: &str, word: &Word) -> Parsed<i32> {
    let (negative, digits) = match word.value.as_slice() {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let priority = number(digits).map(|number| i32::try_from(number).unwrap_or(i32::MAX));
    priority.map(|priority| if negative { -priority } else { priority }).ok_or_else(|| {
        Diagnostic::error(word.span, format!("\"{name}\" directive invalid number")).with_hint("-20 to 20")
    })
}

/// Processors that a mask may name (`CPU_SETSIZE`).
const PROCESSORS_MAX: usize = 1024;

fn parse_mask(word: &Word) -> Parsed<Vec<u32>> {
    if word.value.len() > PROCESSORS_MAX {
        let message = format!("\"worker_cpu_affinity\" supports up to {PROCESSORS_MAX} CPUs only");
        return Err(Diagnostic::error(word.span, message));
    }
    if let Some(bad) = word.value.iter().find(|byte| !matches!(byte, b'0' | b'1')) {
        let message = format!("invalid character \"{}\" in \"worker_cpu_affinity\"", char::from(*bad));
        return Err(Diagnostic::error(word.span, message));
    }
    Ok(word.value.iter().rev().zip(0_u32..).filter(|(bit, _)| **bit == b'1').map(|(_, index)| index).collect())
}

fn parse_affinity(at: &mut At<'_>) -> Parsed<Affinity> {
    let first = at.word(0)?;
    if first.value == b"auto" {
        if let Some(third) = at.words().get(2) {
            return Err(Diagnostic::error(
                third.span,
                "invalid number of arguments in \"worker_cpu_affinity\" directive",
            ));
        }
        return Ok(Affinity::Auto(at.words().get(1).map(parse_mask).transpose()?));
    }
    at.words().iter().map(parse_mask).collect::<Parsed<_>>().map(Affinity::Masks)
}

fn parse_env(at: &mut At<'_>) -> Parsed<EnvVariable> {
    let word = at.word(0)?;
    let (name, value) = match word.value.iter().position(|&byte| byte == b'=') {
        Some(equals) => (&word.value[..equals], Some(word.value[equals + 1..].to_vec())),
        None => (word.value.as_slice(), None),
    };
    let name = String::from_utf8(name.to_vec()).map_err(|_| invalid_value(word))?;
    if name.contains('\0') {
        return Err(invalid_value(word));
    }
    Ok(EnvVariable { name, value })
}

fn parse_method(_name: &str, word: &Word) -> Parsed<String> {
    const METHODS: [&str; 7] = ["epoll", "poll", "select", "kqueue", "rtsig", "/dev/poll", "eventport"];
    let text = word.text();
    if METHODS[..3].contains(&text.as_ref()) {
        return Ok(text.into_owned());
    }
    let hint = if METHODS.contains(&text.as_ref()) {
        "that method does not exist on Linux"
    } else {
        "holdfast always uses `epoll`"
    };
    Err(Diagnostic::error(word.span, format!("invalid event type \"{text}\"")).with_hint(hint))
}

/// A million tunnels within a second: nothing is gained by more.
const DRAIN_RATE_MAX: u32 = 1_000_000;

fn parse_drain_rate(_name: &str, word: &Word) -> Parsed<u32> {
    if word.value == b"off" {
        return Ok(0);
    }
    let rate = number(&word.value).and_then(|rate| u32::try_from(rate).ok()).filter(|rate| *rate <= DRAIN_RATE_MAX);
    rate.ok_or_else(|| invalid_value(word).with_hint("tunnels per second, up to 1000000, or `off`"))
}

/// A smaller budget cannot hold the buffers of one connection for each of a few workers.
const BUDGET_MIN: u64 = 1 << 20;

fn parse_budget(at: &mut At<'_>) -> Parsed<Option<MemoryBudget>> {
    let word = at.word(0)?;
    if word.value == b"off" && at.words().len() == 1 {
        return Ok(None);
    }
    let bytes = bytes(&word.value, true)
        .ok_or_else(|| invalid_value(word).with_hint("a size such as `512m` or `2g`, or `off`"))?;
    if bytes < BUDGET_MIN {
        return Err(invalid_value(word).with_hint("at least 1m"));
    }
    let mut shed = Shed::InOrder;
    for word in &at.words()[1..] {
        shed = match word.value.as_slice() {
            b"shed=all" => Shed::InOrder,
            b"shed=keepalive" => Shed::Keepalive,
            b"shed=requests" => Shed::Requests,
            b"shed=none" => Shed::Nothing,
            _ => {
                return Err(
                    invalid_parameter(word).with_hint("`shed=all`, `shed=keepalive`, `shed=requests` or `shed=none`")
                );
            }
        };
    }
    Ok(Some(MemoryBudget { bytes, shed }))
}

/// With permissions for others, every user of the machine could close connections.
const CTL_MODE_MAX: u32 = 0o770;

fn parse_ctl_socket(at: &mut At<'_>) -> Parsed<Option<CtlSocket>> {
    let first = at.word(0)?;
    if first.value == b"off" && at.words().len() == 1 {
        return Ok(Some(CtlSocket::Off));
    }
    let (mut mode, mut group) = (None, None);
    for word in &at.words()[1..] {
        let text = word.text();
        if let Some(digits) = text.strip_prefix("mode=") {
            let bits = u32::from_str_radix(digits, 8).ok().filter(|bits| bits & !CTL_MODE_MAX == 0);
            mode = Some(bits.ok_or_else(|| {
                invalid_parameter(word).with_hint("such as `mode=0660`; nothing may be granted to others")
            })?);
        } else if let Some(name) = text.strip_prefix("group=").filter(|name| !name.is_empty()) {
            group = Some(name.to_owned());
        } else {
            return Err(invalid_parameter(word).with_hint("`mode=` or `group=`"));
        }
    }
    Ok(Some(CtlSocket::At { path: first.value.to_vec(), mode, group, span: at.directive.span }))
}
