//! The document: what a tool has to say, before anybody decides how it looks. Plain data, serialisable as it is.

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
    /// What came of it, in one sentence. Shown first on a page, and last on a terminal, where the eye is after a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// A few figures that say most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<Card>,
    /// What the figures belong to: machine, kernel, command, date, seed. Name and value.
    pub facts: Vec<(String, String)>,
    /// In order.
    pub sections: Vec<Section>,
}

/// One figure, large.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// What it is.
    pub title: String,
    /// The figure.
    pub figure: Figure,
    /// What it is to be compared with; empty for nothing.
    pub beside: String,
    /// Its history, drawn small; empty for none. What is not finite is left out.
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
    /// For who wants to know more: closed on a page until it is opened, left out of a brief text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub folded: bool,
}

/// One thing in a section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "block")]
pub enum Block {
    /// Words.
    Note(Note),
    /// Rows and columns.
    Table(Table),
    /// Series drawn.
    Chart(Chart),
    /// The conclusion of a comparison or threshold.
    Verdict(Verdict),
    /// Something that is wrong, and its cure.
    Finding(Finding),
}

/// Words, with how much they matter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// How much it matters.
    pub severity: Severity,
    /// One paragraph.
    pub text: String,
}

/// How much something matters; the order is that of the exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Will hurt under load or in time.
    Warning,
    /// Is broken.
    Error,
}

impl Severity {
    /// The word that people read.
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
    /// What the rows are.
    pub title: String,
    /// Headings.
    pub columns: Vec<String>,
    /// Each as long as `columns`; what is missing is shown empty, what is too much is left out.
    pub rows: Vec<Vec<Cell>>,
}

/// What is in a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number with what it means.
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
    /// The evidence does not tell.
    Undecided,
    /// What was measured is not what was meant, so it counts for nothing.
    Void,
}

impl Outcome {
    /// The word that people read.
    pub fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Undecided => "undecided",
            Self::Void => "void",
        }
    }

    /// The mark beside it, so that colour is not needed to tell them apart.
    pub fn mark(self) -> char {
        match self {
            Self::Holds => '✓',
            Self::Fails => '✗',
            Self::Undecided => '?',
            Self::Void => '–',
        }
    }
}

/// A claim, whether it holds, and on what evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What was claimed.
    pub claim: String,
    /// Whether it holds.
    pub outcome: Outcome,
    /// Why, in a sentence with its numbers.
    pub reason: String,
    /// Named numbers behind it.
    pub evidence: Vec<(String, Figure)>,
}

/// Something that is wrong: what, why it hurts, how one can tell, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's name, as in `upstream-without-keepalive`.
    pub rule: String,
    /// How much it matters.
    pub severity: Severity,
    /// One line.
    pub what: String,
    /// File, line and column from 1, where it is in a file.
    pub place: Option<(String, usize, usize)>,
    /// What it leads to.
    pub why: String,
    /// What was seen.
    pub evidence: Vec<String>,
    /// The sum, where numbers decide; empty otherwise.
    pub arithmetic: String,
    /// Text to paste.
    pub fix: String,
    /// What the fix costs.
    pub side_effect: String,
    /// How to take it back.
    pub undo: String,
}

impl Finding {
    /// `file:line:column`, or nothing.
    pub fn place_text(&self) -> String {
        self.place.as_ref().map(|(file, line, column)| format!("{file}:{line}:{column}")).unwrap_or_default()
    }

    /// The parts under the headline that have text: name, text, and whether it is to be pasted.
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
    /// With nothing in it.
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

    /// Sets the sentence that answers.
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

    /// Adds what the figures belong to.
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

    /// All verdicts, in order.
    pub fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        self.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Verdict(verdict) => Some(verdict),
            _ => None,
        })
    }
}

impl Card {
    /// Without a history.
    pub fn new(title: &str, figure: Figure, beside: impl Into<String>) -> Self {
        Self { title: title.to_owned(), figure, beside: beside.into(), trend: Vec::new() }
    }

    /// With one.
    #[must_use]
    pub fn trend(mut self, values: impl IntoIterator<Item = f64>) -> Self {
        self.trend = values.into_iter().filter(|value| value.is_finite()).collect();
        self
    }
}

impl Section {
    /// With nothing in it.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), blocks: Vec::new(), folded: false }
    }

    /// For who wants to know more.
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

    /// Adds anything.
    #[must_use]
    pub fn block(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }
}

impl Table {
    /// Without rows.
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

    /// The cell with its spread in short, and whether it counts nothing.
    pub(crate) fn brief(row: &[Cell], column: usize) -> (String, bool) {
        match row.get(column) {
            Some(Cell::Figure(figure)) => (figure.brief(), figure.value() == 0.0),
            Some(Cell::Text(text)) => (text.clone(), false),
            None => (String::new(), false),
        }
    }

    /// The cell as text, empty where the row is short.
    pub(crate) fn cell(row: &[Cell], column: usize) -> String {
        row.get(column).map(Cell::to_string).unwrap_or_default()
    }

    /// Whether a column holds figures, which are aligned to the right.
    pub(crate) fn is_numeric(&self, column: usize) -> bool {
        self.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Figure(_))))
    }
}
