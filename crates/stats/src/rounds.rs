//! Rounds: what two arms showed in the same interleaved repetition, compared within it. A slow minute of the machine is in
//! both values of a round and falls out of their ratio; it would not fall out of a ratio of medians.

/// How two values of one round are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Second over first: for times, rates and sizes, which are positive and have noise that grows with them.
    Ratio,
    /// Second minus first: for values that may be zero.
    Difference,
}

/// Why rounds cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RoundsError {
    /// The arms did not run in the same rounds.
    #[error("the arms have {first} and {second} rounds: a round has a value of each")]
    Unequal {
        /// Rounds of the first arm.
        first: usize,
        /// Rounds of the second arm.
        second: usize,
    },
    /// Something is infinite or no number.
    #[error("round {round} holds something that is no finite number")]
    NotFinite {
        /// From 1.
        round: usize,
    },
    /// There is no ratio to zero or between signs.
    #[error("round {round} holds a value that is not positive: there is no ratio, compare differences")]
    NotPositive {
        /// From 1.
        round: usize,
    },
    /// Fewer than [`crate::verdict::ROUNDS_MIN`].
    #[error("{rounds} rounds: no verdict below {}", crate::verdict::ROUNDS_MIN)]
    TooFew {
        /// How many there are.
        rounds: usize,
    },
    /// More than [`crate::hodges_lehmann::VALUES_MAX`].
    #[error("{rounds} rounds are more than the {} that are compared pair by pair", crate::hodges_lehmann::VALUES_MAX)]
    TooMany {
        /// How many there are.
        rounds: usize,
    },
}

/// The effect of each round on an additive scale: differences, or logarithms of ratios.
pub(crate) fn effects(first: &[f64], second: &[f64], scale: Scale) -> Result<Vec<f64>, RoundsError> {
    if first.len() != second.len() {
        return Err(RoundsError::Unequal { first: first.len(), second: second.len() });
    }
    let pairs = first.iter().zip(second).zip(1..);
    pairs
        .map(|((a, b), round)| match scale {
            _ if !a.is_finite() || !b.is_finite() => Err(RoundsError::NotFinite { round }),
            Scale::Ratio if *a <= 0.0 || *b <= 0.0 => Err(RoundsError::NotPositive { round }),
            Scale::Ratio => Ok(b.ln() - a.ln()),
            Scale::Difference => Ok(b - a),
        })
        .collect()
}

/// Second over first, or second minus first, of each round.
pub fn compared(first: &[f64], second: &[f64], scale: Scale) -> Result<Vec<f64>, RoundsError> {
    let additive = effects(first, second, scale)?;
    Ok(additive.into_iter().map(|effect| scale.shown(effect)).collect())
}

impl Scale {
    /// From the additive scale to what people read: a ratio, or the difference itself.
    pub(crate) fn shown(self, effect: f64) -> f64 {
        match self {
            Self::Ratio => effect.exp(),
            Self::Difference => effect,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::median;

    #[test]
    fn ratios_are_taken_within_the_round_and_not_between_medians() {
        let (first, second) = ([10.0, 20.0, 40.0], [11.0, 44.0, 22.0]);
        let ratios = compared(&first, &second, Scale::Ratio).expect("comparable");
        assert!((ratios[0] - 1.1).abs() < 1e-12 && (ratios[1] - 2.2).abs() < 1e-12 && (ratios[2] - 0.55).abs() < 1e-12);
        let middle = median(&ratios).expect("values");
        assert!((middle - 1.1).abs() < 1e-12, "while the medians alone have the same ratio by luck: {middle}");
        assert_eq!(compared(&first, &second, Scale::Difference), Ok(vec![1.0, 24.0, -18.0]));
    }

    #[test]
    fn reports_why_and_where_values_cannot_be_compared() {
        let error =
            |first: &[f64], second: &[f64]| compared(first, second, Scale::Ratio).map_err(|error| error.to_string());
        assert_eq!(error(&[1.0], &[]), Err("the arms have 1 and 0 rounds: a round has a value of each".to_owned()));
        assert_eq!(
            error(&[1.0, f64::NAN], &[1.0, 1.0]),
            Err("round 2 holds something that is no finite number".to_owned())
        );
        assert!(
            error(&[1.0, 0.0], &[1.0, 1.0])
                .is_err_and(|text| text.contains("round 2") && text.contains("not positive"))
        );
    }
}
