//! The document for a terminal or a pipe: in the given width, without colours, and without control sequences from the
//! data.

mod chart;
mod pieces;
mod table;

pub use pieces::{grouped, printable, sparkline};

use crate::chart::Kind;
use crate::document::{Block, Document, Finding, Outcome, Verdict};
use unicode_width::UnicodeWidthStr as _;

/// Smallest readable width; a smaller one is raised to it.
pub const WIDTH_MIN: usize = 40;

/// How much of a document to render.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    /// What fits on two screens.
    Brief,
}

/// The whole document. `width` is in columns of the terminal.
pub fn render(document: &Document, width: usize) -> String {
    written(document, width, Extent::Whole)
}

/// A version for two screens: one line for each verdict that holds, tables with short spreads, no charts over time, no
/// details. The conclusion comes last, where it stays visible. A document without a conclusion is rendered whole.
pub fn brief(document: &Document, width: usize) -> String {
    written(document, width, if document.answer.is_some() { Extent::Brief } else { Extent::Whole })
}

fn written(document: &Document, width: usize, extent: Extent) -> String {
    let width = width.max(WIDTH_MIN);
    let mut out = Lines { width, text: String::new() };
    out.paragraph("", &document.title);
    if extent == Extent::Whole {
        out.paragraph("", &document.made_by);
        facts(&mut out, document);
    }
    for section in document.sections.iter().filter(|section| extent == Extent::Whole || !section.folded) {
        out.line("");
        out.line(&clean(&section.title));
        out.line(&"-".repeat(clean(&section.title).width().min(width)));
        for block in &section.blocks {
            render_block(&mut out, block, extent);
        }
    }
    if let Some(answer) = &document.answer {
        out.line("");
        out.paragraph("", answer);
    }
    out.text
}

fn facts(out: &mut Lines, document: &Document) {
    let width = out.width;
    let names = document.facts.iter().map(|(name, _)| clean(name).width()).max().unwrap_or(0).min(width / 3);
    for (name, value) in &document.facts {
        let name = clean(name);
        // A name that is too wide goes above its value, which keeps to its column.
        if name.width() > names {
            out.paragraph("", &name);
            out.paragraph(&" ".repeat(names + 2), value);
        } else {
            out.paragraph(&padded(&name, names + 2), value);
        }
    }
}

fn render_block(out: &mut Lines, block: &Block, extent: Extent) {
    match block {
        Block::Note(note) if note.severity == crate::Severity::Note => out.paragraph("", &note.text),
        Block::Note(note) => out.paragraph(&format!("{}: ", note.severity.word()), &note.text),
        Block::Table(table) if extent == Extent::Brief => table::brief(out, table),
        Block::Table(table) => table::render(out, table),
        Block::Chart(chart) if extent == Extent::Brief && chart.kind != Kind::Bars => {}
        Block::Chart(chart) => chart::render(out, chart),
        Block::Verdict(verdict) if extent == Extent::Brief => brief_verdict(out, verdict),
        Block::Verdict(verdict) => render_verdict(out, verdict),
        Block::Finding(finding) => render_finding(out, finding),
    }
}

/// One line for a verdict that holds; others with the reason in a few words.
fn brief_verdict(out: &mut Lines, verdict: &Verdict) {
    let mark = verdict.outcome.mark();
    out.paragraph(&format!("{mark} "), &verdict.claim);
    if verdict.outcome != Outcome::Holds {
        let why = if verdict.brief.is_empty() { &verdict.reason } else { &verdict.brief };
        out.paragraph("    ", &format!("{}: {why}", verdict.outcome.word()));
    }
}

fn render_verdict(out: &mut Lines, verdict: &Verdict) {
    out.paragraph(&format!("[{}] ", verdict.outcome.word()), &verdict.claim);
    out.paragraph("    ", &verdict.reason);
    for (name, figure) in &verdict.evidence {
        out.paragraph("    ", &format!("{name}: {figure}"));
    }
}

fn render_finding(out: &mut Lines, finding: &Finding) {
    out.line("");
    let place = finding.place_text();
    let place = if place.is_empty() { String::new() } else { format!("{place}: ") };
    out.paragraph("", &format!("{place}{}: {} [{}]", finding.severity.word(), finding.what, finding.rule));
    for (name, text, paste) in finding.parts() {
        let label = padded(&format!("  {name}:"), 16);
        // Text to paste keeps its lines, however long they are.
        if paste {
            out.line(label.trim_end());
            text.lines().for_each(|line| out.line(&format!("      {}", clean(line))));
        } else {
            for (at, line) in text.lines().enumerate() {
                out.paragraph(if at == 0 { &label } else { "                " }, line);
            }
        }
    }
}

/// Text built line by line.
pub(crate) struct Lines {
    pub(crate) width: usize,
    text: String,
}

impl Lines {
    /// Adds a line that is already clean and not too wide.
    pub(crate) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Adds cleaned text, broken at spaces, with later lines indented by the width of `label`.
    pub(crate) fn paragraph(&mut self, label: &str, text: &str) {
        let (label, text) = (clean(label), clean(text));
        let indent = label.width();
        let mut line = label;
        let mut empty = true;
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            if !empty && line.width() + 1 + word.width() > self.width {
                self.line(&line);
                line = " ".repeat(indent);
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
            empty = false;
        }
        self.line(&line);
    }
}

/// Adds trailing spaces, up to this many columns.
pub(crate) fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

/// Adds leading spaces, up to this many columns.
pub(crate) fn padded_left(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(text.width())))
}

/// Escapes control characters, which a terminal would execute, and marks of text direction.
pub(crate) fn clean(text: &str) -> String {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => cleaned.push(' '),
            c if c.is_control() || turns(c) => cleaned.extend(c.escape_unicode()),
            c => cleaned.push(c),
        }
    }
    cleaned
}
