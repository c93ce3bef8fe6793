//! The two sides: a real nginx as a process, and the gateway on a thread of this one (`testkit`), with the same configuration text and
//! the same ports. nginx listens on 127.0.0.2 and the gateway on 127.0.0.1, so that ports, and with them lengths, are equal.

use crate::{Gateway, Running, peer_or_skip};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const OURS: Ipv4Addr = Ipv4Addr::LOCALHOST;
const THEIRS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Which nginx.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nginx {
    /// The one that this system has: 1.22 in Debian 12.
    Old,
    /// The one of Debian's newest suite.
    New,
}

impl Nginx {
    /// The name of the program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Old => "nginx",
            Self::New => "nginx-new",
        }
    }

    /// Its mark in `accepted.txt`.
    pub fn of_mark(mark: &str) -> Self {
        match mark {
            "1.22" => Self::Old,
            "1.30" => Self::New,
            _ => panic!("[{mark}] is no generation of nginx"),
        }
    }
}

/// Where nginx is; `None` if it is not found, and then the test is skipped.
#[track_caller]
pub fn nginx_or_skip(generation: Nginx) -> Option<PathBuf> {
    peer_or_skip(&[generation.program()])
}

/// Modules that Debian has apart from nginx, after a word of the configurations that need them.
const MODULES: [(&str, &str); 4] = [
    ("brotli", "ngx_http_brotli_filter_module.so"),
    ("brotli_static", "ngx_http_brotli_static_module.so"),
    ("geoip2", "ngx_http_geoip2_module.so"),
    ("more_set_headers", "ngx_http_headers_more_filter_module.so"),
];

/// The files of the modules that this text needs. `cargo xtask peers` unpacks them beside the nginx that can load them.
fn modules(program: &Path, text: &str) -> Vec<PathBuf> {
    let is_new = program.file_name().is_some_and(|name| name == Nginx::New.program());
    let root = if is_new { "root-sid" } else { "root" };
    let peers = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let unpacked = peers.join(root).join("usr/lib/nginx/modules");
    let needed = MODULES.iter().filter(|(word, _)| text.contains(word));
    needed
        .map(|(_, file)| match unpacked.join(file) {
            unpacked if is_new || unpacked.exists() => unpacked,
            _ => Path::new("/usr/lib/nginx/modules").join(file),
        })
        .collect()
}

/// The first module that this text needs and that is not there.
pub fn missing_module(program: &Path, text: &str) -> Option<PathBuf> {
    modules(program, text).into_iter().find(|module| !module.exists())
}

/// nginx and the gateway, serving. Dropping it stops both.
pub struct Sides {
    _nginx: Running,
    gateway: Gateway,
    /// One for each listener, the same on both sides.
    ports: Vec<u16>,
}

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// nginx, as a process.
    Nginx,
    /// The gateway.
    Ours,
}

impl Side {
    /// As `{side}` in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Ours => "ours",
        }
    }
}

impl Sides {
    /// Starts both. `text` is the inside of `http {}`: `{listen}`, `{listen:1}` … are addresses to listen on,
    /// `{upstream:0}` … the given ones, and `{side}` is the name of the one that reads it. Relative paths are relative to one folder, which holds `files`; one
    /// that is called `path -> target` is a symbolic link, and has the number of its owner for bytes.
    pub fn start(nginx: &Path, text: &str, upstreams: &[SocketAddr], files: &[(&str, Vec<u8>)]) -> Self {
        Self::start_block(nginx, Inside::Http, text, upstreams, files)
    }

    /// As [`Self::start`]; `text` is the inside of `stream {}`.
    pub fn start_stream(nginx: &Path, text: &str, upstreams: &[SocketAddr]) -> Self {
        Self::start_block(nginx, Inside::Stream, text, upstreams, &[])
    }

    fn start_block(
        nginx: &Path,
        block: Inside,
        text: &str,
        upstreams: &[SocketAddr],
        files: &[(&str, Vec<u8>)],
    ) -> Self {
        let ours = text.replace("{side}", Side::Ours.name());
        let name = block.name();
        let gateway = Gateway::start(&format!("events {{}}\n{name} {{\n{ours}}}\n"), upstreams);
        let home = gateway.prefix();
        for (path, bytes) in files {
            let (path, target) = path.split_once(" -> ").map_or((*path, None), |(path, target)| (path, Some(target)));
            let path = home.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match target {
                None => fs::write(path, bytes).unwrap(),
                Some(target) => {
                    symlink(target, &path).unwrap();
                    let owner = std::str::from_utf8(bytes).unwrap();
                    if !owner.is_empty() {
                        lchown(path, Some(owner.parse().unwrap()), None).unwrap();
                    }
                }
            }
        }
        let mut text = text.replace("{listen}", "{listen:0}").replace("{side}", Side::Nginx.name());
        for (index, address) in upstreams.iter().enumerate() {
            text = text.replace(&format!("{{upstream:{index}}}"), &address.to_string());
        }
        let mut ports = Vec::new();
        while text.contains(&format!("{{listen:{}}}", ports.len())) {
            let port = gateway.address_of(ports.len()).port();
            text = text.replace(&format!("{{listen:{}}}", ports.len()), &format!("{THEIRS}:{port}"));
            ports.push(port);
        }
        let nginx = start_nginx(nginx, &home, block, &text, ports[0]);
        Self { _nginx: nginx, gateway, ports }
    }

    /// The address of a listener by its number in the text.
    pub fn address(&self, side: Side, listener: usize) -> SocketAddr {
        let ip = if side == Side::Ours { OURS } else { THEIRS };
        SocketAddr::new(IpAddr::V4(ip), self.ports[listener])
    }

    /// The lines of a side's access log up to the one that has this in it. The text calls the log `{side}.log`.
    pub fn log_lines(&self, side: Side, last: &str) -> Vec<String> {
        crate::until("the last line of an access log", || {
            let text = self.log_text(side);
            let end = text.lines().position(|line| line.contains(last)).filter(|_| text.ends_with('\n'))?;
            Some(text.lines().take(end + 1).map(str::to_owned).collect())
        })
    }

    /// The last line of a side's access log that begins with this, once there is one.
    pub fn log_line_of(&self, side: Side, mark: &str) -> String {
        self.log_line_since(side, 0, mark)
    }

    /// The same behind this many bytes of the log: a port may be used again.
    pub fn log_line_since(&self, side: Side, begun: usize, mark: &str) -> String {
        crate::until("a line of an access log", || {
            let text = self.log_text(side);
            let whole = text.get(begun..)?.rsplit_once('\n').map_or("", |(whole, _)| whole);
            whole.lines().rfind(|line| line.starts_with(mark)).map(str::to_owned)
        })
    }

    /// A side's access log so far.
    pub fn log_text(&self, side: Side) -> String {
        match side {
            Side::Ours => self.gateway.access_log(),
            Side::Nginx => fs::read_to_string(self.gateway.prefix().join("nginx.log")).unwrap_or_default(),
        }
    }

    /// The gateway under test, for what nginx has no counterpart for.
    #[allow(dead_code)] // for suites of other crates
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Our error log so far. It is bounded, so the test has to ask now and then.
    pub fn our_log(&self) -> String {
        self.gateway.error_log()
    }

    /// nginx's error log so far.
    pub fn their_log(&self) -> String {
        fs::read_to_string(self.gateway.prefix().join("error.log")).unwrap_or_default()
    }

    /// The last lines of both error logs, for a failure's message.
    pub fn logs(&self) -> String {
        const LINES: usize = 40;
        let nginx = self.their_log();
        let last = |text: &str| {
            let lines: Vec<_> = text.lines().collect();
            lines[lines.len().saturating_sub(LINES)..].join("\n")
        };
        format!("nginx logged last:\n{}\nwe logged last:\n{}", last(&nginx), last(&self.our_log()))
    }
}

/// The block that a text is the inside of.
#[derive(Clone, Copy)]
enum Inside {
    Http,
    Stream,
}

impl Inside {
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stream => "stream",
        }
    }

    /// The lines that load the modules of a text.
    fn load_modules(self, program: &Path, text: &str) -> String {
        match self {
            Self::Stream => load_stream(program),
            Self::Http => modules(program, text).iter().map(|file| load_line(file)).collect::<Vec<_>>().concat(),
        }
    }
}

fn load_line(module: &Path) -> String {
    format!("load_module {};\n", module.display())
}

/// The line by which the newest nginx loads `stream`. Debian has it as a module, which `cargo xtask peers` unpacks.
pub fn load_stream(program: &Path) -> String {
    let peers = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    load_line(&peers.join("root-sid/usr/lib/nginx/modules/ngx_stream_module.so"))
}

fn start_nginx(program: &Path, home: &Path, block: Inside, text: &str, port: u16) -> Running {
    // Debian's build wants its temporary folders in the system. As root it would serve as user `nobody`, which may not enter ours.
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let user = if is_root { "user root;\n" } else { "" };
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {}/temp-{kind};\n", home.display()))
        .concat();
    let folders = if matches!(block, Inside::Http) { folders } else { String::new() };
    let (module, name) = (block.load_modules(program, text), block.name());
    let text = format!(
        "{module}{user}daemon off;\nmaster_process off;\npid {home}/nginx.pid;\nerror_log {home}/error.log info;\n\
         events {{}}\n{name} {{\n{folders}{text}}}\n",
        home = home.display()
    );
    let file = home.join("theirs.conf");
    fs::write(&file, text).unwrap();
    // As a daemon, nginx has no umask.
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$0\" \"$@\""]).arg(program).arg("-p").arg(home).arg("-c").arg(&file);
    let nginx = Running::start(&mut command);
    // It writes its pid when all its sockets are open, those of datagrams too.
    let pid = home.join("nginx.pid");
    nginx.until("nginx listens", || pid.exists().then(|| TcpStream::connect((THEIRS, port)).ok()).flatten());
    nginx
}
