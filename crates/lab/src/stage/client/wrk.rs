//! wrk: its arguments, a script that prints raw numbers, and the line that the script prints.

use super::{Figures, Latency, whole_seconds};
use crate::plan::{Amount, StagedLoad};
use crate::stage::StageError;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;

/// Appended to the load's own script. wrk prints no p99.9 and rounds its figures, so this script prints the raw numbers
/// for [`parse_wrk`].
pub const WRK_SCRIPT: &str = r#"
local done_before = done
done = function(summary, latency, requests)
  if done_before then done_before(summary, latency, requests) end
  local e = summary.errors
  io.write(string.format("figures %.0f %.0f %.0f %.0f %.3f %.0f %.0f %.0f %.0f %.0f\n", summary.requests,
    summary.duration, e.connect + e.read + e.write + e.timeout, e.status, latency.mean, latency:percentile(50),
    latency:percentile(90), latency:percentile(99), latency:percentile(99.9), latency.max))
end
"#;

/// The figures of one run of wrk.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct WrkFigures {
    /// Whole responses.
    pub requests: u64,
    /// Complete responses per second.
    pub requests_per_second: f64,
    /// Failures to connect, read or write, and timeouts.
    pub socket_errors: u64,
    /// Responses with a status of 400 or more.
    pub status_errors: u64,
    /// Mean in microseconds, from sending a request to its response.
    pub latency_us_mean: f64,
    /// Median in microseconds.
    pub latency_us_p50: f64,
    /// 90th percentile in microseconds.
    pub latency_us_p90: f64,
    /// 99th percentile in microseconds.
    pub latency_us_p99: f64,
    /// 99.9th percentile in microseconds.
    pub latency_us_p999: f64,
    /// Maximum in microseconds.
    pub latency_us_max: f64,
}

/// Parses the line that the script prints.
pub fn parse_wrk(said: &str) -> Option<WrkFigures> {
    let line = said.lines().find_map(|line| line.strip_prefix("figures "))?;
    let numbers: Vec<f64> = line.split(' ').map_while(|word| word.parse().ok()).collect();
    let &[requests, duration_us, socket, status, mean, p50, p90, p99, p999, max] = numbers.as_slice() else {
        return None;
    };
    // Without any response, wrk's mean and rate are not numbers.
    let or_zero = |value: f64| if value.is_finite() { value } else { 0.0 };
    Some(WrkFigures {
        requests: requests as u64,
        requests_per_second: or_zero(requests / (duration_us / 1e6)),
        socket_errors: socket as u64,
        status_errors: status as u64,
        latency_us_mean: or_zero(mean),
        latency_us_p50: p50,
        latency_us_p90: p90,
        latency_us_p99: p99,
        latency_us_p999: p999,
        latency_us_max: max,
    })
}

impl From<WrkFigures> for Figures {
    fn from(wrk: WrkFigures) -> Self {
        let ms = |us: f64| (wrk.requests > 0).then_some(us / 1e3);
        let causes = [("socket", wrk.socket_errors), ("status", wrk.status_errors)].into_iter();
        Self {
            requests: wrk.requests,
            attempts: wrk.requests + wrk.socket_errors,
            requests_per_second: wrk.requests_per_second,
            failed: wrk.socket_errors + wrk.status_errors,
            causes: causes.filter(|(_, count)| *count > 0).map(|(cause, count)| (cause.to_owned(), count)).collect(),
            latency: Latency {
                mean: ms(wrk.latency_us_mean),
                p50: ms(wrk.latency_us_p50),
                p90: ms(wrk.latency_us_p90),
                p99: ms(wrk.latency_us_p99),
                p999: ms(wrk.latency_us_p999),
                max: ms(wrk.latency_us_max),
            },
            ..Self::default()
        }
    }
}

/// The load's arguments, with its script and ours in one file.
pub(super) fn flags(load: &StagedLoad) -> Result<Vec<OsString>, StageError> {
    let mut words = vec!["--latency".to_owned()];
    if !load.arguments.iter().any(|word| word.starts_with("--timeout")) {
        // wrk's default of two seconds would count a response that a retransmitted SYN delayed as lost.
        words.extend(["--timeout".to_owned(), "10s".to_owned()]);
    }
    let (mut script, mut arguments) = (String::new(), load.arguments.iter());
    while let Some(word) = arguments.next() {
        let named = match word.as_str() {
            "-s" | "--script" => arguments.next().cloned(),
            word => word.strip_prefix("--script=").map(str::to_owned),
        };
        match named {
            None => words.push(word.clone()),
            Some(path) => {
                script = fs::read_to_string(&path)
                    .map_err(|error| StageError::new(format!("cannot read the script {path}: {error}")))?;
            }
        }
    }
    let file = load.folder.join("figures.lua");
    fs::write(&file, script + WRK_SCRIPT)?;
    let mut words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    words.extend(["--script".into(), file.into()]);
    Ok(words)
}

pub(super) fn amount_words(amount: Amount) -> Result<Vec<OsString>, StageError> {
    match amount {
        Amount::Seconds(seconds) => Ok(vec!["--duration".into(), format!("{}s", whole_seconds(seconds)).into()]),
        Amount::Requests(_) => Err(StageError::new("wrk knows no number of requests: say `seconds`")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::load;
    use super::*;
    use crate::experiment::Client;

    #[test]
    fn the_line_of_the_script_is_read() {
        let said =
            "Running 2s test\nfigures 41234 2000000 1 2 500.125 450 800 1200 2500 9000\nRequests/sec: 20617.00\n";
        let figures = Figures::from(parse_wrk(said).unwrap());
        assert_eq!((figures.requests, figures.failed, figures.attempts), (41_234, 3, 41_235));
        assert_eq!((figures.latency.p99, figures.latency.max), (Some(1.2), Some(9.0)));
        assert!((figures.requests_per_second - 20_617.0).abs() < 1e-9);
        assert_eq!(parse_wrk("unable to connect to 127.0.0.1:1\n"), None);
    }

    #[test]
    fn nothing_answered_is_zero_and_has_no_latency() {
        let figures = Figures::from(parse_wrk("figures 0 2000000 30 0 nan 0 0 0 0 0").unwrap());
        assert_eq!((figures.requests, figures.failed, figures.latency.p99), (0, 30, None));
    }

    #[test]
    fn a_script_of_the_load_runs_with_ours_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let post = folder.path().join("post.lua");
        fs::write(&post, "wrk.method = \"POST\"").unwrap();
        let words = flags(&load(Client::Wrk, &["-t", "1", "-s", &post.display().to_string()], folder.path())).unwrap();
        assert!(!words.contains(&post.into_os_string()) && words.contains(&"-t".into()));
        let script = fs::read_to_string(folder.path().join("figures.lua")).unwrap();
        assert!(script.starts_with("wrk.method = \"POST\"\n") && script.ends_with(WRK_SCRIPT));
        let absent = flags(&load(Client::Wrk, &["--script=/no/such.lua"], folder.path())).unwrap_err();
        assert!(absent.text.contains("/no/such.lua"));
        assert!(amount_words(Amount::Requests(5)).is_err());
    }
}
