//! `cargo xtask bench conf`: the cost of reading a large configuration, compared with `nginx -t` on the same file.
//!
//! Each reading is a process, ours by starting this program again, so that both pay for their start and peak memory
//! belongs to one reading. The goals concern the reading itself (parse, check, lower), which our process measures
//! internally. The memory of a configuration in use belongs to the gateway and is not measured here.

use super::again::{Profile, run_optimised};
use super::machine::Machine;
use super::nginx::{nginx_main, nginx_only};
use super::results::{median, now_utc, spread, store};
use crate::peers;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result, bail};
use lab::stage::process::{Started, wait_without_reaping};
use lab::stage::usage::{Cpu, cpu_of_tree, peak_kib, rss_kib_of_tree};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Options of `cargo xtask bench conf`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Lines of the generated configuration, at least.
    #[arg(long, default_value_t = 100_000)]
    lines: usize,
    /// Interleaved readings by each.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Another nginx than the one that `cargo xtask peers` provides.
    #[arg(long)]
    nginx: Option<PathBuf>,
    /// Put the raw results into bench/results; otherwise target/bench.
    #[arg(long)]
    keep: bool,
}

/// Options of the reading that is measured.
#[derive(clap::Args)]
pub(super) struct ReadArgs {
    /// The configuration to read.
    file: PathBuf,
}

/// The program that reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arm {
    Holdfast,
    Nginx,
}

impl Arm {
    fn name(self) -> &'static str {
        match self {
            Arm::Holdfast => "holdfast",
            Arm::Nginx => "nginx",
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The goals, for 100,000 lines.
const GOAL_LINES: usize = 100_000;
const GOAL_READ_MS: f64 = 150.0;
const GOAL_BYTES_PER_BYTE: f64 = 20.0;

/// nginx needs about a second for 100,000 lines; if it hangs, the bench must end.
const READING_SECONDS_MAX: u64 = 120;

/// Time between two readings of a process's peak memory. The last peak may be missed, which favours that process.
const PEAK_LOOK: Duration = Duration::from_millis(1);

/// The measurements that our reading process prints.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
struct Phases {
    parse_ms: f64,
    check_ms: f64,
    lower_ms: f64,
    /// Resident memory before the file was read.
    rss_kib_before: u64,
    /// Peak of resident memory until everything was lowered.
    peak_kib: u64,
}

impl Phases {
    fn read_ms(&self) -> f64 {
        self.parse_ms + self.check_ms + self.lower_ms
    }
}

/// One reading.
#[derive(Serialize)]
struct Sample {
    arm: &'static str,
    /// Counted from 0.
    round: u64,
    /// From the start to the end of the process.
    wall_ms: f64,
    cpu_ms_user: f64,
    cpu_ms_system: f64,
    peak_kib: u64,
    /// Ours only.
    phases: Option<Phases>,
}

#[derive(Serialize)]
struct Results {
    experiment: &'static str,
    /// UTC.
    date: String,
    machine: Machine,
    lines: usize,
    bytes: usize,
    rounds: u64,
    samples: Vec<Sample>,
}

/// Runs the experiment.
pub(super) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if cfg!(debug_assertions) {
        return run_optimised(workspace, Profile::Dist);
    }
    let bin = peers::provide(workspace)?;
    let nginx = args.nginx.clone().unwrap_or_else(|| bin.join("nginx"));
    let home = workspace.target("bench");
    fs::create_dir_all(&home)?;
    let text = generate(&home, Arm::Holdfast, args.lines);
    for arm in [Arm::Holdfast, Arm::Nginx] {
        fs::write(large_file(&home, arm), generate(&home, arm, args.lines))?;
    }
    let mut results = Results {
        experiment: "conf",
        date: now_utc(),
        machine: Machine::describe(workspace, std::slice::from_ref(&nginx)),
        lines: text.lines().count(),
        bytes: text.len(),
        rounds: args.rounds,
        samples: Vec::new(),
    };
    println!("{}\n\n{} lines, {} bytes, {} rounds", results.machine.sentence(), results.lines, text.len(), args.rounds);
    for round in 0..args.rounds {
        let mut order = [Arm::Holdfast, Arm::Nginx];
        order.rotate_left((round % 2) as usize);
        for arm in order {
            results.samples.push(sample(arm, round, &nginx, &home)?);
        }
    }
    print!("{}", results.markdown());
    let file = store(workspace, args.keep, (results.experiment, &results.date), &results)?;
    println!("\nraw results: {}", file.display());
    Ok(())
}

fn large_file(home: &Path, arm: Arm) -> PathBuf {
    home.join(format!("large-{arm}.conf"))
}

fn sample(arm: Arm, round: u64, nginx: &Path, home: &Path) -> Result<Sample> {
    let file = large_file(home, arm);
    let mut command = if arm == Arm::Nginx {
        let mut command = Command::new(nginx);
        command.arg("-t").arg("-p").arg(home).arg("-e").arg("stderr").arg("-c").arg(&file);
        command
    } else {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "conf-read"]).arg(&file);
        command
    };
    let output = home.join(format!("conf-{arm}.out"));
    let begun = Instant::now();
    let mut process = Started::new(arm.name(), &mut command, output.clone())?;
    let mut peak = 0;
    // A zombie still has its times but no memory, so memory is read while the process runs.
    while !wait_without_reaping(process.id())? {
        peak = peak_kib(process.id()).max(peak);
        if begun.elapsed() > Duration::from_secs(READING_SECONDS_MAX) {
            bail!("{arm} did not end within {READING_SECONDS_MAX} s");
        }
        std::thread::park_timeout(PEAK_LOOK);
    }
    let wall = begun.elapsed();
    let (user, system) = cpu_of_tree(process.id()).since(Cpu::default());
    process.wait()?;
    let phases: Option<Phases> = if arm == Arm::Holdfast {
        let said = fs::read_to_string(&output)?;
        Some(serde_json::from_str(&said).with_context(|| format!("the reading said {said:?}"))?)
    } else {
        None
    };
    Ok(Sample {
        arm: arm.name(),
        round,
        wall_ms: wall.as_secs_f64() * 1e3,
        cpu_ms_user: user / 1e3,
        cpu_ms_system: system / 1e3,
        peak_kib: phases.map_or(peak, |phases| phases.peak_kib),
        phases,
    })
}

/// The file system without changes.
struct Disk;

impl ::conf::Loader for Disk {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn glob(&mut self, _mask: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new()) // the generated file includes nothing
    }
}

/// The measured process: reads the file once and prints its [`Phases`].
pub(super) fn read(args: &ReadArgs) -> Result<()> {
    let own = std::process::id();
    let rss_kib_before = rss_kib_of_tree(own);
    let begun = Instant::now();
    let prefix = args.file.parent().context("the file is in a folder")?;
    let loaded = ::conf::load(&args.file, prefix, None, &mut Disk);
    let parsed = begun.elapsed();
    let mut found = loaded.diagnostics.clone();
    found.extend(::conf::check(&loaded, ::conf::table::all()));
    let checked = begun.elapsed();
    let (model, more) = ::conf::model::lower(&loaded.tree, &loaded.sources);
    let lowered = begun.elapsed();
    found.extend(more);
    if let Some(error) = found.iter().find(|found| found.severity == ::conf::diagnostic::Severity::Error) {
        bail!("{}", ::conf::verdict::log_line(error, &loaded.sources));
    }
    // Everything lives until here, so that nothing is freed early.
    let servers = model.http.as_ref().map_or(0, |http| http.servers.len());
    if servers == 0 {
        bail!("the model has no server");
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let phases = Phases {
        parse_ms: ms(parsed),
        check_ms: ms(checked.saturating_sub(parsed)),
        lower_ms: ms(lowered.saturating_sub(checked)),
        rss_kib_before,
        peak_kib: peak_kib(own),
    };
    println!("{}", serde_json::to_string(&phases)?);
    Ok(())
}

/// A configuration like that of a large hosting machine: many servers with their upstream, locations and header rules.
/// Both programs know every directive; only nginx gets the paths of its temporary folders.
fn generate(home: &Path, arm: Arm, lines: usize) -> String {
    let mut text = nginx_main(home, "large", 1);
    text += "http {\n";
    if arm == Arm::Nginx {
        text += &nginx_only(home);
    }
    text += "    access_log off;\n    server_names_hash_max_size 131072;\n    server_names_hash_bucket_size 256;\n\
             \n    log_format timed '$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent '\n        \
             '\"$http_referer\" \"$http_user_agent\" $request_time $upstream_response_time';\n";
    let mut written = text.lines().count();
    for site in 0.. {
        if written + 1 >= lines {
            break;
        }
        let block = site_block(site);
        written += block.lines().count();
        text += &block;
    }
    text + "}\n"
}

fn site_block(site: usize) -> String {
    let mut text = String::new();
    let _ = write!(
        text,
        "
    # site {site}
    upstream app{site} {{
        server 127.0.0.1:{port} weight=3 max_fails=2 fail_timeout=15s;
        server 127.0.0.2:{port};
        server 127.0.0.3:{port} backup;
        keepalive 32;
    }}
    server {{
        listen unix:large.sock;
        server_name site{site}.example.com *.site{site}.example.org;
        root \"/srv/sites/{site}/public\";
        client_max_body_size 16m;
        error_page 500 502 503 504 /50x.html;

        location / {{
            proxy_pass http://app{site};
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            proxy_set_header Host $host;
            proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_read_timeout 30s;
        }}
        location /api/v{version}/ {{
            proxy_pass http://app{site}/internal/;
            proxy_set_header X-Site \"site-{site}; ${{request_method}}\";
            proxy_redirect http://app{site}/ /api/;
            proxy_next_upstream error timeout http_502;
            proxy_buffers 16 8k;
        }}
        location = /healthz {{
            default_type text/plain;
            return 200 \"site {site} on $hostname\\n\";
        }}
        location ~* \\.(?:css|js|png|svg|woff2)$ {{
            sendfile on;
            tcp_nopush on;
        }}
        location /old/ {{
            return 301 https://site{site}.example.com$request_uri;
        }}
        location /ws/ {{
            proxy_pass http://app{site};
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection \"upgrade\";
            proxy_read_timeout 1h;
        }}
    }}
",
        port = 10_000 + site % 50_000,
        version = site % 5,
    );
    text
}

impl Results {
    fn markdown(&self) -> String {
        let mut text = format!("\n### median [min–max] of {} readings\n\n", self.rounds);
        text += "| arm | process wall ms | CPU ms | user | system | peak memory KiB | peak / text |\n|---|---|---|---|---|---|---|\n";
        for arm in [Arm::Holdfast, Arm::Nginx] {
            let of = |value: fn(&Sample) -> f64| self.column(arm, value);
            let _ = writeln!(
                text,
                "| {arm} | {} | {} | {} | {} | {} | {:.1} |",
                spread(&of(|s| s.wall_ms), 1),
                spread(&of(|s| s.cpu_ms_user + s.cpu_ms_system), 1),
                spread(&of(|s| s.cpu_ms_user), 1),
                spread(&of(|s| s.cpu_ms_system), 1),
                spread(&of(|s| s.peak_kib as f64), 0),
                self.peak_ratio(arm),
            );
        }
        text += "\nOurs, inside its process:\n\n";
        let phases = |value: fn(&Phases) -> f64| -> Vec<f64> {
            self.samples.iter().filter_map(|sample| sample.phases.as_ref()).map(value).collect()
        };
        for (name, value) in [
            ("parse", (|p| p.parse_ms) as fn(&Phases) -> f64),
            ("check", |p| p.check_ms),
            ("lower", |p| p.lower_ms),
            ("all three", Phases::read_ms),
        ] {
            let _ = writeln!(text, "* {name}: {} ms", spread(&phases(value), 1));
        }
        text.push('\n');
        if self.lines < GOAL_LINES {
            return text + "The goals are for 100,000 lines; this was a shorter text.\n";
        }
        let read_ms = median(&phases(Phases::read_ms));
        text += &goal("parse, check and lower", read_ms, GOAL_READ_MS, "ms");
        text + &goal("peak memory", self.peak_ratio(Arm::Holdfast), GOAL_BYTES_PER_BYTE, "times its text")
    }

    fn column(&self, arm: Arm, value: fn(&Sample) -> f64) -> Vec<f64> {
        self.samples.iter().filter(|sample| sample.arm == arm.name()).map(value).collect()
    }

    /// Peak memory of the whole process, in bytes per byte of text; the worst reading counts.
    fn peak_ratio(&self, arm: Arm) -> f64 {
        let peak = self.column(arm, |s| s.peak_kib as f64).into_iter().fold(0.0, f64::max);
        peak * 1024.0 / self.bytes as f64
    }
}

fn goal(what: &str, value: f64, below: f64, unit: &str) -> String {
    let verdict = if value < below { "met" } else { "MISSED" };
    format!("* goal {verdict}: {what} {value:.1} {unit}, to be below {below} {unit}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_text_has_the_requested_length_and_passes() {
        let folder = tempfile::tempdir().unwrap();
        let text = generate(folder.path(), Arm::Holdfast, 500);
        assert!((500..600).contains(&text.lines().count()), "{} lines", text.lines().count());
        let file = folder.path().join("large.conf");
        fs::write(&file, text).unwrap();
        read(&ReadArgs { file }).unwrap();
    }

    #[test]
    fn a_goal_is_met_below_its_bound_only() {
        assert!(goal("x", 149.9, 150.0, "ms").contains("met"));
        assert!(goal("x", 150.0, 150.0, "ms").contains("MISSED"));
        assert!(goal("x", f64::NAN, 150.0, "ms").contains("MISSED"));
    }
}
