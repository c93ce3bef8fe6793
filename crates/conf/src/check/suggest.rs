//! "Did you mean": the directive that the operator most likely meant, and the names of contexts. Called by `check`.

use super::Index;
use crate::table::{Context, Contexts, Directive as Row, Support};
use crate::tree::Word;

/// Longest name that gets a suggestion. The longest directive has 37 letters, and the cost of a distance is the product
/// of both lengths.
const NAME_BYTES_MAX: usize = 64;

/// What may have been meant.
pub(super) enum Suggestion<'r> {
    /// A directive that may appear here.
    Name(&'r Row),
    /// A directive that may appear elsewhere.
    Elsewhere(&'r Row),
    /// A directive with something attached to its name: `listen:`, `root=/x`.
    Attached(&'r Row, String),
    /// Part of a regular expression that should have been quoted.
    Pattern,
}

impl Suggestion<'_> {
    /// The suggestion as a hint.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Name(row) => format!("did you mean `{}`?{}", row.name, remark(row)),
            Self::Elsewhere(row) => {
                let contexts = contexts_text(row.contexts);
                format!("did you mean `{}`? It is allowed in {contexts}{}", row.name, remark(row))
            }
            Self::Attached(row, rest) => {
                let rest = if rest.is_empty() { "…" } else { rest };
                format!("a space must follow the name of a directive: `{} {rest}`", row.name)
            }
            Self::Pattern => "a regular expression that contains `{`, `}` or `;` must be in quotes".to_owned(),
        }
    }
}

fn remark(row: &Row) -> &'static str {
    if row.support == Support::No { " (known, but not supported by holdfast)" } else { "" }
}

/// What the operator probably meant by a name that no directive has.
pub(super) fn suggest<'r>(name: &Word, context: Context, index: &Index<'r>) -> Option<Suggestion<'r>> {
    let text = name.text();
    let words = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    if let Some(at) = words
        && let Some(row) = index.find_in(&text.as_bytes()[..at], context)
    {
        let rest = text[at..].trim_start_matches(['=', ':']);
        return Some(Suggestion::Attached(row, rest.chars().take(NAME_BYTES_MAX).collect()));
    }
    if text.contains(['}', '\\', '^', '$', '(', ')', '|']) {
        return Some(Suggestion::Pattern);
    }
    if text.len() > NAME_BYTES_MAX {
        return None;
    }
    let here = index.rows().filter(|row| row.contexts.contains(context));
    if let Some(row) = nearest(&text, here.clone().filter(|row| row.support != Support::No)) {
        return Some(Suggestion::Name(row));
    }
    nearest(&text, here).map(Suggestion::Name).or_else(|| nearest(&text, index.rows()).map(Suggestion::Elsewhere))
}

/// The candidate with the fewest edits, if these are few enough; otherwise a candidate that begins with `name`.
fn nearest<'r>(name: &str, candidates: impl Iterator<Item = &'r Row> + Clone) -> Option<&'r Row> {
    let lower = name.to_ascii_lowercase().replace('-', "_");
    let edits_max = match lower.len() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    };
    let by_edits = candidates
        .clone()
        .filter(|row| row.name.len().abs_diff(lower.len()) <= edits_max)
        .map(|row| (strsim::osa_distance(&lower, row.name), row))
        .filter(|(edits, _)| *edits <= edits_max)
        .min_by_key(|(edits, row)| (*edits, row.name));
    if let Some((_, row)) = by_edits {
        return Some(row);
    }
    if lower.len() < 4 {
        return None;
    }
    candidates.filter(|row| row.name.starts_with(&lower)).min_by_key(|row| (row.name.len(), row.name))
}

/// One context in a sentence.
pub(super) fn context_name(context: Context) -> String {
    match context {
        Context::Main => "the main level".to_owned(),
        Context::Entries => context.describe().to_owned(),
        _ => format!("`{}`", context.describe()),
    }
}

/// Several contexts in a sentence, outermost first.
pub(super) fn contexts_text(contexts: Contexts) -> String {
    let names: Vec<_> = contexts.iter().map(context_name).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        Some((only, _)) => only.clone(),
        None => "no context".to_owned(),
    }
}
