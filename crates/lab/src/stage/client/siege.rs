//! siege: its arguments and settings, and its report, which is text or, in later versions, JSON.

use super::{Figures, Latency, value_of, whole_seconds};
use crate::plan::Amount;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Without these, siege uses the settings of the user that runs it: at most 255 users, an end after some failures, pauses,
/// a log. The timeout is longer than the slowest response in report 3, which took 49.6 s.
pub(super) const SETTINGS: &str = "limit = 10000\nfailures = 100000000\nlogging = false\nverbose = false\ncolor = off\n\
                                   protocol = HTTP/1.1\nconnection = close\ndelay = 0.0\nbenchmark = true\ntimeout = 120\n\
                                   parser = false\nshow-logfile = false\n";

/// siege's default without `-c`.
const USERS_DEFAULT: u64 = 25;

pub(super) fn amount_words(amount: Amount, arguments: &[String]) -> Vec<OsString> {
    let word = match amount {
        Amount::Seconds(seconds) => format!("--time={}S", whole_seconds(seconds)),
        Amount::Requests(requests) => {
            let users = value_of(arguments, "--concurrent=").or_else(|| value_of(arguments, "-c"));
            let users = users.and_then(|users| users.parse().ok()).unwrap_or(USERS_DEFAULT).max(1);
            // siege counts the repetitions of each user.
            format!("--reps={}", requests.div_ceil(users))
        }
    };
    vec![word.into()]
}

/// Parses siege's report: `Transactions:  2000 hits`, or `"transactions": 2000,`.
pub fn parse_siege(said: &str) -> Option<Figures> {
    let number = |name: &str| -> Option<f64> {
        said.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            let key = key
                .trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '{'))
                .replace('_', " ")
                .to_ascii_lowercase();
            let digits = value.trim().trim_end_matches(',').split_ascii_whitespace().next()?;
            (key == name).then(|| digits.parse().ok()).flatten()
        })
    };
    let (answered, failed) = (number("transactions")? as u64, number("failed transactions")? as u64);
    let ms = |name: &str| number(name).map(|seconds| seconds * 1e3);
    Some(Figures {
        requests: answered,
        attempts: answered + failed,
        requests_per_second: number("transaction rate")?,
        failed,
        causes: BTreeMap::new(),
        latency: Latency { mean: ms("response time"), max: ms("longest transaction"), ..Latency::default() },
        more: number("concurrency").into_iter().map(|users| ("concurrency".to_owned(), users)).collect(),
        ..Figures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_sieges_report_are_read() {
        let text = "** SIEGE 4.0.7\nTransactions:\t\t        2000 hits\nAvailability:\t\t       99.50 %\n\
                    Response time:\t\t        0.25 secs\nTransaction rate:\t      401.61 trans/sec\n\
                    Concurrency:\t\t        0.52\nFailed transactions:\t          10\nLongest transaction:\t        3.03\n";
        let json = "{\t\"transactions\":\t\t\t        2000,\n\t\"response_time\":\t0.25,\n\t\"transaction_rate\":\t401.61,\n\
                    \t\"concurrency\":\t0.52,\n\t\"failed_transactions\":\t10,\n\t\"longest_transaction\":\t3.03,\n}\n";
        let figures = parse_siege(text).unwrap();
        assert_eq!((figures.requests, figures.failed, figures.attempts), (2000, 10, 2010));
        assert_eq!((figures.latency.mean, figures.latency.max), (Some(250.0), Some(3030.0)));
        assert_eq!(parse_siege(json), Some(figures));
        assert_eq!(parse_siege("[error] Host not found"), None);
    }
}
