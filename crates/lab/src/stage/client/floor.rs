//! `holdfast load floor`, which waits like `holdfast load` and sends nothing: its arguments and its figures.

use super::Figures;
use super::ours::{amount_words as words_of_load, numbers};
use crate::plan::Amount;
use crate::stage::StageError;
use serde_json::Value;
use std::ffi::OsString;

pub(super) fn amount_words(amount: Amount) -> Result<Vec<OsString>, StageError> {
    match amount {
        Amount::Seconds(_) => Ok(words_of_load(amount)),
        Amount::Requests(_) => Err(StageError::new("how late a program is that only waits is measured for `seconds`")),
    }
}

/// Parses the output of `holdfast load floor --json`. The figures have the same names as in `holdfast load`, so that
/// `client.lag_ms.p99.9` of two arms can be compared.
pub fn parse_floor(said: &str) -> Option<Figures> {
    let object = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(object)) => Some(object),
        _ => None,
    };
    let file = said.lines().find_map(object)?;
    let wakes = file.get("lag")?.get("count")?.as_u64()?;
    // The number of wake-ups; there are no responses. A program that only waits is never the bottleneck.
    Some(Figures { attempts: wakes, is_open: true, more: numbers(&file), ..Figures::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_its_output_with_the_names_of_a_load() {
        let said = r#"{"rate":9.0,"elapsed_s":2.0,"lag":{"count":18,"min_ns":1,"mean_ns":2e3,"deviation_ns":0.0,"max_ns":5000000,
            "quantiles_ns":{"p50":1500,"p99.9":4000000},"histogram":[[1500,18]]},"busy_share":0.25,"waited_share":null,
            "host_stolen_share":0.04}"#;
        let figures = parse_floor(&format!("a word before it\n{}\n", said.replace('\n', ""))).unwrap();
        assert_eq!((figures.attempts, figures.requests, figures.failed, figures.is_open), (18, 0, 0, true));
        let of = |name: &str| figures.more.get(name).copied();
        assert_eq!((of("lag_ms.p99.9"), of("lag_ms.p50"), of("lag_ms.max")), (Some(4.0), Some(0.0015), Some(5.0)));
        assert_eq!((of("busy_share"), of("host_stolen_share"), of("waited_share")), (Some(0.25), Some(0.04), None));
        for other in ["", "{}", "[]", r#"{"lag":{}}"#, "holdfast load floor: interrupted"] {
            assert_eq!(parse_floor(other), None, "{other}");
        }
        assert!(amount_words(Amount::Requests(3)).is_err());
    }
}
