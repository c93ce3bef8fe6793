//! The flags of loads that read their requests from a file: scenarios, lists of URLs, access logs.

use crate::report;
use ::report::text::grouped;
use load::results::read_at_most;
use load::{COMBINED, LIST_BYTES_MAX, LogFormat, Pace, Replay, Scenario, ScenarioFile, Spacing, Target, Url};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Flags {
    /// Play the scenarios of a TOML file: -c counts users, --rate and -n count iterations; a URL replaces the file's base
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "script", "method", "body", "body_file", "pipeline", "http2", "grpc", "streams", "think", "self_test",
            "handshakes", "urls_file", "replay"
        ]
    )]
    scenario: Option<PathBuf>,
    /// Send the URLs of a file in their order, one on each line, and from the start again; paths are behind the URL given here
    #[arg(
        long = "urls",
        id = "urls_file",
        value_name = "FILE",
        conflicts_with_all = [
            "script", "method", "body", "body_file", "pipeline", "http2", "grpc", "streams", "think", "self_test",
            "handshakes", "replay"
        ]
    )]
    urls_file: Option<PathBuf>,
    /// Replay the GET and HEAD requests of an access log towards the URL given here, at the pace of the log
    #[arg(
        long,
        value_name = "FILE",
        requires = "urls",
        conflicts_with_all = [
            "script", "method", "body", "body_file", "pipeline", "http2", "grpc", "streams", "think", "self_test",
            "handshakes", "rate", "stage"
        ]
    )]
    replay: Option<PathBuf>,
    /// Format of the access log, as in nginx; by default the combined one
    #[arg(long, value_name = "FORMAT", requires = "replay")]
    log_format: Option<String>,
    /// How fast the log is replayed: 2x, 0.5x, or max for a closed loop
    #[arg(long, value_name = "FACTOR", requires = "replay", default_value = "1x", value_parser = parse_speed)]
    speed: Speed,
    /// Replay requests with other methods than GET and HEAD, too, without bodies: they may change data
    #[arg(long, requires = "replay")]
    replay_all_methods: bool,
}

/// How fast a log is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Speed {
    Times(f64),
    Max,
}

fn parse_speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    let factor = ::report::typed::number(text.strip_suffix('x').unwrap_or(text));
    let factor = factor.filter(|factor| (0.001..=1000.0).contains(factor));
    factor.map(Speed::Times).ok_or_else(|| "a factor from 0.001x to 1000x, or max".to_owned())
}

/// The requests of a file.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) targets: Vec<Target>,
    pub(super) scenario: Arc<Scenario>,
    /// The pace of a log; `None` for the one of other flags.
    pub(super) pace: Option<Pace>,
    /// Requests after which the load ends by itself.
    pub(super) requests: Option<u64>,
}

impl Source {
    fn new(file: ScenarioFile) -> Self {
        Self { targets: file.targets, scenario: Arc::new(file.scenario), pace: None, requests: None }
    }
}

impl Flags {
    pub(super) fn is_given(&self) -> bool {
        self.scenario.is_some() || self.urls_file.is_some() || self.replay.is_some()
    }

    /// The requests of the file, if one is given. `fields` are added to all of them.
    pub(super) fn read(&self, urls: &[String], fields: &[(String, String)]) -> Result<Option<Source>, String> {
        if !self.is_given() {
            return Ok(None);
        }
        let base = match urls {
            [] => None,
            [base] => Some(base.as_str()),
            _ => return Err("a load from a file takes at most one URL".to_owned()),
        };
        if let Some(path) = &self.scenario {
            let read = ScenarioFile::read(path, base, fields).map_err(|error| error.to_string())?;
            return Ok(Some(Source::new(read)));
        }
        let base: Option<Url> =
            base.map(|base| base.parse().map_err(|error| format!("{base}: {error}"))).transpose()?;
        let read = match (&self.urls_file, &self.replay, base) {
            (Some(path), _, base) => {
                let text = read_text(path)?;
                let list = ScenarioFile::of_urls(&text, &path.display().to_string(), base.as_ref(), fields);
                list.map(Source::new).map_err(|error| format!("{}: {error}", path.display()))?
            }
            (_, Some(path), Some(base)) => self.read_log(path, &base, fields)?,
            _ => return Err("--replay needs a URL".to_owned()),
        };
        Ok(Some(read))
    }

    fn read_log(&self, path: &Path, base: &Url, fields: &[(String, String)]) -> Result<Source, String> {
        let format = self.log_format.as_deref().unwrap_or(COMBINED);
        let format = LogFormat::parse(format).map_err(|problem| format!("--log-format: {problem}"))?;
        let text = read_text(path)?;
        let logged: Vec<_> = text.lines().map(|line| format.read(line)).collect();
        let speed = match self.speed {
            Speed::Times(factor) => factor,
            Speed::Max => 1.0,
        };
        let name = path.display().to_string();
        let replay = Replay::new(&logged, &name, base, fields, (speed, self.replay_all_methods));
        let Replay { file, stages, unknown, left_out } = replay.map_err(|error| format!("{name}: {error}"))?;
        let requests = file.scenario.order.len() as u64;
        let duration: f64 = stages.iter().map(|stage| stage.duration.as_secs_f64()).sum();
        let at_pace = if self.speed == Speed::Max { String::new() } else { format!(" in {duration:.1} s") };
        report::say(&format!(
            "holdfast load: {name}: {} requests{at_pace}; left out: {} lines that do not fit the format, {} requests with other \
             methods than GET and HEAD",
            grouped(requests),
            grouped(unknown as u64),
            grouped(left_out as u64),
        ));
        let pace = match self.speed {
            Speed::Max => Pace::closed(),
            Speed::Times(_) => Pace::Open { stages, spacing: Spacing::Constant },
        };
        Ok(Source { pace: Some(pace), requests: Some(requests), ..Source::new(file) })
    }
}

/// Reads a list. Bytes that are not UTF-8 are replaced: a line with them is one line that does not fit.
fn read_text(path: &Path) -> Result<String, String> {
    Ok(String::from_utf8_lossy(&read_at_most(path, LIST_BYTES_MAX)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read() {
        assert_eq!(
            (parse_speed("2x"), parse_speed("0.5"), parse_speed("max")),
            (Ok(Speed::Times(2.0)), Ok(Speed::Times(0.5)), Ok(Speed::Max))
        );
        assert!(parse_speed("0x").is_err() && parse_speed("fast").is_err());
    }
}
