//! The order in which the arms run. Pure; the seed is the only source of randomness.

use crate::experiment::Order;
use stats::Random;

/// One arm in one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// From 0.
    pub round: u32,
    /// The number of the arm in the experiment.
    pub arm: usize,
}

/// All turns of a run, round by round, each arm once in each.
///
/// In mirrored order, a machine that gets slower or faster steadily affects all arms alike over two rounds. In random
/// order, a periodic disturbance cannot coincide with an arm.
pub fn turns(arms: usize, rounds: u32, order: Order, seed: u64) -> Vec<Turn> {
    let mut random = Random::from_seed(seed);
    let round_of = |round: u32| {
        let mut arms: Vec<usize> = (0..arms).collect();
        match order {
            Order::Mirrored if round.is_multiple_of(2) => {}
            Order::Mirrored => arms.reverse(),
            Order::Random => random.shuffle(&mut arms),
        }
        arms.into_iter().map(move |arm| Turn { round, arm })
    };
    (0..rounds).flat_map(round_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arms_of(turns: &[Turn], round: u32) -> Vec<usize> {
        turns.iter().filter(|turn| turn.round == round).map(|turn| turn.arm).collect()
    }

    #[test]
    fn mirrored_rounds_go_there_and_back() {
        let turns = turns(3, 3, Order::Mirrored, 7);
        assert_eq!([0, 1, 2].map(|round| arms_of(&turns, round)), [vec![0, 1, 2], vec![2, 1, 0], vec![0, 1, 2]]);
    }

    #[test]
    fn seed_reproduces_its_order_and_extends_it() {
        let long = turns(5, 20, Order::Random, 42);
        assert_eq!(turns(5, 20, Order::Random, 42), long);
        assert_eq!(turns(5, 8, Order::Random, 42), long[..40]);
        assert_ne!(turns(5, 20, Order::Random, 43), long);
        let firsts: Vec<usize> = (0..20).map(|round| arms_of(&long, round)[0]).collect();
        assert!((0..5).all(|arm| firsts.contains(&arm)), "every arm comes first at times: {firsts:?}");
    }

    proptest! {
        #[test]
        fn every_round_has_every_arm_once(arms in 0_usize..8, rounds in 0_u32..8, seed: u64, random: bool) {
            let order = if random { Order::Random } else { Order::Mirrored };
            let turns = turns(arms, rounds, order, seed);
            prop_assert_eq!(turns.len(), arms * rounds as usize);
            for round in 0..rounds {
                let mut seen = arms_of(&turns, round);
                seen.sort_unstable();
                prop_assert_eq!(seen, (0..arms).collect::<Vec<_>>());
            }
        }
    }
}
