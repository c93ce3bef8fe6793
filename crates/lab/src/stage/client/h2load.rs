//! h2load: its arguments and its report.

use super::{Figures, Latency, ms_of, whole_seconds};
use crate::plan::Amount;
use std::ffi::OsString;

pub(super) fn amount_words(amount: Amount) -> Vec<OsString> {
    let words = match amount {
        Amount::Requests(requests) => ["-n".to_owned(), requests.to_string()],
        Amount::Seconds(seconds) => ["-D".to_owned(), whole_seconds(seconds).to_string()],
    };
    words.map(OsString::from).into()
}

/// Parses h2load's report. A request that failed with a status was answered; one that errored was
/// not.
pub fn parse_h2load(said: &str) -> Option<Figures> {
    let line = |name: &str| said.lines().find_map(|line| line.trim_start().strip_prefix(name));
    let requests = line("requests:")?;
    let count = |name: &str| -> Option<u64> {
        requests.split(',').find_map(|part| part.trim().strip_suffix(name)?.trim().parse().ok())
    };
    let (succeeded, failed, errored) = (count("succeeded")?, count("failed")?, count("errored")?);
    let of_status = failed.saturating_sub(errored);
    let answered = succeeded + of_status;
    let rate = line("finished in")?.split(',').find_map(|part| part.trim().strip_suffix("req/s")?.trim().parse().ok());
    // Columns: min, max, mean, standard deviation, share within it.
    let times: Vec<Option<f64>> =
        line("time for request:").unwrap_or_default().split_ascii_whitespace().map(ms_of).collect();
    let time = |place: usize| times.get(place).copied().flatten().filter(|_| answered > 0);
    let causes = [("errored", errored), ("status", of_status)].into_iter().filter(|(_, count)| *count > 0);
    Some(Figures {
        requests: answered,
        attempts: answered + errored,
        requests_per_second: rate?,
        failed,
        causes: causes.map(|(cause, count)| (cause.to_owned(), count)).collect(),
        latency: Latency { mean: time(2), max: time(1), ..Latency::default() },
        ..Figures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h2loads_report_is_read() {
        let said = "starting benchmark...\nfinished in 3.01s, 24052.50 req/s, 19.57MB/s\n\
                    requests: 72160 total, 72190 started, 72160 done, 72150 succeeded, 10 failed, 3 errored, 1 timeout\n\
                    status codes: 72150 2xx, 0 3xx, 7 4xx, 0 5xx\n\
                    \x20                    min         max         mean         sd        +/- sd\n\
                    time for request:      100us      5.00ms      1.20ms       200us    80.00%\n";
        let figures = parse_h2load(said).unwrap();
        assert_eq!((figures.requests, figures.failed, figures.attempts), (72_157, 10, 72_160));
        assert_eq!((figures.causes["errored"], figures.causes["status"]), (3, 7));
        assert_eq!((figures.latency.mean, figures.latency.max), (Some(1.2), Some(5.0)));
        assert!((figures.requests_per_second - 24_052.5).abs() < 1e-9);
        assert_eq!(parse_h2load("could not resolve\n"), None);
    }
}
