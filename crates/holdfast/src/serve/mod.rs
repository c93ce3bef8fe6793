//! Starts the gateway's processes. With `daemon on` the command starts a master that detaches from the terminal, and
//! waits for its result. The master opens sockets and logs and starts a child, which does the work. With
//! `master_process off` one process does everything. There is no fork: every process is this program started anew, and
//! a variable names its role.

mod adoption;
mod certificate_watch;
mod channel;
mod child;
#[cfg(feature = "kubernetes")]
pub(crate) mod cluster;
mod commons;
mod ctl_socket;
mod ctl_work;
mod ended;
mod engine;
mod figures;
mod log_files;
mod log_named;
mod log_output;
mod log_writer;
mod master;
mod order;
mod pid_file;
mod privileges;
mod queue_watch;
mod retired;
mod service_manager;
mod siblings;
mod single;
mod sockets;
mod syslog;
mod temp_directories;
mod tunnels;

pub(crate) use adoption::signal_left_behind;
pub(crate) use log_files::LogFiles;
pub(crate) use pid_file::{Written, read as read_pid_file};
pub(crate) use temp_directories::make_directories;

use crate::instance::Instance;
use crate::verdict::{Lasting, prepare};
use crate::{exit, report};
use channel::{Channel, Kind};
use order::{Remembering, Texts};
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// The variable that names the role of a process.
pub(crate) const ROLE: &str = "HOLDFAST_ROLE";

/// The role of a process that another process of ours has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The command itself, detached from the terminal.
    Daemon,
    /// The process that does the work.
    Child,
}

impl Role {
    /// The role of this process; `None` if it was started by a user or another program.
    pub(crate) fn of_this_process() -> Option<Self> {
        let name = std::env::var_os(ROLE)?;
        [Self::Daemon, Self::Child].into_iter().find(|role| name == role.name())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Child => "child",
        }
    }
}

/// Starts an instance. Returns when it has ended or, with `daemon on`, when it serves; the result is the exit code.
pub(crate) fn start(instance: &Instance) -> u8 {
    start_and(instance, |_| ())
}

/// The same; calls `serving` on the terminal once it serves, with the process id of the daemon if there is one.
pub(crate) fn start_and(instance: &Instance, serving: impl FnOnce(Option<u32>)) -> u8 {
    let mut lasting = Lasting::default();
    let mut loader = Remembering { inner: instance.loader(), texts: Texts::default() };
    let prepared = prepare(instance, &mut loader, &mut lasting);
    let (Some(process), true) = (&prepared.process, prepared.is_ok()) else {
        report::diagnostics(&prepared);
        return exit::FAILED;
    };
    // If the error log goes to standard error, nginx does not redirect that stream.
    let keeps_stderr = process.child.uses_stderr;
    let is_daemon = Role::of_this_process() == Some(Role::Daemon);
    // The program that passes its sockets on has already detached from the terminal.
    let takes_over = std::env::var_os(sockets::INHERITED).is_some();
    // A process that detaches would leave the service manager's view, and its messages would not count.
    let stays = takes_over || service_manager::is_present();
    if process.daemon && !is_daemon && service_manager::is_present() && !takes_over {
        report::complain("[notice] NOTIFY_SOCKET is set: this process stays in the foreground, as with `daemon off`");
    }
    let outcome = if process.daemon && !is_daemon && !stays {
        start_daemon().map(|daemon| serving(Some(daemon)))
    } else if process.master {
        drop(prepared);
        leave_terminal(is_daemon).and_then(|leaving| master::run(instance, || leaving.done(keeps_stderr)))
    } else {
        report::at_start(&prepared);
        leave_terminal(is_daemon).and_then(|leaving| {
            let serves = || {
                leaving.done(keeps_stderr);
                serving(None);
            };
            single::run(instance, (prepared, loader.texts), lasting, serves)
        })
    };
    conclude(outcome)
}

/// Runs a child; returns the exit code.
pub(crate) fn work_as_child() -> u8 {
    conclude(child::run())
}

fn conclude(outcome: Result<(), String>) -> u8 {
    match outcome {
        Ok(()) => exit::OK,
        // The daemon has already reported the error.
        Err(message) if message.is_empty() => exit::FAILED,
        Err(message) => {
            report::complain(&format!("[emerg] {message}"));
            exit::FAILED
        }
    }
}

/// Starts the same command as a daemon, and waits until it serves or has failed. Returns its process id.
fn start_daemon() -> Result<u32, String> {
    let failed = |error: std::io::Error| format!("the daemon could not be started {}", report::errno(&error));
    let (mut channel, theirs) = Channel::pair().map_err(failed)?;
    let mut words = std::env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words).env(ROLE, Role::Daemon.name()).stdin(Stdio::from(theirs));
    let mut daemon = command.spawn().map_err(failed)?;
    // Dropping the command closes its copy of the other end; otherwise the daemon's end would go unnoticed.
    drop(command);
    match channel.wait() {
        Ok(packet) if packet.kind == Kind::Ready => Ok(daemon.id()),
        _ => {
            // The daemon has printed the error on the terminal that it shares with us.
            let _ = daemon.wait();
            Err(String::new())
        }
    }
}

/// Detaches from the terminal; the last step follows when the instance serves.
struct Leaving(Option<Channel>);

fn leave_terminal(is_daemon: bool) -> Result<Leaving, String> {
    if !is_daemon {
        return Ok(Leaving(None));
    }
    let channel = Channel::from_stdin().map_err(|error| format!("no process waits for the daemon: {error}"))?;
    let _ = rustix::thread::set_name(c"holdfast");
    // Another process started this one, so it leads no process group and the call cannot fail.
    let _ = nix::unistd::setsid();
    Ok(Leaving(Some(channel)))
}

impl Leaving {
    /// Tells the waiting command that the instance serves, and closes the terminal.
    fn done(self, keeps_stderr: bool) {
        let Some(channel) = self.0 else { return };
        let _ = channel.send(Kind::Ready, "");
        if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
            let _ = nix::unistd::dup2_stdin(&null);
            let _ = nix::unistd::dup2_stdout(&null);
            if !keeps_stderr {
                let _ = nix::unistd::dup2_stderr(&null);
            }
        }
    }
}
