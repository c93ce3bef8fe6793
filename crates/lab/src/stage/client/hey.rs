//! hey, and oha, which has the same report format: their arguments and their reports.

use super::{Figures, Latency, ms_of};
use crate::plan::Amount;
use std::collections::BTreeMap;
use std::ffi::OsString;

pub(super) fn amount_words(amount: Amount) -> Vec<OsString> {
    let words = match amount {
        Amount::Requests(requests) => ["-n".to_owned(), requests.to_string()],
        Amount::Seconds(seconds) => ["-z".to_owned(), format!("{:.0}ms", seconds * 1e3)],
    };
    words.map(OsString::from).into()
}

/// oha's error for requests in flight that it aborts at its end.
const ENDED_BY_ITSELF: &str = "aborted due to deadline";

/// The report: a summary, latencies as `99% in 0.0030 secs`, and counts of statuses and errors as `[200]  1234 responses`.
pub fn parse_hey(said: &str) -> Option<Figures> {
    // `Average:  0.0012 secs`
    let field = |name: &str| said.lines().find_map(|line| line.trim_start().strip_prefix(name));
    let time = |text: &str| -> Option<f64> {
        let mut words = text.split_ascii_whitespace();
        ms_of(&format!("{}{}", words.next()?, words.next()?))
    };
    let share = |shares: [&str; 2]| {
        said.lines().find_map(|line| {
            let (share, rest) = line.trim().split_once(" in ")?;
            shares.contains(&share).then(|| time(rest)).flatten()
        })
    };
    let (mut answered, mut bad, mut broken) = (0, 0, 0);
    let mut causes: BTreeMap<String, u64> = BTreeMap::new();
    let mut part = "";
    for line in said.lines() {
        if !line.starts_with(' ') && !line.trim().is_empty() {
            part = line.trim();
        }
        let Some((bracketed, what)) = line.trim().strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
            continue;
        };
        let what = what.trim();
        if part.starts_with("Status code") {
            let count: u64 = what.split_ascii_whitespace().next()?.parse().ok()?;
            answered += count;
            if bracketed.parse::<u16>().is_ok_and(|status| status >= 400) {
                bad += count;
                causes.insert(bracketed.to_owned(), count);
            }
        } else if part.starts_with("Error") && !what.contains(ENDED_BY_ITSELF) {
            broken += bracketed.parse::<u64>().ok()?;
        }
    }
    causes.extend((broken > 0).then(|| ("broken".to_owned(), broken)));
    let latency = Latency {
        mean: field("Average:").and_then(time),
        p50: share(["50%", "50.00%"]),
        p90: share(["90%", "90.00%"]),
        p99: share(["99%", "99.00%"]),
        p999: share(["99.9%", "99.90%"]),
        max: field("Slowest:").and_then(time),
    };
    Some(Figures {
        requests: answered,
        attempts: answered + broken,
        requests_per_second: field("Requests/sec:")?.trim().parse().ok().filter(|rate: &f64| rate.is_finite())?,
        failed: bad + broken,
        causes,
        latency: if answered > 0 { latency } else { Latency::default() },
        ..Figures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heys_report_is_read() {
        let said = "\nSummary:\n  Total:\t3.0021 secs\n  Slowest:\t0.0100 secs\n  Fastest:\t0.0001 secs\n  Average:\t0.0012 secs\n  \
                    Requests/sec:\t24000.1250\n\nResponse time histogram:\n  0.000 [1]\t|\n  0.001 [70]\t|■■■\n\nLatency distribution:\n  \
                    50% in 0.0011 secs\n  90% in 0.0020 secs\n  99% in 0.0030 secs\n\nDetails (average, fastest, slowest):\n  \
                    resp wait:\t0.0012 secs, 0.0001 secs, 0.0100 secs\n\nStatus code distribution:\n  [200]\t72000 responses\n  \
                    [503]\t5 responses\n\nError distribution:\n  [3]\tGet \"http://x\": dial tcp: connection refused\n";
        let figures = parse_hey(said).unwrap();
        assert_eq!((figures.requests, figures.failed, figures.attempts), (72_005, 8, 72_008));
        assert_eq!((figures.causes["503"], figures.causes["broken"]), (5, 3));
        let Latency { mean, p50, p99, max, .. } = figures.latency;
        assert_eq!((mean, p50, p99, max), (Some(1.2), Some(1.1), Some(3.0), Some(10.0)));
        assert!((figures.requests_per_second - 24_000.125).abs() < 1e-9);
        assert_eq!(parse_hey("invalid URL\n"), None);
    }

    #[test]
    fn reads_ohas_units_and_ignores_requests_that_it_cut_off() {
        let said = "Summary:\n  Success rate:\t100.00%\n  Slowest:\t10.5000 ms\n  Average:\t1.2000 ms\n  Requests/sec:\t10.5\n\n\
                    Response time distribution:\n  50.00% in 1.1000 ms\n  99.00% in 3.0000 ms\n  99.90% in 9.0000 ms\n\n\
                    Status code distribution:\n  [200] 20 responses\n\nError distribution:\n  [30] aborted due to deadline\n";
        let figures = parse_hey(said).unwrap();
        assert_eq!((figures.requests, figures.failed, figures.attempts), (20, 0, 20));
        assert_eq!(
            (figures.latency.p99, figures.latency.p999, figures.latency.max),
            (Some(3.0), Some(9.0), Some(10.5))
        );
    }
}
