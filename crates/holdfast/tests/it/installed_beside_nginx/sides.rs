//! nginx and Holdfast on one machine. nginx listens on 127.0.0.2 and Holdfast on 127.0.0.1, on the same port.

use crate::support::machine::Machine;
use crate::support::{children, lives, pid, until};
use nix::sys::signal::{Signal, kill};
use origin::{Options, Origin, Running};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use testkit::{Response, fetch, free_port};

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Nginx,
    Ours,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::Nginx, Self::Ours];

    /// The folder below which its temporary files are by default.
    pub(super) fn home(self) -> &'static str {
        match self {
            Self::Nginx => "/var/lib/nginx",
            Self::Ours => "/var/lib/holdfast",
        }
    }

    /// Where its logs are by default.
    pub(super) fn logs(self) -> &'static str {
        match self {
            Self::Nginx => "/var/log/nginx",
            Self::Ours => "/var/lib/holdfast/logs",
        }
    }

    fn conf(self) -> &'static str {
        match self {
            Self::Nginx => "/etc/nginx/nginx.conf",
            Self::Ours => "/etc/holdfast/nginx.conf",
        }
    }

    fn pid_file(self) -> &'static str {
        match self {
            Self::Nginx => "/run/nginx.pid",
            Self::Ours => "/run/holdfast.pid",
        }
    }

    fn ip(self) -> Ipv4Addr {
        match self {
            Self::Nginx => Ipv4Addr::new(127, 0, 0, 2),
            Self::Ours => Ipv4Addr::LOCALHOST,
        }
    }

    /// A text without the paths and names that are a side's own.
    pub(super) fn neutral(self, text: &str) -> String {
        let folders = match self {
            Self::Nginx => ["body", "proxy", "fastcgi", "uwsgi", "scgi"],
            Self::Ours => ["client_body_temp", "proxy_temp", "fastcgi_temp", "uwsgi_temp", "scgi_temp"],
        };
        let mut text = text.replace(self.logs(), "{logs}");
        for (folder, kind) in folders.iter().zip(["body", "proxy", "fastcgi", "uwsgi", "scgi"]) {
            text = text.replace(&format!("{}/{folder}/", self.home()), &format!("{{{kind}}}/"));
        }
        text.replace(self.home(), "{home}")
    }

    /// A path of a temporary file. The two count their files differently.
    pub(super) fn neutral_path(self, path: &str) -> String {
        without_digits(&self.neutral(path))
    }
}

/// A name with a `#` for each digit.
pub(super) fn without_digits(name: &str) -> String {
    name.chars().map(|char| if char.is_ascii_digit() { '#' } else { char }).collect()
}

/// Both, serving.
pub(super) struct Sides {
    /// Dropped first: it ends both masters.
    pub(super) machine: Machine,
    port: u16,
    origin: Running,
    application: Running,
    /// Listens, and only root may connect.
    _socket: UnixListener,
}

impl Sides {
    /// `None`, with the reason printed, where no machine can be made.
    pub(super) fn start(nginx: &Path) -> Option<Self> {
        let machine = Machine::new()?;
        // nginx's package makes these; Holdfast makes its own.
        for folder in ["/etc/nginx", "/etc/holdfast", "/var/log/nginx", "/var/lib/nginx"] {
            fs::create_dir(machine.path(folder)).expect("made");
        }
        for side in Side::BOTH {
            for folder in ["store", "own"] {
                machine.give_folder(&format!("{}/{folder}", side.home()));
            }
            fs::create_dir(machine.path(&format!("{}/closed", side.home()))).expect("made");
        }
        write_site(&machine);
        let socket = UnixListener::bind(machine.path("/var/lib/site/roots.sock")).expect("bound");
        fs::set_permissions(machine.path("/var/lib/site/roots.sock"), fs::Permissions::from_mode(0o700)).expect("set");
        let started = |options| Origin::bind(options).expect("bound").start().expect("started");
        let origin = started(Options::default());
        let application = started(Options { fastcgi: true, ..Options::default() });
        let sides = Self { machine, port: free_port(), origin, application, _socket: socket };
        sides.configure(1);
        sides.machine.must(nginx, &["-p", "/usr/share/nginx/", "-c", Side::Nginx.conf()]);
        sides.machine.must(env!("CARGO_BIN_EXE_holdfast"), &["serve", "-c", Side::Ours.conf()]);
        for side in Side::BOTH {
            until("it serves", || sides.generation(side).as_deref() == Some("1"));
        }
        Some(sides)
    }

    fn configure(&self, generation: u32) {
        for side in Side::BOTH {
            let text = include_str!("site.conf")
                .replace("{user}", &self.machine.user.name)
                .replace("{logs}", side.logs())
                .replace("{home}", side.home())
                .replace("{generation}", &generation.to_string())
                .replace("{listen}", &self.address(side).to_string())
                .replace("{origin}", &self.origin.address().to_string())
                .replace("{application}", &self.application.address().to_string());
            fs::write(self.machine.path(side.conf()), text).expect("written");
        }
    }

    pub(super) fn address(&self, side: Side) -> SocketAddr {
        SocketAddr::from((side.ip(), self.port))
    }

    /// Sends a request on a connection of its own, and reads its response.
    pub(super) fn ask(&self, side: Side, request: impl AsRef<[u8]>) -> Response {
        let request = request.as_ref();
        let shown = &request[..request.len().min(100)];
        fetch(self.address(side), request)
            .unwrap_or_else(|error| panic!("{side:?} to {}: {error}\n{}", shown.escape_ascii(), self.error_log(side)))
    }

    pub(super) fn error_log(&self, side: Side) -> String {
        self.machine.text(&format!("{}/error.log", side.logs()))
    }

    fn master(&self, side: Side) -> u32 {
        self.machine.pid_in(side.pid_file()).expect("a daemon that serves has written it")
    }

    fn generation(&self, side: Side) -> Option<String> {
        let request = "GET /alive HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let response = fetch(self.address(side), request).ok()?;
        response.value("X-Generation").map(str::to_owned)
    }

    /// Reloads both, and waits until only the new configuration serves.
    pub(super) fn reload(&self, generation: u32) {
        let old = children(self.master(Side::Nginx));
        self.configure(generation);
        for side in Side::BOTH {
            kill(pid(self.master(side)), Signal::SIGHUP).expect("it runs");
            until("the new configuration serves", || self.generation(side) == Some(generation.to_string()));
        }
        // nginx's processes for caches are among its children, and end, too.
        until("nginx's old workers have ended", || old.iter().all(|old| !lives(*old)));
    }

    /// Rotates the logs as logrotate does.
    pub(super) fn rotate(&self) {
        for side in Side::BOTH {
            for name in ["access", "error", "buffered", "own-errors"] {
                let path = format!("{}/{name}.log", side.logs());
                fs::rename(self.machine.path(&path), self.machine.path(&format!("{path}.1"))).expect("renamed");
            }
            kill(pid(self.master(side)), Signal::SIGUSR1).expect("it runs");
            // The master makes the new file before the worker uses it, so requests show when the worker does.
            until("lines go to the new log", || {
                self.ask(side, "GET /mark/a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
                !self.machine.text(&format!("{}/access.log", side.logs())).is_empty()
            });
        }
    }

    /// Ends both as `-s quit` does.
    pub(super) fn quit(&self) {
        for side in Side::BOTH {
            let master = self.master(side);
            kill(pid(master), Signal::SIGQUIT).expect("it runs");
            until("it has ended", || !lives(master));
        }
    }
}

/// Files that the user may read, and files and folders that only root may.
fn write_site(machine: &Machine) {
    let files: [(&str, &str, u32); 9] = [
        ("open.txt", "open", 0o644),
        ("roots.txt", "of root", 0o600),
        ("sealed.txt", "without permissions", 0o000),
        ("folder/page.txt", "in a folder", 0o644),
        ("closed/page.txt", "in a closed folder", 0o644),
        ("page.txt", "plain", 0o644),
        ("page.txt.gz", "compressed", 0o600),
        // The password is `word`.
        ("users", "user:{PLAIN}word\n", 0o644),
        ("users-of-root", "user:{PLAIN}word\n", 0o600),
    ];
    for (name, text, mode) in files {
        machine.write(&format!("/var/lib/site/{name}"), text, mode);
    }
    let seal = |name: &str, mode| {
        let path = machine.path(&format!("/var/lib/site/{name}"));
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    };
    seal("closed", 0o700);
    // It may be entered, and not be listed.
    machine.write("/var/lib/site/unlisted/page.txt", "in an unlisted folder", 0o644);
    seal("unlisted", 0o711);
    machine.write("/var/lib/site/indexed/index.html", "an index of root", 0o600);
}
