//! Tells the service manager what this instance does, by the protocol of `sd_notify(3)`: datagrams of `NAME=value` lines to the
//! socket in `NOTIFY_SOCKET`. Called by the master, or by the one process of `master_process off`. It knows no process:
//! the callers say what has happened.
//!
//! This is our own code because the crate `sd-notify` cannot reach abstract sockets, which containers use, and because
//! its send waits: a service manager that hangs would stop the master.

use gateway::Totals;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendto, socket_with};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

/// The variable with the address of the service manager's socket.
const SOCKET: &str = "NOTIFY_SOCKET";
/// The time within which the service manager wants a sign of life, in microseconds.
const WATCHDOG: &str = "WATCHDOG_USEC";
/// The process that the service manager expects it from.
pub(super) const WATCHDOG_PID: &str = "WATCHDOG_PID";
/// Time between two texts of the status: `systemctl status` shows the last one, and a person looks at it for seconds.
pub(super) const STATUS_PERIOD: Duration = Duration::from_secs(5);
/// Messages kept while the socket accepts none. More than one start, reload and stop have; if the service manager reads
/// none for so long, later messages matter more than the first.
const UNSENT_MAX: usize = 16;
/// What a stop needs beyond `worker_shutdown_timeout`: logs are written, and processes end.
const STOP_SLACK: Duration = Duration::from_secs(10);

/// The service manager, if one started this process.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    to: Option<(OwnedFd, SocketAddrUnix)>,
    /// Messages that the socket has not accepted yet.
    unsent: VecDeque<String>,
    /// Half of the watchdog's time, and when the next sign of life is due.
    watchdog: Option<(Duration, Instant)>,
    /// The text of the status that was sent last.
    status: String,
    status_at: Option<Instant>,
    /// Whether a reload was announced and its result was not.
    reloading: bool,
    /// Whether another process is the main one now: this one says nothing more.
    retired: bool,
}

/// Whether a service manager waits for messages of this process.
pub(super) fn is_present() -> bool {
    std::env::var_os(SOCKET).is_some_and(|name| !name.is_empty())
}

impl Notifier {
    /// Reads the environment; the second part is a warning.
    pub(super) fn at_start(now: Instant) -> (Self, Option<String>) {
        let Some(name) = std::env::var_os(SOCKET).filter(|name| !name.is_empty()) else {
            return (Self::default(), None);
        };
        let to = match open(&name) {
            Ok(to) => Some(to),
            Err(error) => {
                let message = format!("{SOCKET}={} cannot be used: {error}", name.display());
                return (Self::default(), Some(message));
            }
        };
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_ours = number(WATCHDOG_PID).is_none_or(|pid| pid == u64::from(std::process::id()));
        let period = number(WATCHDOG).filter(|usec| is_ours && *usec > 0);
        let watchdog = period.map(|usec| (Duration::from_micros(usec / 2), now));
        (Self { to, watchdog, ..Self::default() }, None)
    }

    /// The instance serves.
    pub(super) fn ready(&mut self) {
        self.notify("READY=1\nSTATUS=serving");
    }

    /// A reload begins.
    pub(super) fn reloading(&mut self) {
        self.reloading = true;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.notify(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=reloading"));
    }

    /// A reload has ended; nothing happens if none was announced.
    pub(super) fn reloaded(&mut self, outcome: Result<(), &str>) {
        if !std::mem::take(&mut self.reloading) {
            return;
        }
        let status = match outcome {
            Ok(()) => "serving the new configuration".to_owned(),
            Err(message) => format!("the reload failed: {}", one_line(message)),
        };
        self.notify(&format!("READY=1\nSTATUS={status}"));
        // The result stays visible until the next period.
        self.status_at = Some(Instant::now());
    }

    /// The instance ends. `drain`: how long open work may take; `None`: it ends at once, or takes as long as the
    /// service manager allows.
    pub(super) fn stopping(&mut self, drain: Option<Duration>) {
        let mut message = "STOPPING=1\nSTATUS=finishing open requests and tunnels".to_owned();
        if let Some(drain) = drain.filter(|drain| !drain.is_zero()) {
            // Otherwise TimeoutStopSec= would kill what worker_shutdown_timeout allows.
            let _ = write!(message, "\nEXTEND_TIMEOUT_USEC={}", (drain + STOP_SLACK).as_micros());
        }
        self.notify(&message);
    }

    /// This process is the main one from now on.
    pub(super) fn take_over(&mut self) {
        self.notify(&format!("MAINPID={}\nREADY=1\nSTATUS=serving", std::process::id()));
    }

    /// Another process is the main one from now on, and this one says nothing more.
    pub(super) fn hand_over(&mut self, successor: u32) {
        self.notify(&format!("MAINPID={successor}"));
        self.retired = true;
    }

    /// Whether the status should be sent again. Each `true` begins a period.
    pub(super) fn wants_status(&mut self, now: Instant) -> bool {
        let is_due = self.status_at.is_none_or(|at| now.duration_since(at) >= STATUS_PERIOD);
        let wants = self.to.is_some() && !self.retired && !self.reloading && is_due;
        if wants {
            self.status_at = Some(now);
        }
        wants
    }

    /// Sends a text of the status if it has changed.
    pub(super) fn status(&mut self, text: &str) {
        if self.status != text && !self.reloading {
            self.notify(&format!("STATUS={text}"));
            text.clone_into(&mut self.status);
        }
    }

    /// Periodic work: the sign of life, and messages that were not accepted yet.
    pub(super) fn turn(&mut self, now: Instant) {
        if let Some((half, due)) = &mut self.watchdog
            && now >= *due
        {
            *due = now + *half;
            self.notify("WATCHDOG=1");
        }
        self.flush();
    }

    fn notify(&mut self, message: &str) {
        if self.to.is_none() || self.retired {
            return;
        }
        if self.unsent.len() >= UNSENT_MAX {
            self.unsent.pop_front();
        }
        self.status.clear();
        self.unsent.push_back(message.to_owned());
        self.flush();
    }

    fn flush(&mut self) {
        let Some((socket, address)) = &self.to else { return };
        while let Some(message) = self.unsent.front() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match sendto(socket, message.as_bytes(), flags, address) {
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
                // If the service manager is restarting, its socket comes back; this message is lost, as in sd_notify(3).
                Ok(_) | Err(_) => self.unsent.pop_front(),
            };
        }
    }
}

/// The counts as `systemctl status` shows them.
pub(super) fn status_text(is_ending: bool, totals: &Totals) -> String {
    let what = if is_ending { "finishing" } else { "serving" };
    let Totals { active, exchanges, tunnels, .. } = totals;
    format!("{what}: {active} connections, {exchanges} requests under way, {tunnels} tunnels")
}

fn open(name: &OsStr) -> Result<(OwnedFd, SocketAddrUnix), String> {
    let bytes = name.as_bytes();
    let address = match bytes.split_first() {
        Some((b'@', rest)) => SocketAddrUnix::new_abstract_name(rest),
        Some((b'/', _)) => SocketAddrUnix::new(name),
        _ => return Err("it is neither an absolute path nor an abstract socket (@NAME)".to_owned()),
    };
    let address = address.map_err(|error| error.to_string())?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).map_err(|error| error.to_string())?;
    Ok((socket, address))
}

/// A line end would begin another variable of the message.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    fn manager() -> (Notifier, UnixDatagram, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let to = Some(open(path.as_os_str()).unwrap());
        (Notifier { to, ..Notifier::default() }, socket, folder)
    }

    fn next(socket: &UnixDatagram) -> Option<String> {
        let mut bytes = [0; 4096];
        let count = socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..count]).into_owned())
    }

    #[test]
    fn only_an_announced_reload_gets_a_result() {
        let (mut manager, socket, _folder) = manager();
        manager.reloaded(Ok(()));
        assert_eq!(next(&socket), None);
        manager.reloading();
        let first = next(&socket).unwrap();
        assert!(first.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{first}");
        manager.reloaded(Err("site.conf:1: no\nREADY=1"));
        assert_eq!(next(&socket).unwrap(), "READY=1\nSTATUS=the reload failed: site.conf:1: no READY=1");
    }

    #[test]
    fn a_stop_asks_for_the_time_that_the_configuration_allows() {
        let (mut manager, socket, _folder) = manager();
        manager.stopping(Some(Duration::from_mins(1)));
        assert!(next(&socket).unwrap().ends_with("\nEXTEND_TIMEOUT_USEC=70000000"));
        manager.stopping(Some(Duration::ZERO));
        assert!(!next(&socket).unwrap().contains("EXTEND_TIMEOUT_USEC"), "no limit is the service manager's");
    }

    #[test]
    fn sends_nothing_after_the_hand_over() {
        let (mut manager, socket, _folder) = manager();
        let now = Instant::now();
        manager.watchdog = Some((Duration::from_secs(1), now));
        manager.hand_over(4711);
        manager.turn(now);
        manager.stopping(None);
        assert_eq!(next(&socket).unwrap(), "MAINPID=4711");
        assert_eq!(next(&socket), None);
        assert!(!manager.wants_status(now));
    }

    #[test]
    fn watchdog_is_notified_at_half_its_time() {
        let (mut manager, socket, _folder) = manager();
        let now = Instant::now();
        manager.watchdog = Some((Duration::from_secs(5), now));
        manager.turn(now);
        manager.turn(now + Duration::from_secs(4));
        assert_eq!((next(&socket).unwrap().as_str(), next(&socket)), ("WATCHDOG=1", None));
        manager.turn(now + Duration::from_secs(5));
        assert_eq!(next(&socket).unwrap(), "WATCHDOG=1");
    }

    #[test]
    fn a_service_manager_that_reads_nothing_gets_the_messages_later() {
        let (mut manager, socket, _folder) = manager();
        // The queue of a datagram socket holds net.unix.max_dgram_qlen messages.
        for number in 0..10_000 {
            manager.notify(&format!("STATUS={number}"));
        }
        assert_eq!(manager.unsent.len(), UNSENT_MAX);
        let mut last = None;
        while let Some(message) = next(&socket) {
            last = Some(message);
            manager.turn(Instant::now());
        }
        assert_eq!(last.as_deref(), Some("STATUS=9999"));
    }

    #[test]
    fn addresses_are_paths_or_abstract_names() {
        assert!(open(OsStr::new("/run/systemd/notify")).is_ok());
        assert!(open(OsStr::new("@holdfast/notify")).is_ok());
        assert!(open(OsStr::new("vsock:2:1234")).unwrap_err().contains("abstract"));
    }
}
