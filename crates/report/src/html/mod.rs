//! The document as one HTML page, with the conclusion first. It has no script and makes no request (a policy in the
//! page forbids both). Charts are inline SVG, with their numbers in a table.

mod escape;
mod style;
mod svg;

use crate::chart::{Chart, Kind};
use crate::document::{Block, Card, Document, Finding, Outcome, Section, Severity, Table, Verdict};
use crate::figure::shown;
use crate::palette::{Colour, Palette};
use escape::escape;
use std::fmt::Write as _;
pub use style::STYLE;

/// Most rows of the table under a chart, enough for a screen reader or a copy; the JSON has all of them.
const DATA_ROWS_MAX: usize = 200;

/// A page with more sections gets a table of contents.
const SECTIONS_WITHOUT_LIST_MAX: usize = 5;

/// The whole page: the conclusion, the most important figures, the sections, and the context of the figures.
pub fn render(document: &Document) -> String {
    let title = escape(&document.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    if let Some(answer) = &document.answer {
        let _ = writeln!(page, "<p class=\"answer\">{}</p>", escape(answer));
    }
    if !document.cards.is_empty() {
        let cards: String = document.cards.iter().map(render_card).collect();
        let _ = writeln!(page, "<div class=\"cards\">{cards}</div>");
    }
    if document.sections.len() > SECTIONS_WITHOUT_LIST_MAX {
        let links = document.sections.iter().enumerate();
        let links = links.map(|(number, section)| format!("<a href=\"#s{number}\">{}</a>", escape(&section.title)));
        let _ = writeln!(page, "<nav>{}</nav>", links.collect::<Vec<_>>().join(" "));
    }
    let palette = Palette::of(document);
    for (number, section) in document.sections.iter().enumerate() {
        render_section(&mut page, number, section, &palette);
    }
    render_facts(&mut page, document);
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn render_card(card: &Card) -> String {
    let trend = svg::trend(&card.trend);
    let (title, beside) = (escape(&card.title), escape(&card.beside));
    let (full, brief) = (escape(&card.figure.to_string()), card.figure.brief());
    // The number is large; its unit and its spread are not.
    let (number, unit) = brief.split_once(' ').map_or((brief.as_str(), ""), |(number, unit)| (number, unit));
    let unit = if unit.is_empty() { String::new() } else { format!(" <span class=\"unit\">{}</span>", escape(unit)) };
    let brief = format!("{}{unit}", escape(number));
    format!(
        "<div class=\"figure\"><div class=\"what\">{title}</div><div class=\"value\" title=\"{full}\">{brief}</div>{trend}\
         <div class=\"beside\">{beside}</div></div>"
    )
}

fn render_section(page: &mut String, number: usize, section: &Section, palette: &Palette) {
    let title = escape(&section.title);
    if section.folded {
        let _ =
            writeln!(page, "<section id=\"s{number}\">\n<details class=\"part\"><summary><h2>{title}</h2></summary>");
    } else {
        let _ = writeln!(page, "<section id=\"s{number}\">\n<h2>{title}</h2>");
    }
    for (place, block) in section.blocks.iter().enumerate() {
        match block {
            Block::Note(note) if note.severity == Severity::Note => {
                let _ = writeln!(page, "<p>{}</p>", escape(&note.text));
            }
            Block::Note(note) => {
                let word = note.severity.word();
                let _ = writeln!(page, "<p class=\"card {word}\"><strong>{word}:</strong> {}</p>", escape(&note.text));
            }
            Block::Table(table) => render_table(page, table),
            Block::Chart(chart) => render_chart(page, chart, &format!("c{number}-{place}"), palette),
            Block::Verdict(verdict) => render_verdict(page, verdict),
            Block::Finding(finding) => render_finding(page, finding),
        }
    }
    page.push_str(if section.folded { "</details>\n</section>\n" } else { "</section>\n" });
}

/// The context comes last: it is for readers who question or repeat the figures.
fn render_facts(page: &mut String, document: &Document) {
    let facts =
        document.facts.iter().map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value)));
    let facts: String = facts.collect();
    let made_by = escape(&document.made_by);
    if facts.is_empty() {
        let _ = writeln!(page, "<p class=\"by\">{made_by}</p>");
    } else if document.answer.is_some() {
        let title = "Method and environment";
        let _ = writeln!(
            page,
            "<section>\n<details class=\"part\"><summary><h2>{title}</h2></summary><dl>{facts}</dl></details>\n</section>\n<p class=\"by\">{made_by}</p>"
        );
    } else {
        let _ = writeln!(page, "<section>\n<dl>{facts}</dl>\n</section>\n<p class=\"by\">{made_by}</p>");
    }
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
            let (whole, (brief, is_zero)) = (Table::cell(row, column), Table::brief(row, column));
            // The interval and the number of samples are in the tooltip, and in the JSON.
            let title = if whole == brief { String::new() } else { format!(" title=\"{}\"", escape(&whole)) };
            let class = match (table.is_numeric(column), is_zero) {
                (true, true) => " class=\"n z\"",
                (true, false) => " class=\"n\"",
                (false, _) => "",
            };
            let _ = write!(page, "<td{class}{title}>{}</td>", escape(&brief));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

fn render_chart(page: &mut String, chart: &Chart, id: &str, palette: &Palette) {
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
    page.push_str(&svg::render(chart, id, palette));
    page.push_str("<figcaption>");
    // Bars have their names beside them.
    if chart.kind != Kind::Bars {
        let keys = chart.series.iter();
        let keys = keys.map(|series| {
            format!("<li>{}{}</li>", key(chart.kind, palette.colour(&series.name)), escape(&series.name))
        });
        let _ = write!(page, "<ul class=\"legend\">{}</ul>", keys.collect::<String>());
    }
    let missing = chart.series.iter().flat_map(|series| &series.points).filter(|point| !point.is_finite()).count();
    if missing > 0 {
        let _ = write!(page, "<p>{missing} points without a number are left out.</p>");
    }
    let _ = write!(page, "<details><summary>Numbers of this chart</summary>");
    render_table(page, &numbers(chart));
    page.push_str("</details></figcaption>\n</figure>\n");
}

/// The symbol of a series in the legend.
fn key(kind: Kind, colour: Colour) -> String {
    let drawn = if kind == Kind::Stacked {
        format!("<rect class=\"area {}\" x=\"1\" y=\"1\" width=\"30\" height=\"11\"/>", svg::area(colour))
    } else {
        format!("<line class=\"line {}\" x1=\"0\" x2=\"32\" y1=\"6\" y2=\"6\"/>", svg::line(colour))
    };
    format!("<svg class=\"k\" viewBox=\"0 0 32 13\" aria-hidden=\"true\">{drawn}</svg>")
}

/// The chart as a table: series, x, y. A long one has only every n-th point, and its title says so.
fn numbers(chart: &Chart) -> Table {
    let total: usize = chart.series.iter().map(|series| series.points.len()).sum();
    let stride = total.div_ceil(DATA_ROWS_MAX).max(1);
    let title = if stride > 1 { format!("{}, one of every {stride} points", chart.title) } else { chart.title.clone() };
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

/// A line with a mark, and its evidence to unfold. A failed verdict is open if its line does not say how it failed.
fn render_verdict(page: &mut String, verdict: &Verdict) {
    let (word, mark) = (verdict.outcome.word(), verdict.outcome.mark());
    let open = if verdict.outcome == Outcome::Fails && verdict.brief.is_empty() { " open" } else { "" };
    let brief = if verdict.brief.is_empty() {
        String::new()
    } else {
        format!(" <span class=\"brief\">{}</span>", escape(&verdict.brief))
    };
    let _ = write!(
        page,
        "<details class=\"claim {word}\"{open}><summary><span class=\"mark\">{mark}</span> <span class=\"word\">{word}</span> {}{brief}</summary><p>{}</p>",
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
    page.push_str("</details>\n");
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
