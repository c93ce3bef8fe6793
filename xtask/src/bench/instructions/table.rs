//! The table of a profile: the allowed cost of each case.

use super::counted::Counts;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Allowed excess over the table: counts of the same program differ by less than 1 %.
pub(super) const ALLOWED: f64 = 0.03;

const HEAD: &str = "# What a request costs under callgrind: instructions, and misses of simulated first caches (32 KB each).\n\
                    # `cargo xtask bench instructions` (with `--profile release` for that build) compares with it, and `--write` writes it. A commit that changes it says why.\n\n";

/// The counts of one case.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    instructions: u64,
    misses: u64,
}

/// The table, by the names of the cases.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Table {
    rows: BTreeMap<String, Row>,
}

impl Table {
    /// Reads the table; a missing file is an empty table.
    pub(super) fn read(file: &Path) -> Result<Self> {
        if !file.exists() {
            return Ok(Self::default());
        }
        toml::from_str(&fs::read_to_string(file)?).with_context(|| format!("what is written in {}", file.display()))
    }

    pub(super) fn instructions(&self, case: &str) -> Option<u64> {
        self.rows.get(case).map(|row| row.instructions)
    }

    /// The increase of a case's cost, as a share of the table's value.
    #[allow(clippy::cast_precision_loss)] // counts of one request
    pub(super) fn change(&self, case: &str, counts: Counts) -> Option<f64> {
        let before = self.instructions(case)?;
        Some(counts.instructions as f64 / before as f64 - 1.0)
    }

    pub(super) fn set(&mut self, case: &str, counts: Counts) {
        let row = Row { instructions: counts.instructions, misses: counts.misses };
        self.rows.insert(case.to_owned(), row);
    }

    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let mut text = HEAD.to_owned();
        for (case, Row { instructions, misses }) in &self.rows {
            let _ = writeln!(text, "{case} = {{ instructions = {instructions}, misses = {misses} }}");
        }
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_is_relative_to_the_written_value() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("instructions.toml");
        let mut table = Table::read(&file).unwrap();
        assert_eq!(table.change("proxied", Counts { instructions: 1, misses: 0 }), None);
        table.set("proxied", Counts { instructions: 10_000, misses: 400 });
        table.write(&file).unwrap();
        let table = Table::read(&file).unwrap();
        let change = table.change("proxied", Counts { instructions: 10_400, misses: 400 }).unwrap();
        assert!(change > ALLOWED && change < 0.041, "{change}");
    }
}
