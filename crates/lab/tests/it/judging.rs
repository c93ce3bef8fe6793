//! Claims judged from records: how often a verdict is right or wrong over simulated experiments, and the report where data
//! is missing. The noise comes from fixed seeds.

use lab::experiment::{Arm, Claim, Experiment};
use lab::judge::{Conclusion, Judged, conclude, judge, judge_drawn, lacks_rounds};
use lab::{Adaptation, Record, Sample};
use report::Outcome;
use stats::Random;

use crate::recorded::{record, sample, small};

const FIGURE: &str = "cpu_us_per_request.proxy";

fn claim() -> Claim {
    Claim {
        says: "x".to_owned(),
        figure: FIGURE.to_owned(),
        of: "b".to_owned(),
        against: Some("a".to_owned()),
        ..Claim::default()
    }
}

/// A record of the arms `a` and `b` with these values in its rounds.
fn paired(claim: Claim, values: impl IntoIterator<Item = (f64, f64)>) -> Record {
    let mut samples = Vec::new();
    for ((a, b), round) in values.into_iter().zip(0..) {
        samples.extend([sample("a", round, FIGURE, a), sample("b", round, FIGURE, b)]);
    }
    record(experiment(vec![claim]), samples)
}

fn experiment(claims: Vec<Claim>) -> Experiment {
    let arms = ["a", "b"].map(|name| Arm { name: name.to_owned(), ..small().arms[1].clone() });
    Experiment { arms: arms.into(), claims, ..small() }
}

fn judged(record: &Record) -> Judged {
    judge(record).remove(0)
}

fn outcome(claim: Claim, values: impl IntoIterator<Item = (f64, f64)>) -> Outcome {
    judged(&paired(claim, values)).verdict.outcome
}

/// Noise of one sample on a quiet machine: over the rounds of an arm, CPU per request of 30 connections and 100 bytes
/// varies by 1.2 to 2.2 % (standard deviation; `bench/results/2026-11-22-proxy-100.json`, 4 arms, 3 rounds).
const QUIET: f64 = 0.02;

/// The outcomes of this many simulated experiments with these rounds and this effect. Both arms of a round share one
/// disturbance, and each has its own noise.
fn simulated(claim: Claim, seed: u64, experiments: usize, rounds: u32, effect: f64) -> Vec<Outcome> {
    let mut random = Random::from_seed(seed);
    let mut record = paired(claim, (0..rounds).map(|_| (1.0, 1.0)));
    let mut outcomes = Vec::new();
    for _ in 0..experiments {
        for sample in &mut record.samples {
            let weather = 20.0 * (1.0 + 0.1 * f64::from(sample.round).sin());
            let effect = if sample.arm == "b" { effect } else { 1.0 };
            let value = weather * effect * (QUIET * random.normal()).exp();
            sample.figures.insert(FIGURE.to_owned(), value);
        }
        outcomes.push(judge_drawn(&record, 0).remove(0).verdict.outcome);
    }
    outcomes
}

fn count(outcomes: &[Outcome], outcome: Outcome) -> usize {
    outcomes.iter().filter(|found| **found == outcome).count()
}

#[test]
fn three_to_seven_percent_of_controls_differ() {
    for rounds in [7, 12] {
        let told = count(&simulated(claim(), u64::from(rounds), 2000, rounds, 1.0), Outcome::Fails);
        assert!((60..=140).contains(&told), "{rounds} rounds: {told} of 2000");
    }
}

#[test]
fn three_to_seven_percent_of_equal_experiments_differ() {
    let higher = Claim { times_at_least: Some(1.0), ..claim() };
    let decided = 2000 - count(&simulated(higher, 11, 2000, 12, 1.0), Outcome::Undecided);
    assert!((60..=140).contains(&decided), "{decided} of 2000");
}

#[test]
fn twelve_pairs_find_five_percent_of_cpu() {
    let higher = Claim { times_at_least: Some(1.0), ..claim() };
    let outcomes = simulated(higher, 5, 300, 12, 1.05);
    let found = count(&outcomes, Outcome::Holds);
    assert!(found >= 285 && !outcomes.contains(&Outcome::Fails), "found in {found} of 300");
}

#[test]
fn the_whole_interval_decides_and_not_its_middle() {
    let times = |least, most| Claim { times_at_least: least, times_at_most: most, ..claim() };
    // report 0's sockets towards the gateway port: with and without keepalive.
    let f0 = || (0..8).map(|round| (18.8 + 0.05 * f64::from(round), 15_458.0 + 20.0 * f64::from(round)));
    assert_eq!(outcome(times(Some(100.0), None), f0()), Outcome::Holds);
    assert_eq!(outcome(times(Some(2000.0), None), f0()), Outcome::Fails);
    assert_eq!(outcome(times(None, Some(100.0)), f0()), Outcome::Fails);
    assert_eq!(outcome(times(Some(100.0), Some(1000.0)), f0()), Outcome::Holds);
    assert_eq!(outcome(times(Some(100.0), Some(200.0)), f0()), Outcome::Fails);
    // The middle is above 2, but the interval is not.
    let wide = || [(1.0, 1.5), (1.0, 2.6), (1.0, 2.2), (1.0, 2.4), (1.0, 1.9), (1.0, 2.8), (1.0, 2.1), (1.0, 2.3)];
    assert_eq!(outcome(times(Some(2.0), None), wide()), Outcome::Undecided);
    let reason = judged(&paired(times(Some(100.0), None), f0())).verdict.reason;
    assert!(reason.starts_with("× 81") && reason.contains("at least × 100") && reason.contains("8 rounds"), "{reason}");
}

#[test]
fn differences_are_judged_in_the_unit_of_the_figure() {
    let more = |least, most| Claim { more_at_least: least, more_at_most: most, ..claim() };
    let rounds = || (0..6).map(|round| (10.0, 15.0 + 0.1 * f64::from(round)));
    assert_eq!(outcome(more(Some(5.0), None), rounds()), Outcome::Holds);
    assert_eq!(outcome(more(None, Some(5.2)), rounds()), Outcome::Undecided);
    assert_eq!(outcome(more(Some(6.0), None), rounds()), Outcome::Fails);
    let reason = judged(&paired(more(Some(5.0), None), rounds())).verdict.reason;
    assert!(reason.contains("[5 µs to 5.5 µs at 95 %]"), "{reason}");
}

#[test]
fn a_figure_by_itself_is_judged_by_its_rounds() {
    let value = |least, most| Claim { against: None, value_at_least: least, value_at_most: most, ..claim() };
    let rounds = || (0..7).map(|round| (0.0, 100.0 + f64::from(round)));
    assert_eq!(outcome(value(Some(100.0), None), rounds()), Outcome::Holds);
    assert_eq!(outcome(value(Some(100.0), Some(103.0)), rounds()), Outcome::Undecided);
    assert_eq!(outcome(value(None, Some(99.0)), rounds()), Outcome::Fails);
    assert_eq!(outcome(value(None, Some(0.0)), (0..6).map(|_| (0.0, 0.0))), Outcome::Holds, "zero failed, six times");
}

#[test]
fn uses_a_difference_where_a_ratio_is_impossible() {
    let times = |least, most| Claim { times_at_least: least, times_at_most: most, ..claim() };
    // No TIME_WAIT in some or all rounds of the pooled arm.
    let some = || (0..8).map(|round| (f64::from(round % 2), 1000.0 + f64::from(round)));
    assert_eq!(outcome(times(Some(30.0), None), some()), Outcome::Holds);
    assert_eq!(outcome(times(Some(2000.0), None), some()), Outcome::Undecided);
    assert_eq!(outcome(times(None, Some(30.0)), some()), Outcome::Fails);
    let verdict = judged(&paired(times(Some(30.0), None), some())).verdict;
    assert!(
        verdict.reason.starts_with("there is no ratio: 4 of 8 rounds of a and 0 of b are not above 0"),
        "{}",
        verdict.reason
    );
    assert!(verdict.reason.contains("b − 30 × a"), "{}", verdict.reason);
    assert!(verdict.evidence.iter().all(|(name, _)| name != "ratio"));
    // After subtracting the idle reference a figure may be negative.
    assert_eq!(outcome(times(Some(30.0), None), (0..8).map(|round| (-f64::from(round), 900.0))), Outcome::Holds);
    let nothing = || (0..8).map(|_| (0.0, 0.0));
    assert_eq!(
        outcome(times(Some(30.0), None), nothing()),
        Outcome::Undecided,
        "nothing is thirty times nothing, or not"
    );
    assert_eq!(
        outcome(times(None, Some(30.0)), nothing()),
        Outcome::Holds,
        "nothing is no more than thirty times nothing"
    );
}

#[test]
fn no_verdict_below_six_rounds_and_voids_drop_their_pair() {
    let higher = || Claim { times_at_least: Some(1.0), ..claim() };
    let rounds = |count: u32| (0..count).map(|round| (10.0, 20.0 + f64::from(round)));
    let verdict = judged(&paired(higher(), rounds(5))).verdict;
    assert_eq!(
        (verdict.outcome, verdict.reason.as_str()),
        (Outcome::Undecided, "5 rounds, and no verdict below 6: 1 more round needed")
    );
    assert_eq!(verdict.evidence.len(), 2, "the figures are there");

    let mut record = paired(higher(), rounds(8));
    // In rounds 2 and 5 one arm is void.
    record.samples[2].void = Some("the generator was the bottleneck".to_owned());
    record.samples[9].void = Some("the load ran late".to_owned());
    let verdict = judged(&record).verdict;
    assert_eq!(verdict.outcome, Outcome::Holds);
    let left_out = "; 2 rounds void and left out, 2 (a: the generator was the bottleneck), 5 (b: the load ran late)";
    assert!(verdict.reason.ends_with(left_out), "{}", verdict.reason);
    record.samples[0].void = Some("again".to_owned());
    let verdict = judged(&record).verdict;
    assert_eq!(verdict.outcome, Outcome::Void);
    assert!(
        verdict.reason.starts_with("only 5 of 8 rounds count, and no verdict below 6; 3 rounds void"),
        "{}",
        verdict.reason
    );
}

#[test]
fn voids_alone_request_another_round() {
    let higher = || Claim { times_at_least: Some(1.0), ..claim() };
    let rounds = |count: u32| (0..count).map(|round| (10.0, 20.0 + f64::from(round)));
    let mut record = paired(higher(), rounds(6));
    assert!(!lacks_rounds(&record));
    record.samples[2].void = Some("late".to_owned());
    assert!(lacks_rounds(&record));
    let mut more = paired(higher(), rounds(7));
    more.samples[2].void = Some("late".to_owned());
    assert!(!lacks_rounds(&more), "the seventh round replaces the second");

    let mut failing = paired(Claim { times_at_most: Some(1.0), ..claim() }, rounds(6));
    assert!(!lacks_rounds(&failing), "a claim that fails gets no further chance");
    failing.samples[2].void = Some("late".to_owned());
    failing.experiment.claims[0].observed = true;
    assert!(!lacks_rounds(&failing), "what is only shown costs no time");
    let mut few = paired(higher(), rounds(5));
    few.samples[2].void = Some("late".to_owned());
    assert!(!lacks_rounds(&few), "fewer were asked for");
}

#[test]
fn claim_with_an_omitted_arm_was_not_asked() {
    let higher = || Claim { times_at_least: Some(1.0), ..claim() };
    let mut record = paired(higher(), (0..8).map(|round| (10.0, 20.0 + f64::from(round))));
    record.experiment.claims.push(Claim { of: "c".to_owned(), says: "c is faster, too".to_owned(), ..higher() });
    let judged = judge(&record);
    assert_eq!(judged.iter().map(|judged| judged.asked).collect::<Vec<_>>(), [true, false]);
    assert_eq!(conclude(&judged), Conclusion::Holds);
    let text = report::text::render(&lab::report::document(&record, &judged), 100);
    assert!(text.contains("The claim holds."), "{text}");
    let said = "Not asked, since their arms were left out of this run (1): c is faster, too.";
    assert!(text.contains(said), "{text}");
}

#[test]
fn lists_missing_measurements_and_runs() {
    let higher = || Claim { times_at_least: Some(1.0), ..claim() };
    let rounds = |count: u32| (0..count).map(|round| (10.0, 20.0 + f64::from(round)));
    let mut record = paired(Claim { figure: "cores.proxy".to_owned(), ..higher() }, rounds(8));
    assert_eq!(judged(&record).verdict.reason, "no sample has the figure cores.proxy; 8 rounds without the figure");
    record.absent.push(("b".to_owned(), "haproxy is not there".to_owned()));
    let verdict = judged(&record).verdict;
    assert_eq!(
        (verdict.outcome, verdict.reason.as_str()),
        (Outcome::Undecided, "arm b could not be run: haproxy is not there")
    );
    record.absent.clear();
    record.experiment.arms.remove(0);
    assert_eq!(judged(&record).verdict.reason, "arm a was not part of this run");
    let mut partial = paired(higher(), rounds(4));
    partial.partial = Some("interrupted".to_owned());
    assert!(judged(&partial).verdict.reason.ends_with("; the run is partial: interrupted"));
    let mut odd = paired(higher(), rounds(8));
    odd.samples[0].figures.insert(FIGURE.to_owned(), f64::NAN);
    assert!(judged(&odd).verdict.reason.ends_with("; 1 round without the figure"));
    let empty = record_of_nothing(higher());
    assert_eq!(judged(&empty).verdict.reason, "0 rounds, and no verdict below 6: 6 more rounds needed");
}

fn record_of_nothing(claim: Claim) -> Record {
    record(experiment(vec![claim]), Vec::new())
}

#[test]
fn only_claims_can_fail_a_run() {
    let with = |outcome, observed| {
        let mut judged = judged(&record_of_nothing(Claim { observed, ..claim() }));
        judged.verdict.outcome = outcome;
        judged
    };
    let of = |outcomes: &[(Outcome, bool)]| {
        let judged: Vec<Judged> = outcomes.iter().map(|(outcome, observed)| with(*outcome, *observed)).collect();
        conclude(&judged)
    };
    assert_eq!(of(&[]), Conclusion::Holds);
    assert_eq!(of(&[(Outcome::Holds, false), (Outcome::Fails, true)]), Conclusion::Holds);
    assert_eq!(of(&[(Outcome::Holds, false), (Outcome::Void, false)]), Conclusion::Open);
    assert_eq!(of(&[(Outcome::Undecided, false), (Outcome::Fails, false)]), Conclusion::Fails);
}

#[test]
fn late_load_voids_only_its_latencies() {
    let values = || (0..8).map(|round| (10.0 + f64::from(round) / 100.0, 5.0));
    let late = |figure: &str| {
        let mut record = paired(Claim { figure: figure.to_owned(), times_at_most: Some(1.0), ..claim() }, values());
        for sample in &mut record.samples {
            let value = sample.figures.remove(FIGURE).expect("it was given");
            sample.figures.insert(figure.to_owned(), value);
            sample.late = (sample.round < 6).then(|| "client was late: p99 9 ms".to_owned());
        }
        judged(&record).verdict
    };
    assert_eq!(late(FIGURE).outcome, Outcome::Holds, "CPU per request");
    assert_eq!(late("sockets.proxy.TIME_WAIT").outcome, Outcome::Holds);
    for figure in ["latency_ms.p99", "client.delivery_ms.p50", "requests_per_second", "client.failed"] {
        let verdict = late(figure);
        assert_eq!(verdict.outcome, Outcome::Void, "{figure}: {verdict:?}");
        assert!(verdict.reason.contains("client was late: p99 9 ms"), "{verdict:?}");
    }
}

#[test]
fn a_control_of_an_experiment_is_judged_as_one() {
    let experiment = experiment(vec![Claim { times_at_least: Some(2.0), ..claim() }]);
    let control = experiment.adapted(&Adaptation { control: true, ..Adaptation::default() }).expect("a control");
    let mut random = Random::from_seed(3);
    let mut samples: Vec<Sample> = Vec::new();
    for round in 0..12 {
        for arm in &control.arms {
            samples.push(sample(&arm.name, round, FIGURE, 20.0 * (QUIET * random.normal()).exp()));
        }
    }
    let mut record = record(control, samples);
    record.control = true;
    let judged = judge(&record);
    assert_eq!(judged.len(), 2);
    assert!(judged.iter().all(|judged| judged.verdict.outcome == Outcome::Holds && judged.claim.observed));
    assert!(judged[0].verdict.reason.contains("show no difference"), "{}", judged[0].verdict.reason);
}
