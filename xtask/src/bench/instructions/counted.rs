//! Runs a proxy under callgrind and counts the cost of its requests. It counts n and 2n requests over new connections,
//! and divides the difference by n. This removes the cost of connections and timers, which is in both counts.

use super::case::Case;
use crate::workspace::output_of;
use anyhow::{Context as _, Result, bail};
use lab::stage::process::Started;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const CONNECTIONS: u64 = 30;
/// callgrind makes a program fifty times slower, and the machine may be busy at the start.
const READY_TIME_MAX: Duration = Duration::from_mins(2);

/// Bytes of the page that the origin sends and of the one on disk.
const PAGE_BYTES: usize = 612;
const UPLOAD_BYTES: usize = 64 * 1024;
/// Messages through tunnels in a second: a fraction of what a program under callgrind can pass on.
const MESSAGES_PER_SECOND: u64 = 500;
/// The simulated caches, so that counts do not depend on the machine: 32 KB for instructions and data each, and 8 MB as
/// the last level.
const CACHES: [&str; 4] = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"];

/// The cost of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) instructions: u64,
    /// Misses of the first-level caches, for instructions and data.
    pub(super) misses: u64,
}

impl Counts {
    /// The one with fewer instructions.
    pub(super) fn cheaper(self, other: Self) -> Self {
        if other.instructions < self.instructions { other } else { self }
    }
}

/// A proxy under callgrind in front of an origin.
pub(super) struct Proxy {
    holdfast: PathBuf,
    home: PathBuf,
    port: u16,
    valgrind: Started,
    _origin: Started,
}

impl Proxy {
    pub(super) fn start(holdfast: &Path, home: &Path, case: &Case) -> Result<Self> {
        let home = home.join(case.name);
        if home.exists() {
            fs::remove_dir_all(&home)?;
        }
        fs::create_dir_all(&home)?;
        fs::write(home.join("page"), "x".repeat(PAGE_BYTES))?;
        fs::write(home.join("upload"), "x".repeat(UPLOAD_BYTES))?;
        let (port, origin_port) = (free_port()?, free_port()?);
        let mut origin = Command::new(holdfast);
        origin.args(["origin", "--listen", &format!("127.0.0.1:{origin_port}"), "--size", &PAGE_BYTES.to_string()]);
        let mut origin = Started::new("holdfast origin", &mut origin, home.join("origin.out"))?;
        origin.wait_ready(|| TcpStream::connect(("127.0.0.1", origin_port)).is_ok())?;
        fs::write(home.join("pair.pem"), include_bytes!("../../../../bench/tls/pair.pem"))?;
        fs::write(home.join("proxy.conf"), conf(case, &home, port, origin_port))?;
        let mut command = Command::new("valgrind");
        command.arg("--tool=callgrind").args(CACHES).arg(format!("--callgrind-out-file={}/counted", home.display()));
        command.arg(holdfast).arg("-p").arg(&home).arg("-e").arg("stderr").arg("-c").arg(home.join("proxy.conf"));
        let mut valgrind = Started::new("holdfast under callgrind", &mut command, home.join("proxy.out"))?;
        valgrind.wait_ready_within(READY_TIME_MAX, || Ok(TcpStream::connect(("127.0.0.1", port)).is_ok()))?;
        Ok(Self { holdfast: holdfast.to_owned(), home, port, valgrind, _origin: origin })
    }

    /// The cost of one request of the case.
    pub(super) fn count(&mut self, case: &Case, requests: u64) -> Result<Counts> {
        self.load(case, requests / 2)?;
        self.monitor("zero")?;
        let once = self.counted(case, requests)?;
        let twice = self.counted(case, 2 * requests)?;
        let count = twice.0.saturating_sub(once.0).max(1);
        let each = |of: fn(&Counts) -> u64| of(&twice.1).saturating_sub(of(&once.1)) / count;
        Ok(Counts { instructions: each(|counts| counts.instructions), misses: each(|counts| counts.misses) })
    }

    /// The number of requests or messages, and their counts together with those of the connections.
    fn counted(&mut self, case: &Case, requests: u64) -> Result<(u64, Counts)> {
        let before = self.dumps()?;
        let count = self.load(case, requests)?;
        self.monitor("dump")?;
        let fresh = self.dumps()?.into_iter().find(|dump| !before.contains(dump));
        let dump = fresh.context("callgrind has written nothing")?;
        let counts = totals(&fs::read_to_string(&dump)?);
        Ok((count, counts.with_context(|| format!("what callgrind wrote into {}", dump.display()))?))
    }

    /// Sends this many requests, or messages for about as many, and returns their number.
    fn load(&self, case: &Case, requests: u64) -> Result<u64> {
        let url = format!("{}://127.0.0.1:{}/page", case.scheme, self.port);
        let mut load = Command::new(&self.holdfast);
        load.current_dir(&self.home).args(["load", &url, "--connections", &CONNECTIONS.to_string()]);
        load.args(["--threads", "1", "--processes", "1", "--no-sockets", "--no-plan"]).args(case.load);
        if !case.is_websocket() {
            load.args(["--requests", &requests.to_string(), "--timeout", "60s", "--expect", "errors<1"]);
            return output_of(&mut load).map(|_| requests);
        }
        // Each connection is a room of its own, so that a message comes back to its sender only.
        load.args(["--rooms", &CONNECTIONS.to_string(), "--rate", &format!("{MESSAGES_PER_SECOND}/s")]);
        load.args(["--duration", &format!("{}ms", requests * 1000 / MESSAGES_PER_SECOND), "--json", "-"]);
        load.args(["--expect", "lost=0", "--expect", "failed=0", "--allow-lag"]);
        let report = output_of(&mut load)?;
        let report: serde_json::Value = serde_json::from_str(&report).context("the report of holdfast load")?;
        report["delivered"].as_u64().context("`delivered` is missing in the report of holdfast load")
    }

    /// Sends callgrind a command.
    fn monitor(&self, word: &str) -> Result<()> {
        output_of(Command::new("vgdb").arg(format!("--pid={}", self.valgrind.id())).arg(word)).map(drop)
    }

    /// The files written by callgrind.
    fn dumps(&self) -> Result<Vec<PathBuf>> {
        let mut dumps = Vec::new();
        for entry in fs::read_dir(&self.home)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("counted.") {
                dumps.push(entry.path());
            }
        }
        Ok(dumps)
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn conf(case: &Case, home: &Path, port: u16, origin_port: u16) -> String {
    let (tls, pair) = if case.scheme == "https" {
        (" ssl", "        ssl_certificate pair.pem;\n        ssl_certificate_key pair.pem;\n")
    } else {
        ("", "")
    };
    let http2 = if case.is_http2() { "        http2 on;\n" } else { "" };
    let location = case.location.replace("alias page", &format!("alias {}/page", home.display()));
    format!(
        "daemon off;\nmaster_process off;\nuser root;\npid proxy.pid;\nworker_processes 1;\nevents {{\n    worker_connections 1024;\n}}\nhttp {{\n    \
         access_log off;\n    keepalive_requests 1000000000;\n    upstream pages {{\n        server 127.0.0.1:{origin_port};\n        \
         keepalive 64;\n        keepalive_requests 1000000000;\n    }}\n    server {{\n        listen 127.0.0.1:{port}{tls};\n{pair}{http2}        \
         proxy_http_version 1.1;\n        proxy_set_header Connection \"\";\n        location = /page {{\n            {location}\n        }}\n    \
         }}\n}}\n"
    )
}

/// The totals in a file of callgrind: the line `events:` names the numbers of `totals:` or `summary:`.
fn totals(text: &str) -> Result<Counts> {
    let line = |word: &str| text.lines().find_map(|line| line.strip_prefix(word));
    let events = line("events:").context("no line `events:`")?;
    let sums = line("totals:").or_else(|| line("summary:")).context("no line `totals:`")?;
    let sums: Vec<u64> = sums.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let of = |name: &str| events.split_whitespace().zip(&sums).find(|(event, _)| *event == name).map(|(_, sum)| *sum);
    let Some(instructions) = of("Ir") else { bail!("no event Ir in `{events}`") };
    let misses = ["I1mr", "D1mr", "D1mw"].into_iter().filter_map(of).sum();
    Ok(Counts { instructions, misses })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_read_by_the_names_of_its_events() {
        let text = "# callgrind format\nevents: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\nfn=(1) main\n1 5\ntotals: 1000 9 8 7 6 5 4 3 2\n";
        assert_eq!(totals(text).unwrap(), Counts { instructions: 1000, misses: 18 });
        let short = totals("events: Ir\ntotals: 12\n").unwrap();
        assert_eq!(short, Counts { instructions: 12, misses: 0 });
        assert!(totals("events: Dr\ntotals: 12\n").is_err());
        assert!(totals("totals: 12\n").is_err());
    }
}
