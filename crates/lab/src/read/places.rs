//! Where the parts of an experiment are in its text: from paths of keys to bytes, lines and columns.

use crate::fault::{Fault, Path};
use crate::path;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Bytes of one value.
#[derive(Debug, Clone)]
struct Place {
    /// Of the key that leads to it; its own in an array.
    key: Range<usize>,
    value: Range<usize>,
}

/// Where the parts of an experiment are. Without a text, as for an experiment that no file holds, places are paths of keys.
#[derive(Debug, Clone, Default)]
pub struct Places {
    name: String,
    text: String,
    by_path: BTreeMap<Path, Place>,
}

impl Places {
    /// Of the text and what was read from it.
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

    /// `experiment.toml:14:1` for the part, or for what holds it.
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

    /// The bytes that a fault is about.
    pub(super) fn range(&self, fault: &Fault) -> Range<usize> {
        let Some((place, whole)) = self.nearest(&fault.path) else { return 0..0 };
        // Of a table that has a header of its own, that header.
        let range = if fault.at_key && whole { place.key.clone() } else { place.value.clone() };
        let within = |part: &String| {
            let at = range.start + self.text.get(range.clone())?.find(part.as_str())?;
            Some(at..at + part.len())
        };
        fault.part.as_ref().and_then(within).unwrap_or_else(|| self.first_line(range))
    }

    /// A marker under more than one line marks nothing.
    fn first_line(&self, range: Range<usize>) -> Range<usize> {
        let line = self.text.get(range.clone()).and_then(|text| text.find('\n'));
        line.map_or(range.clone(), |length| range.start..range.start + length)
    }

    /// The place of the part or of the nearest that holds it, and whether it is the part itself.
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

    /// Counted from one, columns in bytes.
    fn line_column(&self, offset: usize) -> (usize, usize) {
        let before = self.text.as_bytes().get(..offset).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        (line, column)
    }
}
