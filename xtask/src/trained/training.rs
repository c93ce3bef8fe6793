//! The training run: the program with counters proxies requests of the usual kinds, which another copy of it sends and
//! answers. All of them write what they counted when they end.

use crate::workspace::output_of;
use anyhow::{Context as _, Result, bail};
use lab::stage::process::Started;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One load: requests, connections, path, and further options of `holdfast load`.
struct Load {
    scheme: &'static str,
    path: &'static str,
    connections: u32,
    requests: u32,
    more: &'static [&'static str],
}

const fn http(path: &'static str, connections: u32, requests: u32, more: &'static [&'static str]) -> Load {
    Load { scheme: "http", path, connections, requests, more }
}

const fn https(path: &'static str, connections: u32, requests: u32, more: &'static [&'static str]) -> Load {
    Load { scheme: "https", path, connections, requests, more }
}

/// What a browser sends.
const BROWSER: &[&str] = &[
    "-HAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "-HAccept-Encoding: gzip, deflate, br, zstd",
    "-HAccept-Language: en-GB,en;q=0.5",
    "-HCookie: session=0123456789abcdef0123456789abcdef; theme=dark",
    "-HReferer: http://shop.example/catalogue?page=2",
    "-HUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
];

/// Every load. The counts decide what is hot, so the usual kinds of requests come most often.
const LOADS: &[Load] = &[
    http("/page", 1, 20_000, &[]),
    http("/page", 30, 40_000, &[]),
    http("/page", 1000, 40_000, &[]),
    http("/page", 10, 1000, &["--no-keepalive"]),
    http("/page", 30, 2000, &["-mPOST", "--body-file=upload"]),
    http("/logged", 30, 20_000, &[]),
    http("/usual/page", 30, 40_000, BROWSER),
    http("/pattern/12", 30, 10_000, BROWSER),
    http("/unpooled", 10, 1000, &[]),
    http("/64k", 30, 4000, &[]),
    http("/1m", 30, 400, &[]),
    http("/cached", 30, 20_000, BROWSER),
    http("/files/page", 30, 20_000, &[]),
    http("/files/page", 30, 10_000, &["-HIf-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"]),
    http("/files/text.html", 30, 1000, BROWSER),
    http("/files/none", 30, 2000, &["--expect", "4xx=100%"]),
    http("/return", 30, 20_000, &[]),
    https("/page", 30, 20_000, &["--insecure"]),
    https("/64k", 30, 4000, &["--insecure"]),
    https("/page", 10, 300, &["--insecure", "--no-keepalive"]),
    https("/usual/page", 4, 20_000, &["--insecure", "--http2", "--streams", "10"]),
    https("/64k", 4, 4000, &["--insecure", "--http2", "--streams", "10"]),
];

/// The master and its worker process.
const PROXY_PROCESSES: usize = 2;
const PAGE_BYTES: usize = 612;
const UPLOAD_BYTES: usize = 64 * 1024;

/// Trains the program, and returns the folder with the raw counts of all its processes.
pub(super) fn run(program: &Path, home: &Path) -> Result<PathBuf> {
    let (raw, stage) = (home.join("raw"), home.join("stage"));
    for folder in [&raw, &stage] {
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder)?;
    }
    fs::write(stage.join("page"), "x".repeat(PAGE_BYTES))?;
    fs::write(stage.join("upload"), "x".repeat(UPLOAD_BYTES))?;
    fs::write(stage.join("text.html"), "<p>The quick brown fox jumps over the lazy dog.</p>\n".repeat(400))?;
    fs::write(stage.join("pair.pem"), include_bytes!("../../../bench/tls/pair.pem"))?;
    let [front, secure, origin_port] = free_ports()?;
    let conf = include_str!("proxy.conf")
        .replace("HOME", &stage.display().to_string())
        .replace("FRONT", &front.to_string())
        .replace("SECURE", &secure.to_string())
        .replace("ORIGIN", &origin_port.to_string());
    fs::write(stage.join("proxy.conf"), conf)?;
    let counted = |name: &str| {
        let mut command = Command::new(program);
        // One file for each process.
        command.env("LLVM_PROFILE_FILE", raw.join(format!("{name}-%p.profraw"))).current_dir(&stage);
        command
    };
    let mut origin = counted("origin");
    origin.args(["origin", "--listen", &format!("127.0.0.1:{origin_port}"), "--size", &PAGE_BYTES.to_string()]);
    let mut origin = Started::new("holdfast origin", &mut origin, stage.join("origin.out"))?;
    origin.wait_ready(|| TcpStream::connect(("127.0.0.1", origin_port)).is_ok())?;
    let mut proxy = counted("proxy");
    proxy.arg("-p").arg(&stage).args(["-e", "stderr", "-c"]).arg(stage.join("proxy.conf"));
    let mut proxy = Started::new("holdfast", &mut proxy, stage.join("proxy.out"))?;
    proxy.wait_ready(|| TcpStream::connect(("127.0.0.1", front)).is_ok())?;
    for load in LOADS {
        let port = if load.scheme == "https" { secure } else { front };
        let mut command = counted("load");
        command.args(["load", &format!("{}://127.0.0.1:{port}{}", load.scheme, load.path)]);
        command.args(["--connections", &load.connections.to_string(), "--requests", &load.requests.to_string()]);
        command.args(["--threads", "1", "--processes", "1", "--no-sockets", "--no-plan", "--timeout", "60s"]);
        output_of(command.args(load.more)).with_context(|| format!("training with {}", load.path))?;
    }
    for mut started in [proxy, origin] {
        started.interrupt();
        started.wait()?;
    }
    let files = fs::read_dir(&raw)?.filter_map(Result::ok);
    let written = files.filter(|file| file.file_name().to_string_lossy().starts_with("proxy-")).count();
    // Requests are counted in the worker process, not in the master.
    if written < PROXY_PROCESSES {
        bail!("{written} of {PROXY_PROCESSES} processes of the proxy have written their counts into {}", raw.display());
    }
    Ok(raw)
}

fn free_ports() -> Result<[u16; 3]> {
    let listeners = [0; 3].map(|_| TcpListener::bind(("127.0.0.1", 0)));
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener?.local_addr()?.port();
    }
    Ok(ports)
}
