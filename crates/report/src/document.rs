//! The document: the content of a report, without its form. Plain data, serialisable as it is.

use crate::chart::Chart;
use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// Everything one command reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// The headline.
    pub title: String,
    /// Program and version.
    pub made_by: String,
    /// The conclusion in one sentence. Shown first on a page, and last on a terminal, where it stays visible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The most important figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<Card>,
    /// The context of the figures: machine, kernel, command, date, seed. Name and value.
    pub facts: Vec<(String, String)>,
    /// In order.
    pub sections: Vec<Section>,
}

/// One figure, large.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// What the figure is.
    pub title: String,
    /// The figure.
    pub figure: Figure,
    /// The value to compare it with; empty for none.
    pub beside: String,
    /// Its history, drawn small; empty for none. Values that are not finite are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trend: Vec<f64>,
}

/// A titled part of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// In order.
    pub blocks: Vec<Block>,
    /// Whether it has details only: closed on a page until opened, left out of a brief text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub folded: bool,
}

/// One part of a section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "block")]
pub enum Block {
    /// Text.
    Note(Note),
    /// Rows and columns.
    Table(Table),
    /// A chart.
    Chart(Chart),
    /// The conclusion of a comparison or threshold.
    Verdict(Verdict),
    /// A fault and its fix.
    Finding(Finding),
}

/// A text with its severity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Its severity.
    pub severity: Severity,
    /// One paragraph.
    pub text: String,
}

/// The severity of a note or finding, in the order of the exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Will fail under load or later.
    Warning,
    /// Is broken.
    Error,
}

impl Severity {
    /// The word shown to readers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Rows and columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// The title.
    pub title: String,
    /// Headings.
    pub columns: Vec<String>,
    /// The rows. A missing cell is shown empty; a surplus cell is left out.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Text.
    Text(String),
    /// A number with its unit and spread.
    Figure(Figure),
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Figure(figure) => figure.fmt(f),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Figure> for Cell {
    fn from(figure: Figure) -> Self {
        Self::Figure(figure)
    }
}

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The evidence supports it.
    Holds,
    /// The evidence contradicts it.
    Fails,
    /// The evidence does not decide.
    Undecided,
    /// The measurement was not valid, so it does not count.
    Void,
}

impl Outcome {
    /// The word shown to readers.
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Undecided => "undecided",
            Self::Void => "void",
        }
    }

    /// The mark beside the word, so that colour is not needed.
    pub fn mark(self) -> char {
        match self {
            Self::Holds => '✓',
            Self::Fails => '✗',
            Self::Undecided => '?',
            Self::Void => '–',
        }
    }
}

/// A claim, its outcome, and the evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The claim.
    pub claim: String,
    /// Whether it holds.
    pub outcome: Outcome,
    /// Why, in a sentence with its numbers.
    pub reason: String,
    /// The same in a few words, for a list: the effect, or what is missing. May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub brief: String,
    /// The numbers that support it.
    pub evidence: Vec<(String, Figure)>,
}

/// A fault: what, why it matters, the evidence, and the fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's name, as in `upstream-without-keepalive`.
    pub rule: String,
    /// Its severity.
    pub severity: Severity,
    /// The fault in one line.
    pub what: String,
    /// File, line and column, both counted from 1, if it is in a file.
    pub place: Option<(String, usize, usize)>,
    /// The consequence of the fault.
    pub why: String,
    /// What was observed.
    pub evidence: Vec<String>,
    /// The calculation, if numbers decide; empty otherwise.
    pub arithmetic: String,
    /// Text to paste.
    pub fix: String,
    /// The disadvantage of the fix.
    pub side_effect: String,
    /// How to undo the fix.
    pub undo: String,
}

impl Finding {
    /// `file:line:column`; empty without a place.
    pub fn place_text(&self) -> String {
        self.place.as_ref().map(|(file, line, column)| format!("{file}:{line}:{column}")).unwrap_or_default()
    }

    /// The parts below the headline that have text: name, text, and whether it is meant to be pasted.
    pub(crate) fn parts(&self) -> Vec<(&'static str, String, bool)> {
        let evidence = self.evidence.join("\n");
        let parts = [
            ("why it hurts", &self.why, false),
            ("evidence", &evidence, false),
            ("arithmetic", &self.arithmetic, false),
            ("fix", &self.fix, true),
            ("side effect", &self.side_effect, false),
            ("to undo", &self.undo, false),
        ];
        let parts = parts.into_iter().filter(|(_, text, _)| !text.is_empty());
        parts.map(|(name, text, paste)| (name, text.clone(), paste)).collect()
    }
}

impl Document {
    /// An empty document.
    pub fn new(title: &str, made_by: &str) -> Self {
        Self {
            title: title.to_owned(),
            made_by: made_by.to_owned(),
            answer: None,
            cards: Vec::new(),
            facts: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// Sets the conclusion.
    #[must_use]
    pub fn answer(mut self, answer: impl Into<String>) -> Self {
        self.answer = Some(answer.into());
        self
    }

    /// Adds a card.
    #[must_use]
    pub fn card(mut self, card: Card) -> Self {
        self.cards.push(card);
        self
    }

    /// Adds a fact about the context of the figures.
    #[must_use]
    pub fn fact(mut self, name: &str, value: impl Into<String>) -> Self {
        self.facts.push((name.to_owned(), value.into()));
        self
    }

    /// Adds a section.
    #[must_use]
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// All findings, in order.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Finding(finding) => Some(finding),
            _ => None,
        })
    }
}

impl Card {
    /// A card without a history.
    pub fn new(title: &str, figure: Figure, beside: impl Into<String>) -> Self {
        Self { title: title.to_owned(), figure, beside: beside.into(), trend: Vec::new() }
    }

    /// Adds a history.
    #[must_use]
    pub fn trend(mut self, values: impl IntoIterator<Item = f64>) -> Self {
        self.trend = values.into_iter().filter(|value| value.is_finite()).collect();
        self
    }
}

impl Section {
    /// An empty section.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), blocks: Vec::new(), folded: false }
    }

    /// Marks it as details only.
    #[must_use]
    pub fn folded(mut self) -> Self {
        self.folded = true;
        self
    }

    /// Adds a paragraph.
    #[must_use]
    pub fn note(self, severity: Severity, text: impl Into<String>) -> Self {
        self.block(Block::Note(Note { severity, text: text.into() }))
    }

    /// Adds a table.
    #[must_use]
    pub fn table(self, table: Table) -> Self {
        self.block(Block::Table(table))
    }

    /// Adds a chart.
    #[must_use]
    pub fn chart(self, chart: Chart) -> Self {
        self.block(Block::Chart(chart))
    }

    /// Adds a verdict.
    #[must_use]
    pub fn verdict(self, verdict: Verdict) -> Self {
        self.block(Block::Verdict(verdict))
    }

    /// Adds a finding.
    #[must_use]
    pub fn finding(self, finding: Finding) -> Self {
        self.block(Block::Finding(finding))
    }

    /// Adds any block.
    #[must_use]
    pub fn block(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }
}

impl Table {
    /// A table without rows.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { title: title.to_owned(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    #[must_use]
    pub fn row(mut self, cells: Vec<Cell>) -> Self {
        self.rows.push(cells);
        self
    }

    /// The cell with its spread in short form, and whether its value is zero.
    pub(crate) fn brief(row: &[Cell], column: usize) -> (String, bool) {
        match row.get(column) {
            Some(Cell::Figure(figure)) => (figure.brief(), figure.value() == 0.0),
            Some(Cell::Text(text)) => (text.clone(), false),
            None => (String::new(), false),
        }
    }

    /// The cell as text; empty if the row has no such cell.
    pub(crate) fn cell(row: &[Cell], column: usize) -> String {
        row.get(column).map(Cell::to_string).unwrap_or_default()
    }

    /// Whether a column holds figures, which are aligned to the right.
    pub(crate) fn is_numeric(&self, column: usize) -> bool {
        self.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Figure(_))))
    }
}
