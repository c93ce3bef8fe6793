//! `-s`: tells a running instance something, by the pid in its pid file, with nginx's messages. As in nginx the
//! configuration is read first, since it says where the pid file is; one that is wrong is reported and nothing is sent.

use super::flags::Signal;
use crate::instance::Instance;
use crate::report::{self, errno};
use crate::{exit, verdict};
use nix::sys::signal::{Signal as Number, kill};
use nix::unistd::Pid;

/// Bytes of a pid file that are looked at: a pid has at most seven digits.
const PID_BYTES_MAX: usize = 32;

/// Sends; the result is the exit code.
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
    let path = process.pid_path.display();
    let text = match std::fs::read(&process.pid_path) {
        Ok(text) => text,
        Err(error) => {
            report::complain(&format!("[error] open() \"{path}\" failed {}", errno(&error)));
            return exit::FAILED;
        }
    };
    let text = String::from_utf8_lossy(&text[..text.len().min(PID_BYTES_MAX)]).trim_end().to_owned();
    let Some(pid) = text.parse().ok().filter(|&pid: &i32| pid > 0) else {
        report::complain(&format!("[error] invalid PID number \"{text}\" in \"{path}\""));
        return exit::FAILED;
    };
    let number = signal.number();
    match kill(Pid::from_raw(pid), number) {
        Ok(()) => exit::OK,
        Err(error) => {
            report::complain(&format!("[alert] kill({pid}, {}) failed {}", number as i32, errno(&error.into())));
            exit::FAILED
        }
    }
}

impl Signal {
    /// What the master listens for.
    fn number(self) -> Number {
        match self {
            Self::Stop => Number::SIGTERM,
            Self::Quit => Number::SIGQUIT,
            Self::Reload => Number::SIGHUP,
            Self::Reopen => Number::SIGUSR1,
        }
    }
}
