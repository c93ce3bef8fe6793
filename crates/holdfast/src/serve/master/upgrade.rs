//! Replaces the running program by another, in nginx's steps. USR2 starts the new program with the listening sockets of
//! this one, and both accept. WINCH lets the workers of this one finish and end. QUIT ends this one. HUP instead of
//! QUIT cancels the upgrade, and so does the end of the new program.

use super::Master;
use super::offspring::describe;
use super::seats::Seat;
use crate::report::errno;
use crate::serve::ROLE;
use crate::serve::channel::{Channel, Kind};
use crate::serve::service_manager::WATCHDOG_PID;
use crate::serve::signal_left_behind;
use crate::serve::sockets::{Handover, INHERITED, leave_activated, leave_tickets};
use gateway::Level;
use reactor::PeerAddress;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tls::TicketState;

/// The variable with the number of the descriptor that leads to the predecessor's master.
const LINK: &str = "HOLDFAST_LINK";

/// Other programs with the sockets of this master.
pub(super) struct Takeover {
    /// The program file to start for an upgrade.
    program: PathBuf,
    /// The program that passed its sockets to this one, if any. It is the parent process as long as it lives.
    predecessor: Option<u32>,
    /// The program that replaces this one.
    newcomer: Option<Child>,
    /// Whether the workers were told to end; they are restarted only on request.
    pub(super) rests: bool,
    /// The connection to the master of the other program, for what its child and this one's have to do with each other.
    pub(super) other: Option<Channel>,
    /// Ends of socket pairs for the children as soon as they serve.
    pub(super) arriving: Vec<OwnedFd>,
    /// How many of them the children got.
    pub(super) arrived: usize,
}

impl Takeover {
    pub(super) fn at_start() -> Self {
        let inherits = std::env::var_os(INHERITED).is_some();
        let other = if inherits { inherited_link() } else { None };
        let predecessor = inherits.then(parent_id);
        Self { program: program(), predecessor, newcomer: None, rests: false, other, arriving: Vec::new(), arrived: 0 }
    }

    pub(super) fn shares_sockets(&self) -> bool {
        self.newcomer.is_some() || self.predecessor_lives()
    }

    /// Checks whether the predecessor has ended since the last call; returns its pid.
    fn predecessor_ended(&mut self) -> Option<u32> {
        if self.predecessor_lives() { None } else { self.predecessor.take() }
    }

    /// The process id of the program that replaces this one.
    pub(super) fn newcomer(&self) -> Option<u32> {
        self.newcomer.as_ref().map(Child::id)
    }

    pub(super) fn predecessor_lives(&self) -> bool {
        self.predecessor.is_some_and(|pid| pid == parent_id())
    }

    /// Starts the other program; also returns the connection to it.
    fn start(
        &self,
        sockets: &Handover,
        tickets: &[TicketState],
        activated: &[PeerAddress],
    ) -> std::io::Result<(Child, Channel)> {
        let (link, theirs) = Channel::pair()?;
        // A duplicate stays open across exec.
        let theirs = rustix::io::dup(theirs)?;
        let mut words = std::env::args_os();
        let mut command = Command::new(&self.program);
        if let Some(name) = words.next() {
            command.arg0(name);
        }
        command.args(words).env_remove(ROLE).env(INHERITED, sockets.value()).stdin(Stdio::null());
        // The watchdog's time is for the process that becomes the main one.
        command.env_remove(WATCHDOG_PID);
        leave_activated(&mut command, activated);
        // The new program may be nginx, which needs no tickets.
        let _ = leave_tickets(&mut command, tickets);
        command.env(LINK, theirs.as_raw_fd().to_string());
        Ok((command.spawn()?, link))
    }
}

impl Master<'_> {
    /// USR2
    pub(super) fn upgrade(&mut self) {
        if self.takeover.shares_sockets() {
            // With three programs on the same sockets the names of the pid files would not suffice.
            let message = "the changing binary signal is ignored: you should shutdown or terminate before either old or \
                           new binary's process";
            return self.journal.log(Level::Crit, message);
        }
        self.journal.log(Level::Notice, "signal 12 (SIGUSR2) received, changing binary");
        if let Err(message) = self.pid_file.step_aside() {
            return self.journal.log(Level::Alert, &message);
        }
        let tickets = self.plan.registry.ticket_states();
        let started = Handover::of(&self.plan.bound.borrow())
            .and_then(|sockets| self.takeover.start(&sockets, &tickets, &self.sockets.activated()));
        match started {
            Ok((newcomer, link)) => {
                self.journal.log(Level::Notice, &format!("start new binary process {}", newcomer.id()));
                self.takeover.newcomer = Some(newcomer);
                self.takeover.other = Some(link);
                self.sockets.shared = true;
            }
            Err(error) => {
                let program = self.takeover.program.display();
                self.journal.log(Level::Alert, &format!("execve() failed while executing {program} {}", errno(&error)));
                self.take_name_back();
            }
        }
    }

    /// WINCH
    pub(super) fn rest(&mut self) {
        // A terminal sends this signal when its window changes: it must not end the workers then.
        if self.takeover.rests || File::open("/dev/tty").is_ok() {
            return;
        }
        self.journal.log(Level::Notice, "signal 28 (SIGWINCH) received, shutting down workers");
        self.takeover.rests = true;
        self.move_tunnels_to_other_program();
        let mut ending: Vec<_> = self.seats.iter_mut().flat_map(Seat::clear).collect();
        ending.extend(self.drop_change());
        for mut one in ending {
            one.order(Kind::Drain);
            self.child_left(one.pid());
            self.retiring.push(one);
        }
    }

    /// HUP after WINCH: restarts the workers with the current configuration without reading it again, as in nginx.
    pub(super) fn work_again(&mut self) {
        self.journal.log(Level::Notice, "signal 1 (SIGHUP) received, starting workers again");
        self.takeover.rests = false;
        self.renew_commons();
        (0..self.seats.len()).for_each(|at| self.start_child(at));
    }

    /// Checks whether the new program has ended; then this one continues as before.
    pub(super) fn reap_newcomer(&mut self) {
        let Some(newcomer) = &mut self.takeover.newcomer else { return };
        let Ok(Some(status)) = newcomer.try_wait() else { return };
        let (level, end) = describe(status);
        self.journal.log(level, &format!("new binary process {} {end}", newcomer.id()));
        // If it was killed, its children still run beside ours: tell them to finish.
        signal_left_behind(newcomer.id(), false);
        self.takeover.newcomer = None;
        self.take_name_back();
        if self.takeover.rests && self.ending == super::Ending::Not {
            self.takeover.rests = false;
            self.renew_commons();
            (0..self.seats.len()).for_each(|at| self.start_child(at));
        }
    }

    /// If the predecessor was killed, its children run with its configuration until they are told to finish.
    pub(super) fn look_after_predecessor(&mut self) {
        let Some(ended) = self.takeover.predecessor_ended() else { return };
        if self.ending == super::Ending::Not {
            // If it was killed, it could not say who the main process is now.
            self.service.take_over();
        }
        if signal_left_behind(ended, false) {
            let message = format!("process {ended}, which handed over, has died; its worker processes finish");
            self.journal.log(Level::Notice, &message);
        }
    }

    fn take_name_back(&mut self) {
        if let Err(message) = self.pid_file.step_back() {
            self.journal.log(Level::Alert, &message);
        }
    }
}

/// The connection to the master that has started this program; `None` if that does not know of it, like nginx.
fn inherited_link() -> Option<Channel> {
    let number = std::env::var(LINK).ok()?.parse().ok()?;
    Channel::over(reactor::inherited_channel(number).ok()?).ok()
}

/// The program by the name it was called with: at the time of the upgrade the name may lead to a new file, and a link
/// to another target.
fn program() -> PathBuf {
    let own = || std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let Some(name) = std::env::args_os().next() else { return own() };
    find_program(&name, std::env::var_os("PATH").as_deref(), Path::is_file).unwrap_or_else(own)
}

/// Finds a program as a shell does: a name with a slash is a path, any other is looked up in the folders of `PATH`.
fn find_program(name: &OsStr, path: Option<&OsStr>, exists: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return std::path::absolute(name).ok().filter(|path| exists(path));
    }
    std::env::split_paths(path?).map(|folder| folder.join(name)).find(|path| exists(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_as_a_shell_finds_it() {
        let found = |name: &str, there: &'static str| {
            let path = OsStr::new("/usr/local/sbin:/usr/sbin");
            find_program(name.as_ref(), Some(path), move |path| path == Path::new(there))
        };
        assert_eq!(found("nginx", "/usr/sbin/nginx"), Some("/usr/sbin/nginx".into()));
        assert_eq!(found("/opt/x/nginx", "/opt/x/nginx"), Some("/opt/x/nginx".into()));
        assert_eq!(found("/opt/x/nginx", "/usr/sbin/nginx"), None);
    }
}
