//! The places of an experiment's parts in its text: maps paths of keys to bytes, lines and columns.

use crate::fault::{Fault, Path};
use crate::path;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The bytes of one value.
#[derive(Debug, Clone)]
struct Place {
    /// The bytes of its key; in an array those of the value itself.
    key: Range<usize>,
    value: Range<usize>,
}

/// The places of an experiment's parts. Without a text, a place is shown as a path of keys.
#[derive(Debug, Clone, Default)]
pub struct Places {
    name: String,
    text: String,
    by_path: BTreeMap<Path, Place>,
}

impl Places {
    /// The places in a text and the tree that was parsed from it.
    pub(super) fn new(name: &str, text: &str, tree: &Spanned<DeTable<'_>>) -> Self {
        let mut places = Self { name: name.to_owned(), text: text.to_owned(), by_path: BTreeMap::new() };
        places.add_table(&path![], tree.get_ref());
        places
    }

    fn add_table(&mut self, at: &Path, table: &DeTable<'_>) {
        for (key, value) in table {
            self.add(at.then(key.get_ref().as_ref()), key.span(), value);
        }
    }

    fn add(&mut self, at: Path, key: Range<usize>, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::Table(table) => self.add_table(&at, table),
            DeValue::Array(array) => {
                for (index, item) in array.iter().enumerate() {
                    self.add(at.then(index), item.span(), item);
                }
            }
            _ => {}
        }
        self.by_path.insert(at, Place { key, value: value.span() });
    }

    /// `experiment.toml:14:1` for the part, or for its nearest container.
    pub fn of(&self, path: &Path) -> String {
        match self.nearest(path) {
            Some((place, _)) => {
                let (line, column) = self.line_column(place.key.start);
                format!("{}:{line}:{column}", self.name)
            }
            None if self.name.is_empty() => path.to_string(),
            None => self.name.clone(),
        }
    }

    /// The bytes that a fault concerns.
    pub(super) fn range(&self, fault: &Fault) -> Range<usize> {
        let Some((place, whole)) = self.nearest(&fault.path) else { return 0..0 };
        // For a table with a header, the bytes of that header.
        let range = if fault.at_key && whole { place.key.clone() } else { place.value.clone() };
        let within = |part: &String| {
            let at = range.start + self.text.get(range.clone())?.find(part.as_str())?;
            Some(at..at + part.len())
        };
        fault.part.as_ref().and_then(within).unwrap_or_else(|| self.first_line(range))
    }

    /// Only the first line, because a marker over several lines shows nothing.
    fn first_line(&self, range: Range<usize>) -> Range<usize> {
        let line = self.text.get(range.clone()).and_then(|text| text.find('\n'));
        line.map_or(range.clone(), |length| range.start..range.start + length)
    }

    /// The place of the part or of its nearest container, and whether it is the part itself.
    fn nearest(&self, path: &Path) -> Option<(&Place, bool)> {
        let mut steps = path.0.as_slice();
        while !steps.is_empty() {
            if let Some(place) = self.by_path.get(&Path(steps.to_vec())) {
                return Some((place, steps.len() == path.0.len()));
            }
            steps = steps.split_last().map(|(_, before)| before).unwrap_or_default();
        }
        None
    }

    /// Line and column, counted from one; columns in bytes.
    fn line_column(&self, offset: usize) -> (usize, usize) {
        let before = self.text.as_bytes().get(..offset).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        (line, column)
    }
}
