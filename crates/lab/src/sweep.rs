//! One experiment under several conditions: each combination of swept values is its own experiment, with its own record and
//! report. Values in, values out.

use crate::experiment::Experiment;
use std::collections::BTreeMap;

impl Experiment {
    /// One experiment for each combination of the values in `sweep`; the last name changes fastest. Without a sweep, the
    /// experiment itself.
    pub fn cells(&self) -> Vec<Self> {
        let mut cells = vec![Self { sweep: BTreeMap::new(), ..self.clone() }];
        for (name, values) in &self.sweep {
            let swept = cells.iter().flat_map(|cell| values.iter().map(move |value| cell.with(name, value)));
            cells = swept.collect();
        }
        cells
    }

    /// Number of combinations.
    pub fn cell_count(&self) -> usize {
        self.sweep.values().map(Vec::len).fold(1, usize::saturating_mul)
    }

    fn with(&self, name: &str, value: &str) -> Self {
        let mut cell = self.clone();
        cell.set_value(name, value);
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let word: String = value.to_ascii_lowercase().chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
        cell.name = format!("{}-{}", cell.name, word.trim_matches('-'));
        cell.title = format!("{}, {name} {value}", cell.title);
        cell
    }

    /// Overrides a value of the experiment and the arms, and removes it from the sweep.
    pub(crate) fn set_value(&mut self, name: &str, value: &str) {
        for own in self.arms.iter_mut().filter_map(|arm| arm.values.get_mut(name)) {
            value.clone_into(own);
        }
        self.values.insert(name.to_owned(), value.to_owned());
        self.sweep.remove(name);
    }
}
