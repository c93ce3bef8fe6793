//! Faults of an experiment and their places. They are found on plain values, so a place is a path of keys; `read`, which
//! has the text, turns paths into lines and columns.

use std::fmt;

/// One step in a tree of tables and arrays.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A key of a table.
    Key(String),
    /// An index of an array, from 0.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<&String> for Step {
    fn from(key: &String) -> Self {
        Self::Key(key.clone())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// The path from the root of the experiment to one of its values.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// The path with one more step.
    #[must_use]
    pub fn then(&self, step: impl Into<Step>) -> Self {
        let mut steps = self.0.clone();
        steps.push(step.into());
        Self(steps)
    }
}

/// Builds a path from these steps.
#[macro_export]
#[doc(hidden)]
macro_rules! path {
    ($($step:expr),* $(,)?) => { $crate::fault::Path(vec![$($crate::fault::Step::from($step)),*]) };
}

impl fmt::Display for Path {
    /// Formats it as `process[2].arguments[0]`, counted from one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if at == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{}]", index + 1)?,
            }
        }
        Ok(())
    }
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The path of the value; if something is missing, the path of its container.
    pub path: Path,
    /// Whether the fault concerns the key rather than the value.
    pub at_key: bool,
    /// The part of a text value that the fault concerns.
    pub part: Option<String>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Fault {
    /// A fault of a value.
    pub fn new(path: Path, what: impl Into<String>) -> Self {
        Self { path, at_key: false, part: None, what: what.into(), hint: None }
    }

    /// A fault of a key.
    pub fn of_key(path: Path, what: impl Into<String>) -> Self {
        Self { at_key: true, ..Self::new(path, what) }
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Narrows the place to a part of the text.
    #[must_use]
    pub fn with_part(mut self, part: impl Into<String>) -> Self {
        self.part = Some(part.into());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

/// The candidate that was probably meant: with few edits, or beginning with the word.
pub fn nearest<'c>(word: &str, candidates: impl Iterator<Item = &'c str> + Clone) -> Option<&'c str> {
    let lower = word.to_lowercase();
    let edits_max = match lower.chars().count() {
        0..=2 => 0,
        3..=5 => 1,
        6..=9 => 2,
        _ => 3,
    };
    let by_edits = candidates
        .clone()
        .map(|candidate| (strsim::osa_distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(edits, _)| *edits <= edits_max)
        .min();
    let begun =
        || candidates.filter(|candidate| lower.len() >= 3 && candidate.to_lowercase().starts_with(&lower)).min();
    by_edits.map(|(_, candidate)| candidate).or_else(begun)
}

/// ``did you mean `x`?``, or a list of the candidates.
pub fn suggestion<'c>(word: &str, candidates: impl Iterator<Item = &'c str> + Clone) -> String {
    if let Some(near) = nearest(word, candidates.clone()) {
        return format!("did you mean `{near}`?");
    }
    /// Longest list of candidates; a longer one would not be read.
    const LISTED_MAX: usize = 16;
    let mut names: Vec<String> = candidates.map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(LISTED_MAX);
    names.truncate(LISTED_MAX);
    match (names.split_last(), more) {
        (None, _) => "there are none".to_owned(),
        (Some(_), 1..) => format!("there are {} and {more} more", names.join(", ")),
        (Some((only, [])), 0) => format!("there is only {only}"),
        (Some((last, rest)), 0) => format!("there are {} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_people_count() {
        assert_eq!(path!["process", 1, "arguments", 0].to_string(), "process[2].arguments[1]");
        assert_eq!(path!["files", "nginx.conf"].then("text").to_string(), "files.nginx.conf.text");
    }

    #[test]
    fn typo_gets_a_suggestion_and_unknown_names_the_list() {
        let names = || ["rounds", "order", "warm_up"].into_iter();
        assert_eq!(nearest("ruonds", names()), Some("rounds"));
        assert_eq!(nearest("warm", names()), Some("warm_up"));
        assert_eq!(nearest("seconds", names()), None);
        assert_eq!(suggestion("seconds", names()), "there are `rounds`, `order` and `warm_up`");
        assert_eq!(suggestion("x", std::iter::empty()), "there are none");
        assert_eq!(suggestion("x", ["only one"].into_iter()), "there is only `only one`");
    }
}
