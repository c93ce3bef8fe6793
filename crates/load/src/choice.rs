//! Selects the next target. It keeps the weights exactly and without randomness, so two runs send the same
//! sequence. Pure.

/// Smooth weighted round robin: at each turn every target gains its weight, and the target with the highest credit
/// is chosen and pays the sum of all weights.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    /// Target number, weight, credit.
    entries: Vec<(u16, i64, i64)>,
    sum: i64,
}

impl Choice {
    /// Chooses among these targets, given as number and weight. Targets with weight 0 are never chosen.
    pub(crate) fn new(weights: impl IntoIterator<Item = (u16, u32)>) -> Self {
        let entries: Vec<_> = weights
            .into_iter()
            .filter(|(_, weight)| *weight > 0)
            .map(|(target, weight)| (target, i64::from(weight), 0))
            .collect();
        let sum = entries.iter().map(|(_, weight, _)| weight).sum();
        Self { entries, sum }
    }

    /// The next target.
    pub(crate) fn next(&mut self) -> u16 {
        if let [(only, ..)] = self.entries.as_slice() {
            return *only;
        }
        let mut best = 0;
        let mut most = i64::MIN;
        for (index, (_, weight, credit)) in self.entries.iter_mut().enumerate() {
            *credit += *weight;
            if *credit > most {
                (best, most) = (index, *credit);
            }
        }
        self.entries.get_mut(best).map_or(0, |(target, _, credit)| {
            *credit -= self.sum;
            *target
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept_and_spread() {
        let mut choice = Choice::new([(0, 5), (1, 1), (2, 1), (3, 0)]);
        let chosen: Vec<u16> = (0..14).map(|_| choice.next()).collect();
        assert_eq!(chosen, [0, 0, 1, 0, 2, 0, 0, 0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn one_target_is_always_it() {
        let mut choice = Choice::new([(4, 3)]);
        assert_eq!([choice.next(), choice.next()], [4, 4]);
        assert_eq!(Choice::new([]).next(), 0);
    }
}
