//! The document as Markdown (GitHub's flavour), for issues, changelogs and repositories. Charts become tables of their
//! summaries; the HTML page has the drawings. Pure, like the other renderings.

use crate::chart::{Chart, Kind, Point, Series};
use crate::document::{Block, Document, Finding, Severity, Table, Verdict};
use crate::figure::shown;
use crate::text::clean;
use std::fmt::Write as _;

/// The usual quantiles of a spectrum.
const QUANTILES: [f64; 6] = [0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];

/// The whole document.
pub fn render(document: &Document) -> String {
    let mut out = format!("# {}\n\n{}\n", escape(&document.title), escape(&document.made_by));
    if !document.facts.is_empty() {
        out.push('\n');
        for (name, value) in &document.facts {
            let _ = writeln!(out, "* **{}**: {}", escape(name), escape(value));
        }
    }
    for section in &document.sections {
        let _ = writeln!(out, "\n## {}", escape(&section.title));
        for block in &section.blocks {
            out.push('\n');
            match block {
                Block::Note(note) if note.severity == Severity::Note => {
                    let _ = writeln!(out, "{}", escape(&note.text));
                }
                Block::Note(note) => {
                    let _ = writeln!(out, "> **{}:** {}", note.severity.word(), escape(&note.text));
                }
                Block::Table(table) => render_table(&mut out, table),
                Block::Chart(chart) => render_chart(&mut out, chart),
                Block::Verdict(verdict) => render_verdict(&mut out, verdict),
                Block::Finding(finding) => render_finding(&mut out, finding),
            }
        }
    }
    out
}

fn render_table(out: &mut String, table: &Table) {
    let _ = writeln!(out, "**{}**\n", escape(&table.title));
    let columns = table.columns.len();
    let heads: Vec<String> = table.columns.iter().map(|head| escape(head)).collect();
    let rule = (0..columns).map(|column| if table.is_numeric(column) { "---:" } else { "---" });
    let _ = writeln!(out, "| {} |\n| {} |", heads.join(" | "), rule.collect::<Vec<_>>().join(" | "));
    for row in &table.rows {
        let cells: Vec<String> = (0..columns).map(|column| escape(&Table::cell(row, column))).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
}

/// The numbers of a chart: bars and percentiles as they are; for lines and areas the median, range and last value.
fn render_chart(out: &mut String, chart: &Chart) {
    let finite = |series: &Series| series.points.iter().copied().filter(Point::is_finite).collect::<Vec<_>>();
    let y = |value: f64| shown(value, &chart.y.unit);
    let title = if chart.basis.is_empty() { chart.title.clone() } else { format!("{} ({})", chart.title, chart.basis) };
    let mut table = match chart.kind {
        Kind::Bars => Table::new(&title, &["", ""]),
        Kind::Spectrum => Table::new(&title, &["", "percentiles"]),
        Kind::Lines | Kind::Stacked => Table::new(&title, &["", "median", "least", "most", "last", "points"]),
    };
    for series in &chart.series {
        let points = finite(series);
        let name = || crate::Cell::from(series.name.as_str());
        match chart.kind {
            Kind::Bars => {
                let bars = points.iter().map(|point| vec![chart.x_text(point.x).into(), y(point.y).into()]);
                table.rows.extend(bars);
            }
            Kind::Spectrum => {
                let at = |quantile: f64| points.iter().find(|point| point.x >= quantile - 1e-9).or(points.last());
                let texts = QUANTILES.iter().filter_map(|quantile| {
                    at(*quantile).map(|point| format!("{} {}", chart.x_text(*quantile), y(point.y)))
                });
                table.rows.push(vec![name(), texts.collect::<Vec<_>>().join(", ").into()]);
            }
            Kind::Lines | Kind::Stacked => {
                let ys: Vec<f64> = points.iter().map(|point| point.y).collect();
                let summary = stats::Summary::of(&ys);
                let [median, min, max] = summary
                    .map_or([f64::NAN; 3], |summary| [summary.median, summary.min, summary.max])
                    .map(|value| crate::Cell::from(y(value)));
                let last = ys.last().copied().unwrap_or(f64::NAN);
                table.rows.push(vec![name(), median, min, max, y(last).into(), ys.len().to_string().into()]);
            }
        }
    }
    render_table(out, &table);
}

fn render_verdict(out: &mut String, verdict: &Verdict) {
    let _ =
        writeln!(out, "* **{}**: {}  \n  {}", verdict.outcome.word(), escape(&verdict.claim), escape(&verdict.reason));
    for (name, figure) in &verdict.evidence {
        let _ = writeln!(out, "  * {}: {}", escape(name), escape(&figure.to_string()));
    }
}

fn render_finding(out: &mut String, finding: &Finding) {
    let _ = writeln!(out, "### {}: {}\n", finding.severity.word(), escape(&finding.what));
    let place = finding.place_text();
    if !place.is_empty() {
        let _ = writeln!(out, "{}  ", escape(&place));
    }
    let _ = writeln!(out, "rule: {}", escape(&finding.rule));
    for (name, text, paste) in finding.parts() {
        if paste {
            let fence = fence(&text);
            let lines: Vec<String> = text.lines().map(clean).collect();
            let _ = writeln!(out, "\n{name}:\n\n{fence}\n{}\n{fence}", lines.join("\n"));
        } else {
            let lines: Vec<String> = text.lines().map(escape).collect();
            let _ = writeln!(out, "\n**{name}**: {}", lines.join("  \n"));
        }
    }
}

/// A fence longer than any row of backticks in the text, so that nothing in the text ends the block.
fn fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// Text on one line without markup, for a paragraph or a table cell.
fn escape(text: &str) -> String {
    let text = clean(text);
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.trim_start().chars().peekable();
    while let Some(c) = rest.next() {
        // An underscore within a word is literal, and names of figures have many.
        let is_inner = c == '_' && before.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric());
        // Brackets alone are literal, and the spread of every figure has them; followed by one of these characters they
        // would be a link.
        let next = rest.peek().copied();
        let links = c == ']' && (matches!(next, Some('(' | '[')) || next == Some(':') && escaped.starts_with('['));
        // A paragraph must not begin like a list, a heading or a quote. A number before a full stop would begin a list,
        // too.
        let begins = escaped.is_empty() && matches!(c, '#' | '+' | '-' | '=');
        let numbers = matches!(c, '.' | ')')
            && next.is_none_or(char::is_whitespace)
            && !escaped.is_empty()
            && escaped.bytes().all(|byte| byte.is_ascii_digit());
        let acts = matches!(c, '\\' | '`' | '*' | '_' | '<' | '>' | '|' | '&' | '~') && !is_inner;
        if acts || links || begins || numbers {
            escaped.push('\\');
        }
        escaped.push(c);
        before = c;
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_figures_stay_readable_and_markup_does_not_act() {
        assert_eq!(escape("cpu_us_per_request.proxy"), "cpu_us_per_request.proxy");
        assert_eq!(escape("a | <b> *c* `d` [e](f) _g_"), "a \\| \\<b\\> \\*c\\* \\`d\\` [e\\](f) \\_g\\_");
        assert_eq!(escape("# no heading\nno second line"), "\\# no heading no second line");
        assert_eq!(escape("1. no list"), "1\\. no list");
        assert_eq!(escape("[no]: definition"), "[no\\]: definition");
        assert_eq!(escape("0.5 [0.4–0.6]: so"), "0.5 [0.4–0.6]: so");
    }

    #[test]
    fn fence_is_longer_than_any_inside() {
        assert_eq!(fence("plain"), "```");
        assert_eq!(fence("```` four"), "`````");
    }
}
