//! What a service manager hears from the program (`sd_notify(3)`), and the sockets that it passes (`sd_listen_fds(3)`).
//! A real systemd does the same in the test of the package.

use crate::support::{DEADLINE, Instance, children, fetch, lives, pid, until};
use nix::sys::signal::{Signal, kill};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::process::{Command, Stdio};
use testkit::{Running, Talk};

const SERVER: &str = "server { listen 127.0.0.1:PORT; location = /alive { return 200 alive; } }";

/// The service manager's socket.
struct NotifySocket {
    socket: UnixDatagram,
    name: String,
}

impl NotifySocket {
    fn at_path(instance: &Instance) -> Self {
        let path = instance.path("notify");
        let socket = UnixDatagram::bind(&path).expect("bound");
        Self { socket, name: path.display().to_string() }.ready()
    }

    fn abstract_one(instance: &Instance) -> Self {
        let name = format!("holdfast-test-{}", instance.port);
        let address = SocketAddr::from_abstract_name(&name).expect("short");
        let socket = UnixDatagram::bind_addr(&address).expect("bound");
        Self { socket, name: format!("@{name}") }.ready()
    }

    fn ready(self) -> Self {
        self.socket.set_read_timeout(Some(DEADLINE)).expect("set");
        self
    }

    /// The next message that has this line, or a line that begins so if it ends in `…`.
    fn receive(&self, line: &str) -> String {
        let mut earlier = Vec::new();
        loop {
            let mut bytes = [0; 4096];
            let Ok(count) = self.socket.recv(&mut bytes) else {
                panic!("waited in vain for {line:?} after {earlier:?}")
            };
            let message = String::from_utf8_lossy(&bytes[..count]).into_owned();
            let is_it = |found: &str| line.strip_suffix('…').map_or(found == line, |start| found.starts_with(start));
            if message.lines().any(is_it) {
                return message;
            }
            earlier.push(message);
        }
    }
}

fn start(instance: &Instance, manager: &NotifySocket, flags: &[&str]) -> Running {
    let mut command = instance.command(flags);
    command.env("NOTIFY_SOCKET", &manager.name).stdout(Stdio::null());
    command.stderr(std::fs::File::create(instance.path("stderr")).expect("made"));
    Running::of(command.spawn().expect("the program starts"))
}

#[test]
fn reports_start_reload_and_stop_to_the_service_manager() {
    let instance = Instance::new("worker_shutdown_timeout 20s;", SERVER);
    let manager = NotifySocket::at_path(&instance);
    // Without `daemon off`: a program that detaches would leave the service manager's view.
    let mut started = start(&instance, &manager, &[]);
    manager.receive("READY=1");
    assert_eq!(instance.pid_file(), Some(started.id()), "it stays in the foreground");
    assert!(instance.text("stderr").contains("NOTIFY_SOCKET is set"), "{}", instance.text("stderr"));
    let status = manager.receive("STATUS=serving: …");
    assert_eq!(status, "STATUS=serving: 0 connections, 0 requests under way, 0 tunnels");

    instance.signal("reload");
    let message = manager.receive("RELOADING=1");
    let micros = message.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).expect("it has the time");
    assert!(micros.parse::<u64>().is_ok_and(|micros| micros > 0), "{message}");
    assert_eq!(manager.receive("READY=1"), "READY=1\nSTATUS=serving the new configuration");

    instance.configure("", "server { lissen 80; }");
    started.signal(Signal::SIGHUP);
    manager.receive("RELOADING=1");
    let refused = manager.receive("READY=1");
    assert!(refused.contains("STATUS=the reload failed: "), "{refused}");
    assert!(fetch(instance.port, "/alive").expect("it serves").ends_with("alive"));

    // A connection without a request keeps it from ending for a moment at most; the message comes first.
    started.signal(Signal::SIGQUIT);
    let stopping = manager.receive("STOPPING=1");
    assert!(stopping.ends_with("\nEXTEND_TIMEOUT_USEC=30000000"), "{stopping}");
    assert_eq!(started.wait().code(), Some(0));
}

#[test]
fn one_process_reports_the_same_to_an_abstract_socket() {
    let instance = Instance::new("master_process off;", SERVER);
    let manager = NotifySocket::abstract_one(&instance);
    let mut started = start(&instance, &manager, &[]);
    manager.receive("READY=1");
    manager.receive("STATUS=serving: …");
    instance.signal("reload");
    manager.receive("RELOADING=1");
    manager.receive("READY=1");
    started.signal(Signal::SIGTERM);
    let stopping = manager.receive("STOPPING=1");
    assert!(!stopping.contains("EXTEND_TIMEOUT_USEC"), "it ends at once: {stopping}");
    assert_eq!(started.wait().code(), Some(0));
}

#[test]
fn the_watchdog_hears_of_the_instance_again_and_again() {
    let instance = Instance::new("", SERVER);
    let manager = NotifySocket::at_path(&instance);
    let mut command = instance.command(&["-g", "daemon off;"]);
    command.env("NOTIFY_SOCKET", &manager.name).env("WATCHDOG_USEC", "800000").stderr(Stdio::null());
    let _started = Running::of(command.spawn().expect("the program starts"));
    manager.receive("READY=1");
    for _ in 0..3 {
        manager.receive("WATCHDOG=1");
    }
    // The time is for another process.
    let other = Instance::new("", SERVER);
    let manager = NotifySocket::at_path(&other);
    let mut command = other.command(&["-g", "daemon off;"]);
    command.env("NOTIFY_SOCKET", &manager.name).env("WATCHDOG_USEC", "1000").env("WATCHDOG_PID", "1");
    let _other = Running::of(command.stderr(Stdio::null()).spawn().expect("the program starts"));
    manager.receive("READY=1");
    let next = manager.receive("STATUS=…");
    assert!(next.starts_with("STATUS=serving: "), "no sign of life came first: {next}");
}

#[test]
fn the_old_program_names_its_successor_at_an_upgrade() {
    let instance = Instance::new("", SERVER);
    let manager = NotifySocket::at_path(&instance);
    let mut old = start(&instance, &manager, &["-g", "daemon off;"]);
    manager.receive("READY=1");
    old.signal(Signal::SIGUSR2);
    until("another master serves", || {
        instance.pid_file().is_some_and(|new| new != old.id() && !children(new).is_empty())
            && instance.text("logs/error.log").matches("holdfast serves").count() >= 2
    });
    let new = instance.pid_file().expect("written");
    old.signal(Signal::SIGQUIT);
    manager.receive(&format!("MAINPID={new}"));
    assert_eq!(old.wait().code(), Some(0));
    // A predecessor that was killed could not have said it.
    manager.receive(&format!("MAINPID={new}"));
    kill(pid(new), Signal::SIGTERM).expect("it runs");
    manager.receive("STOPPING=1");
    until("the new one has ended", || !lives(new));
}

#[test]
fn serves_on_the_sockets_of_the_unit_and_names_the_others() {
    let instance = Instance::new("", &format!("{SERVER}\nserver {{ listen unix:SOCKET; return 200 unix; }}"));
    let path = instance.path("unit.sock");
    let text = instance.text("nginx.conf").replace("SOCKET", &path.display().to_string());
    std::fs::write(instance.path("nginx.conf"), text).expect("written");
    let web = TcpListener::bind(("127.0.0.1", instance.port)).expect("free");
    let spare = TcpListener::bind("127.0.0.1:0").expect("bound");
    let spare_address = spare.local_addr().expect("bound");
    let unix = UnixListener::bind(&path).expect("bound");
    // Before the program exists: the unit's socket queues it.
    let early = TcpStream::connect(("127.0.0.1", instance.port)).expect("queued");

    let command = instance.command(&["-g", "daemon off;"]);
    let script = "exec 3<&0 4<&1 5<&2 0</dev/null 1>/dev/null 2>/dev/null
        LISTEN_PID=$$ LISTEN_FDS=3 LISTEN_FDNAMES=web:spare:unix exec \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(command.get_program()).args(command.get_args());
    shell
        .stdin(OwnedFd::from(web.try_clone().expect("copied")))
        .stdout(OwnedFd::from(spare))
        .stderr(OwnedFd::from(unix));
    let mut started = Running::of(shell.spawn().expect("the shell starts"));
    instance.wait_for_line("holdfast serves");

    assert_eq!(Talk::of(early).get("/alive", "Connection: close\r\n").text(), "alive");
    instance.wait_for_line(&format!(
        "the service manager passes the socket \"spare\" of {spare_address}, and no \"listen\" has this address"
    ));
    assert!(!instance.text("logs/error.log").contains("\"web\""), "{}", instance.text("logs/error.log"));
    started.signal(Signal::SIGQUIT);
    assert_eq!(started.wait().code(), Some(0));
    assert!(path.exists(), "the file belongs to the unit");
    drop(web);
}
