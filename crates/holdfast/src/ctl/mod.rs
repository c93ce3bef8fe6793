//! `holdfast ctl`: queries or changes a running instance over its control socket (`ctl_socket`). It sends the typed
//! request as one line of JSON and reads one JSON object. The master's side is `serve::ctl_socket`.

pub(crate) mod request;
mod text;
mod top;

use crate::exit;
use crate::instance::{Instance, Wanted};
use crate::output::print_on;
use crate::report::say;
use crate::verdict::{Lasting, prepare};
use request::{Answer, Request};
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The master answers within a minute, at least with an error.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(70);
/// A list has at most 10,000 rows of about 300 bytes; a status has one entry per group.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Show or change a running instance: status, peers, pools, connections, tunnels, caches, reload, log level
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration of the instance
    #[arg(short = 'c', long = "conf", value_name = "FILE", global = true)]
    conf: Option<PathBuf>,
    /// Prefix of the instance
    #[arg(short = 'p', long, value_name = "FOLDER", global = true)]
    prefix: Option<PathBuf>,
    /// Control socket of the instance, if the configuration cannot be read
    #[arg(long, value_name = "PATH", global = true)]
    socket: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    request: Request,
}

const EXAMPLES: &str = "\
Examples:
  holdfast ctl status
  holdfast ctl peers drain app 10.0.0.7:8080     no new sessions; its tunnels are closed one by one
  holdfast ctl peers up app 10.0.0.7:8080
  holdfast ctl peers weight app 10.0.0.7:8080 5
  holdfast ctl pools flush app                   close the idle upstream connections of a group
  holdfast ctl tunnels --client 10.1.0.0/16 --sort idle
  holdfast ctl tunnels --route /ws close-all
  holdfast ctl errors --follow
  holdfast ctl top
  holdfast ctl cache purge api 'https://app/img/*'
  holdfast ctl reload --dry-run                  what a reload would change";

/// Time between two questions for new error lines.
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> u8 {
    let done = match &args.request {
        Request::Top { interval, count } => top::run(args, *interval, *count),
        Request::Errors { follow: true, limit, .. } => follow_errors(args, *limit),
        request => {
            return match ask(args, request) {
                Ok(answer) => show(args, request, &answer).map_or_else(|problem| fail(&problem), |_| exit::OK),
                Err(problem) => fail(&problem),
            };
        }
    };
    done.map_or_else(|problem| fail(&problem), |()| exit::OK)
}

/// Prints an answer; whether the reader is still there.
fn show(args: &Args, request: &Request, answer: &Answer) -> Result<bool, String> {
    if let Some(error) = &answer.error {
        return Err(error.clone());
    }
    let shown = if args.json { answer.as_json() } else { text::render(request, &answer.result) };
    print_on(&shown)
}

/// Prints the last error lines, and then each new one.
fn follow_errors(args: &Args, limit: usize) -> Result<(), String> {
    let (mut after, mut limit) = (0, limit);
    loop {
        let request = Request::Errors { limit, follow: false, after };
        let answer = ask(args, &request)?;
        let lines = answer.result["errors"].as_array().map_or(&[][..], Vec::as_slice);
        if (answer.error.is_some() || !lines.is_empty()) && !show(args, &request, &answer)? {
            return Ok(());
        }
        after = lines.last().and_then(|line| line["number"].as_u64()).unwrap_or(after);
        limit = usize::MAX;
        std::thread::park_timeout(FOLLOW_PAUSE);
    }
}

fn fail(problem: &str) -> u8 {
    say(&format!("holdfast ctl: {problem}"));
    exit::FAILED
}

fn ask(args: &Args, request: &Request) -> Result<Answer, String> {
    let path = match &args.socket {
        Some(path) => path.clone(),
        None => socket_of(args.conf.as_deref(), args.prefix.as_deref())?,
    };
    let bytes = ask_at(&path, request)?;
    serde_json::from_slice(&bytes).map_err(|error| format!("the answer is not understood: {error}"))
}

/// Asks over a control socket; returns the answer as it came.
pub(crate) fn ask_at(path: &Path, request: &Request) -> Result<Vec<u8>, String> {
    let failed = |what: &str, error: &io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ": no instance listens there",
            io::ErrorKind::PermissionDenied => ": only root and the group of `ctl_socket` may use it",
            _ => "",
        };
        format!("{what} \"{}\" failed ({error}){hint}", path.display())
    };
    let mut stream = UnixStream::connect(path).map_err(|error| failed("connect() to", &error))?;
    let mut exchange = || {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(&request.encode())?;
        stream.shutdown(Shutdown::Write)?;
        let mut bytes = Vec::new();
        (&stream).take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    exchange().map_err(|error: io::Error| failed("no answer from", &error))
}

/// Path of the instance's control socket, by its configuration.
pub(crate) fn socket_of(conf: Option<&Path>, prefix: Option<&Path>) -> Result<PathBuf, String> {
    let (conf_path, prefix) = (conf.map(Path::to_owned), prefix.map(Path::to_owned));
    let instance = Instance::find(&Wanted { conf_path, prefix, ..Wanted::default() });
    let mut lasting = Lasting::without_workers().map_err(|error| error.to_string())?;
    let prepared = prepare(&instance, &mut instance.loader(), &mut lasting);
    let Some(process) = &prepared.process else {
        return Err(format!(
            "\"{}\" cannot be read, which says where the control socket is: name it with --socket",
            instance.conf_path.display()
        ));
    };
    let ctl = process.ctl.as_ref().ok_or("the configuration says `ctl_socket off`")?;
    if !process.master {
        return Err("the configuration says `master_process off`, and only a master has a control socket".to_owned());
    }
    Ok(ctl.path.clone())
}
