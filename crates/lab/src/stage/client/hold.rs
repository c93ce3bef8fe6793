//! `holdfast lab hold`, which opens connections and holds them: its arguments and the line that it prints.

use super::Figures;
use crate::plan::Amount;
use crate::stage::StageError;
use std::collections::BTreeMap;
use std::ffi::OsString;

pub(super) fn amount_words(amount: Amount) -> Result<Vec<OsString>, StageError> {
    match amount {
        Amount::Seconds(seconds) => Ok(vec!["--seconds".into(), seconds.to_string().into()]),
        Amount::Requests(_) => Err(StageError::new("connections are held for `seconds`")),
    }
}

/// The line that it prints when it holds this many.
pub fn held_line(count: usize) -> String {
    format!("held {count} connections")
}

/// Parses that line. After the connections are open nothing is requested.
pub fn parse_held(said: &str) -> Option<Figures> {
    let line = said.lines().find_map(|line| line.strip_prefix("held "))?;
    let count: u64 = line.strip_suffix(" connections")?.parse().ok()?;
    Some(Figures {
        attempts: count,
        // It never limits another program.
        is_open: true,
        more: BTreeMap::from([("open_max".to_owned(), count as f64)]),
        ..Figures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_number_of_held_connections() {
        let figures = parse_held(&format!("{}\n", held_line(500))).unwrap();
        assert_eq!((figures.attempts, figures.requests, figures.failed), (500, 0, 0));
        assert_eq!(figures.more["open_max"].to_bits(), 500_f64.to_bits());
        assert_eq!(parse_held("holdfast lab hold: connection 3 of 500: refused"), None);
        assert!(amount_words(Amount::Requests(3)).is_err());
    }
}
