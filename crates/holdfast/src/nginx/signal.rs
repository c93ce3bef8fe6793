//! `-s`: sends a signal to the running instance in the pid file, with nginx's messages. As in nginx, the configuration
//! is read first because it names the pid file; an error in it is reported and no signal is sent. A process is
//! signalled only if it holds the lock on the pid file, because its number may belong to another process by now.

use super::flags::Signal;
use crate::instance::Instance;
use crate::report::{self, errno};
use crate::serve::{Written, read_pid_file, signal_left_behind};
use crate::{exit, verdict};
use nix::errno::Errno;
use nix::sys::signal::{Signal as Number, kill};
use nix::unistd::Pid;
use std::path::Path;

/// Sends the signal; returns the exit code.
pub(super) fn send(instance: &Instance, signal: Signal) -> u8 {
    let mut lasting = match verdict::Lasting::without_workers() {
        Ok(lasting) => lasting,
        Err(error) => {
            report::complain(&format!("[emerg] eventfd() failed {}", errno(&error)));
            return exit::FAILED;
        }
    };
    let prepared = verdict::prepare(instance, &mut instance.loader(), &mut lasting);
    let Some(process) = prepared.process.as_ref().filter(|_| prepared.is_ok()) else {
        report::diagnostics(&prepared);
        return exit::FAILED;
    };
    let sent = read_pid_file(&process.pid_path).and_then(|written| match written {
        Written::Runs(pid) => send_to(pid, signal),
        Written::Ended(pid) => send_to_children_of(pid, &process.pid_path, signal),
    });
    match sent {
        Ok(()) => exit::OK,
        Err(message) => {
            report::complain(&message);
            exit::FAILED
        }
    }
}

fn send_to(pid: u32, signal: Signal) -> Result<(), String> {
    let number = signal.number();
    let failed = |error: Errno| format!("[alert] kill({pid}, {}) failed {}", number as i32, errno(&error.into()));
    kill(Pid::from_raw(pid.cast_signed()), number).map_err(failed)
}

/// The master is gone, but its children may still work. No other process gets a signal.
fn send_to_children_of(pid: u32, path: &Path, signal: Signal) -> Result<(), String> {
    let ends = matches!(signal, Signal::Stop | Signal::Quit);
    if ends && signal_left_behind(pid, signal == Signal::Stop) {
        return Ok(());
    }
    // Signal 0 only tests whether the process exists.
    match kill(Pid::from_raw(pid.cast_signed()), None) {
        Err(Errno::ESRCH) => {
            Err(format!("[alert] kill({pid}, {}) failed (3: No such process)", signal.number() as i32))
        }
        _ => Err(format!(
            "[error] process {pid} has not written \"{}\" and is not signalled: the instance that has written it is gone",
            path.display()
        )),
    }
}

impl Signal {
    /// The signal that the master handles.
    fn number(self) -> Number {
        match self {
            Self::Stop => Number::SIGTERM,
            Self::Quit => Number::SIGQUIT,
            Self::Reload => Number::SIGHUP,
            Self::Reopen => Number::SIGUSR1,
        }
    }
}
