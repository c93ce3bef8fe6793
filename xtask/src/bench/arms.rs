//! The proxies under test: how each is built, configured and started. One worker each, pooled upstream connections.

use super::origin::{PAGES_PORT, TUNNELS_PORT};
use crate::workspace::{Workspace, run};
use anyhow::{Context as _, Result};
use lab::stage::process::{Started, pinned};
use std::fmt;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// One side of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arm {
    Holdfast,
    Floor,
    Nginx,
    Haproxy,
}

impl Arm {
    pub(super) const ALL: [Arm; 4] = [Arm::Holdfast, Arm::Floor, Arm::Nginx, Arm::Haproxy];

    pub(super) fn name(self) -> &'static str {
        match self {
            Arm::Holdfast => "holdfast",
            Arm::Floor => "floor",
            Arm::Nginx => "nginx",
            Arm::Haproxy => "haproxy",
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where the programs are. `None`: that arm is absent.
pub(super) struct Programs {
    pub(super) holdfast: Option<PathBuf>,
    pub(super) floor: Option<PathBuf>,
    pub(super) nginx: PathBuf,
    pub(super) haproxy: PathBuf,
    pub(super) wrk: PathBuf,
}

/// Which programs are compared, as options of an experiment.
#[derive(clap::Args)]
pub(super) struct Compared {
    /// The program under test, started with nginx's own flags.
    #[arg(long, default_value = "target/release/holdfast")]
    holdfast: PathBuf,
    /// Another nginx than the one that `cargo xtask peers` provides.
    #[arg(long)]
    nginx: Option<PathBuf>,
}

impl Compared {
    /// Where Holdfast should be, whether or not it is.
    pub(super) fn holdfast(&self, workspace: &Workspace) -> PathBuf {
        workspace.root.join(&self.holdfast)
    }

    /// nginx, which stands among the peers in `bin` unless another is asked for.
    pub(super) fn nginx(&self, bin: &Path) -> PathBuf {
        self.nginx.clone().unwrap_or_else(|| bin.join("nginx"))
    }
}

impl Programs {
    pub(super) fn has(&self, arm: Arm) -> bool {
        match arm {
            Arm::Holdfast => self.holdfast.is_some(),
            Arm::Floor => self.floor.is_some(),
            Arm::Nginx | Arm::Haproxy => true,
        }
    }
}

/// Builds the floor from its own workspace into `target/floor`. `None` when its sources are not there.
pub(super) fn build_floor(workspace: &Workspace, sources: &Path) -> Result<Option<PathBuf>> {
    let manifest = sources.join("Cargo.toml");
    if !manifest.is_file() {
        return Ok(None);
    }
    let target = workspace.target("floor");
    fs::create_dir_all(target.join("source"))?;
    // Its folder may be read-only and has no lock file, so cargo works on a copy, which is a workspace of its own.
    let source = target.join("source");
    fs::write(source.join("Cargo.toml"), fs::read_to_string(&manifest)? + "\n[workspace]\n")?;
    let mut copy = Command::new("cp");
    run(copy.args(["--recursive", "--update", "--no-preserve=mode"]).arg(sources.join("src")).arg(&source))?;
    let mut build = workspace.cargo();
    build.args(["build", "--quiet", "--release", "--bin", "p2", "--manifest-path"]);
    build.arg(target.join("source/Cargo.toml")).arg("--target-dir").arg(&target);
    run(&mut build)?;
    Ok(Some(target.join("release/p2")))
}

/// A proxy that serves.
pub(super) struct Proxy {
    pub(super) arm: Arm,
    pub(super) port: u16,
    pub(super) process: Started,
}

/// Starts the arm on a free port, pinned, and waits until it hands `page` through.
pub(super) fn start(programs: &Programs, arm: Arm, core: usize, home: &Path, log: bool, page: &str) -> Result<Proxy> {
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let conf = home.join(format!("{arm}.conf"));
    let mut command = match arm {
        Arm::Floor => {
            let mut command = pinned(core, programs.floor.as_ref().context("the floor is absent")?);
            command.arg(port.to_string());
            command
        }
        Arm::Haproxy => {
            fs::write(&conf, haproxy_conf(port, log))?;
            let mut command = pinned(core, &programs.haproxy);
            command.arg("-db").arg("-f").arg(&conf);
            command
        }
        Arm::Nginx | Arm::Holdfast => {
            let extra = if arm == Arm::Nginx { nginx_only(home) } else { String::new() };
            fs::write(&conf, nginx_conf(home, arm, port, log, &extra))?;
            let program = if arm == Arm::Nginx { Some(&programs.nginx) } else { programs.holdfast.as_ref() };
            let mut command = pinned(core, program.context("holdfast is absent")?);
            command.arg("-p").arg(home).arg("-e").arg("stderr").arg("-c").arg(&conf);
            command
        }
    };
    let mut process = Started::new(arm.name(), &mut command, home.join(format!("{arm}.out")))?;
    process.wait_ready(|| answers(port, page))?;
    Ok(Proxy { arm, port, process })
}

/// Whether a page comes through, all of its head at least.
pub(super) fn answers(port: u16, page: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        write!(stream, "GET /{page} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
        let mut start = [0; 12];
        stream.read_exact(&mut start)?;
        Ok(&start == b"HTTP/1.1 200")
    };
    ask().unwrap_or(false)
}

/// The part before `http {}`. As root nginx would serve as nobody, who may not enter the folders of a private checkout.
pub(super) fn nginx_main(home: &Path, name: &str, workers: u32) -> String {
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    format!(
        "{user}worker_processes {workers};\ndaemon off;\npid {home}/{name}.pid;\nerror_log stderr warn;\n\
         worker_rlimit_nofile 20000;\nevents {{\n    worker_connections 16384;\n}}\n",
        home = home.display()
    )
}

/// Words that only nginx needs: Debian's build wants its temporary folders in the system.
pub(super) fn nginx_only(home: &Path) -> String {
    ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("    {kind}_temp_path {}/temp-{kind};\n", home.display()))
        .concat()
}

/// The same text for nginx and for Holdfast.
fn nginx_conf(home: &Path, arm: Arm, port: u16, log: bool, extra: &str) -> String {
    let access_log = if log { format!("{}/{arm}.access.log", home.display()) } else { "off".to_owned() };
    format!(
        "{main}http {{\n{extra}    access_log {access_log};\n    client_header_timeout 3600s;\n    \
         keepalive_timeout 3600s;\n    keepalive_requests 1000000000;\n    \
         upstream pages {{\n        server 127.0.0.1:{PAGES_PORT};\n        keepalive 1024;\n        \
         keepalive_requests 1000000000;\n    }}\n    \
         server {{\n        listen 127.0.0.1:{port} backlog=4096;\n        \
         location / {{\n            proxy_pass http://pages;\n            proxy_http_version 1.1;\n            \
         proxy_set_header Connection \"\";\n        }}\n        \
         location /tunnel {{\n            proxy_pass http://127.0.0.1:{TUNNELS_PORT};\n            \
         proxy_http_version 1.1;\n            proxy_set_header Upgrade $http_upgrade;\n            \
         proxy_set_header Connection \"upgrade\";\n            proxy_read_timeout 3600s;\n        }}\n    }}\n}}\n",
        main = nginx_main(home, arm.name(), 1),
    )
}

fn haproxy_conf(port: u16, log: bool) -> String {
    // Its own log goes to standard output, which stands in a file: one write per line, as nginx's unbuffered log does.
    let (global, per_proxy) = if log {
        ("    log stdout format raw local0 info\n", "    log global\n    option httplog\n")
    } else {
        ("", "")
    };
    format!(
        "global\n    nbthread 1\n    maxconn 9000\n{global}\ndefaults\n    mode http\n{per_proxy}    http-reuse always\n    \
         timeout connect 5s\n    timeout client 3600s\n    timeout server 3600s\n    timeout http-request 3600s\n    \
         timeout http-keep-alive 3600s\n    timeout tunnel 3600s\n\nfrontend bench\n    bind 127.0.0.1:{port} backlog 4096\n    \
         use_backend tunnels if {{ path_beg /tunnel }}\n    default_backend pages\n\nbackend pages\n    \
         server origin 127.0.0.1:{PAGES_PORT}\n\nbackend tunnels\n    server origin 127.0.0.1:{TUNNELS_PORT}\n"
    )
}
