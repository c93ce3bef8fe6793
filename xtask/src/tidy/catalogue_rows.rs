//! Rules: a row of the catalogue of bad input and faults that a comment or a test's name cites must be in
//! `docs/catalogue.md`, and a test must cite each row of the catalogue.

use super::Finding;
use super::source::Source;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;

/// The file of the catalogue.
const FILE: &str = "docs/catalogue.md";

/// The letters of the sections with numbered rows.
const SECTIONS: &str = "BFHIJKLPRSTUVWX";

/// The catalogue, and the rows that tests cite.
pub(super) struct Catalogue {
    text: String,
    rows: BTreeSet<String>,
    cited: BTreeSet<String>,
}

impl Catalogue {
    pub(super) fn read(workspace: &Workspace) -> Result<Self> {
        let text = std::fs::read_to_string(workspace.root.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
        Ok(Self { rows: rows(&text), text, cited: BTreeSet::new() })
    }

    /// Checks the rows that a file cites, and notes those of its tests.
    pub(super) fn check(&mut self, source: &Source) -> Vec<Finding> {
        self.cited.extend(cited_by_tests(source));
        check(source, &self.rows)
    }

    /// Checks that the tests of the checked files cite each row.
    pub(super) fn check_tests(&self) -> Vec<Finding> {
        check_tests(&self.text, &self.cited)
    }
}

/// The rows of the catalogue: the words before the first bar of a table's line.
fn rows(catalogue: &str) -> BTreeSet<String> {
    let cells = catalogue.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    cells.flat_map(str::split_whitespace).filter(|word| is_row(word)).map(str::to_owned).collect()
}

fn check(source: &Source, rows: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_test = source.path.contains("/tests/");
    for (line, text) in source.text.lines().enumerate() {
        for cited in cited(text, is_test).into_iter().filter(|row| !rows.contains(row)) {
            findings.push(Finding {
                path: source.path.clone(),
                line: line + 1,
                rule: "catalogue-rows",
                text: format!("{FILE} has no row {cited}; cite one that it has, or add the row"),
            });
        }
    }
    findings
}

/// The rows that the tests of a file cite. A file of the product has tests from its first `#[cfg(test)]` on.
fn cited_by_tests(source: &Source) -> Vec<String> {
    let is_test = source.path.contains("/tests/") || source.path.ends_with("tests.rs");
    let begins = |line: &str| is_test || (line.starts_with("#[cfg(") && line.contains("test"));
    source.text.lines().skip_while(|line| !begins(line)).flat_map(|line| cited(line, true)).collect()
}

/// The rows that no test cites.
fn check_tests(catalogue: &str, cited: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in catalogue.lines().enumerate() {
        for row in rows(text).difference(cited) {
            findings.push(Finding {
                path: FILE.to_owned(),
                line: line + 1,
                rule: "catalogue-rows",
                text: format!(
                    "no test cites {row}; name it at the start of a test's name, or in a comment above the test"
                ),
            });
        }
    }
    findings
}

/// The rows that a line cites: in its comment or, in a test, at the start of a function's name. `p00_…` cites a whole
/// section.
fn cited(line: &str, is_test: bool) -> Vec<String> {
    let comment = line.split_once("//").map_or("", |(_, comment)| comment);
    let words = comment.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'));
    let mut cited: Vec<String> = words.filter(|word| is_row(word)).map(str::to_owned).collect();
    let name = line.trim_start().strip_prefix("fn ").filter(|_| is_test).unwrap_or_default();
    // `r15_r16_…` cites two rows.
    for row in name.split('_').map(str::to_ascii_uppercase).take_while(|word| is_row(word)) {
        if let (section, Ok(number @ 1..)) = (&row[..1], row[1..].parse::<u8>()) {
            cited.push(format!("{section}{number}"));
        }
    }
    cited
}

/// A section's letter and a number of one to three digits.
fn is_row(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(|section| SECTIONS.contains(section))
        && (1..=3).contains(&letters.as_str().len())
        && letters.all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_from_the_first_column() {
        let rows = rows("## R\n| # | input |\n|---|---|\n| R1 | `X9` |\n| R3 R4 | two |\nU1 is prose\n");
        assert_eq!(rows.into_iter().collect::<Vec<_>>(), ["R1", "R3", "R4"]);
    }

    #[test]
    fn finds_missing_rows_in_comments_and_names() {
        let text = "//! Row R1.\n/// R2: a pool (P1).\nfn r01_works() { let R9 = 1; }\nfn x07_fails() {} // U5\nfn p99() {}\nfn p00_all() {}\nfn r01_h105_both() {}\n";
        let source = Source::fixture("crates/a/tests/a.rs", text);
        let found = check(&source, &BTreeSet::from(["R1".to_owned(), "P1".to_owned()]));
        let found: Vec<_> = found
            .iter()
            .map(|finding| (finding.line, finding.text.split([' ', ';']).nth(4).unwrap_or_default()))
            .collect();
        assert_eq!(found, [(2, "R2"), (4, "U5"), (4, "X7"), (7, "H105")]);
    }

    #[test]
    fn finds_rows_without_a_test() {
        let source = |path: &str, text: &str| cited_by_tests(&Source::fixture(path, text));
        let tests = source("crates/a/tests/a.rs", "/// Row T1.\nfn works() {}\nfn r02_r03_both() {}\n");
        assert_eq!(tests, ["T1", "R2", "R3"]);
        let unit =
            source("crates/a/src/a.rs", "// R4\nfn r07() {}\n#[cfg(test)]\nmod tests {\n    fn r05_works() {}\n}\n");
        assert_eq!(unit, ["R5"]);
        let found = check_tests("| R1 | one |\n| R2 R9 | two |\n| T1 | three |\n", &tests.into_iter().collect());
        let found: Vec<_> = found.iter().map(|finding| (finding.line, finding.text.split([' ', ';']).nth(3))).collect();
        assert_eq!(found, [(1, Some("R1")), (2, Some("R9"))]);
    }
}
