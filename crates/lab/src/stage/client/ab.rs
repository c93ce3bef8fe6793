//! Apache's `ab`: its arguments and its report.

use super::{Figures, Latency, whole_seconds};
use crate::plan::Amount;
use std::ffi::OsString;

/// No progress output; continue after a broken connection; bodies may differ in length.
pub(super) const FLAGS: [&str; 3] = ["-q", "-r", "-l"];

/// ab reserves memory for each request that it is told to send, and with `-t` alone it sends only 50,000. This many are
/// more than any arm answers in the time.
const REQUESTS_PER_SECOND_MAX: u64 = 200_000;

pub(super) fn amount_words(amount: Amount) -> Vec<OsString> {
    let words = match amount {
        Amount::Requests(requests) => vec!["-n".to_owned(), requests.to_string()],
        Amount::Seconds(seconds) => {
            let seconds = whole_seconds(seconds);
            let requests = seconds.saturating_mul(REQUESTS_PER_SECOND_MAX);
            vec!["-t".to_owned(), seconds.to_string(), "-n".to_owned(), requests.to_string()]
        }
    };
    words.into_iter().map(OsString::from).collect()
}

/// Parses ab's report. With `-l` a different length is no failure. ab prints the line for statuses only if one was not 2xx.
pub fn parse_ab(said: &str) -> Option<Figures> {
    let number = |name: &str| -> Option<f64> {
        let line = said.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    let (broken, bad) = (number("Failed requests:")?, number("Non-2xx responses:").unwrap_or(0.0));
    let causes = [("broken", broken), ("status", bad)].into_iter().filter(|(_, count)| *count > 0.0);
    let requests = number("Complete requests:")? as u64;
    Some(Figures {
        // Broken requests are included; ab does not report which of them had a complete response.
        requests: requests.saturating_sub(broken as u64),
        attempts: requests,
        requests_per_second: number("Requests per second:")?,
        failed: (broken + bad) as u64,
        causes: causes.map(|(cause, count)| (cause.to_owned(), count as u64)).collect(),
        latency: Latency {
            mean: number("Time per request:"),
            p50: number("50%"),
            p90: number("90%"),
            p99: number("99%"),
            max: number("100%"),
            ..Latency::default()
        },
        ..Figures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abs_report_is_read() {
        let said = "Time taken for tests:   2.000 seconds\nComplete requests:      40000\nFailed requests:        1\n\
                    \x20  (Connect: 0, Receive: 0, Length: 1, Exceptions: 0)\nNon-2xx responses:      2\n\
                    Requests per second:    20000.12 [#/sec] (mean)\nTime per request:       1.500 [ms] (mean)\n\
                    Time per request:       0.050 [ms] (mean, across all)\n\
                    \x20 50%      1\n  90%      2\n  99%      4\n 100%      9 (longest request)\n";
        let figures = parse_ab(said).unwrap();
        assert_eq!((figures.requests, figures.attempts, figures.failed), (39_999, 40_000, 3));
        assert_eq!((figures.latency.mean, figures.latency.p99, figures.latency.max), (Some(1.5), Some(4.0), Some(9.0)));
        assert_eq!(figures.causes["status"], 2);
        assert_eq!(parse_ab("ab: Could not connect\n"), None);
    }
}
