//! Reloads of a busy program with many tunnels. `HOLDFAST_RELOADS="136 5000 600"` (reloads, tunnels, seconds) makes the run
//! long, and runs nginx and HAProxy in the same test for comparison; a fourth word (`haproxy`) runs that proxy alone.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

use crate::support;
use crate::support::{DEADLINE, Instance, children, until};
use nix::sys::signal::{Signal, kill};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::{Running, free_port, peer_program};

/// Clients that ask all the time.
const ASKING: usize = 8;
/// Every tenth tunnel belongs to the location that each reload changes.
const CHANGED_SHARE: usize = 10;
/// A masked text frame "ok", and its echo.
const PROBE: [u8; 8] = [0x81, 0x82, 0, 0, 0, 0, b'o', b'k'];
const ECHO: [u8; 4] = [0x81, 2, b'o', b'k'];
/// The close frame of a drained WebSocket, and a client's answer.
const CLOSE: [u8; 4] = [0x88, 2, 0x03, 0xf4];
const CLOSE_ANSWER: [u8; 8] = [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xf4];

/// How much of it.
#[derive(Clone, Copy)]
struct Scale {
    reloads: usize,
    tunnels: usize,
    seconds: u64,
    is_long: bool,
    proxies: &'static [Proxy],
}

impl Scale {
    fn chosen() -> Self {
        let Ok(text) = std::env::var("HOLDFAST_RELOADS") else {
            return Self { reloads: 20, tunnels: 300, seconds: 0, is_long: false, proxies: &[Proxy::Holdfast] };
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let (numbers, names) = words.split_at(3.min(words.len()));
        let numbers: Vec<u64> = numbers.iter().map(|word| word.parse().unwrap()).collect();
        let (&[reloads, tunnels, seconds], proxies) = (numbers.as_slice(), proxies_of(names)) else {
            panic!("HOLDFAST_RELOADS=\"reloads tunnels seconds [proxy]\"");
        };
        Self { reloads: reloads as usize, tunnels: tunnels as usize, seconds, is_long: true, proxies }
    }
}

fn proxies_of(names: &[&str]) -> &'static [Proxy] {
    match names {
        [] => &[Proxy::Holdfast, Proxy::Nginx, Proxy::Haproxy],
        ["holdfast"] => &[Proxy::Holdfast],
        ["nginx"] => &[Proxy::Nginx],
        ["haproxy"] => &[Proxy::Haproxy],
        other => panic!("no proxy {other:?}"),
    }
}

/// A proxy under test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Proxy {
    Holdfast,
    Nginx,
    Haproxy,
}

/// A proxy in its folder.
struct Scene {
    proxy: Proxy,
    instance: Instance,
    origin: SocketAddr,
    running: Option<Running>,
}

impl Scene {
    fn start(proxy: Proxy, origin: SocketAddr) -> Self {
        let mut scene = Self { proxy, instance: Instance::new("", ""), origin, running: None };
        scene.configure(0);
        match proxy {
            Proxy::Holdfast => scene.instance.start(),
            Proxy::Nginx => {
                let folder = scene.instance.path("");
                scene.run(Command::new(peer_program("nginx")).arg("-p").arg(&folder).arg("-c").arg(scene.file()));
            }
            Proxy::Haproxy => {
                scene.run(Command::new(peer_program("haproxy")).args(["-W", "-db", "-f"]).arg(scene.file()));
            }
        }
        let port = scene.instance.port;
        until("it serves", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        scene
    }

    fn run(&mut self, command: &mut Command) {
        self.running = Some(Running::start(command));
    }

    fn file(&self) -> PathBuf {
        self.instance.path("nginx.conf")
    }

    /// The configuration after this many reloads: only the timeout of `/changed` differs.
    fn configure(&self, round: usize) {
        let (port, origin, folder) = (self.instance.port, self.origin, self.instance.path(""));
        let timeout = 3600 + round;
        if self.proxy == Proxy::Haproxy {
            let text = format!(
                "global\n maxconn 9900\n nbthread 2\ndefaults\n mode http\n timeout connect 10s\n timeout client 1h\n \
                 timeout server 1h\n timeout tunnel 1h\nfrontend f\n bind 127.0.0.1:{port}\n \
                 use_backend changed if {{ path_beg /changed/ }}\n default_backend kept\n\
                 backend kept\n http-request set-path %[path,regsub(^/kept/,/)]\n server s {origin}\n\
                 backend changed\n http-request set-path %[path,regsub(^/changed/,/)]\n timeout tunnel {timeout}s\n \
                 server s {origin}\n"
            );
            return fs::write(self.file(), text).unwrap();
        }
        let (own, temp) = match self.proxy {
            Proxy::Nginx => {
                let temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                    .map(|kind| format!("{kind}_temp_path {}/temp-{kind};\n", folder.display()))
                    .concat();
                (format!("daemon off;\npid {}/nginx.pid;", folder.display()), temp)
            }
            _ => ("drain_rate 1000;".to_owned(), String::new()),
        };
        let user = if nix::unistd::geteuid().is_root() { "user root;" } else { "" };
        let text = format!(
            "{user}\n{own}\nworker_processes 2;\nworker_rlimit_nofile 40000;\nerror_log logs/error.log notice;\n\
             events {{ worker_connections 16384; }}\nhttp {{\n{temp}access_log off;\nkeepalive_requests 1000000;\n\
             server {{ listen 127.0.0.1:{port};\nproxy_http_version 1.1;\nproxy_set_header Upgrade $http_upgrade;\n\
             proxy_set_header Connection $http_connection;\nproxy_read_timeout 1h;\n\
             location /kept/ {{ proxy_pass http://{origin}/; }}\n\
             location /changed/ {{ proxy_pass http://{origin}/; proxy_read_timeout {timeout}s; }}\n\
             location / {{ proxy_pass http://{origin}; }} }} }}\n"
        );
        fs::write(self.file(), text).unwrap();
    }

    fn pid(&self) -> u32 {
        self.running.as_ref().map_or_else(|| self.instance.pid(), Running::id)
    }

    /// Reloads, and waits until requests get the new configuration, as far as the program tells.
    fn reload(&self, round: usize) {
        self.configure(round);
        let signal = if self.proxy == Proxy::Haproxy { Signal::SIGUSR2 } else { Signal::SIGHUP };
        if self.proxy == Proxy::Holdfast {
            let output = support::holdfast()
                .args(["ctl", "--socket"])
                .arg(self.instance.path("logs/holdfast.ctl"))
                .arg("reload")
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        } else {
            kill(support::pid(self.pid()), signal).unwrap();
        }
    }

    fn processes(&self) -> Vec<u32> {
        let mut all = vec![self.pid()];
        let mut at = 0;
        while let Some(pid) = all.get(at) {
            all.extend(children(*pid));
            at += 1;
        }
        all
    }

    /// Kilobytes of memory of all processes; shared pages count once.
    fn memory_kb(&self) -> u64 {
        let of = |pid: &u32| {
            let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0)
        };
        self.processes().iter().map(of).sum()
    }

    fn descriptors(&self) -> usize {
        let of = |pid: &u32| fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        self.processes().iter().map(of).sum()
    }
}

/// A tunnel to the origin's echo.
fn tunnel(port: u16, location: &str) -> TcpStream {
    support::echo_tunnel(port, location)
}

fn lives(mut stream: &TcpStream) -> bool {
    let mut echo = [0; ECHO.len()];
    stream.write_all(&PROBE).is_ok() && stream.read_exact(&mut echo).is_ok() && echo == ECHO
}

/// Answers the close frame of a drained tunnel; whether it had one.
fn was_closed_politely(mut stream: &TcpStream) -> bool {
    let mut frame = [0; CLOSE.len()];
    let polite = stream.read_exact(&mut frame).is_ok() && frame == CLOSE;
    polite && stream.write_all(&CLOSE_ANSWER).is_ok() && stream.read(&mut [0; 16]).is_ok_and(|count| count == 0)
}

/// Sends requests on a kept connection until it is told to stop; returns answers and errors.
fn keep_asking(port: u16, done: &AtomicBool) -> (u64, Vec<String>) {
    let (mut answered, mut failed) = (0, Vec::new());
    let mut connection: Option<TcpStream> = None;
    while !done.load(Ordering::Relaxed) {
        let asked = connection.take().map_or_else(|| TcpStream::connect(("127.0.0.1", port)), Ok).and_then(|stream| {
            stream.set_read_timeout(Some(DEADLINE))?;
            let closes = ask(&stream)?;
            Ok((stream, closes))
        });
        match asked {
            Ok((stream, closes)) => {
                answered += 1;
                connection = Some(stream).filter(|_| !closes);
            }
            Err(error) => failed.push(error.to_string()),
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
    (answered, failed)
}

/// One request; whether the connection ends with its answer.
fn ask(stream: &TcpStream) -> std::io::Result<bool> {
    let response = testkit::ask(stream, "GET /kept/ HTTP/1.1\r\nHost: a\r\n\r\n")?;
    assert_eq!(response.status(), 200, "{response:?}");
    Ok(response.announces_close())
}

/// What became of one proxy.
#[derive(Debug, PartialEq)]
struct Outcome {
    answered: u64,
    failed: Vec<String>,
    /// Tunnels of the location that no reload changes, of all.
    kept: (usize, usize),
    /// Tunnels of the other location that got a close frame with 1012, of all.
    closed: (usize, usize),
    memory_kb: (u64, u64),
    descriptors: (usize, usize),
    processes: usize,
}

fn run(proxy: Proxy, origin: SocketAddr, scale: Scale) -> Outcome {
    let scene = Scene::start(proxy, origin);
    let port = scene.instance.port;
    let kept: Vec<TcpStream> = (0..scale.tunnels).map(|_| tunnel(port, "/kept/")).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..ASKING).map(|_| scope.spawn(|| keep_asking(port, &done))).collect();
        // The first reload allocates what all further ones use again.
        scene.reload(1);
        until("all tunnels live", || kept.iter().all(lives));
        let (memory, descriptors) = (scene.memory_kb(), scene.descriptors());
        let begun = Instant::now();
        let (mut closed, mut opened) = (0, 0);
        for round in 0..scale.reloads {
            // Tunnels of the location that changes, opened again for each reload, as clients do.
            let count = (scale.tunnels / CHANGED_SHARE / 10).max(1);
            let changed: Vec<TcpStream> = (0..count).map(|_| tunnel(port, "/changed/")).collect();
            scene.reload(round + 2);
            opened += changed.len();
            if proxy == Proxy::Holdfast {
                closed += changed.iter().filter(|stream| was_closed_politely(stream)).count();
            }
            let due = Duration::from_secs(scale.seconds) * (round as u32 + 1) / scale.reloads as u32;
            std::thread::park_timeout(due.saturating_sub(begun.elapsed()));
        }
        let alive = kept.iter().filter(|stream| lives(stream)).count();
        let outcome = |answered, failed| Outcome {
            answered,
            failed,
            kept: (alive, kept.len()),
            closed: (closed, opened),
            memory_kb: (memory, scene.memory_kb()),
            descriptors: (descriptors, scene.descriptors()),
            processes: scene.processes().len(),
        };
        let measured = outcome(0, Vec::new());
        done.store(true, Ordering::Relaxed);
        let outcomes: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        let answered = outcomes.iter().map(|(answered, _)| answered).sum();
        let failed = outcomes.into_iter().flat_map(|(_, failed)| failed).collect();
        Outcome { answered, failed, ..measured }
    })
}

/// An origin with an echo for WebSockets, in a process of its own.
fn start_origin() -> (Running, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut origin = support::holdfast();
    (Running::listening(origin.args(["origin", "--listen", &address.to_string()]), address), address)
}

#[test]
fn quit_drains_tunnels_with_1001_if_drain_rate_is_written() {
    let (_origin, address) = start_origin();
    let mut scene = Scene::start(Proxy::Holdfast, address);
    let tunnels: Vec<TcpStream> = (0..10).map(|_| tunnel(scene.instance.port, "/kept/")).collect();
    scene.instance.signal("quit");
    for mut stream in &tunnels {
        let mut frame = [0; 4];
        stream.read_exact(&mut frame).unwrap();
        assert_eq!(frame, [0x88, 2, 0x03, 0xe9]);
        stream.write_all(&[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe9]).unwrap();
        assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
    }
    assert_eq!(scene.instance.wait(), Some(0), "no tunnel is left to wait for");
}

/// Row W11.
#[test]
fn many_reloads_fail_no_request_and_end_no_tunnel() {
    let scale = Scale::chosen();
    let (_, hard) = reactor::descriptor_limit().unwrap();
    reactor::raise_descriptor_limit(hard).unwrap();
    let (_origin, address) = start_origin();
    for proxy in scale.proxies {
        let outcome = run(*proxy, address, scale);
        let Outcome { answered, failed, kept, closed, memory_kb, descriptors, processes } = &outcome;
        writeln!(
            std::io::stderr(),
            "{proxy:?}: {} reloads, {answered} requests answered, {} failed, {} of {} unchanged tunnels alive, {} of {} changed \
             ones closed with 1012, {} -> {} MB, {} -> {} descriptors, {processes} processes",
            scale.reloads,
            failed.len(),
            kept.0,
            kept.1,
            closed.0,
            closed.1,
            memory_kb.0 >> 10,
            memory_kb.1 >> 10,
            descriptors.0,
            descriptors.1
        )
        .unwrap();
        if *proxy != Proxy::Holdfast {
            continue;
        }
        assert!(failed.is_empty() && *answered > 0, "{failed:?}");
        assert_eq!((kept.0, closed.0), (kept.1, closed.1), "tunnels kept, and tunnels closed with 1012");
        // Requests under way and pooled connections come and go; a leak would be one at least for each reload.
        assert!(descriptors.1 < descriptors.0 + scale.reloads.max(4 * ASKING), "{descriptors:?}");
        if scale.is_long {
            assert!(memory_kb.1 <= memory_kb.0 + memory_kb.0 / 10, "{memory_kb:?} kB");
        }
    }
}
