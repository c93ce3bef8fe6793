//! Changes that do not end, under load: objects of a cluster change many times a second while requests and tunnels go
//! through routes beside them. No request fails, and no tunnel of an unchanged route ends.
//!
//! `HOLDFAST_BUSY="600 2000 5000 10"` (seconds, requests per second, tunnels, changes per second) makes the run long, in a
//! cluster of 1,000 Ingresses, 5,000 routes and 20,000 endpoints; three more numbers are another size of the cluster. Then a
//! dated record goes to `bench/results`. `HOLDFAST_SCALE_BINARY` is another program than the one of this test.

#![allow(clippy::print_stdout, reason = "tells of a long run")]

use super::scale::objects::{self, FIRST, MOVING, POD_PORT, SLICES, Size, moving_host};
use super::scale::pods::add_addresses;
use super::scale::process::{cpu, memory_kib, pause};
use super::scene::{HTTP, INGRESSES, Replica, Scene, wait_until};
use crate::support::load::text;
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::Running;
use testkit::kubernetes::ControlPlane;

/// The host of two Ingresses: one that never changes, with the tunnels, and one that changes all the time.
const SHARED: &str = "shared.test";
/// Endpoints of the Service behind both.
const ENDPOINTS: u32 = 8;
/// How long the load goes on after the last change, so that what a change breaks is seen.
const REST: Duration = Duration::from_secs(5);
/// Of ten changes that are due, nine must be made in a long run: a slower API server would make the test easier.
const CHANGES_LEAST: f64 = 0.9;

/// How much of it.
#[derive(Debug, Clone, Copy, Serialize)]
struct Scale {
    seconds: u64,
    requests_per_second: u64,
    tunnels: u64,
    changes_per_second: u64,
    ingresses: usize,
    routes: usize,
    endpoints: usize,
}

impl Scale {
    /// What is chosen, and whether it is.
    fn chosen() -> (Self, bool) {
        let given = std::env::var("HOLDFAST_BUSY").ok();
        let chosen = given.as_deref().unwrap_or("3 100 40 10 20 100 400");
        let numbers: Vec<u64> = chosen.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        let cluster: Vec<usize> = numbers.iter().skip(4).map(|number| *number as usize).collect();
        let (ingresses, routes, endpoints) = match cluster[..] {
            [] => (1000, 5000, 20_000),
            [ingresses, routes, endpoints] => (ingresses, routes, endpoints),
            _ => panic!("HOLDFAST_BUSY=\"seconds requests tunnels changes [ingresses routes endpoints]\""),
        };
        let [seconds, requests_per_second, tunnels, changes_per_second] = numbers[..4] else { unreachable!("four") };
        assert!(seconds >= 1 && requests_per_second >= 1 && tunnels >= 1 && changes_per_second >= 1, "it is too small");
        let scale = Self { seconds, requests_per_second, tunnels, changes_per_second, ingresses, routes, endpoints };
        (scale, given.is_some())
    }

    fn size(self) -> Size {
        Size { ingresses: self.ingresses, routes: self.routes, endpoints: self.endpoints, changes: 0 }
    }
}

/// What was counted and measured.
#[derive(Debug, Serialize)]
struct Figures {
    changes: u64,
    /// How late the last change was written.
    last_change_late_ms: f64,
    generations: u64,
    requests: u64,
    failed_requests: u64,
    statuses: Value,
    latency_ms: Quantiles,
    tunnels_established: u64,
    tunnels_lost: u64,
    pongs: u64,
    pong_ms: Quantiles,
    /// Of the replica, over the time of the load.
    cpu_seconds: f64,
    rss_before_kib: u64,
    rss_after_kib: u64,
    peak_kib: u64,
}

#[derive(Debug, Serialize)]
struct Quantiles {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Quantiles {
    fn of(report: &Value) -> Self {
        let millis = |value: &Value| value.as_f64().expect("nanoseconds") / 1e6;
        let at = |name: &str| millis(&report["quantiles_ns"][name]);
        Self { p50: at("p50"), p99: at("p99"), max: millis(&report["max_ns"]) }
    }
}

#[test]
fn constant_changes_fail_no_request_and_end_no_tunnel() {
    let (scale, is_long) = Scale::chosen();
    let own = is_long.then(ControlPlane::start);
    let Some(mut scene) = Scene::new_or_skip(own.as_ref().unwrap_or_else(|| ControlPlane::shared())) else { return };
    if let Some(program) = std::env::var_os("HOLDFAST_SCALE_BINARY") {
        scene.program = program.into();
    }
    // Lines of the access log would hide the figures.
    scene.log = Some(tempfile::tempfile().expect("a temporary file"));
    let (scene, size) = (scene, scale.size());
    let _pods = start_pods(&scene);
    let begun = Instant::now();
    let count = objects::create(&scene, size) + create_shared(&scene);
    println!("{count} objects in {:.1} s", begun.elapsed().as_secs_f64());
    let replica = scene.replica(&["--shutdown-grace-period=0"]);
    wait_for_routes(&scene, &replica);
    let figures = run(&scene, &replica, scale);
    println!("{}", serde_json::to_string_pretty(&figures).expect("numbers"));
    if is_long {
        println!("record: {}", record(&scene.program, scale, &figures).display());
    }
    assert_eq!((figures.failed_requests, figures.tunnels_lost), (0, 0), "{}", figures.statuses);
    assert_eq!(figures.tunnels_established, scale.tunnels);
    let responses: Vec<&String> = figures.statuses.as_object().expect("statuses").keys().collect();
    assert_eq!(responses, ["200"]);
    assert!(figures.generations > 1 && figures.changes > 0 && figures.requests > 0 && figures.pongs > 0);
    let due = (scale.seconds * scale.changes_per_second) as f64;
    assert!(!is_long || figures.changes as f64 >= due * CHANGES_LEAST, "{} of {due} changes", figures.changes);
}

/// One origin at all addresses of Pods.
fn start_pods(scene: &Scene<'_>) -> Running {
    add_addresses(&scene.network);
    let listen = format!("0.0.0.0:{POD_PORT}");
    let pods = Running::start(scene.network.command(&scene.program).args(["origin", "--listen", &listen]));
    wait_until("the Pods answer", || {
        scene.network.run(|| TcpStream::connect((scene.network.address(), POD_PORT))).is_ok()
    });
    pods
}

/// Two Ingresses of one host: the paths of the first one never change.
fn create_shared(scene: &Scene<'_>) -> usize {
    let addresses = (0..ENDPOINTS).map(|number| Ipv4Addr::from(FIRST + number));
    let ingress = |name: &str, paths: &[&str]| {
        let backend = json!({"service": {"name": "shared", "port": {"number": 80}}});
        let path = |path: &&str| json!({"path": path, "pathType": "Prefix", "backend": backend});
        let paths: Vec<Value> = paths.iter().map(path).collect();
        let rules = json!([{"host": SHARED, "http": {"paths": paths}}]);
        json!({"metadata": {"name": name}, "spec": {"ingressClassName": scene.namespace, "rules": rules}})
    };
    for (resource, object) in [
        ("v1/services", objects::service("shared")),
        (SLICES, objects::slice("shared", 0, addresses)),
        (INGRESSES, ingress("unchanged", &["/page", "/websocket"])),
        (INGRESSES, ingress("changing", &["/bytes"])),
    ] {
        scene.plane.create(resource, &scene.namespace, &object);
    }
    4
}

fn wait_for_routes(scene: &Scene<'_>, replica: &Replica) {
    let hosts = (0..MOVING).map(moving_host).chain([SHARED.to_owned()]);
    for host in hosts {
        wait_until(&format!("{host} answers"), || {
            let request = format!("GET /page HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            testkit::fetch(replica.http, request).is_ok_and(|response| response.status() == 200)
        });
    }
    assert!(replica.is_ready(), "{}", scene.namespace);
}

/// `holdfast load` in the node's network; its report as JSON.
fn load(scene: &Scene<'_>, words: &[String]) -> Value {
    let mut command = scene.network.command(&scene.program);
    command.args(["load", "-q", "--allow-lag", "--no-sockets", "--json", "-"]);
    let address = scene.network.address();
    for host in (0..MOVING).map(moving_host).chain([SHARED.to_owned()]) {
        command.args(["--resolve", &format!("{host}:{HTTP}:{address}")]);
    }
    let output = command.args(words).stdin(Stdio::null()).output().expect("it starts");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Loads and changes at the same time.
fn run(scene: &Scene<'_>, replica: &Replica, scale: Scale) -> Figures {
    let length = Duration::from_secs(scale.seconds);
    let held = (length + REST).as_secs();
    let (before, generations) = (cpu(replica.id()), replica.generations());
    let rss_before_kib = memory_kib(replica.id(), "VmRSS");
    // Half of the requests go to routes that change or that have moving endpoints.
    let requests = format!(
        "-R {} -d {held}s -c 64 --timeout 10s 5*http://{SHARED}:{HTTP}/page 3*http://{SHARED}:{HTTP}/bytes/100 \
         2*http://{}:{HTTP}/page",
        scale.requests_per_second,
        moving_host(0)
    );
    // Opened in five seconds at most; the changes begin meanwhile.
    let ramp = (scale.tunnels / 5).max(20);
    let tunnels = format!(
        "-c {} --ramp {ramp}/s --hold {held}s --heartbeat 10s ws://{SHARED}:{HTTP}/websocket/echo",
        scale.tunnels
    );
    std::thread::scope(|threads| {
        let requests = threads.spawn(|| load(scene, &words(&requests)));
        let tunnels = threads.spawn(|| load(scene, &words(&tunnels)));
        let (changes, late) = change_all(scene, scale, length);
        assert!(!requests.is_finished() && !tunnels.is_finished(), "the load was over before the last change");
        let requests = requests.join().expect("requests");
        let tunnels = tunnels.join().expect("tunnels");
        let number = |report: &Value, name: &str| report[name].as_u64().unwrap_or_else(|| panic!("{name}: {report}"));
        Figures {
            changes,
            last_change_late_ms: late.as_secs_f64() * 1e3,
            generations: replica.generations() - generations,
            requests: number(&requests, "requests"),
            // With statuses from 400 on.
            failed_requests: number(&requests, "errors"),
            statuses: requests["statuses"].clone(),
            latency_ms: Quantiles::of(&requests["latency"]),
            tunnels_established: number(&tunnels, "established"),
            tunnels_lost: number(&tunnels, "losses") + number(&tunnels, "failed"),
            pongs: number(&tunnels, "pongs"),
            pong_ms: Quantiles::of(&tunnels["pong"]),
            cpu_seconds: cpu(replica.id()).saturating_sub(before).as_secs_f64(),
            rss_before_kib,
            rss_after_kib: memory_kib(replica.id(), "VmRSS"),
            peak_kib: memory_kib(replica.id(), "VmHWM"),
        }
    })
}

/// Changes at their times; returns how many, and how late the last one was.
fn change_all(scene: &Scene<'_>, scale: Scale, length: Duration) -> (u64, Duration) {
    let (begun, every) = (Instant::now(), Duration::from_secs(1) / scale.changes_per_second as u32);
    let mut late = Duration::ZERO;
    for number in 0..scale.seconds * scale.changes_per_second {
        let due = every * number as u32;
        pause(due.saturating_sub(begun.elapsed()));
        if begun.elapsed() > length {
            return (number, late);
        }
        change(scene, scale.size(), number as usize);
        late = begun.elapsed().saturating_sub(due);
    }
    (scale.seconds * scale.changes_per_second, late)
}

/// One of five kinds of changes in turn.
fn change(scene: &Scene<'_>, size: Size, number: usize) {
    let namespace = &scene.namespace;
    match number % 5 {
        0 => {
            let timeout = json!({"nginx.ingress.kubernetes.io/proxy-read-timeout": (60 + number % 1000).to_string()});
            scene.plane.patch(INGRESSES, namespace, "changing", &json!({"metadata": {"annotations": timeout}}));
        }
        1 => objects::add_path(scene, size, number % size.ingresses, &format!("/new{number}")),
        2 => scene.ingress(&format!("new{number}"), &format!("new{number}.test"), "shared"),
        3 => objects::move_endpoint(scene, number / 5 % MOVING, number),
        // The Ingress of two changes before.
        _ => scene.plane.delete(INGRESSES, namespace, &format!("new{}", number - 2)),
    }
}

#[derive(Serialize)]
struct Record<'r> {
    experiment: &'static str,
    /// UTC.
    date: String,
    machine: Value,
    settings: Scale,
    figures: &'r Figures,
}

/// Writes the record of a long run, and returns its path.
fn record(program: &Path, settings: Scale, figures: &Figures) -> PathBuf {
    let said = |program: &Path, words: &[&str]| {
        let output = Command::new(program).args(words).stdin(Stdio::null()).output();
        output.map(|it| text(&it.stdout).trim().to_owned()).unwrap_or_default()
    };
    let date = said(Path::new("date"), &["--utc", "+%Y-%m-%dT%H:%MZ"]);
    let machine = json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        "load_average": fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next(),
        "commit": said(Path::new("git"), &["rev-parse", "--short=12", "HEAD"]),
        "program": said(program, &["--version"]),
        "debug_build": cfg!(debug_assertions) && std::env::var_os("HOLDFAST_SCALE_BINARY").is_none(),
    });
    let name = "ingress-busy";
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace");
    let path = root.join("bench/results").join(format!("{}-{name}.json", date.replace(':', "")));
    let record = Record { experiment: name, date, machine, settings, figures };
    serde_json::to_writer_pretty(File::create(&path).expect("a file"), &record).expect("written");
    path
}
