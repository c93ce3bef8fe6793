//! A table of words and numbers that fits a given number of columns. Pure; `tables` fills the tables, and the plain output
//! and the live view show them.

use report::text::grouped;
use std::cmp::Ordering;

/// A cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// The number; numbers are sorted by value and aligned to the right.
    value: Option<f64>,
    /// Whether to cut the beginning of a long text: the port of an address matters most.
    keeps_end: bool,
}

impl Cell {
    pub(crate) fn word(text: impl Into<String>) -> Self {
        Self { text: text.into(), value: None, keeps_end: false }
    }

    pub(crate) fn address(text: &impl ToString) -> Self {
        Self { text: text.to_string(), value: None, keeps_end: true }
    }

    pub(crate) fn count(value: u64) -> Self {
        Self { text: grouped(value), value: Some(value as f64), keeps_end: false }
    }

    /// A number with its text.
    pub(crate) fn number(value: f64, text: String) -> Self {
        Self { text, value: Some(value), keeps_end: false }
    }

    /// An unknown number, sorted below all others.
    pub(crate) fn unknown() -> Self {
        Self { text: "-".to_owned(), value: Some(f64::NEG_INFINITY), keeps_end: false }
    }

    pub(crate) fn maybe(value: Option<u64>) -> Self {
        value.map_or_else(Self::unknown, Self::count)
    }

    fn cmp(&self, other: &Self) -> Ordering {
        match (self.value, other.value) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => self.text.cmp(&other.text),
        }
    }

    /// The text in exactly this many columns.
    pub(crate) fn fitted(&self, width: usize) -> String {
        let length = self.text.chars().count();
        if length <= width {
            return if self.value.is_some() {
                format!("{:>width$}", self.text)
            } else {
                format!("{:width$}", self.text)
            };
        }
        let kept = width.saturating_sub(1);
        if self.keeps_end {
            let tail: String = self.text.chars().skip(length - kept).collect();
            format!("…{tail}")
        } else {
            self.text.chars().take(kept).chain(['…']).take(width).collect()
        }
    }
}

/// Rows under headings.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Table {
    pub(crate) headings: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Cell>>,
    /// The text for a table without rows.
    pub(crate) empty: &'static str,
}

/// Columns between two columns of the table.
const GAP: usize = 1;
/// Words are not cut shorter than this, even if the table becomes too wide.
const WORD_MIN: usize = 9;

impl Table {
    /// Sorts by a column: numbers in descending order, words in ascending order.
    pub(crate) fn sort(&mut self, column: usize, backwards: bool) {
        self.rows.sort_by(|a, b| {
            let (Some(one), Some(other)) = (a.get(column), b.get(column)) else { return Ordering::Equal };
            let order = one.cmp(other);
            let order = if one.value.is_some() { order.reverse() } else { order };
            if backwards { order.reverse() } else { order }
        });
    }

    /// Widths of the columns within `width`: words are shortened, the widest first; numbers never are.
    pub(crate) fn widths(&self, width: usize) -> Vec<usize> {
        let natural = |(at, heading): (usize, &&'static str)| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.text.chars().count());
            cells.chain([heading.chars().count()]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = self.headings.iter().enumerate().map(natural).collect();
        let is_word =
            |at: usize| self.rows.first().and_then(|row| row.get(at)).is_some_and(|cell| cell.value.is_none());
        loop {
            let sum = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
            let widest = widths.iter_mut().enumerate().filter(|(at, _)| is_word(*at)).max_by_key(|(_, width)| **width);
            match widest {
                Some((_, widest)) if sum > width && *widest > WORD_MIN => *widest -= 1,
                _ => return widths,
            }
        }
    }

    /// The headings and the rows, as lines of at most `width` columns.
    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let widths = self.widths(width);
        let line = |cells: Vec<String>| {
            let line = cells.join(" ");
            line.trim_end().chars().take(width).collect::<String>()
        };
        let first = self.rows.first();
        let heading = |(at, (heading, width)): (usize, (&&'static str, &usize))| {
            let is_number = first.and_then(|row| row.get(at)).is_some_and(|cell| cell.value.is_some());
            let cell = Cell { text: (*heading).to_owned(), value: is_number.then_some(0.0), keeps_end: false };
            cell.fitted(*width)
        };
        let mut lines = vec![line(self.headings.iter().zip(&widths).enumerate().map(heading).collect())];
        for row in &self.rows {
            lines.push(line(row.iter().zip(&widths).map(|(cell, width)| cell.fitted(*width)).collect()));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = |address: &str, count, cause: &str| {
            vec![Cell::address(&address), Cell::count(count), Cell::word(cause), Cell::maybe(None)]
        };
        Table {
            headings: vec!["address", "bytes", "cause", "asked"],
            rows: vec![
                row("[2001:db8::1234:5678]:40000", 1_234_567, "application not reading"),
                row("10.0.0.1:80", 9, "on its way"),
            ],
            empty: "nothing",
        }
    }

    #[test]
    fn words_give_way_and_addresses_keep_their_port() {
        let lines = table().lines(44);
        assert!(lines.iter().all(|line| line.chars().count() <= 44), "{lines:#?}");
        assert!(lines[1].contains(":40000 1,234,567 ") && lines[1].starts_with('…'), "{lines:#?}");
        assert_eq!(table().lines(200)[1], "[2001:db8::1234:5678]:40000 1,234,567 application not reading     -");
    }

    #[test]
    fn numbers_sort_by_value_and_words_by_letter() {
        let mut sorted = table();
        sorted.sort(1, true);
        assert_eq!(sorted.rows[0][1].text, "9");
        sorted.sort(1, false);
        assert_eq!(sorted.rows[0][1].text, "1,234,567");
        sorted.sort(0, false);
        assert_eq!(sorted.rows[0][0].text, "10.0.0.1:80");
        sorted.sort(99, false);
    }
}
