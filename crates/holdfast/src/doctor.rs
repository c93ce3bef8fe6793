//! `holdfast doctor`: reads a configuration, this system's settings and an error log, and prints what will go wrong and
//! why. The rules are in the crate `doctor`.

mod diff;
pub(crate) mod target;

use crate::exit;
use crate::files::Files;
use crate::output::{Output, print};
use crate::typed::{count, rate, seconds};
use ::doctor::log::Log;
use ::doctor::{
    Configuration, Dialect, Expected, Facts, GoTransport, certificates, configuration as words, facts as known, group,
    live, rules, system,
};
use report::{Document, Finding, Section, Severity};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// Find problems of a configuration on this system, and the causes of 502s and 504s in an error log.
///
/// Works beside any nginx; changes nothing and sends nothing. Each finding has the reason, the evidence, a fix to paste, its side
/// effect, and how to undo it.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit codes: 0 no findings, or notes only; 3 warnings or errors; 1 a file or the server cannot be read; 2 wrong command line."
)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// The configuration.
    #[arg(short = 'c', long, value_name = "FILE", required_unless_present_any = ["log", "sysctl", "pid", "go_transport"])]
    conf: Option<PathBuf>,
    /// The program that reads the configuration, such as nginx-1.26 or holdfast. Default: the running server, the nginx on the PATH, or nginx
    /// 1.26. The report's first line says which.
    #[arg(long, value_name = "PROGRAM")]
    target: Option<Dialect>,
    /// An error log of nginx or Holdfast.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// A sysctl file to look through, such as /etc/sysctl.conf. May be given several times.
    #[arg(long, value_name = "FILE")]
    sysctl: Vec<PathBuf>,
    /// The running server, whose limits and sockets are read. Default: the one in the configuration's pid file.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    #[command(flatten)]
    load: Load,
    /// Print the findings for a CI system: SARIF 2.1.0, or commands of a GitHub workflow.
    #[arg(long, value_enum, conflicts_with = "json")]
    format: Option<Format>,
    /// The same as --format sarif.
    #[arg(long, conflicts_with_all = ["json", "format"])]
    sarif: bool,
    /// Lowest severity that gives exit code 3.
    #[arg(long, value_name = "SEVERITY", value_enum, default_value = "warning")]
    fail_on: FailOn,
    #[command(flatten)]
    output: Output,
}

/// From where on a finding is a no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// Every finding
    Note,
    /// Warnings and errors
    Warning,
    /// Only errors
    Error,
}

impl FailOn {
    fn least(self) -> Severity {
        match self {
            Self::Note => Severity::Note,
            Self::Warning => Severity::Warning,
            Self::Error => Severity::Error,
        }
    }
}

/// What else the doctor does.
#[derive(Debug, clap::Subcommand)]
enum Action {
    Diff(diff::Args),
}

/// Forms that CI systems read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// SARIF 2.1.0.
    Sarif,
    /// Commands of a GitHub workflow, one for each finding.
    Github,
}

/// What the operator knows of load and peers, and no file says.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Expected load (rules that need a value are silent without it)")]
struct Load {
    /// Longest time without data on a tunnel, such as 30s.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    heartbeat: Option<u64>,
    /// Requests through the gateway, such as 2,000/s.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// Requests in flight at once towards each upstream group.
    #[arg(long, value_name = "N", value_parser = count)]
    concurrency: Option<u64>,
    /// Connections of clients held at once.
    #[arg(long, value_name = "N", value_parser = count)]
    connections: Option<u64>,
    /// After what time the peers close idle connections, such as 75s.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    peer_idle: Option<u64>,
    /// How many connections each peer accepts.
    #[arg(long, value_name = "N", value_parser = count)]
    peer_connections: Option<u64>,
    /// The limits of a gateway in Go, as in MaxIdleConns=100,MaxIdleConnsPerHost=200,hosts=1.
    #[arg(long, value_name = "FIELD=VALUE,…")]
    go_transport: Option<GoTransport>,
}

impl Load {
    fn expected(&self) -> Expected {
        Expected {
            heartbeat_seconds: self.heartbeat,
            requests_per_second: self.rate,
            concurrency: self.concurrency,
            connections: self.connections,
            peer_idle_seconds: self.peer_idle,
            peer_connections_max: self.peer_connections,
            go_transport: self.go_transport,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> u8 {
    if let Some(Action::Diff(args)) = &args.action {
        return diff::run(args);
    }
    match answer(args) {
        Ok(worst) if worst.is_some_and(|worst| worst >= args.fail_on.least()) => exit::NO,
        Ok(_) => exit::OK,
        Err(message) => {
            crate::report::say(message.trim_end());
            exit::FAILED
        }
    }
}

fn answer(args: &Args) -> Result<Option<Severity>, String> {
    let mut facts = Facts { expected: args.load.expected(), ..Facts::default() };
    facts.configuration = args.conf.as_deref().map(configuration).transpose()?;
    let now = i64::try_from(reactor::wall_clock().as_secs()).unwrap_or(i64::MAX);
    facts.certificates =
        facts.configuration.as_ref().map_or_else(Vec::new, |configuration| certificates::read(configuration, now));
    let running = match args.pid {
        Some(pid) => Ok(Some(pid)),
        None => configured_pid(facts.configuration.as_ref()),
    };
    let pid = running.as_ref().ok().copied().flatten();
    let target = target::find(args.target, facts.configuration.as_ref(), pid);
    facts.dialect = target.dialect;
    facts.system = system::read(pid).map_err(|error| named(&error))?;
    let sockets = match running {
        Ok(Some(pid)) => sockets(pid, &mut facts),
        Ok(None) => Err(NOT_LOOKED_AT.to_owned()),
        Err(reason) => Err(reason),
    };
    for path in &args.sysctl {
        let text = std::fs::read_to_string(path).map_err(|error| at(path, &error))?;
        facts.settings.extend(known::parse_settings(&path.to_string_lossy(), &text));
    }
    let findings = rules::examine(&facts);
    let log = args.log.as_deref().map(read_log).transpose()?;
    let worst = |findings: &[Finding]| findings.iter().map(|finding| finding.severity).max();
    let mut severity = worst(&findings);
    let made_by = format!("holdfast doctor {}", env!("CARGO_PKG_VERSION"));
    // Without a configuration no program's defaults apply.
    let title = if args.conf.is_some() { format!("Doctor: {}", target.sentence()) } else { "Doctor".to_owned() };
    let mut document =
        rules::document(&facts, findings, &title, &made_by).fact("sockets", sockets.unwrap_or_else(|reason| reason));
    if let (Some(log), Some(path)) = (log, &args.log) {
        let found = log.findings(&path.to_string_lossy(), &facts);
        severity = severity.max(worst(&found));
        document = document.section(log_section(&log, found));
    }
    emit(args, &document)?;
    Ok(severity)
}

const NOT_LOOKED_AT: &str = "not looked at: give --pid, or a configuration whose pid file names a running server";

/// The server in the configuration's pid file; `None` without such a directive or file. An error says why the server's
/// process cannot be read.
fn configured_pid(configuration: Option<&Configuration>) -> Result<Option<u32>, String> {
    let file = configuration.and_then(|configuration| words::argument(configuration.main("pid")?, 0));
    // A relative path depends on a prefix that only the server knows.
    let Some(file) = file.filter(|file| file.starts_with('/')) else { return Ok(None) };
    let Ok(text) = std::fs::read_to_string(&file) else { return Ok(None) };
    let Ok(pid) = text.trim().parse::<u32>() else { return Err(format!("not looked at: {file} names no process")) };
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) if name.contains("nginx") || name.contains("holdfast") => Ok(Some(pid)),
        Ok(name) => Err(format!("not looked at: {file} names process {pid}, which is {}", name.trim())),
        Err(_) => Err(format!("not looked at: {file} names process {pid}, which is gone")),
    }
}

/// Reads the server's sockets and returns a line that names them. A failure is no error, because the other facts stay
/// valid.
fn sockets(pid: u32, facts: &mut Facts) -> Result<String, String> {
    let groups = facts.configuration.as_ref().map(group::groups).unwrap_or_default();
    let peers: Vec<_> = groups.iter().flat_map(group::Group::addresses).collect();
    let seen = live::look(pid, &peers).map_err(|reason| format!("not looked at: {reason}"))?;
    let source = seen.source.clone();
    facts.live = Some(seen);
    Ok(source)
}

fn log_section(log: &Log, found: Vec<Finding>) -> Section {
    let (lines, others) = log.lines();
    let text = format!("{lines} lines, {others} of them without a known cause of 502 or 504.");
    let section = Section::new("Why these errors").note(Severity::Note, text);
    found.into_iter().fold(section, Section::finding)
}

fn emit(args: &Args, document: &Document) -> Result<(), String> {
    let text = match args.format {
        Some(Format::Github) => report::github::render(document),
        Some(Format::Sarif) => report::sarif::render(document),
        None if args.sarif => report::sarif::render(document),
        None => return args.output.emit(document).map_err(|error| named(&error)),
    };
    args.output.write_files(document).map_err(|error| named(&error))?;
    print(&text).map_err(|error| named(&error))
}

/// If the text cannot be parsed, the parser's diagnostics are the result.
fn configuration(path: &Path) -> Result<Configuration, String> {
    // Without a prefix, places have the file name as typed, which CI systems can match.
    let loaded = conf::load(path, Path::new(""), None, &mut Files::default());
    if loaded.is_ok() {
        return Ok(Configuration::new(loaded));
    }
    Err(loaded.diagnostics.iter().map(|diagnostic| diagnostic.render(&loaded.sources, false)).collect())
}

/// Reads line by line. Lines are cut at a limit, so a log without line ends takes no memory.
fn read_log(path: &Path) -> Result<Log, String> {
    const LINE_BYTES_MAX: u64 = 1 << 16;
    let mut reader = BufReader::new(File::open(path).map_err(|error| at(path, &error))?);
    let (mut log, mut line) = (Log::default(), Vec::new());
    loop {
        line.clear();
        let read =
            reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(|error| at(path, &error))?;
        if read == 0 {
            return Ok(log);
        }
        log.read_line(line.trim_ascii_end());
    }
}

fn at(path: &Path, error: &std::io::Error) -> String {
    named(&format!("{}: {error}", path.display()))
}

fn named(message: &str) -> String {
    format!("holdfast doctor: {message}")
}
