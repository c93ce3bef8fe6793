//! Simulated experiments: how often a verdict is wrong without a real effect, and how often it is right with one. The noise
//! comes from fixed seeds, so only a change of the method changes these counts.

use stats::Random;
use stats::rounds::{RoundsError, Scale};
use stats::verdict::{Direction, Question, ROUNDS_MIN, Size, Verdict, judge};

const RATIO: Question = Question { scale: Scale::Ratio, effect_min: 0.0, seed: 1, resamples: 0 };

/// CPU per request of two arms: 20 µs, a drift that both arms of a round share, noise of their own, and an effect.
struct World {
    random: Random,
    drift: f64,
    noise: f64,
    effect: f64,
}

impl World {
    fn experiment(&mut self, rounds: usize, question: Question) -> Verdict {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let weather = 20.0 * (self.drift * self.random.normal()).exp();
            first.push(weather * (self.noise * self.random.normal()).exp());
            second.push(weather * self.effect * (self.noise * self.random.normal()).exp());
        }
        judge(&first, &second, question).expect("positive values, enough rounds")
    }

    fn share_of(&mut self, experiments: u32, rounds: usize, is: impl Fn(&Verdict) -> bool) -> f64 {
        let found = (0..experiments).filter(|_| is(&self.experiment(rounds, RATIO))).count();
        found as f64 / f64::from(experiments)
    }
}

/// What two runs of the same program on this kind of machine show: 2 % of noise in a round.
fn quiet(seed: u64, effect: f64) -> World {
    World { random: Random::from_seed(seed), drift: 0.05, noise: 0.02, effect }
}

fn decided(verdict: &Verdict) -> bool {
    verdict.direction != Direction::Undecided
}

#[test]
fn three_to_seven_percent_of_controls_find_a_difference() {
    for rounds in [7, 10, 12] {
        let wrong = quiet(rounds as u64, 1.0).share_of(1000, rounds, decided);
        assert!((0.03..=0.07).contains(&wrong), "{rounds} rounds: {:.1} % false verdicts", wrong * 100.0);
    }
}

#[test]
fn noise_with_wild_outliers_does_not_change_that() {
    let mut random = Random::from_seed(99);
    let value = |random: &mut Random| {
        let calm = 20.0 * (0.02 * random.normal()).exp();
        if random.unit() < 0.1 { calm * 5.0 } else { calm }
    };
    let wrong = (0..1000).filter(|_| {
        let (first, second): (Vec<_>, Vec<_>) = (0..10).map(|_| (value(&mut random), value(&mut random))).unzip();
        decided(&judge(&first, &second, RATIO).expect("comparable"))
    });
    let wrong = wrong.count();
    assert!((30..=70).contains(&wrong), "{wrong} of 1000 false verdicts");
}

#[test]
fn a_difference_of_five_percent_is_found_in_twelve_pairs() {
    let found = quiet(3, 1.05).share_of(300, 12, |verdict| verdict.direction == Direction::Higher);
    assert!(found >= 0.95, "found in {:.1} % of the experiments", found * 100.0);
}

#[test]
fn drift_shared_within_a_round_hides_nothing() {
    let mut world = World { drift: 0.5, ..quiet(4, 1.05) };
    let found = world.share_of(200, 12, |verdict| verdict.direction == Direction::Higher);
    assert!(found >= 0.95, "found in {:.1} % of the experiments", found * 100.0);
    let unpaired = world.share_of(200, 12, |verdict| verdict.mann_whitney.p <= 0.05);
    assert!(unpaired < 0.15, "the test that ignores rounds sees it in {:.1} %", unpaired * 100.0);
}

#[test]
fn interval_covers_the_true_effect_at_its_rate() {
    let held = quiet(5, 1.2).share_of(500, 10, |verdict| verdict.interval.contains(1.2));
    assert!((0.93..=0.98).contains(&held), "95 % promised, {:.1} % hold it", held * 100.0);
}

#[test]
fn effect_is_compared_with_its_relevance() {
    let question = Question { effect_min: 0.02, ..RATIO };
    let large = World { noise: 0.005, ..quiet(6, 1.10) }.experiment(12, question);
    assert_eq!((large.direction, large.size), (Direction::Higher, Size::Material));
    let small = World { noise: 0.001, ..quiet(7, 1.005) }.experiment(12, question);
    assert_eq!((small.direction, small.size), (Direction::Higher, Size::Negligible));
    let noisy = World { noise: 0.2, ..quiet(8, 1.0) }.experiment(12, question);
    assert_eq!((noisy.direction, noisy.size), (Direction::Undecided, Size::Open));
    assert!(small.explain("pooled", "unpooled").starts_with("unpooled lies above pooled, by less than matters: +0."));
}

#[test]
fn a_founding_claim_is_held_against_the_whole_interval() {
    // report 0: sockets to the gateway port, keepalive on and off, 8 rounds.
    let on = [18.8, 19.0, 18.9, 19.1, 18.7, 19.2, 18.8, 19.0];
    let off = [15_458.0, 15_530.0, 15_490.0, 15_502.0, 15_611.0, 15_470.0, 15_520.0, 15_480.0];
    let verdict = judge(&on, &off, RATIO).expect("comparable");
    let interval = verdict.interval;
    assert!((100.0..820.0).contains(&interval.low) && interval.high <= 900.0, "{interval:?}");
    let text = verdict.explain("on", "off");
    assert!(text.starts_with("off lies above on: × 8") && text.contains("8 rounds"), "{text}");
}

#[test]
fn no_verdict_below_six_rounds_and_zeros_use_differences() {
    let five = [1.0; ROUNDS_MIN - 1];
    assert_eq!(judge(&five, &five, RATIO), Err(RoundsError::TooFew { rounds: 5 }));
    let (none, some) = ([0.0; 8], [3.0, 4.0, 5.0, 3.0, 4.0, 6.0, 5.0, 4.0]);
    assert_eq!(judge(&none, &some, RATIO), Err(RoundsError::NotPositive { round: 1 }));
    let verdict = judge(&none, &some, Question { scale: Scale::Difference, ..RATIO }).expect("comparable");
    assert_eq!((verdict.direction, verdict.size), (Direction::Higher, Size::Material));
    assert_eq!(
        judge(&none, &none, Question { scale: Scale::Difference, ..RATIO }).map(|v| v.direction),
        Ok(Direction::Undecided)
    );
}

#[test]
fn verdict_is_reproducible_and_survives_json() {
    let drawn = Question::default();
    let verdict = quiet(9, 1.05).experiment(12, drawn);
    assert_eq!(verdict, quiet(9, 1.05).experiment(12, drawn));
    let bootstrap = verdict.interval_bootstrap.expect("draws were asked for");
    assert!(bootstrap.contains(verdict.effect) && (bootstrap.low / verdict.interval.low - 1.0).abs() < 0.02);
    let json = serde_json::to_string(&verdict).expect("plain data");
    assert_eq!(serde_json::from_str::<Verdict>(&json).expect("own text"), verdict);
}
