//! What runs: one installation of the gateway in several processes, an origin for each room, and the load.

use super::figures::{HandedOver, Loaded, Upgrade};
use anyhow::{Context as _, Result, bail};
use doctor::plan::usage;
use doctor::plan::verify::Round;
use lab::stage::process::{READY_TIME_MAX, Started};
use lab::stage::usage::{descriptors_of, tree};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, test_kill_process};
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Descriptors of an origin besides the tunnels, and of a process of the gateway.
const DESCRIPTORS_BESIDE: u64 = 500;
/// The gateway's processes have different numbers of tunnels: at most 5 and a sixteenth more than others.
const UNEVEN: f64 = 1.1;
/// An upgrade moves all tunnels, on a machine that also runs both ends.
const UPGRADE_TIME_MAX: Duration = Duration::from_mins(2);
const LOOK: Duration = Duration::from_millis(50);

/// The running programs. Dropping it ends them.
pub(super) struct Stage {
    home: PathBuf,
    holdfast: PathBuf,
    address: SocketAddr,
    origins: Vec<(SocketAddr, Started)>,
    load: Option<Started>,
    /// The first master; later ones are found by the pid file.
    _gateway: Started,
}

impl Stage {
    /// Starts all but the load.
    pub(super) fn start(holdfast: &Path, home: &Path, tunnels: u64) -> Result<Self> {
        fs::create_dir_all(home.join("logs"))?;
        let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let rooms = tunnels.div_ceil(limit.saturating_sub(DESCRIPTORS_BESIDE).max(1));
        let mut origins = Vec::new();
        for room in 0..rooms {
            let address = free_address()?;
            let mut command = Command::new(holdfast);
            command.args(["origin", "--listen", &address.to_string()]);
            let mut origin = Started::new("origin", &mut command, home.join(format!("origin-{room}.out")))?;
            origin.wait_ready(|| TcpStream::connect(address).is_ok())?;
            origins.push((address, origin));
        }
        let address = free_address()?;
        let conf = home.join("nginx.conf");
        let addresses: Vec<SocketAddr> = origins.iter().map(|(address, _)| *address).collect();
        fs::write(&conf, configuration(home, address, &addresses, tunnels, limit))?;
        let mut command = Command::new(holdfast);
        command.arg("-c").arg(&conf).arg("-p").arg(home);
        let mut gateway = Started::new("holdfast", &mut command, home.join("gateway.out"))?;
        gateway.wait_ready(|| home.join("pid").exists() && TcpStream::connect(address).is_ok())?;
        let (home, holdfast) = (home.to_owned(), holdfast.to_owned());
        let stage = Self { home, holdfast, address, origins, load: None, _gateway: gateway };
        stage.within("the gateway serves", READY_TIME_MAX, || Ok(stage.served()? > 0))?;
        Ok(stage)
    }

    /// The master that serves.
    pub(super) fn master(&self) -> u32 {
        self.pid_file().unwrap_or(0)
    }

    fn pid_file(&self) -> Option<u32> {
        fs::read_to_string(self.home.join("pid")).ok()?.trim().parse().ok()
    }

    /// Processes with workers.
    pub(super) fn processes(&self) -> usize {
        tree(self.master()).len() - 1
    }

    /// Rooms: one for each origin, since an origin that is one process knows its members.
    pub(super) fn rooms(&self) -> usize {
        self.origins.len()
    }

    /// What the gateway and the sockets of its clients and upstreams use: one proxy and two hops.
    pub(super) fn usage(&self) -> Result<Round> {
        let hops: Vec<SocketAddr> =
            [self.address].into_iter().chain(self.origins.iter().map(|(address, _)| *address)).collect();
        let round = usage::count(&tree(self.master()), &hops).map_err(anyhow::Error::msg)?;
        let (to_gateway, to_origins) = round.ports.split_first().context("no ports were counted")?;
        let ports = vec![*to_gateway, to_origins.iter().sum()];
        Ok(Round { descriptors: vec![round.descriptors.iter().sum()], ports, ..round })
    }

    /// Opens some tunnels and closes them again.
    pub(super) fn warm_up(&mut self, tunnels: u64) -> Result<()> {
        self.load(tunnels.max(10), 1000, Duration::from_secs(1), &[])?;
        self.wait_load(READY_TIME_MAX * 3)?;
        Ok(())
    }

    /// Starts the load, with its results in a file.
    pub(super) fn load(&mut self, tunnels: u64, ramp: u64, hold: Duration, more: &[&str]) -> Result<()> {
        let (rooms, url) = (self.rooms().to_string(), format!("ws://{}/websocket/room/{{{{room}}}}", self.address));
        let mut command = Command::new(&self.holdfast);
        command
            .args(["load", &url, "-c", &tunnels.to_string(), "--rooms", &rooms])
            .args(["--ramp", &format!("{ramp}/s"), "--hold", &format!("{}s", hold.as_secs())])
            .args(["--source", "127.0.0.2-127.0.0.9", "--drain", "60s", "--allow-lag"])
            .args(more)
            .arg(format!("--json={}", self.results_file().display()));
        self.load = Some(Started::new("holdfast load", &mut command, self.home.join("load.out"))?);
        Ok(())
    }

    fn results_file(&self) -> PathBuf {
        self.home.join("load.json")
    }

    /// Waits until the gateway has both sockets of each tunnel.
    pub(super) fn until_open(&mut self, tunnels: u64, at_most: Duration) -> Result<()> {
        let deadline = Instant::now() + at_most;
        loop {
            let held = descriptors_of(&tree(self.master())) as u64;
            if held >= 2 * tunnels {
                return Ok(());
            }
            if let Some(load) = self.load.as_mut()
                && load.status()?.is_some()
            {
                bail!("{}", load.quote("the load ended before all tunnels were open"));
            }
            if Instant::now() > deadline {
                bail!("after {} s the gateway has {held} descriptors of {tunnels} tunnels", at_most.as_secs());
            }
            std::thread::park_timeout(LOOK);
        }
    }

    /// Upgrades the program as an operator does: USR2, and QUIT to the old master when the new one serves.
    pub(super) fn upgrade(&mut self, tunnels: u64) -> Result<Upgrade> {
        let (old, processes, begun) = (self.master(), self.processes(), Instant::now());
        let before = self.served()?;
        signal(old, Signal::USR2)?;
        self.within("the new program serves", UPGRADE_TIME_MAX, || {
            Ok(self.master() != old && self.processes() == processes && self.served()? > before)
        })?;
        let until_served = begun.elapsed().as_secs_f64();
        let asked = Instant::now();
        signal(old, Signal::QUIT)?;
        self.within("the new program has all tunnels", UPGRADE_TIME_MAX, || {
            Ok(descriptors_of(&tree(self.master())) as u64 >= 2 * tunnels && !lives(old))
        })?;
        Ok(Upgrade { until_served, until_moved: asked.elapsed().as_secs_f64(), handed_over: handed_over(&self.log()?) })
    }

    /// How many masters have said that they serve.
    fn served(&self) -> Result<usize> {
        Ok(self.log()?.matches(": holdfast serves").count())
    }

    /// Waits for a state of the gateway. An error has the last lines of its log.
    fn within(&self, what: &str, at_most: Duration, reached: impl Fn() -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + at_most;
        while !reached()? {
            if Instant::now() > deadline {
                bail!("not within {} s: {what}:\n{}", at_most.as_secs(), self.last_of_log());
            }
            std::thread::park_timeout(LOOK);
        }
        Ok(())
    }

    fn log(&self) -> Result<String> {
        Ok(fs::read_to_string(self.home.join("logs/error.log"))?)
    }

    fn last_of_log(&self) -> String {
        let log = self.log().unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// Lines of the error log that are worse than a warning.
    pub(super) fn errors(&self) -> Result<Vec<String>> {
        let log = self.log()?;
        let bad = |line: &&str| ["[error]", "[crit]", "[alert]", "[emerg]"].iter().any(|level| line.contains(level));
        Ok(log.lines().filter(bad).map(str::to_owned).take(20).collect())
    }

    /// Ends the gateway with QUIT, which drains the tunnels; seconds until it has ended.
    pub(super) fn quit(&self, at_most: Duration) -> Result<f64> {
        let (master, begun) = (self.master(), Instant::now());
        signal(master, Signal::QUIT)?;
        self.within("the gateway has ended after QUIT", at_most, || Ok(!lives(master)))?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Ends the load as Ctrl-C does, and reads what it has measured.
    pub(super) fn end_load(&mut self) -> Result<Loaded> {
        self.load.as_ref().context("no load")?.interrupt();
        self.wait_load(READY_TIME_MAX * 6)
    }

    /// Waits until the load has ended, and reads what it has measured.
    pub(super) fn wait_load(&mut self, at_most: Duration) -> Result<Loaded> {
        let file = self.results_file();
        let load = self.load.as_mut().context("no load")?;
        let begun = Instant::now();
        while load.status()?.is_none() {
            if begun.elapsed() > at_most {
                bail!("the load has not ended within {} s", at_most.as_secs());
            }
            std::thread::park_timeout(LOOK);
        }
        let text = fs::read_to_string(file);
        let text = text.with_context(|| load.quote("the load has left no results"))?;
        Loaded::parse(&text)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // After an upgrade it is no descendant of what was started here.
        if let Some(master) = self.pid_file().filter(|master| lives(*master)) {
            let _ = signal(master, Signal::TERM);
        }
    }
}

fn configuration(home: &Path, address: SocketAddr, origins: &[SocketAddr], tunnels: u64, descriptors: u64) -> String {
    let home = home.display();
    let connections_per_worker = (tunnels as f64 * UNEVEN / 2.0).ceil();
    let mut text = format!(
        "daemon off;\nworker_processes 2;\nworker_groups auto;\nworker_rlimit_nofile {descriptors};\npid {home}/pid;\n\
         error_log {home}/logs/error.log notice;\ndrain_rate 5000;\nworker_shutdown_timeout 100s;\n\
         events {{ worker_connections {connections_per_worker}; }}\n\
         http {{\n    access_log off;\n    server {{\n        listen {address} backlog=4096;\n        tunnel_timeout 1h;\n        \
         proxy_http_version 1.1;\n        proxy_set_header Upgrade $http_upgrade;\n        proxy_set_header Connection upgrade;\n",
    );
    for (room, origin) in origins.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "        location = /websocket/room/{room} {{ proxy_pass http://{origin}; }}");
    }
    text += "        location / { return 404; }\n    }\n}\n";
    text
}

/// The lines `340 tunnels were handed over to another process, paused for at most 4 ms (99 % of them: 2 ms)`.
fn handed_over(log: &str) -> Vec<HandedOver> {
    let number = |text: &str| text.trim_start().split(' ').next()?.parse().ok();
    let read = |line: &str| {
        let (before, after) = line.split_once(" tunnels were handed over to another process, paused for at most ")?;
        let (_, usual) = after.split_once("99 % of them:")?;
        let tunnels = before.rsplit(' ').next()?.parse().ok()?;
        Some(HandedOver { tunnels, p99_ms: number(usual)?, longest_ms: number(after)? })
    };
    log.lines().filter_map(read).collect()
}

/// An address that was free a moment ago.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

fn signal(process: u32, signal: Signal) -> Result<()> {
    let process = pid(process).context("there is no master")?;
    kill_process(process, signal).context("the master cannot be signalled")
}

/// A zombie has ended: only its parent has not asked for its status yet.
fn lives(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let is_zombie = status.lines().any(|line| line.starts_with("State:") && line.contains('Z'));
    !is_zombie && pid(process).is_some_and(|process| test_kill_process(process).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_that_were_handed_over_are_read_from_the_log() {
        let log = "[notice] 1#1: 9340 tunnels were handed over to another process, paused for at most 41 ms (99 % of them: 9 ms)\n\
                   [notice] 1#1: holdfast serves\n\
                   [notice] 2#2: 12 tunnels were handed over to another process, paused for at most 4 ms (99 % of them: 4 ms)\n";
        let all = handed_over(log);
        let found: Vec<_> = all.iter().map(|one| (one.tunnels, one.p99_ms, one.longest_ms)).collect();
        assert_eq!(found, [(9340, 9, 41), (12, 4, 4)]);
    }
}
