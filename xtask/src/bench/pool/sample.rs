//! One arm under one load, in a process of its own in a network namespace of its own, so that it begins without a socket
//! and leaves none behind. `cargo xtask bench pool` starts it with a [`Spec`] and reads its [`Sample`].

use super::census::{Count, Ports};
use super::clients::{Figures, Tool};
use super::plan::{Arm, Load};
use super::programs::{self, AtOrigin, GATEWAY_PORT, ORIGIN_PORT, Paths, Placement};
use anyhow::{Context as _, Result, bail};
use lab::stage::namespace::in_namespace;
use lab::stage::process::{Started, pause, raise_descriptors, wait_without_reaping};
use lab::stage::usage::{Busiest, Cores, Cpu, Threads, cpu_of_ended_ns, cpu_of_tree, tree};
use serde::{Deserialize, Serialize};
use sockdiag::{Census, Counters, Settings};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options of the process that measures one sample.
#[derive(clap::Args)]
pub(in super::super) struct SampleArgs {
    /// What to measure.
    spec: PathBuf,
}

/// What to measure.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Spec {
    pub(super) arm: Arm,
    pub(super) load: Load,
    /// From 0.
    pub(super) round: u64,
    pub(super) paths: Paths,
    pub(super) placement: Placement,
    /// Between two looks at the sockets.
    pub(super) look_ms: u64,
}

/// The CPU of one program under the load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Side {
    /// Of its process tree, for each request that the client had an answer to.
    pub(super) cpu_us_per_request: f64,
    pub(super) busiest: Busiest,
}

/// What was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sample {
    pub(super) arm: String,
    pub(super) round: u64,
    pub(super) figures: Figures,
    pub(super) client: Side,
    pub(super) proxy: Option<Side>,
    pub(super) origin: Side,
    /// Part of all cores of the machine that was used, whoever used it.
    pub(super) cores_used: f64,
    /// Part of a core that looking at the sockets took.
    pub(super) looking: f64,
    /// Mean over the load, less what was there before it.
    pub(super) sockets: Ports,
    pub(super) looks: usize,
    /// When the load had just ended.
    pub(super) sockets_end: Ports,
    /// Connections and requests that reached the origin while the load ran.
    pub(super) opened: u64,
    pub(super) requests_at_origin: u64,
    /// The same since the proxy was started, what filled its pool included.
    pub(super) opened_all: u64,
    pub(super) requests_at_origin_all: u64,
    /// The kernel's, of the whole namespace, while the load ran.
    pub(super) connects: Option<u64>,
    pub(super) time_waits_reused: Option<u64>,
    pub(super) time_wait_overflows: Option<u64>,
    pub(super) listen_overflows: Option<u64>,
    /// Of the namespace, for people: what decides how many ports there are, and what becomes of those in TIME_WAIT.
    pub(super) settings: String,
}

/// Two sockets of the proxy for each client, and what the programs have besides.
const DESCRIPTORS_WANTED: u64 = 20_000;
/// Connections are being opened until then.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// A client that has not ended this long after its time is stuck.
const CLIENT_LATE_SECONDS_MAX: u64 = 30;

/// Has the sample measured in a namespace.
pub(super) fn measure_apart(spec: &Spec) -> Result<Sample> {
    let home = &spec.paths.home;
    let file = home.join("spec.json");
    fs::write(&file, serde_json::to_string(spec)?)?;
    let output = home.join("sample.out");
    let mut command = in_namespace()?;
    command.args(["bench", "pool-sample"]).arg(&file);
    let about = || format!("{} under {}", spec.arm, spec.load);
    Started::new("a sample", &mut command, output.clone())?.wait().with_context(about)?;
    let said = fs::read_to_string(&output)?;
    let line = said.lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("{} said {said:?}", about()))
}

/// The measuring process: prints its sample.
pub(in super::super) fn run(args: &SampleArgs) -> Result<()> {
    let spec: Spec = serde_json::from_str(&fs::read_to_string(&args.spec)?)?;
    raise_descriptors(DESCRIPTORS_WANTED)?;
    let origin = programs::start_origin(&spec.paths, spec.placement.origin)?;
    let at_start = AtOrigin::read()?;
    let proxy = programs::start_proxy(&spec.paths, spec.arm, spec.placement.proxy)?;
    let sample = measure(&spec, &origin, proxy.as_ref(), at_start)?;
    println!("{}", serde_json::to_string(&sample)?);
    Ok(())
}

/// Everything that is read before and after.
struct Reading {
    at: Instant,
    at_origin: AtOrigin,
    counters: Counters,
    cores: Cores,
    proxy: Cpu,
    origin: Cpu,
    own: Cpu,
}

impl Reading {
    fn take(origin: &Started, proxy: Option<&Started>) -> Result<Reading> {
        Ok(Reading {
            at_origin: AtOrigin::read()?,
            counters: Counters::read()?,
            cores: Cores::read(),
            proxy: proxy.map(|proxy| cpu_of_tree(proxy.id())).unwrap_or_default(),
            origin: cpu_of_tree(origin.id()),
            own: own_cpu(),
            at: Instant::now(),
        })
    }
}

/// Of this process without those that it started.
fn own_cpu() -> Cpu {
    let stat = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let total_ns = stat.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0);
    Cpu { total_ns, ..Cpu::default() }
}

fn measure(spec: &Spec, origin: &Started, proxy: Option<&Started>, at_start: AtOrigin) -> Result<Sample> {
    let port = if proxy.is_some() { GATEWAY_PORT } else { ORIGIN_PORT };
    let tool = Tool { load: &spec.load, paths: &spec.paths, core: spec.placement.client, port };
    let mut census = Census::open()?;
    let idle = Count::take(&mut census)?;
    Started::new("the warm-up", &mut tool.warm_up(), spec.paths.home.join("warm-up.out"))?.wait()?;
    let before = Reading::take(origin, proxy)?;
    let watched = watch(spec, &tool, &mut census, origin, proxy)?;
    let sockets_end = Ports::average(&[Count::take(&mut census)?], &idle);
    let after = Reading::take(origin, proxy)?;
    let figures = tool.figures()?;
    if figures.requests == 0 {
        bail!("no request was answered: {}", proxy.map(Started::said).unwrap_or_default());
    }
    let requests = figures.requests as f64;
    let side = |cpu_us: f64, busiest| Side { cpu_us_per_request: cpu_us / requests, busiest };
    let cpu_us = |now: Cpu, then: Cpu| now.total_ns.saturating_sub(then.total_ns) as f64 / 1e3;
    let counted = after.at_origin.since(before.at_origin, 1);
    let counted_all = after.at_origin.since(at_start, 2);
    let kernel = after.counters.since(&before.counters);
    Ok(Sample {
        arm: spec.arm.to_string(),
        round: spec.round,
        client: side(watched.client_us, watched.client),
        proxy: proxy.map(|_| side(cpu_us(after.proxy, before.proxy), watched.proxy)),
        origin: side(cpu_us(after.origin, before.origin), watched.origin),
        figures,
        cores_used: after.cores.used_since(before.cores),
        looking: cpu_us(after.own, before.own) / 1e6 / after.at.duration_since(before.at).as_secs_f64(),
        sockets: Ports::average(&watched.looks, &idle),
        looks: watched.looks.len(),
        sockets_end,
        opened: counted.accepted,
        requests_at_origin: counted.requests,
        opened_all: counted_all.accepted,
        requests_at_origin_all: counted_all.requests,
        // Our question to the origin was one.
        connects: kernel.active_opens.map(|opens| opens.saturating_sub(1)),
        time_waits_reused: kernel.time_waits_reused,
        time_wait_overflows: kernel.time_wait_overflows,
        listen_overflows: kernel.listen_overflows,
        settings: settings_sentence(&Settings::read()),
    })
}

fn settings_sentence(settings: &Settings) -> String {
    let number = |value: Option<u32>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
    format!(
        "{} local ports, tcp_tw_reuse {}, tcp_max_tw_buckets {}, somaxconn {}",
        number(settings.ports_usable()),
        number(settings.tw_reuse.map(u32::from)),
        number(settings.tw_buckets_max),
        number(settings.somaxconn)
    )
}

/// What was seen while the client ran.
struct Watched {
    looks: Vec<Count>,
    client_us: f64,
    client: Busiest,
    proxy: Busiest,
    origin: Busiest,
}

/// The processes of all programs, found once: none of them starts others under load.
struct Trees {
    client: Vec<u32>,
    proxy: Vec<u32>,
    origin: Vec<u32>,
}

/// The threads of all programs at one moment.
struct Look {
    client: Threads,
    proxy: Threads,
    origin: Threads,
}

impl Trees {
    fn look(&self) -> Look {
        Look { client: Threads::of(&self.client), proxy: Threads::of(&self.proxy), origin: Threads::of(&self.origin) }
    }
}

/// Runs the client to its end, and looks at the sockets and threads meanwhile.
fn watch(
    spec: &Spec,
    tool: &Tool<'_>,
    census: &mut Census,
    origin: &Started,
    proxy: Option<&Started>,
) -> Result<Watched> {
    let begun = Instant::now();
    let late = Duration::from_secs(u64::from(spec.load.seconds) + CLIENT_LATE_SECONDS_MAX);
    let mut client = Started::new(tool.name(), &mut tool.command()?, tool.output())?;
    let mut trees = Trees {
        client: Vec::new(),
        proxy: proxy.map(|proxy| tree(proxy.id())).unwrap_or_default(),
        origin: tree(origin.id()),
    };
    let (mut looks, mut next) = (Vec::new(), FIRST_LOOK);
    let (mut first, mut last) = (None, None);
    while !wait_without_reaping(client.id())? {
        if begun.elapsed() > late {
            bail!("{} did not end: {}", tool.name(), client.said());
        }
        if begun.elapsed() < next {
            pause();
            continue;
        }
        next += Duration::from_millis(spec.look_ms);
        let ports = Count::take(census)?;
        if first.is_none() {
            trees.client = tree(client.id());
        }
        let threads = trees.look();
        // One at which the client was about to end has lost some of its threads.
        if !wait_without_reaping(client.id())? {
            looks.push(ports);
            if first.is_none() { first = Some(threads) } else { last = Some(threads) }
        }
    }
    // The times of threads that have ended are in the process's ticks alone, until it is waited for.
    let ended_ns = cpu_of_ended_ns(client.id());
    client.wait()?;
    let (Some(first), Some(last)) = (first, last) else { bail!("the load was over before anybody had looked twice") };
    Ok(Watched {
        looks,
        client_us: ended_ns as f64 / 1e3,
        client: last.client.busiest_since(&first.client),
        proxy: last.proxy.busiest_since(&first.proxy),
        origin: last.origin.busiest_since(&first.origin),
    })
}

/// Runs nothing: whether the programs of an experiment are there.
pub(super) fn check(paths: &Paths) -> Result<()> {
    let programs = [&paths.holdfast, &paths.nginx, &paths.haproxy, &paths.ab, &paths.wrk];
    match programs.into_iter().find(|program| !program.is_file()) {
        Some(absent) => bail!("{} is not there: cargo build --release, cargo xtask peers", absent.display()),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Something measured: 10,000 requests in a second, 30 µs of the proxy's CPU each.
    pub(in super::super) fn sample(arm: &str, round: u64) -> Sample {
        let side = Side { cpu_us_per_request: 30.0, busiest: Busiest { running: 0.5, queued: 0.0 } };
        let figures = Figures {
            requests: 10_000,
            requests_per_second: 10_000.0,
            failed: 0,
            causes: std::collections::BTreeMap::new(),
            latency_ms_mean: None,
            latency_ms_p99: 2.0,
            void: Vec::new(),
        };
        Sample {
            arm: arm.to_owned(),
            round,
            figures,
            client: side,
            proxy: (arm != "direct").then_some(side),
            origin: side,
            cores_used: 0.5,
            looking: 0.01,
            sockets: Ports::default(),
            looks: 4,
            sockets_end: Ports::default(),
            opened: 0,
            requests_at_origin: 10_000,
            opened_all: 30,
            requests_at_origin_all: 11_000,
            connects: Some(0),
            time_waits_reused: Some(0),
            time_wait_overflows: Some(0),
            listen_overflows: Some(0),
            settings: "28232 local ports".to_owned(),
        }
    }

    #[test]
    fn what_a_sample_says_is_what_is_read() {
        let sample = sample("nginx 16", 2);
        let read: Sample = serde_json::from_str(&serde_json::to_string(&sample).unwrap()).unwrap();
        assert_eq!((read.arm, read.round, read.proxy), ("nginx 16".to_owned(), 2, sample.proxy));
    }
}
