//! The document as one HTML page: no script, no request to anywhere (and a policy in the page that forbids both), charts as
//! inline SVG with their numbers in a table beside them.

mod escape;
mod style;
mod svg;

use crate::chart::{Chart, Kind};
use crate::document::{Block, Document, Finding, Severity, Table, Verdict};
use crate::figure::shown;
use escape::escape;
use std::fmt::Write as _;
use style::{COLOURS, STYLE};

/// Rows of the table under a chart; a screen reader or a copy takes no more, and the JSON has them all.
const DATA_ROWS_MAX: usize = 200;

/// The whole page.
pub fn render(document: &Document) -> String {
    let title = escape(&document.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n<p class=\"by\">{}</p>\n",
        escape(&document.made_by)
    );
    if !document.facts.is_empty() {
        let facts =
            document.facts.iter().map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value)));
        let _ = writeln!(page, "<dl>{}</dl>", facts.collect::<String>());
    }
    for (number, section) in document.sections.iter().enumerate() {
        let _ = writeln!(page, "<section>\n<h2>{}</h2>", escape(&section.title));
        for (place, block) in section.blocks.iter().enumerate() {
            match block {
                Block::Note(note) if note.severity == Severity::Note => {
                    let _ = writeln!(page, "<p>{}</p>", escape(&note.text));
                }
                Block::Note(note) => {
                    let word = note.severity.word();
                    let _ =
                        writeln!(page, "<p class=\"card {word}\"><strong>{word}:</strong> {}</p>", escape(&note.text));
                }
                Block::Table(table) => render_table(&mut page, table),
                Block::Chart(chart) => render_chart(&mut page, chart, &format!("c{number}-{place}")),
                Block::Verdict(verdict) => render_verdict(&mut page, verdict),
                Block::Finding(finding) => render_finding(&mut page, finding),
            }
        }
        page.push_str("</section>\n");
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn render_table(page: &mut String, table: &Table) {
    let title = escape(&table.title);
    let _ = write!(
        page,
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{title}\"><table><caption>{title}</caption><thead><tr>"
    );
    let class = |column| if table.is_numeric(column) { " class=\"n\"" } else { "" };
    for (column, head) in table.columns.iter().enumerate() {
        let _ = write!(page, "<th scope=\"col\"{}>{}</th>", class(column), escape(head));
    }
    page.push_str("</tr></thead><tbody>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for column in 0..table.columns.len() {
            let _ = write!(page, "<td{}>{}</td>", class(column), escape(&Table::cell(row, column)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

fn render_chart(page: &mut String, chart: &Chart, id: &str) {
    let over = if chart.x.title.is_empty() { String::new() } else { format!(" over {}", chart.x.title) };
    let _ = write!(
        page,
        "<figure>\n<h3>{}</h3>\n<p class=\"basis\">{}{}",
        escape(&chart.title),
        escape(&chart.y.title),
        escape(&over)
    );
    if !chart.basis.is_empty() {
        let _ = write!(page, "; {}", escape(&chart.basis));
    }
    page.push_str("</p>\n");
    page.push_str(&svg::render(chart, id));
    page.push_str("<figcaption><ul class=\"legend\">");
    match chart.kind {
        Kind::Bars => {
            for (place, name) in chart.categories.iter().enumerate() {
                let _ = write!(page, "<li>{}: {}</li>", place + 1, escape(name));
            }
        }
        kind => {
            for (at, series) in chart.series.iter().enumerate() {
                let _ = write!(page, "<li>{}{}</li>", key(kind, at % COLOURS), escape(&series.name));
            }
        }
    }
    page.push_str("</ul>");
    let missing = chart.series.iter().flat_map(|series| &series.points).filter(|point| !point.is_finite()).count();
    if missing > 0 {
        let _ = write!(page, "<p>{missing} points without a number are left out.</p>");
    }
    let _ = write!(page, "<details><summary>Numbers of this chart</summary>");
    render_table(page, &numbers(chart));
    page.push_str("</details></figcaption>\n</figure>\n");
}

/// The sign of a series in the legend.
fn key(kind: Kind, colour: usize) -> String {
    let drawn = if kind == Kind::Stacked {
        format!("<rect class=\"area c{colour} f{colour}\" x=\"1\" y=\"1\" width=\"30\" height=\"11\"/>")
    } else {
        format!("<line class=\"line c{colour}\" x1=\"0\" x2=\"32\" y1=\"6\" y2=\"6\"/>")
    };
    format!("<svg class=\"k\" viewBox=\"0 0 32 13\" aria-hidden=\"true\">{drawn}</svg>")
}

/// The chart as a table: series, x, y. Long ones take every so-manieth point, and say so.
fn numbers(chart: &Chart) -> Table {
    let total: usize = chart.series.iter().map(|series| series.points.len()).sum();
    let stride = total.div_ceil(DATA_ROWS_MAX).max(1);
    let title = if stride > 1 { format!("{}, every {stride}th point", chart.title) } else { chart.title.clone() };
    let mut table = Table::new(&title, &["series", "x", "y"]);
    table.columns = vec!["series".to_owned(), chart.x.title.clone(), chart.y.title.clone()];
    for series in &chart.series {
        for point in series.points.iter().step_by(stride) {
            let (x, y) = (chart.x_text(point.x), shown(point.y, &chart.y.unit));
            table.rows.push(vec![series.name.as_str().into(), x.into(), y.into()]);
        }
    }
    table
}

fn render_verdict(page: &mut String, verdict: &Verdict) {
    let word = verdict.outcome.word();
    let _ = write!(
        page,
        "<div class=\"card {word}\"><h3>{word}: {}</h3><p>{}</p>",
        escape(&verdict.claim),
        escape(&verdict.reason)
    );
    if !verdict.evidence.is_empty() {
        page.push_str("<dl>");
        for (name, figure) in &verdict.evidence {
            let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(&figure.to_string()));
        }
        page.push_str("</dl>");
    }
    page.push_str("</div>\n");
}

fn render_finding(page: &mut String, finding: &Finding) {
    let word = finding.severity.word();
    let _ = write!(
        page,
        "<article class=\"card {word}\"><h3>{word}: {}</h3><p class=\"by\">{} <code>{}</code></p><dl>",
        escape(&finding.what),
        escape(&finding.place_text()),
        escape(&finding.rule)
    );
    for (name, text, paste) in finding.parts() {
        let text = escape(&text);
        let text = if paste { format!("<pre tabindex=\"0\">{text}</pre>") } else { text.replace('\n', "<br>") };
        let _ = write!(page, "<dt>{name}</dt><dd>{text}</dd>");
    }
    page.push_str("</dl></article>\n");
}
