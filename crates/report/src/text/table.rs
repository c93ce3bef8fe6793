//! Tables for the terminal: columns if they fit, otherwise one record per row.

use super::{Lines, clean, padded, padded_left};
use crate::document::{Cell, Table};
use unicode_width::UnicodeWidthStr as _;

const GAP: usize = 2;

pub(super) fn render(out: &mut Lines, table: &Table) {
    with_cells(out, table, Table::cell);
}

/// The table with short spreads.
pub(super) fn brief(out: &mut Lines, table: &Table) {
    with_cells(out, table, |row, column| Table::brief(row, column).0);
}

fn with_cells(out: &mut Lines, table: &Table, cell: impl Fn(&[Cell], usize) -> String) {
    out.line("");
    out.paragraph("", &table.title);
    let cells: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| (0..table.columns.len()).map(|column| clean(&cell(row, column))).collect())
        .collect();
    let heads: Vec<String> = table.columns.iter().map(|column| clean(column)).collect();
    let widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(column, head)| cells.iter().map(|row| row[column].width()).chain([head.width()]).max().unwrap_or(0))
        .collect();
    if widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1) > out.width {
        return records(out, &heads, &cells);
    }
    for row in std::iter::once(&heads).chain(&cells) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            if column > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            let right = table.is_numeric(column);
            line.push_str(&if right { padded_left(cell, widths[column]) } else { padded(cell, widths[column]) });
        }
        out.line(&line);
    }
}

/// Renders each row as several lines: the first cell, and below it the others with their headings.
fn records(out: &mut Lines, heads: &[String], cells: &[Vec<String>]) {
    let longest = heads.iter().skip(1).map(|head| head.width()).max().unwrap_or(0).min(out.width / 3);
    for row in cells {
        out.paragraph("* ", row.first().map_or("", String::as_str));
        for (head, cell) in heads.iter().zip(row).skip(1).filter(|(_, cell)| !cell.is_empty()) {
            out.paragraph(&padded(&format!("    {head}"), longest + 6), cell);
        }
    }
}
