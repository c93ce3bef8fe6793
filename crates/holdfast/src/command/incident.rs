//! `holdfast incident`: what a recording says about a time. The crate `incident` judges.

use super::record::FOLDER;
use crate::exit;
use crate::output::JsonFlag;
use crate::report::say;
use crate::verdict::local_offset_minutes;
use incident::Zone;
use incident::judge::{Judgement, Question, document, judge, text};
use incident::record::wall_clock_ms;
use incident::store::read;
use std::path::PathBuf;

/// Find in the samples of `holdfast record` what went wrong at a given time: which limit, which peer, since when
///
/// Compares that time with the half hour before it. Exit code 3: something happened; 0: nothing unusual.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Time of the incident; the report covers 5 minutes before and after
    #[arg(long, value_name = "TIME", conflicts_with_all = ["since", "until"])]
    at: Option<String>,
    /// Start; default: 10 minutes before the end
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// End; default: now
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Folder of the recording
    #[arg(long, value_name = "FOLDER", default_value = FOLDER)]
    dir: PathBuf,
    #[command(flatten)]
    json: JsonFlag,
    /// Also write the report as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Times: 14:03, 14:03:20, 2026-11-26T14:03, \"10m ago\", now; with Z at the end UTC, otherwise the machine's time zone. A time
without a date is the last one before now.

Examples:
  holdfast incident                            the last ten minutes
  holdfast incident --at 14:03
  holdfast incident --since 13:00 --until 14:30
  holdfast incident --at 14:03 --json | jq '.claims[0]'";

/// The window if no time is given.
const WINDOW_MS: u64 = 10 * 60 * 1000;

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> u8 {
    match answer(args) {
        Ok(judgement) if judgement.claims.is_empty() => exit::OK,
        Ok(_) => exit::NO,
        Err(problem) => {
            say(&format!("holdfast incident: {problem}"));
            exit::FAILED
        }
    }
}

/// The machine's time zone.
pub(super) fn zone() -> Zone {
    Zone::of_minutes(local_offset_minutes())
}

fn answer(args: &Args) -> Result<Judgement, String> {
    let zone = zone();
    let question = question(args, zone, wall_clock_ms())?;
    let recording = read(&args.dir, question.reads_from_ms(), question.until_ms)?;
    let judgement = judge(&recording, question);
    if let Some(path) = &args.html {
        let page = report::html::render(&document(&judgement, zone));
        std::fs::write(path, page).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    let json = || serde_json::to_string_pretty(&judgement).map(|json| json + "\n").map_err(|error| error.to_string());
    args.json.emit(json, || text(&judgement, zone))?;
    Ok(judgement)
}

fn question(args: &Args, zone: Zone, now_ms: u64) -> Result<Question, String> {
    let parse = |text: &String| zone.parse(text, now_ms);
    if let Some(at) = &args.at {
        let Question { from_ms, until_ms } = Question::around(parse(at)?);
        return Ok(Question { from_ms, until_ms: until_ms.min(now_ms) });
    }
    let until_ms = args.until.as_ref().map_or(Ok(now_ms), parse)?;
    let from_ms = args.since.as_ref().map_or(Ok(until_ms.saturating_sub(WINDOW_MS)), parse)?;
    if from_ms >= until_ms {
        return Err("--since must be earlier than --until".to_owned());
    }
    Ok(Question { from_ms, until_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(at: Option<&str>, since: Option<&str>, until: Option<&str>) -> Result<Question, String> {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let args = Args {
            at: own(at),
            since: own(since),
            until: own(until),
            dir: PathBuf::new(),
            json: JsonFlag::default(),
            html: None,
        };
        // 02:00:00 UTC.
        question(&args, Zone::of_minutes(0), 1_795_658_400_000)
    }

    #[test]
    fn window_covers_the_requested_time() {
        let minutes = |question: Question| {
            (((question.from_ms / 60_000) % 1440) as i64 - 120, ((question.until_ms / 60_000) % 1440) as i64 - 120)
        };
        assert_eq!(asked(None, None, None).map(minutes), Ok((-10, 0)));
        assert_eq!(asked(Some("01:30"), None, None).map(minutes), Ok((-35, -25)));
        assert_eq!(asked(Some("01:58"), None, None).map(minutes), Ok((-7, 0)));
        assert_eq!(asked(None, Some("01:00"), Some("01:20")).map(minutes), Ok((-60, -40)));
        assert!(asked(None, Some("01:00"), Some("00:20")).is_err() && asked(Some("noon"), None, None).is_err());
    }
}
