//! When a map that holds its entries weakly is swept: once those that nothing uses may be half of all. A sweep at each insertion
//! would make a reload with many groups quadratic.

/// Fewest entries that are worth a sweep.
const FEWEST: usize = 16;

/// The pace of the sweeps of one map.
#[derive(Debug)]
pub struct Sweeps {
    at: usize,
}

impl Default for Sweeps {
    fn default() -> Self {
        Self { at: FEWEST }
    }
}

impl Sweeps {
    /// Whether a map with this many entries is to be swept before the next insertion.
    pub fn are_due(&self, entries: usize) -> bool {
        entries >= self.at
    }

    /// A sweep has left this many entries.
    pub fn left(&mut self, entries: usize) {
        self.at = FEWEST.max(entries.saturating_mul(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn unused_entries_leave_in_few_sweeps() {
        let (mut sweeps, mut entries, mut looks) = (Sweeps::default(), BTreeSet::new(), 0);
        for number in 0..10_000 {
            if sweeps.are_due(entries.len()) {
                looks += entries.len();
                entries.retain(|number| *number < 100);
                sweeps.left(entries.len());
            }
            entries.insert(number);
            assert!(entries.len() <= FEWEST.max(number + 1).min(200), "{} entries at {number}", entries.len());
        }
        assert!((0..100).all(|number| entries.contains(&number)));
        assert!(looks <= 30_000, "{looks} looks at entries");
    }
}
