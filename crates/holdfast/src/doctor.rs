//! `holdfast doctor`: reads a configuration, this system's settings and an error log, and prints what will hurt and why. The
//! rules are `doctor`'s.

use crate::exit;
use crate::files::Files;
use crate::output::{Output, print};
use ::doctor::log::Log;
use ::doctor::{Configuration, Dialect, Facts, facts as known, rules, system};
use clap::ValueEnum;
use report::{Document, Finding, Section, Severity};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// Find what is wrong with a configuration on this system, and why an error log has the 502s and 504s it has.
///
/// Works beside any nginx: nothing is changed and nothing is sent. Each finding says why it hurts, how one can tell, what to
/// paste, what that costs, and how to take it back.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Exit codes: 0 nothing, or notes; 3 warnings; 4 errors; 1 it could not look; 2 the command line."
)]
pub(crate) struct Args {
    /// The configuration.
    #[arg(short = 'c', long, value_name = "FILE", required_unless_present_any = ["log", "sysctl"])]
    conf: Option<PathBuf>,
    /// Whose defaults apply.
    #[arg(long, value_enum, default_value_t = Target::Holdfast)]
    target: Target,
    /// An error log of nginx or Holdfast.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// A sysctl file to look through, such as /etc/sysctl.conf. May be given several times.
    #[arg(long, value_name = "FILE")]
    sysctl: Vec<PathBuf>,
    /// The running server, whose limits count instead of those of this shell.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// How often each tunnel carries something at least, in seconds.
    #[arg(long, value_name = "SECONDS")]
    heartbeat: Option<u64>,
    /// Print SARIF 2.1.0 instead, for CI.
    #[arg(long, conflicts_with = "json")]
    sarif: bool,
    #[command(flatten)]
    output: Output,
}

/// As typed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Target {
    /// nginx before 1.29.7, such as Debian 12's.
    #[value(name = "nginx-1.22")]
    Nginx1_22,
    /// nginx since 1.29.7.
    #[value(name = "nginx-1.31")]
    Nginx1_31,
    /// Holdfast.
    Holdfast,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> u8 {
    match answer(args) {
        Ok(worst) => match worst {
            Some(Severity::Error) => exit::ERRORS,
            Some(Severity::Warning) => exit::WARNINGS,
            Some(Severity::Note) | None => exit::OK,
        },
        Err(message) => {
            crate::report::say(message.trim_end());
            exit::FAILED
        }
    }
}

fn answer(args: &Args) -> Result<Option<Severity>, String> {
    let mut facts = Facts { heartbeat_seconds: args.heartbeat, ..Facts::default() };
    facts.dialect = match args.target {
        Target::Nginx1_22 => Dialect::Nginx1_22,
        Target::Nginx1_31 => Dialect::Nginx1_31,
        Target::Holdfast => Dialect::Holdfast,
    };
    facts.system = system::read(args.pid).map_err(|error| named(&error))?;
    facts.configuration = args.conf.as_deref().map(configuration).transpose()?;
    for path in &args.sysctl {
        let text = std::fs::read_to_string(path).map_err(|error| at(path, &error))?;
        facts.settings.extend(known::parse_settings(&path.to_string_lossy(), &text));
    }
    let findings = rules::examine(&facts);
    let log = args.log.as_deref().map(read_log).transpose()?;
    let worst = |findings: &[Finding]| findings.iter().map(|finding| finding.severity).max();
    let mut severity = worst(&findings);
    let made_by = format!("holdfast doctor {}", env!("CARGO_PKG_VERSION"));
    let mut document = rules::document(&facts, findings, &made_by);
    if let (Some(log), Some(path)) = (log, &args.log) {
        let found = log.findings(&path.to_string_lossy(), &facts);
        severity = severity.max(worst(&found));
        document = document.section(log_section(&log, found));
    }
    emit(args, &document)?;
    Ok(severity)
}

fn log_section(log: &Log, found: Vec<Finding>) -> Section {
    let (lines, others) = log.lines();
    let text = format!("{lines} lines, of which {others} name no cause of 502 or 504 that is known here.");
    let section = Section::new("Why these errors").note(Severity::Note, text);
    found.into_iter().fold(section, Section::finding)
}

fn emit(args: &Args, document: &Document) -> Result<(), String> {
    if args.sarif {
        args.output.write_page(document).map_err(|error| named(&error))?;
        return print(&report::sarif::render(document)).map_err(|error| named(&error));
    }
    args.output.emit(document).map_err(|error| named(&error))
}

/// The parser's own diagnostics are the answer where the text cannot be parsed.
fn configuration(path: &Path) -> Result<Configuration, String> {
    // Without a prefix, places are named as the file was typed, which is what CI matches with its own.
    let loaded = conf::load(path, Path::new(""), None, &mut Files::default());
    if loaded.is_ok() {
        return Ok(Configuration::new(loaded));
    }
    Err(loaded.diagnostics.iter().map(|diagnostic| diagnostic.render(&loaded.sources, false)).collect())
}

/// Line by line; a line without an end is cut, so that no log takes memory.
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
