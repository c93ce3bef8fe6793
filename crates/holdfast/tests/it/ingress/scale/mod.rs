//! A large cluster: time from the start to serving, from a change to its effect, memory and CPU.
//!
//! `HOLDFAST_SCALE="1000 5000 20000 200"` (Ingresses, routes, endpoints, changes) makes the run large.
//! `HOLDFAST_SCALE_BINARY` is another program than the one of this test, and `HOLDFAST_SCALE_RECORD` a file for the figures.
//! `cargo xtask bench ingress` sets all of them.

#![allow(clippy::print_stdout, reason = "tells of a long run")]

pub(super) mod objects;
pub(super) mod pods;
pub(super) mod process;

use super::scene::{INGRESSES, Replica, Scene, wait_until};
use nix::sys::signal::Signal;
use objects::{MOVING, Size, host, moving_address, moving_host};
use pods::{Client, Pods};
use process::{cpu, memory_kib, pause, wait_until_quiet};
use serde::Serialize;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::kubernetes::ControlPlane;

/// Between two requests that look for the effect of a change.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// A goal that is missed is measured, too; an effect that takes longer is missing.
const EFFECT_MAX: Duration = Duration::from_mins(5);
/// Starts that are measured. The first one also writes all statuses.
const STARTS: usize = 4;
/// How long an idle replica is watched.
const IDLE: Duration = Duration::from_secs(2);

/// What is measured. Times are in milliseconds.
#[derive(Debug, Default, Serialize)]
struct Figures {
    ingresses: usize,
    routes: usize,
    endpoints: usize,
    /// Objects in the API server.
    objects: usize,
    /// From the start of the process to the first response of a route.
    cold_starts: Vec<f64>,
    /// The same without any object.
    cold_start_empty: f64,
    /// CPU of the process up to then.
    cold_start_cpu: Vec<f64>,
    /// From the start of the first replica until all Ingresses had a status.
    statuses: f64,
    /// From the response of the API server to the write to the first response of the new path.
    ingress_effects: Vec<f64>,
    /// The same from the beginning of the write.
    ingress_effects_with_write: Vec<f64>,
    /// From the response of the API server to the write to the first response of the new address.
    endpoint_effects: Vec<f64>,
    endpoint_effects_with_write: Vec<f64>,
    cpu_per_ingress_change: f64,
    /// A change of a Service with one endpoint.
    cpu_per_endpoint_change: f64,
    /// A change of one of many endpoints.
    cpu_per_large_endpoint_change: f64,
    /// How many the large Service has.
    endpoints_of_large: usize,
    /// CPU of an idle replica, in milliseconds each second.
    cpu_idle: f64,
    rss_empty_kib: u64,
    rss_started_kib: u64,
    rss_changed_kib: u64,
    peak_kib: u64,
    generations: u64,
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn size() -> (Size, bool) {
    let Ok(text) = std::env::var("HOLDFAST_SCALE") else {
        return (Size { ingresses: 20, routes: 100, endpoints: 400, changes: 5 }, false);
    };
    let numbers: Vec<usize> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let [ingresses, routes, endpoints, changes] = numbers[..] else {
        panic!("HOLDFAST_SCALE=\"ingresses routes endpoints changes\"");
    };
    assert!(ingresses >= 2 && routes >= ingresses && endpoints >= 2 * ingresses && changes >= 1, "it is too small");
    (Size { ingresses, routes, endpoints, changes }, true)
}

#[test]
fn a_large_cluster_is_served_soon_and_changes_take_effect() {
    let (size, is_long) = size();
    let own = is_long.then(ControlPlane::start);
    let Some(mut scene) = Scene::new_or_skip(own.as_ref().unwrap_or_else(|| ControlPlane::shared())) else { return };
    if let Some(program) = std::env::var_os("HOLDFAST_SCALE_BINARY") {
        scene.program = program.into();
    }
    scene.log = std::env::var_os("HOLDFAST_SCALE_RECORD")
        .map(|record| File::create(Path::new(&record).with_extension("log")).expect("a log"));
    let _pods = Pods::start(&scene.network);
    let mut figures = Figures {
        ingresses: size.ingresses,
        routes: size.ingresses * size.paths(),
        endpoints: size.endpoints,
        endpoints_of_large: size.endpoints / 2 / size.large(),
        ..Figures::default()
    };
    start_empty(&scene, &mut figures);
    let begun = Instant::now();
    figures.objects = objects::create(&scene, size);
    println!("{} objects in {:.1} s", figures.objects, begun.elapsed().as_secs_f64());
    let replica = starts(&scene, size, &mut figures);
    wait_until_quiet(&replica);
    all_routes_answer(&scene, size);
    wait_until_quiet(&replica);
    let before = cpu(replica.id());
    pause(IDLE);
    figures.cpu_idle = millis(cpu(replica.id()).saturating_sub(before)) / IDLE.as_secs_f64();
    let generations = replica.generations();
    endpoints_move(&scene, size, &replica, &mut figures);
    assert_eq!(replica.generations(), generations, "endpoints make no configuration");
    ingresses_change(&scene, size, &replica, &mut figures);
    wait_until_quiet(&replica);
    figures.generations = replica.generations();
    assert!(figures.generations > generations);
    figures.rss_changed_kib = memory_kib(replica.id(), "VmRSS");
    figures.peak_kib = memory_kib(replica.id(), "VmHWM");
    all_routes_answer(&scene, size);
    let text = serde_json::to_string_pretty(&figures).expect("numbers");
    println!("{text}");
    if let Some(file) = std::env::var_os("HOLDFAST_SCALE_RECORD") {
        std::fs::write(file, text).expect("the record is written");
    }
}

/// The replica is over when its Lease is free for the next one.
fn end(mut replica: Replica) {
    replica.signal(Signal::SIGTERM);
    assert!(replica.wait().success());
}

fn start_empty(scene: &Scene<'_>, figures: &mut Figures) {
    let mut client = Client::new(&scene.network);
    let begun = Instant::now();
    let replica = scene.start(&FLAGS);
    until_answer(&mut client, "h0.test", "/p0", |status, _| status == 404);
    figures.cold_start_empty = millis(begun.elapsed());
    wait_until_quiet(&replica);
    figures.rss_empty_kib = memory_kib(replica.id(), "VmRSS");
    drop(client);
    end(replica);
}

const FLAGS: [&str; 1] = ["--shutdown-grace-period=0"];

/// Starts the replica several times; the last one stays.
fn starts(scene: &Scene<'_>, size: Size, figures: &mut Figures) -> Replica {
    for round in 0.. {
        let mut client = Client::new(&scene.network);
        let begun = Instant::now();
        let replica = scene.start(&FLAGS);
        let last = size.ingresses - 1;
        until_answer(&mut client, &host(last), "/p0", |status, _| status == 200);
        let (serving, used) = (begun.elapsed(), cpu(replica.id()));
        println!("start {round}: serves after {serving:?}, {used:?} of CPU");
        if round == 0 {
            wait_until("all Ingresses have a status", || {
                let all = scene.plane.list(INGRESSES, &scene.namespace);
                pause(Duration::from_millis(200));
                all.iter().all(|it| it["status"]["loadBalancer"]["ingress"].is_array())
            });
            figures.statuses = millis(begun.elapsed());
        }
        wait_until_quiet(&replica);
        if round > 0 {
            figures.cold_starts.push(millis(serving));
            figures.cold_start_cpu.push(millis(used));
        }
        if round == STARTS - 1 {
            figures.rss_started_kib = memory_kib(replica.id(), "VmRSS");
            return replica;
        }
        drop(client);
        end(replica);
    }
    unreachable!("the last round returns");
}

/// Each path leads to its own Service.
fn all_routes_answer(scene: &Scene<'_>, size: Size) {
    let mut client = Client::new(&scene.network);
    for ingress in 0..size.ingresses {
        for path in 0..size.paths() {
            let (host, target) = (host(ingress), format!("/p{path}"));
            // A connection may have reached its last request.
            let answer = client.ask(&host, &target).or_else(|| client.ask(&host, &target));
            let (status, body) = answer.unwrap_or_else(|| panic!("{host}{target} does not answer"));
            assert!(status == 200 && size.leads_to(ingress, path, &body), "{host}{target}: {status} {body}");
        }
    }
}

fn until_answer(client: &mut Client<'_>, host: &str, path: &str, holds: impl Fn(u16, &str) -> bool) -> Instant {
    let deadline = Instant::now() + EFFECT_MAX;
    loop {
        let answer = client.ask(host, path);
        let now = Instant::now();
        if answer.as_ref().is_some_and(|(status, body)| holds(*status, body)) {
            return now;
        }
        assert!(now < deadline, "{host}{path} answers {answer:?}");
        std::thread::park_timeout(LOOK_AGAIN);
    }
}

/// Endpoints move one after the other; then many move, and only the CPU counts.
fn endpoints_move(scene: &Scene<'_>, size: Size, replica: &Replica, figures: &mut Figures) {
    let mut client = Client::new(&scene.network);
    let mut moves = 0;
    for change in 0..size.changes {
        let index = change % MOVING;
        moves += 1;
        let address = moving_address(index, moves).to_string();
        let sent = Instant::now();
        objects::move_endpoint(scene, index, moves);
        let answered = Instant::now();
        let seen = until_answer(&mut client, &moving_host(index), "/", |status, body| status == 200 && body == address);
        figures.endpoint_effects.push(millis(seen - answered));
        figures.endpoint_effects_with_write.push(millis(seen - sent));
    }
    let first = moves + 1;
    figures.cpu_per_endpoint_change = cpu_per_change(replica, size.changes, figures.cpu_idle, |change| {
        objects::move_endpoint(scene, change % MOVING, first + change);
    });
    figures.cpu_per_large_endpoint_change = cpu_per_change(replica, size.changes, figures.cpu_idle, |change| {
        objects::change_large(scene, size, change % size.large(), change);
    });
    // The first addresses again, for the last look at all routes.
    for service in 0..size.large() {
        objects::restore_large(scene, size, service);
    }
}

/// New paths come one after the other.
fn ingresses_change(scene: &Scene<'_>, size: Size, replica: &Replica, figures: &mut Figures) {
    let mut client = Client::new(&scene.network);
    for change in 0..size.changes {
        let (ingress, path) = (change * 7 % size.ingresses, format!("/new{change}"));
        let sent = Instant::now();
        objects::add_path(scene, size, ingress, &path);
        let answered = Instant::now();
        let seen = until_answer(&mut client, &host(ingress), &path, |status, _| status == 200);
        figures.ingress_effects.push(millis(seen - answered));
        figures.ingress_effects_with_write.push(millis(seen - sent));
    }
    figures.cpu_per_ingress_change = cpu_per_change(replica, size.changes.min(50), figures.cpu_idle, |change| {
        let (ingress, path) = (change * 7 % size.ingresses, format!("/last{change}"));
        objects::add_path(scene, size, ingress, &path);
        // One configuration for each change, and few requests beside it.
        wait_until("the new path", || client.ask(&host(ingress), &path).is_some_and(|(status, _)| status == 200));
    });
}

/// CPU of the replica for each change, in milliseconds, without what an idle one uses.
fn cpu_per_change(replica: &Replica, changes: usize, idle: f64, mut change: impl FnMut(usize)) -> f64 {
    wait_until_quiet(replica);
    let (before, begun) = (cpu(replica.id()), Instant::now());
    (0..changes).for_each(&mut change);
    wait_until_quiet(replica);
    (millis(cpu(replica.id()).saturating_sub(before)) - idle * begun.elapsed().as_secs_f64()) / changes as f64
}
