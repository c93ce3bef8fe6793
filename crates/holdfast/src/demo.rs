//! `holdfast demo`: the shortest way to see what the product does. It is `lab run pool-throughput --quick`, run by the
//! same code, with a live view, a time limit, and its figures in words (`lab::demo`). It is not a benchmark; `cargo
//! xtask bench` is. `Args` is a subcommand of `command`.

mod live;
mod screen;

use crate::lab::began::Began;
use crate::lab::prepared::{self, PreparedRun, WantedRun};
use crate::lab::progress::Progress;
use crate::lab::{load, printable};
use crate::output::{self, Output};
use crate::typed::{count, seconds, small};
use crate::{exit, report};
use ::lab::demo::{self, Pace};
use ::lab::judge::judge;
use ::lab::stage::{Event, Stop};
use ::lab::{Adaptation, Loaded, Record};
use screen::Screen;
use stats::verdict::ROUNDS_MIN;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use terminal::Terminal;

/// Part of the time limit that is reserved for judging and printing.
const REPORT_TIME: Duration = Duration::from_secs(1);

/// Measure what a proxy costs, without and with a connection pool
///
/// Starts an origin, and nginx and Holdfast in front of it, without and with a pool of upstream connections. Loads each in turn,
/// round by round, and prints requests/s, CPU per request, connections and sockets. Needs no configuration and no privileges.
/// Programs that are not installed are listed as absent. It is the experiment `pool-throughput` in its quick form.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXIT_CODES)]
pub(crate) struct Args {
    /// Time limit: no round starts that would end later. Fewer than 6 rounds give values, but no verdicts
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = demo_seconds)]
    seconds: u32,
    /// Maximum number of rounds, instead of the experiment's
    #[arg(long, value_name = "N", value_parser = small)]
    rounds: Option<u32>,
    /// Requests per sample, instead of the experiment's
    #[arg(long, value_name = "N", value_parser = demo_requests)]
    requests: Option<u64>,
    /// Print progress as lines on standard error instead of the live view
    #[arg(long)]
    plain: bool,
    /// Nothing but the report
    #[arg(short, long, conflicts_with = "plain")]
    quiet: bool,
    /// Use this machine's loopback instead of network namespaces
    #[arg(long)]
    loopback: bool,
    #[command(flatten)]
    output: Output,
}

/// A longer run should be `lab run`, whose record survives a crash.
const SECONDS_MAX: u32 = 3600;
/// Most requests of one sample, at 30 connections: a minute on a fast machine.
const REQUESTS_MAX: u64 = 1_000_000;

fn demo_seconds(text: &str) -> Result<u32, String> {
    let fits = seconds(text)?.try_into().ok().filter(|seconds| (1..=SECONDS_MAX).contains(seconds));
    fits.ok_or_else(|| "from 1s to 1h".to_owned())
}

fn demo_requests(text: &str) -> Result<u64, String> {
    let fits = Some(count(text)?).filter(|requests| (1..=REQUESTS_MAX).contains(requests));
    fits.ok_or_else(|| format!("from 1 to {REQUESTS_MAX}"))
}

const EXIT_CODES: &str = "\
--json and --html write the whole report. `holdfast lab run pool-throughput` runs more arms and keeps the record.

Exit codes:
  0  it was measured
  1  it could not be, requests failed, or it was interrupted; the reason is on standard error
  2  the command line could not be understood";

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> u8 {
    demonstrate(args).unwrap_or_else(|message| {
        report::say(&printable(&format!("holdfast demo: {message}")));
        exit::FAILED
    })
}

fn demonstrate(args: &Args) -> Result<u8, String> {
    let begun = Instant::now();
    if !args.loopback {
        prepared::again_as_root()?;
    }
    let stop = Stop::when_interrupted().map_err(|error| format!("signals cannot be handled: {error}"))?;
    let Loaded { experiment, places } = load(demo::EXPERIMENT)?;
    let how = Adaptation { quick: true, rounds: args.rounds, ..Adaptation::default() };
    let mut experiment = experiment.adapted(&how)?;
    for load in &mut experiment.loads {
        load.requests = args.requests.or(load.requests);
    }
    // The clock alone limits a demo, so void samples are not repeated.
    experiment.method.spare = 0;
    demo::give_free(&mut experiment);
    let rounds = experiment.method.rounds;
    let wanted = WantedRun { experiment, places, quick: true, control: false, seed: None, loopback: args.loopback };
    let mut prepared = PreparedRun::new(wanted, &Began::now())?;
    let arms = prepared.record.experiment.arms.iter().map(|arm| arm.name.clone()).collect();
    let time = Duration::from_secs(u64::from(args.seconds));
    let pace = Pace::new(time.saturating_sub(REPORT_TIME), rounds);
    let mut watch = Watch { begun, pace, stop: &stop, arms, void: BTreeMap::new() };
    let ran = perform(args, &mut prepared, &mut watch, &stop);
    let mut record = prepared.record;
    if watch.pace.is_over() {
        let taken = record.rounds();
        record.partial = Some(format!("{} s had room for {taken} of {rounds} rounds", args.seconds));
    } else if let Err(message) = &ran {
        // An interrupt may make the current step fail with an error of its own, which is not worth reporting.
        let message = if stop.is_said() { "interrupted" } else { message };
        report::say(&printable(&format!("holdfast demo: {message}; all started processes were ended")));
    }
    if record.samples.is_empty() {
        return Ok(exit::FAILED);
    }
    print_story(args, &record, &watch.arms)?;
    let whole = ran.is_ok() || watch.pace.is_over();
    Ok(if whole && failed(&record) == 0.0 { exit::OK } else { exit::FAILED })
}

/// Runs it with the live view or with progress lines.
fn perform(args: &Args, prepared: &mut PreparedRun, watch: &mut Watch<'_>, stop: &Stop) -> Result<(), String> {
    let terminal = if args.plain || args.quiet || !Terminal::is_there() { None } else { Terminal::open().ok() };
    if let Some(terminal) = terminal {
        let screen = Screen::new(&prepared.record.experiment);
        return live::perform(terminal, screen, prepared, watch, stop);
    }
    if !args.quiet {
        report::say(&prepared.in_short());
    }
    let mut progress = Progress::new(args.quiet);
    let ran = prepared.perform(None, stop, &mut |event| {
        progress.show(&event);
        watch.see(&event);
    });
    progress.clear();
    ran.map_err(|error| error.to_string())
}

/// Stops a demo when its time is over.
struct Watch<'a> {
    begun: Instant,
    pace: Pace,
    stop: &'a Stop,
    /// The arms that can be run.
    arms: Vec<String>,
    /// Void samples by arm.
    void: BTreeMap<String, usize>,
}

impl Watch<'_> {
    fn see(&mut self, event: &Event<'_>) {
        match event {
            Event::Sample(number, count, _) => self.pace.sample(*number, *count, self.begun.elapsed()),
            Event::Absent(arm, _) => self.arms.retain(|known| known != arm),
            Event::Taken(sample) => {
                if sample.void.is_some() {
                    *self.void.entry(sample.arm.clone()).or_default() += 1;
                }
                let goes_on = self.pace.taken(self.begun.elapsed());
                let Some(fit) = self.pace.arms_that_fit(self.begun.elapsed(), ROUNDS_MIN) else { return };
                if !self.leave_out_what_does_not_fit(fit) {
                    if goes_on {
                        self.leave_out_what_gets_no_verdict();
                    } else {
                        self.stop.request_end();
                    }
                }
            }
            _ => {}
        }
    }
}

impl Watch<'_> {
    /// Drops an arm if its void samples leave too few rounds for a verdict in the rest of the time. The others get the time.
    fn leave_out_what_gets_no_verdict(&mut self) {
        let rounds = self.pace.rounds_that_fit(self.begun.elapsed());
        let Some(rounds) = rounds.filter(|rounds| *rounds >= ROUNDS_MIN) else { return };
        let void = |arm: &str| self.void.get(arm).copied().unwrap_or_default();
        let arms: Vec<&str> = self.arms.iter().map(String::as_str).collect();
        let hopeless: Vec<&str> =
            arms.iter().copied().filter(|arm| void(arm) > 0 && rounds.saturating_sub(void(arm)) < ROUNDS_MIN).collect();
        if !hopeless.is_empty() {
            let kept = demo::worth_running(&arms, &hopeless).into_iter().map(str::to_owned).collect();
            self.keep(kept);
        }
    }

    /// Drops arms that do not fit the time: verdicts about fewer arms are worth more than figures of all. One round of
    /// all arms is always complete. Later, arms are dropped only if the others get their verdicts by that. Returns whether it
    /// dropped any.
    fn leave_out_what_does_not_fit(&mut self, fit: usize) -> bool {
        let arms: Vec<&str> = self.arms.iter().map(String::as_str).collect();
        let kept = demo::kept(&arms, fit);
        let kept: Vec<String> = kept.into_iter().map(str::to_owned).collect();
        (self.pace.is_first_round() || kept.len() <= fit) && self.keep(kept)
    }

    /// Goes on with these arms; returns whether any is dropped.
    fn keep(&mut self, kept: Vec<String>) -> bool {
        let is_fewer = kept.len() < self.arms.len();
        for arm in self.arms.iter().filter(|arm| !kept.contains(arm)) {
            self.stop.leave_out(arm);
        }
        self.pace.keep(kept.len());
        self.arms = kept;
        is_fewer
    }
}

/// Prints the summary in words, or the whole report as JSON, and writes the page. Claims about other arms than these were not
/// asked: the time was given to these.
fn print_story(args: &Args, record: &Record, arms: &[String]) -> Result<(), String> {
    let mut judged = judge(record);
    let is_left_out = |arm: &String| !arms.contains(arm) && !record.absent.iter().any(|(absent, _)| absent == arm);
    for one in &mut judged {
        one.asked &= !is_left_out(&one.claim.of) && !one.claim.against.iter().any(is_left_out);
    }
    if args.output.wants_document() {
        let whole = ::lab::report::document(record, &judged);
        args.output.write_files(&whole)?;
        if args.output.prints_json() {
            return output::print(&::report::json::render(&whole));
        }
    }
    args.output.text_alone().emit(&demo::document(record, &judged))
}

fn failed(record: &Record) -> f64 {
    record.samples.iter().filter_map(|sample| sample.figures.get("failed")).sum()
}
